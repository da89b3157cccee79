# SPDX-License-Identifier: MIT
"""FlashAttention-3's and FlashInfer's forms on a GPU against fp32: random lengths, pages, masks, scores and
appends, NaN where no key is, torch.compile, a captured graph replayed with other lengths, merges, and the
overhead per call. Prints what it finds; ends with 1 when a check fails.

    PYTHONPATH=python SWR_LIBRARY=.../libswr.so python python/tests/serving_checks.py
"""

import math
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
    """A pool in which rows that are no keys are NaN."""

    def __init__(self, draw, rooms, keys, heads, head_dim, dtype):
        self.size = draw.choice([1, 2, 16, 16, 64, 7])
        counts = [-(-room // self.size) for room in rooms]
        order = torch.randperm(sum(counts) + 2, device="cuda").int()
        self.table = torch.full((len(rooms), max(max(counts), 1)), -1, dtype=torch.int32,
                                device="cuda")
        self.k, self.v = (torch.full((sum(counts) + 2, self.size, heads, head_dim), math.nan,
                                     dtype=dtype, device="cuda") for _ in range(2))
        first = 0
        for i, count in enumerate(counts):
            self.table[i, :count] = order[first:first + count]
            first += count
            for row in range(keys[i]):
                place = (int(self.table[i, row // self.size]), row % self.size)
                self.k[place] = torch.randn(heads, head_dim, device="cuda")
                self.v[place] = torch.randn(heads, head_dim, device="cuda")

    def rows(self, pool, i, count):
        pages = self.table[i][:-(-count // self.size)].long()
        return pool[pages].flatten(0, 1)[:count]


def check_random(count=120):
    draw = random.Random(1)
    torch.manual_seed(1)
    worst = 0.0
    for number in range(count):
        dtype = draw.choice(list(BOUND))
        batch, heads_kv = draw.randint(1, 5), draw.choice([1, 2])
        heads, head_dim = heads_kv * draw.choice([1, 4, 8]), draw.choice([64, 128, 96, 256])
        keys = [draw.randint(0, 260) for _ in range(batch)]
        queries = [draw.randint(0, min(k, draw.choice([1, 90]))) for k in keys]
        if sum(queries) == 0:
            continue
        pages = Pages(draw, keys, keys, heads_kv, head_dim, dtype)
        q = torch.randn(sum(queries), heads, head_dim, dtype=dtype, device="cuda")
        more = {"causal": draw.random() < 0.6, "softcap": draw.choice([0.0, 0.0, 20.0]),
                "window_size": draw.choice([(-1, -1), (-1, -1), (30, 0), (5, 2)])}
        sinks = draw.choice([None, torch.randn(heads, device="cuda")])
        out, lse = swr.flash_attn_varlen_func(
            q, pages.k, pages.v, starts_of(queries), None, max(queries), max(keys),
            seqused_k=int32(keys), block_table=pages.table, return_attn_probs=True, s_aux=sinks,
            **more)
        first = 0
        for i in range(batch):
            rows = slice(first, first + queries[i])
            first += queries[i]
            o, of_row = expected(q[rows], pages.rows(pages.k, i, keys[i]),
                                 pages.rows(pages.v, i, keys[i]), more["causal"],
                                 more["window_size"], more["softcap"], sinks)
            error = (out[rows].float() - o).abs().max().item() if queries[i] else 0.0
            worst = max(worst, error / BOUND[dtype])
            assert error <= BOUND[dtype], (number, error, dtype, queries, keys, more)
            torch.testing.assert_close(lse[:, rows], of_row, rtol=2e-2, atol=2e-2)
    print(f"{count} random ragged batches from pages: largest error {worst:.2f} of the bound")


def check_append(count=40):
    draw = random.Random(2)
    torch.manual_seed(2)
    for number in range(count):
        dtype, head_dim = draw.choice(list(BOUND)), draw.choice([64, 128])
        batch, new = draw.randint(1, 4), draw.choice([1, 1, 5])
        lengths = [draw.randint(0, 100) for _ in range(batch)]
        pages = Pages(draw, [n + new for n in lengths], lengths, 2, head_dim, dtype)
        q, k, v = (torch.randn(batch, new, heads, head_dim, dtype=dtype, device="cuda")
                   for heads in (8, 2, 2))
        turns = draw.random() < 0.5
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
            assert error <= BOUND[dtype], (number, error, lengths, new, turns)
    print(f"{count} random appends to pages, half with rotary embedding: right")


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
    print("a captured graph replays with other lengths and tables, equal to the bit")


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
    print("torch.compile(fullgraph=True) of a call that appends: equal to eager, caches too")


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
    print("three parts merge to the whole")


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
        print(f"{name}: {us:.1f} us of the host per call")


def main():
    for check in (check_random, check_append, check_graph, check_compile, check_merge):
        try:
            check()
        except AssertionError as error:
            print(f"{check.__name__}: WRONG: {error}")
            sys.exit(1)
    print_overhead()


if __name__ == "__main__":
    main()
