# SPDX-License-Identifier: MIT
"""FlashAttention-3's and FlashInfer's forms on a GPU against fp32: random lengths, pages, masks, scores and
appends, NaN where no key is, torch.compile, a captured graph replayed with other lengths, merges, and the
overhead per call. A line for each check as it ends, of which six run at a time; ends with 1 when one fails.

    PYTHONPATH=python SWR_LIBRARY=.../libswr.so python python/tests/serving_checks.py
"""

import concurrent.futures
import dataclasses
import math
import multiprocessing
import random
import sys
import time

import torch

import swr

BOUND = {torch.float16: 4e-3, torch.bfloat16: 2e-2}


def int32(values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def starts_of(lengths):
    return torch.tensor([0, *lengths], device="cuda").cumsum(0).int()


def expected(q, k, v, causal, window, softcap, sinks):
    """O [queries, heads, d] and the log-sum-exp [heads, queries] of one sequence."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.float(), k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    position = torch.arange(q.shape[0], device="cuda")[:, None] + k.shape[0] - q.shape[0]
    key = torch.arange(k.shape[0], device="cuda")[None, :]
    left, right = window[0], 0 if causal else window[1]
    if left >= 0:
        scores = scores.masked_fill(key < position - left, -math.inf)
    if right >= 0:
        scores = scores.masked_fill(key > position + right, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.float()[:, None, None].expand(-1, q.shape[0], 1)], -1)
        v = torch.cat([v, torch.zeros_like(v[:1])])
    return (torch.einsum("hqk,khd->qhd", torch.nan_to_num(scores.softmax(-1)), v),
            scores.logsumexp(-1))


class Pages:
    """A pool of pages of one size with room for `rooms` rows of every sequence, in which rows that are
    no keys are NaN."""

    def __init__(self, size, rooms, keys, heads, head_dim, dtype):
        self.size = size
        width = -(-rooms // size)
        count = len(keys) * width + 2
        self.table = torch.randperm(count, device="cuda").int()[:len(keys) * width].view(-1, width)
        self.k, self.v = (torch.full((count, size, heads, head_dim), math.nan, dtype=dtype,
                                     device="cuda") for _ in range(2))
        for i, length in enumerate(keys):
            row = torch.arange(length, device="cuda")
            page = self.table[i, row // size].long()
            for pool in (self.k, self.v):
                pool[page, row % size] = torch.randn(length, heads, head_dim, dtype=dtype,
                                                     device="cuda")
            self.table[i, -(-length // size):] = -1  # Nobody may look there, until rows are appended.

    def rows(self, pool, i, count):
        pages = self.table[i][:-(-count // self.size)].long()
        return pool[pages].flatten(0, 1)[:count]


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a kernel is chosen by, so that all draws of a kind run one kernel."""

    dtype: torch.dtype = torch.bfloat16
    head_dim: int = 128
    heads: int = 8
    heads_kv: int = 2
    most_queries: int = 90
    page_size: int = 16
    causal: bool = True
    window: tuple = (-1, -1)
    softcap: float = 0.0
    sinks: bool = False


MOST_KEYS = 260
KINDS = (
    Kind(),
    Kind(most_queries=1),
    Kind(dtype=torch.float16, head_dim=64, page_size=1, window=(30, 0)),
    Kind(head_dim=64, most_queries=1, page_size=64, window=(30, 0), sinks=True),
    Kind(head_dim=96, heads_kv=1, causal=False, page_size=7),
    Kind(dtype=torch.float16, head_dim=256, softcap=20.0, page_size=64),
    Kind(heads=2, causal=False, window=(5, 2), page_size=2, sinks=True),
    Kind(dtype=torch.float16, head_dim=64, heads=1, heads_kv=1, softcap=20.0),
)


def check_kind(kind, draws=15):
    draw = random.Random(1)
    torch.manual_seed(1)
    worst = 0.0
    for number in range(draws):
        keys = [draw.randint(0, MOST_KEYS) for _ in range(4)]
        queries = [draw.randint(0, min(k, kind.most_queries)) for k in keys]
        pages = Pages(kind.page_size, MOST_KEYS, keys, kind.heads_kv, kind.head_dim, kind.dtype)
        q = torch.randn(sum(queries) + 1, kind.heads, kind.head_dim, dtype=kind.dtype,
                        device="cuda")
        sinks = torch.randn(kind.heads, device="cuda") if kind.sinks else None
        out, lse = swr.flash_attn_varlen_func(
            q, pages.k, pages.v, starts_of(queries), None, kind.most_queries, MOST_KEYS,
            seqused_k=int32(keys), block_table=pages.table, return_attn_probs=True, s_aux=sinks,
            causal=kind.causal, window_size=kind.window, softcap=kind.softcap)
        first = 0
        for i, count in enumerate(queries):
            rows = slice(first, first + count)
            first += count
            o, of_row = expected(q[rows], pages.rows(pages.k, i, keys[i]),
                                 pages.rows(pages.v, i, keys[i]), kind.causal, kind.window,
                                 kind.softcap, sinks)
            error = (out[rows].float() - o).abs().max().item() if count else 0.0
            worst = max(worst, error / BOUND[kind.dtype])
            assert error <= BOUND[kind.dtype], (number, error, queries, keys)
            torch.testing.assert_close(lse[:, rows], of_row, rtol=2e-2, atol=2e-2)
    return f"{draws} ragged batches from pages, largest error {worst:.2f} of the bound: {kind}"


def check_append(dtype, head_dim, new, turns, draws=10):
    draw = random.Random(2)
    torch.manual_seed(2)
    for number in range(draws):
        lengths = [draw.randint(0, 100) for _ in range(4)]
        pages = Pages(16, 112, [n + new for n in lengths], 2, head_dim, dtype)
        for i, length in enumerate(lengths):  # What is appended is not there before.
            row = torch.arange(length, length + new, device="cuda")
            for pool in (pages.k, pages.v):
                pool[pages.table[i, row // 16].long(), row % 16] = math.nan
        q, k, v = (torch.randn(4, new, heads, head_dim, dtype=dtype, device="cuda")
                   for heads in (8, 2, 2))
        angles = torch.rand(128, head_dim // 2, device="cuda") * 6.0
        cos, sin = (angles.cos().to(dtype), angles.sin().to(dtype)) if turns else (None, None)
        out = swr.flash_attn_with_kvcache(
            q, pages.k, pages.v, k, v, rotary_cos=cos, rotary_sin=sin, cache_seqlens=int32(lengths),
            page_table=pages.table, causal=True, rotary_interleaved=False)
        for i, length in enumerate(lengths):
            def turned(rows):
                if not turns:
                    return rows
                c, s = (t[length:length + new, None].float() for t in (cos, sin))
                a, b = rows.float().chunk(2, -1)
                return torch.cat([a * c - b * s, a * s + b * c], -1).to(dtype)
            keys, values = (pages.rows(pool, i, length + new) for pool in (pages.k, pages.v))
            torch.testing.assert_close(keys[length:], turned(k[i]), rtol=2e-2, atol=2e-2)
            assert torch.equal(values[length:], v[i])
            o, _ = expected(turned(q[i]), keys, values, True, (-1, -1), 0.0, None)
            error = (out[i].float() - o).abs().max().item()
            assert error <= BOUND[dtype], (number, error, lengths)
    embedding = "with" if turns else "without"
    return f"{draws} appends of {new} rows {embedding} rotary embedding, {dtype}, {head_dim}: right"


def some_decode(dtype=torch.bfloat16):
    torch.manual_seed(3)
    q = torch.randn(4, 8, 128, dtype=dtype, device="cuda")
    k, v = (torch.randn(64, 16, 2, 128, dtype=dtype, device="cuda") for _ in range(2))
    table = torch.randperm(64, device="cuda").int().view(4, 16)
    return q, k, v, table


def check_graph():
    q, k, v, table = some_decode()
    lengths, starts = int32([256, 17, 100, 1]), starts_of([1] * 4)

    def run():
        return swr.flash_attn_varlen_func(q, k, v, starts, None, 1, 256, seqused_k=lengths,
                                          causal=True, block_table=table)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for other in ([3, 250, 16, 99], [1, 1, 1, 256], [0, 5, 0, 31]):
        lengths.copy_(int32(other))
        table.copy_(table[torch.randperm(4, device="cuda")])
        captured.zero_()
        graph.replay()
        assert torch.equal(captured, run() * (lengths >= 0)[:, None, None]), other
    return "a captured graph replays with other lengths and tables, equal to the bit"


def check_compile():
    q, k, v, table = some_decode()
    lengths = int32([255, 17, 100, 1])
    new = torch.randn(4, 1, 2, 128, dtype=q.dtype, device="cuda")

    def step(q, k, v, new):
        return swr.flash_attn_with_kvcache(q[:, None] * 0.5, k, v, new, new, cache_seqlens=lengths,
                                           page_table=table, causal=True) + 1.0
    caches = [(k.clone(), v.clone()) for _ in range(2)]
    eager = step(q, *caches[0], new)
    compiled = torch.compile(step, fullgraph=True)(q, *caches[1], new)
    assert torch.equal(eager, compiled) and torch.equal(caches[0][0], caches[1][0])
    return "torch.compile(fullgraph=True) of a call that appends: equal to eager, caches too"


def check_merge():
    torch.manual_seed(4)
    q, k, v = (torch.randn(n, 8, 64, dtype=torch.float16, device="cuda") for n in (5, 300, 300))
    parts = [expected(q, k[a:b], v[a:b], False, (-1, -1), 0.0, None)
             for a, b in ((0, 100), (100, 290), (290, 300))]
    merged, lse = swr.merge_states(torch.stack([o for o, _ in parts], 1).half(),
                                   torch.stack([s.T / math.log(2.0) for _, s in parts], 1))
    whole, of_whole = expected(q, k, v, False, (-1, -1), 0.0, None)
    torch.testing.assert_close(merged.float(), whole, rtol=4e-3, atol=4e-3)
    torch.testing.assert_close(lse * math.log(2.0), of_whole.T, rtol=1e-4, atol=1e-4)
    return "three parts merge to the whole"


def print_overhead():
    q, k, v, table = some_decode()
    lengths = int32([256, 17, 100, 1])
    plan = swr.plan_paged(torch.arange(5, dtype=torch.int32), torch.arange(0, 65, 16).int(),
                          table.flatten().cpu(), torch.full((4,), 16, dtype=torch.int32), 8, 2, 128,
                          16, causal=True, device="cuda")
    cache = torch.stack([k, v], 1)
    calls = {"flash_attn_with_kvcache": lambda: swr.flash_attn_with_kvcache(
        q[:, None], k, v, cache_seqlens=lengths, page_table=table, causal=True),
        "run_paged": lambda: swr.run_paged(plan, q, cache)}
    for name, call in calls.items():
        for _ in range(100):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(2000):
            call()
        us = (time.perf_counter() - begin) / 2000 * 1e6
        torch.cuda.synchronize()
        print(f"{name}: {us:.1f} us of the host per call", flush=True)


CHECKS = (*((check_kind, kind) for kind in KINDS),
          (check_append, torch.float16, 64, 1, True), (check_append, torch.bfloat16, 128, 1, False),
          (check_append, torch.bfloat16, 128, 5, True), (check_graph,), (check_compile,),
          (check_merge,))


def line_of(number):
    """What a check found, and whether it is right."""
    check, *arguments = CHECKS[number]
    begin = time.monotonic()
    try:
        text, right = check(*arguments), True
    except Exception as error:  # A launch that fails must not hide what others find.
        text, right = f"{check.__name__} {arguments}: WRONG: {error}", False
    return f"{time.monotonic() - begin:5.1f} s  {text}", right


def main():
    wrong = 0
    # Each process compiles its kernels for itself: NVRTC takes seconds for each.
    with concurrent.futures.ProcessPoolExecutor(
            max_workers=6, mp_context=multiprocessing.get_context("spawn")) as processes:
        for found in concurrent.futures.as_completed(
                [processes.submit(line_of, number) for number in range(len(CHECKS))]):
            line, right = found.result()
            wrong += not right
            print(line, flush=True)
    print_overhead()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
