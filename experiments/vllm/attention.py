# SPDX-License-Identifier: MIT
"""vLLM's attention beside swr's without an engine: kernels in turns, cold in L2, and sinks against fp32.
    python3 attention.py right times [--cases decode queries prompts] [--seconds 100]
FlashAttention-3 is vLLM's module, with the plan that vLLM makes once a step; swr is promised that lengths
are complete before the launch ahead began, which in a step is as true, and `swr, not told` is not."""

import argparse
import itertools
import random
import statistics
import time

import torch
from vllm.vllm_flash_attn.flash_attn_interface import flash_attn_varlen_func, get_scheduler_metadata

import swr

COLD_BYTES = 120 << 20  # More than twice what L2 holds.
CALLS = 16              # Of a graph.
DECODE = [(1, 1024), (1, 2048), (1, 4096), (1, 8192), (1, 32768), (1, 131072), (8, 1024), (8, 2048),
          (8, 8192), (8, 32768), (16, 4096), (32, 1024), (32, 2048), (32, 8192), (64, 4096), (128, 1024),
          (128, 4096)]
QUERIES = [(batch, keys) for batch in (1, 8, 32) for keys in (2048, 8192, 32768)]
WIDE = {"heads": 16, "head_dim": 256}  # Gemma's.
PROMPTS = [(1, 8192, 8192, {**shape, "page": page, "softcap": softcap})
           for shape in ({}, WIDE) for page, softcap in ((64, 0.0), (16, 0.0), (64, 50.0))]
PROMPTS += [(8, 1513, 512, {"page": page}) for page in (64, 16)] + [(1, 32768, 512, {"page": 16})]


class Case:
    """A batch of sequences of equal length in pages, with caches of as many layers as L2 does not hold."""

    def __init__(self, batch, keys, queries, heads=32, kv_heads=8, head_dim=128, page=64, softcap=0.0):
        self.batch, self.keys, self.queries = batch, keys, queries
        self.heads, self.kv_heads, self.head_dim, self.page = heads, kv_heads, head_dim, page
        self.sinks, self.window, self.softcap = None, (-1, -1), softcap
        make = {"device": "cuda", "dtype": torch.bfloat16}
        pages = -(-keys // page)
        layers = min(CALLS, -(-COLD_BYTES // (batch * keys * kv_heads * head_dim * 4)))
        self.caches = [torch.randn(2, batch * pages, page, kv_heads, head_dim, **make)
                       for _ in range(layers)]
        self.table = torch.randperm(batch * pages, device="cuda").int().view(batch, pages)
        self.q = torch.randn(batch * queries, heads, head_dim, **make)
        self.starts = torch.arange(0, batch * queries + 1, queries, device="cuda", dtype=torch.int32)
        self.lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
        self.scale = head_dim ** -0.5

    def flash_attention(self, plan=None):
        out = torch.empty_like(self.q)

        def call(layer):
            return flash_attn_varlen_func(
                self.q, *self.caches[layer % len(self.caches)], self.queries, self.starts, self.keys,
                seqused_k=self.lengths, softmax_scale=self.scale, causal=True,
                window_size=list(self.window), softcap=self.softcap, block_table=self.table, out=out,
                scheduler_metadata=plan, fa_version=3, s_aux=self.sinks)
        return call

    def planned(self):
        return self.flash_attention(get_scheduler_metadata(
            self.batch, self.queries, self.keys, self.heads, self.kv_heads, self.head_dim, self.lengths,
            cu_seqlens_q=self.starts, page_size=self.page, causal=True, window_size=self.window,
            has_softcap=self.softcap > 0.0))

    def flashinfer(self):
        """Planned on the host, which vLLM has it do once a step."""
        import flashinfer

        space = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        pages = self.table.shape[1]
        starts = torch.arange(0, (self.batch + 1) * pages, pages, dtype=torch.int32)
        last = torch.full((self.batch,), (self.keys - 1) % self.page + 1, dtype=torch.int32)
        shape = (self.heads, self.kv_heads, self.head_dim, self.page)
        of_type = {"q_data_type": self.q.dtype, "kv_data_type": self.q.dtype}
        if self.queries == 1:
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, use_tensor_cores=True)
            wrapper.plan(starts, self.table.flatten(), last, *shape, **of_type)
        else:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(space)
            wrapper.plan(self.starts.cpu(), starts, self.table.flatten(), last, *shape, causal=True,
                         **of_type)
        out = torch.empty_like(self.q)
        return lambda layer: wrapper.run(self.q, tuple(self.caches[layer % len(self.caches)]), out=out)

    def swr(self, workspace, ready=True, bound=None):
        out = torch.empty_like(self.q)

        def call(layer):
            return swr.flash_attn_varlen_func(
                self.q, *self.caches[layer % len(self.caches)], self.starts, None, self.queries,
                bound or self.keys, seqused_k=self.lengths, softmax_scale=self.scale, causal=True,
                window_size=self.window, softcap=self.softcap, s_aux=self.sinks, block_table=self.table,
                out=out, workspace=workspace, lengths_are_ready=ready)
        return call

    def in_fp32(self):
        """[rows, heads, head_dim] of layer 0, from scores in fp32."""
        k, v = (self.caches[0][i][self.table.long()].reshape(self.batch, -1, self.kv_heads, self.head_dim)
                [:, :self.keys].float().repeat_interleave(self.heads // self.kv_heads, 2) for i in (0, 1))
        q = self.q.view(self.batch, self.queries, self.heads, self.head_dim).float()
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.scale
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        ahead = (torch.arange(self.keys, device="cuda") - (self.keys - self.queries)
                 - torch.arange(self.queries, device="cuda")[:, None])
        hidden = (ahead > 0) | ((ahead < -self.window[0]) if self.window[0] >= 0 else ahead > 0)
        scores = scores.masked_fill(hidden, -torch.inf)
        if self.sinks is not None:
            sink = self.sinks.float().view(1, -1, 1, 1).expand(self.batch, -1, self.queries, 1)
            scores = torch.cat([scores, sink], -1)
        weights = scores.softmax(-1)[..., :self.keys].nan_to_num(0.0)  # Rows that see nothing.
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(self.q.shape)


def graph_of(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for layer in range(3):
            call(layer)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for layer in range(CALLS):
            call(layer)
    return graph


def times_of(calls, turns=15):
    """The median time of a call in us, by name; graphs replay in turns."""
    graphs = {name: graph_of(call) for name, call in calls.items()}
    times = {name: [] for name in calls}
    for _ in range(turns):
        for name in random.sample(list(graphs), len(graphs)):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graphs[name].replay()
            end.record()
            torch.cuda.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3 / CALLS)
    return {name: statistics.median(of_name) for name, of_name in times.items()}


def distance(result, right):
    return ((result.float() - right).norm() / right.norm()).item()


def right(_):
    """How far each is from fp32: sinks, windows, softcaps, and queries that see no key."""
    for queries, keys, window, sinks, softcap in [
            *itertools.product((1, 8, 300), (100, 3000), (-1, 127), (None, 0.5, 4.0), (0.0,)),
            *itertools.product((1, 8, 300), (100, 3000), (-1,), (None, 4.0), (5.0, 50.0, 500.0))]:
        case = Case(3, keys, queries, heads=64, head_dim=64, softcap=softcap)
        case.window = (window, 0) if window >= 0 else (-1, -1)
        if sinks:
            case.sinks = torch.randn(64, device="cuda").mul(sinks).bfloat16()
        expected = case.in_fp32()
        found = {name: distance(call(0), expected) for name, call in
                 (("swr", case.swr(None)), ("FlashAttention-3", case.flash_attention()))}
        print(f"right | {queries} on {keys}, window {window}, sinks {sinks}, softcap {softcap} | "
              + " | ".join(f"{name} {off:.2e}" for name, off in found.items()), flush=True)


def add_flashinfer(case, calls):
    try:
        call = case.flashinfer()
        call(0)
        calls["FlashInfer"] = call
    except Exception as error:  # It is named; the others go on.
        print(f"times | FlashInfer does not take {case.batch} x {case.keys}: {error}", flush=True)


def times(given):
    """A line of a case; and how much longer more queries take than one."""
    begin, workspace, ratios, of_one = time.monotonic(), swr.Workspace(), [], {}
    cases = [(batch, keys, 1, {}) for batch, keys in DECODE] if "decode" in given.cases else []
    if "queries" in given.cases:
        cases += [(*case, queries, {}) for case in QUERIES for queries in given.queries]
    cases += PROMPTS if "prompts" in given.cases else []
    for batch, keys, queries, options in cases:
        if time.monotonic() - begin > given.seconds:
            print("times | no time for the rest", flush=True)
            break
        case = Case(batch, keys, queries, **options)
        calls = {"FlashAttention-3": case.planned(), "swr": case.swr(workspace),
                 "swr, not told": case.swr(workspace, ready=False)}
        if given.flashinfer and not options:
            add_flashinfer(case, calls)
        off = distance(calls["swr"](0), calls["FlashAttention-3"](0).float())
        found = times_of(calls)
        ratios.append(found["FlashAttention-3"] / found["swr"])
        if queries == 1:
            of_one[batch, keys] = found
        more = [us / of_one.get((batch, keys), found)[name] for name, us in found.items()]
        print(f"times | {batch} x {keys}, {queries} each {options or ''} | "
              + " | ".join(f"{name} {us:.1f}" for name, us in found.items())
              + f" | {ratios[-1]:.3f} | of one query's: "
              + " ".join(f"{ratio:.2f}" for ratio in more) + f" | apart {off:.1e}", flush=True)
        del case, calls
        torch.cuda.empty_cache()
    print(f"times | FlashAttention-3 over swr, mean {statistics.geometric_mean(ratios):.3f}, "
          f"least {min(ratios):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("do", nargs="+", choices=["right", "times"])
    parser.add_argument("--cases", nargs="+", default=["decode", "queries", "prompts"])
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 2, 4, 8, 16],
                        help="of a sequence, in the cases of that name")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--flashinfer", action="store_true", help="beside the two, where it serves a case")
    given = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    for name in given.do:
        {"right": right, "times": times}[name](given)


if __name__ == "__main__":
    main()
