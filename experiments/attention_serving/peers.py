#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swr beside FlashInfer, FlashAttention and torch's SDPA where servers call attention: decoding, skewed
batches, chunked prefill, windows, prefill. All in turns in one process, cold in L2, as captured
graphs, every result compared with the first one's. A peer that is not installed or does not take a
case is left out and named.

swr is called in both of its ways. "swr" is flash_attn_varlen_func: lengths and the page table are
tensors that the launch ahead may write, as for FlashAttention's function of that name. "swr, planned"
is plan_paged() and run_paged(lengths_are_ready=True): lengths were there before the launch ahead began,
which FlashInfer's plan() asks too, and it works on them on the host beside. FlashInfer is
therefore compared with "swr, planned", and its ratio to "swr" stands beside.

  PYTHONPATH=python SWR_LIBRARY=.../libswr.so.1 experiments/attention_serving/peers.py [--seconds 480]
      [--groups decode,window]

Prints a line per case and geometric means per group; ends with 1 when a result differs."""

import argparse
import ctypes
import math
import pathlib
import random
import statistics
import sys
import time

import torch

import swr

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_timing import elapsed_us  # noqa: E402

BYTES_PER_US = 4.66e6  # The best pure read of an H200 (experiments/kernel_costs).
COLD_BYTES = 300 << 20  # Sets of tensors that take turns hold at least so much: five times L2.
HEADS, HEADS_KV, PAGE = 32, 8, 16
BF16 = torch.bfloat16


class Case:
    """Lengths of a batch. `queries` and `keys` per sequence; keys include the queries'."""

    def __init__(self, group, name, queries, keys, head_dim=128, window=None, heads=(HEADS, HEADS_KV)):
        self.group, self.name, self.queries, self.keys = group, name, queries, keys
        self.head_dim, self.window, self.heads = head_dim, window, heads

    def visible(self, queries, keys):
        return keys if self.window is None else min(keys, self.window + queries)

    def floor_bytes(self):
        keys = sum(self.visible(q, k) for q, k in zip(self.queries, self.keys))
        return 2 * self.head_dim * (2 * self.heads[1] * keys + 2 * self.heads[0] * sum(self.queries))

    def flops(self):
        pairs = 0
        for q, k in zip(self.queries, self.keys):
            for_all = q * k - q * (q - 1) // 2
            pairs += for_all if self.window is None else min(for_all, q * (self.window + 1))
        return 4 * self.head_dim * self.heads[0] * pairs


def skewed(kind, batch, longest, draw):
    if kind == "log_normal":
        return [max(1, min(longest, int(draw.lognormvariate(math.log(longest / 8), 1.0))))
                for _ in range(batch)]
    if kind == "short_and_long":
        return [longest if i % 20 == 0 else draw.randint(1, longest // 16) for i in range(batch)]
    return [longest if i == batch // 3 else longest // 64 for i in range(batch)]


def cases():
    draw = random.Random(1)
    for batch, lengths in ((1, (8, 32, 128)), (8, (8, 32)), (64, (8,))):
        for kilo in lengths:
            yield Case("decode", f"{batch} x {kilo}K", [1] * batch, [kilo << 10] * batch)
    for kind in ("log_normal", "short_and_long", "one_giant"):
        yield Case("skewed", f"64 x up to 32K, {kind}", [1] * 64, skewed(kind, 64, 32768, draw))
    for cached in (32768, 122880):
        yield Case("chunked prefill", f"512 on {cached >> 10}K", [512], [512 + cached])
    for batch, length in ((1, 8192), (2, 4096)):
        yield Case("window 1024, head_dim 64", f"{batch} x {length}", [length] * batch,
                   [length] * batch, 64, 1023, (64, 8))
    yield Case("window 1024, head_dim 64", "8 x 1 on 32K", [1] * 8, [32768] * 8, 64, 1023, (64, 8))
    for batch, length in ((8, 2048), (1, 8192), (1, 32768)):
        yield Case("prefill", f"{batch} x {length}", [length] * batch, [length] * batch)


class Tensors:
    """One set of a case: pages in random order, and the same rows one after another."""

    def __init__(self, case, seed):
        torch.manual_seed(seed)
        heads, heads_kv = case.heads
        pages = [-(-k // PAGE) for k in case.keys]
        self.q = torch.randn(sum(case.queries), heads, case.head_dim, device="cuda", dtype=BF16)
        self.cache = torch.randn(sum(pages), 2, PAGE, heads_kv, case.head_dim, device="cuda",
                                 dtype=BF16)
        order = torch.randperm(sum(pages), device="cuda").int()
        self.table = torch.full((len(pages), max(pages)), -1, device="cuda", dtype=torch.int32)
        first = 0
        for i, count in enumerate(pages):
            self.table[i, :count] = order[first:first + count]
            first += count
        self.indices = order
        ints = {"device": "cuda", "dtype": torch.int32}
        self.indptr = torch.tensor([0, *pages], **ints).cumsum(0).int()
        self.last = torch.tensor([(k - 1) % PAGE + 1 for k in case.keys], **ints)
        self.seqused = torch.tensor(case.keys, **ints)
        self.cu_q = torch.tensor([0, *case.queries], **ints).cumsum(0).int()


def window_of(case):
    return (-1, -1) if case.window is None else (case.window, 0)


def of_swr(case, t):
    k, v = t.cache[:, 0], t.cache[:, 1]
    return lambda: swr.flash_attn_varlen_func(
        t.q, k, v, t.cu_q, None, max(case.queries), t.table.shape[1] * PAGE, seqused_k=t.seqused,
        causal=True, window_size=window_of(case), block_table=t.table)


def of_swr_planned(case, t):
    heads, heads_kv = case.heads
    plan = swr.plan_paged(t.cu_q, t.indptr, t.indices, t.last, heads, heads_kv, case.head_dim, PAGE,
                          causal=True, window_left=-1 if case.window is None else case.window,
                          max_seqlen_q=max(case.queries), max_seqlen_k=t.table.shape[1] * PAGE)
    # The promise holds: every set's tensors are written once, before the first capture.
    return lambda: swr.run_paged(plan, t.q, t.cache, lengths_are_ready=True)


def of_flashinfer(case, t):
    import flashinfer
    space = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    heads, heads_kv = case.heads
    common = {"q_data_type": BF16, "kv_data_type": BF16,
              "window_left": -1 if case.window is None else case.window}
    if max(case.queries) == 1:
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, "NHD", use_tensor_cores=True)
        wrapper.plan(t.indptr, t.indices, t.last, heads, heads_kv, case.head_dim, PAGE, **common)
    else:
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(space, "NHD")
        wrapper.plan(t.cu_q, t.indptr, t.indices, t.last, heads, heads_kv, case.head_dim, PAGE,
                     causal=True, **common)
    return lambda: wrapper.run(t.q, t.cache)


def of_flash_attention(case, t):
    from flash_attn_interface import flash_attn_with_kvcache
    k, v = t.cache[:, 0], t.cache[:, 1]
    return lambda: flash_attn_with_kvcache(
        t.q, k, v, cache_seqlens=t.seqused, page_table=t.table, cu_seqlens_q=t.cu_q,
        max_seqlen_q=max(case.queries), causal=True, window_size=window_of(case))


def of_flash_attention_4(case, t):
    from flash_attn.cute import flash_attn_varlen_func
    k, v = t.cache[:, 0], t.cache[:, 1]

    def run():
        out = flash_attn_varlen_func(
            t.q, k, v, cu_seqlens_q=t.cu_q, max_seqlen_q=max(case.queries), seqused_k=t.seqused,
            page_table=t.table, causal=True,
            window_size=(None, None) if case.window is None else (case.window, 0))
        return out[0] if isinstance(out, tuple) else out
    return run


def of_torch(backend):
    def make(case, t):
        """Without pages: dense tensors of equal lengths, whose rows are those of the pages."""
        from torch.nn.attention import sdpa_kernel
        if len(set(case.keys)) > 1 or len(set(case.queries)) > 1 or case.window is not None:
            raise ValueError("equal lengths and no window")
        batch, queries, keys = len(case.keys), case.queries[0], case.keys[0]
        if queries not in (1, keys):
            raise ValueError("its causal mask is to the top left")
        rows = t.cache[t.table.long().flatten()].view(batch, -1, 2, PAGE, *t.cache.shape[3:])
        k, v = (rows[:, :, part].flatten(1, 2)[:, :keys].transpose(1, 2).contiguous()
                for part in (0, 1))
        q = t.q.view(batch, queries, *t.q.shape[1:]).transpose(1, 2).contiguous()

        def run():
            with sdpa_kernel(backend):
                o = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=queries > 1, enable_gqa=True)
            return o.transpose(1, 2).flatten(0, 1)
        return run
    return make


def contenders():
    from torch.nn.attention import SDPBackend
    return {"swr": of_swr, "swr, planned": of_swr_planned, "FlashInfer": of_flashinfer,
            "FlashAttention-3": of_flash_attention, "FlashAttention-4": of_flash_attention_4,
            "cuDNN, dense": of_torch(SDPBackend.CUDNN_ATTENTION),
            "torch flash, dense": of_torch(SDPBackend.FLASH_ATTENTION)}


OWN = ("swr", "swr, planned")
PLANNING = ("FlashInfer",)  # Peers that are told lengths ahead of the launch.


class EdgeData(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("type", ctypes.c_ubyte),
                ("reserved", ctypes.c_ubyte * 5)]


def programmatic_edges(graph):
    """How many dependencies of a captured graph let the next launch begin early, and how many there
    are; None where torch does not give the graph away."""
    try:
        raw = ctypes.c_void_p(graph.raw_cuda_graph())
        edges_of = ctypes.CDLL("libcuda.so.1").cuGraphGetEdges_v2
    except (AttributeError, RuntimeError, OSError):
        return None
    count = ctypes.c_size_t()
    if edges_of(raw, None, None, None, ctypes.byref(count)) != 0:
        return None
    nodes = ctypes.c_void_p * count.value
    edges = (EdgeData * count.value)()
    if edges_of(raw, nodes(), nodes(), edges, ctypes.byref(count)) != 0:
        return None
    return sum(edge.type == 1 for edge in edges), count.value


def empty_graph():
    try:
        return torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:  # An older torch.
        return torch.cuda.CUDAGraph()


class Captured:
    """Launches over all sets in turns as one graph."""

    def __init__(self, make, case, sets):
        # Kept: a graph does not keep what its kernels read, and the next capture empties the cache.
        self.calls = launches = [make(case, t) for t in sets]
        self.result = launches[0]()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for launch in launches:
                launch()
        torch.cuda.synchronize()
        self.graph = empty_graph()
        with torch.cuda.graph(self.graph):
            for launch in launches:
                launch()
        self.edges = programmatic_edges(self.graph)
        self.launches = len(launches)

    def us(self):
        return elapsed_us(self.graph.replay) / self.launches


def ratios_of(us):
    """The best peer with pages over swr as it is called, and like for like: planning peers over "swr,
    planned", the others over "swr". Of two likes the lower ratio counts."""
    paged = {name: t for name, t in us.items() if name not in OWN and not name.endswith("dense")}
    if not paged:
        return math.nan, math.nan
    planned = us.get("swr, planned", us["swr"])
    return (min(paged.values()) / us["swr"],
            min(t / (planned if name in PLANNING else us["swr"]) for name, t in paged.items()))


def first_line(error):
    return str(error).strip().splitlines()[0][:90] if str(error).strip() else type(error).__name__


class Bench:
    def __init__(self, seconds, groups):
        self.end = time.monotonic() + seconds
        self.groups = groups
        self.absent = {}
        self.ratios = {}
        self.wrong = 0

    def captured(self, case, sets):
        found = {}
        for name, make in contenders().items():
            if name in self.absent:
                continue
            try:
                found[name] = Captured(make, case, sets)
            except ImportError as error:
                self.absent[name] = first_line(error)
            except Exception as error:  # A peer that refuses a case is named; the others go on.
                torch.cuda.synchronize()
                print(f"  {name} does not take {case.name}: {first_line(error)}")
        return found

    def compare(self, case, found):
        own = found["swr"].result.float()
        for name, other in found.items():
            error = (other.result.float().view_as(own) - own).abs().max().item()
            if not error < 2e-2:
                print(f"WRONG: {name} differs from swr by {error:.3g} in {case.name}")
                self.wrong += 1

    def run(self, case):
        bytes_of_set = 2 * 2 * case.head_dim * case.heads[1] * sum(case.keys)
        sets = [Tensors(case, seed) for seed in range(max(2, -(-COLD_BYTES // bytes_of_set)))]
        found = self.captured(case, sets)
        if "swr" not in found:
            self.wrong += 1
            return
        self.compare(case, found)
        for name in OWN:
            if name in found and found[name].edges is not None and len(sets) > 1:
                early, edges = found[name].edges
                if early == 0:
                    print(f"  {name}: none of {edges} edges of the graph of {case.name} is programmatic")
        rounds = [{name: one.us() for name, one in found.items()} for _ in range(9)]
        us = {name: statistics.median(times[name] for times in rounds) for name in found}
        peers = {name: time_us for name, time_us in us.items() if name not in OWN}
        floor = case.floor_bytes() / BYTES_PER_US
        as_called, alike = ratios_of(us)
        if not math.isnan(alike):
            self.ratios.setdefault(case.group, []).append((as_called, alike))
        best = min(time_us for name, time_us in us.items() if name in OWN)
        print(f"| {case.group} | {case.name} | {floor:.1f} | {us['swr']:.1f} | "
              f"{us.get('swr, planned', math.nan):.1f} | {floor / best:.2f} | "
              f"{case.flops() / best / 1e6:.0f} | "
              + ", ".join(f"{n} {t:.1f}" for n, t in sorted(peers.items(), key=lambda p: p[1]))
              + f" | {as_called:.3f} | {alike:.3f} |", flush=True)

    def all(self):
        print("| group | case | floor us | swr us | swr, planned us | of the floor | TFLOP/s | peers us | "
              "best with pages / swr | like for like |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for case in cases():
            if self.groups and not any(case.group.startswith(group) for group in self.groups):
                continue
            if time.monotonic() > self.end:
                print(f"no time left for {case.group}, {case.name}")
                continue
            self.run(case)
            torch.cuda.empty_cache()
        print()
        for name, why in self.absent.items():
            print(f"{name} is not here: {why}")
        everything = [r for group in self.ratios.values() for r in group]
        for group, ratios in [*self.ratios.items(), ("all", everything)]:
            if ratios:
                as_called, alike = (statistics.geometric_mean(of_one) for of_one in zip(*ratios))
                print(f"{group}: best peer with pages takes {alike:.3f} times swr's time like for like, "
                      f"{as_called:.3f} times that of swr whose lengths only the device knows "
                      f"({len(ratios)} cases)")
        return self.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--groups", default="", metavar="NAME[,NAME]",
                        help="groups whose names begin so; else all")
    parser.add_argument("--database", help="tuned results; else what comes with swr and defaults")
    arguments = parser.parse_args()
    if arguments.database:
        swr.configure(database=arguments.database)
    sys.exit(1 if Bench(arguments.seconds, [g for g in arguments.groups.split(",") if g]).all() else 0)


if __name__ == "__main__":
    main()
