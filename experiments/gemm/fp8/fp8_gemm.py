#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swr's FP8 GEMM on a Hopper GPU: what the accumulator keeps, times beside cuBLASLt and DeepGEMM, and what
fused epilogues cost. checks.py says whether results are right.

    fp8_gemm.py probe | planted | compile | warm | time SECONDS CSV [MODES] | fused CSV | grouped CSV
"""

import dataclasses
import random
import statistics
import sys
import time

import torch

import peers
from kernels import Config, Kernels
from problems import Grouped, Problem

TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
KERNELS = Kernels()


def multiply(config, problem, c=None, **extras):
    c = torch.empty(problem.m, problem.n, dtype=TORCH[config.output], device="cuda") if c is None else c
    KERNELS.launcher(config, problem.a, problem.b, c, problem.a_scales, problem.b_scales,
                     **problem.strides(), **extras)()
    torch.cuda.synchronize()
    return c


# What the accumulator keeps.

def probe():
    """1 plus terms of 2^-j in the same instruction, in the next one, and in another part of k."""
    for dtype, torch_dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        for promote in (0, 128):
            config = Config((64, 64), dtype=dtype, output="fp32", consumers=1, promote_every=promote)
            KERNELS.compile([config], keep_spilled=True)
            for where, place in (("same wgmma", 1), ("next wgmma", 32), ("next 128 of k", 128)):
                for count in (1, 3):
                    kept = []
                    for j in range(6, 19):
                        problem = Problem(64, 64, 256, "tensor", torch_dtype)
                        a = torch.zeros(64, 256, device="cuda")
                        b = torch.zeros(64, 256, device="cuda")
                        a[:, 0] = b[:, 0] = 1
                        a[:, place:place + count] = 2.0**-(j // 2)
                        b[:, place:place + count] = 2.0**-(j - j // 2)
                        problem.a, problem.b = a.to(torch_dtype), b.to(torch_dtype)
                        problem.a_scales = torch.ones(1, device="cuda")
                        problem.b_scales = torch.ones(1, device="cuda")
                        kept.append((j, (multiply(config, problem)[0, 0].item() - 1) * 2**j))
                    print(f"probe {dtype} promote {promote:3} {where:13} 1 + {count} x 2^-j:",
                          " ".join(f"{j}:{share:g}" for j, share in kept), flush=True)


# Correctness: checks.py; here same-sign data tells the classes apart.

def planted():
    """Same-sign data: fast mode is off by percents, two-level is not."""
    for k in (4096, 16384):
        for promote in (0, 128, 256, 512):
            config = Config((128, 128), output="fp32", scaling="row", promote_every=promote)
            KERNELS.compile([config], keep_spilled=True)
            problem = Problem(256, 256, k, "row", data="uniform")
            expected, _ = problem.reference()
            own = (multiply(config, problem).double() / expected - 1).mean().item()
            print(f"planted k {k} promote {promote:3}: bias {100 * own:+.3f} %")
        for fast in (True, False):
            problem = Problem(256, 256, k, "row", data="uniform")
            try:
                found = problem.torch_product(fast)()
                expected, _ = problem.reference()
                print(f"planted k {k} cuBLASLt fast {fast}: bias "
                      f"{100 * (found.double() / expected - 1).mean().item():+.3f} %", flush=True)
            except RuntimeError as error:
                print("planted: cuBLASLt", str(error)[:200])


# Times.

def sampler(launches):
    """A function that gives microseconds of a launch; `launches` are taken in turn."""
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for launch in launches:
        launch()
    stop.record()
    torch.cuda.synchronize()
    once = max(2.0, 1000 * start.elapsed_time(stop) / len(launches))
    repeats = max(1, min(32, round(400 / once / len(launches))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            for launch in launches:
                launch()
    graph.replay()
    torch.cuda.synchronize()

    def sample():
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return 1000 * start.elapsed_time(stop) / (repeats * len(launches))
    return sample


# The interval of two-level sums is cuBLASLt's, 128.
MODES = {"tensor fast": ("tensor", 0), "tensor two-level": ("tensor", 128), "row fast": ("row", 0),
         "row two-level": ("row", 128), "block": ("block", 128)}
BANDS = (dict(raster=1), dict(raster=2, raster_group=8))


def candidates(m, n, k, scaling, promote):
    found = []
    fast = promote == 0

    def add(tile, mainloop="cooperative", consumers=2, cluster=(1, 1, 1), **more):
        if (cluster[0] > 1 and m <= tile[0]) or (cluster[1] > 1 and n <= tile[1]):
            return
        tiles = -(-m // tile[0]) * -(-n // tile[1])
        for band in BANDS if tiles > 264 and m > 2 * tile[0] else BANDS[:1]:
            band = dict(band)
            if "raster_group" in band:
                band["raster_group"] //= cluster[0]
                if band["raster_group"] >= -(-m // tile[0] // cluster[0]):
                    continue
            found.append(Config(tile, scaling=scaling, mainloop=mainloop, consumers=consumers,
                                cluster=cluster, promote_every=promote, **band, **more))

    pairs = ((1, 1, 1), (2, 1, 1), (1, 2, 1))
    if m <= 128:
        for width in (16, 32, 64, 96, 128):
            for tile_k in (128, 256) if fast else (128,):
                add((64, width), consumers=1, tile_k=tile_k)
                add((64, width), consumers=1, tile_k=tile_k, cluster=(2, 1, 1))
            add((64, width), consumers=1, cluster=(1, 1, 2), persistence="grid")
            add((64, width), consumers=1, cluster=(1, 1, 4), persistence="grid")
        if m > 64:
            for width in (64, 96, 128):
                add((128, width), "pingpong")
                add((128, width))
                add((128, width), cluster=(1, 1, 2), persistence="grid")
        return found
    for cluster in pairs:
        if fast:
            for tile in ((128, 256), (128, 224), (256, 128), (256, 160), (256, 192)):
                add(tile, cluster=cluster)
            for tile in ((128, 128), (128, 160), (128, 192), (128, 208), (64, 256)):
                add(tile, "pingpong", cluster=cluster)
        else:
            for tile in ((128, 128), (128, 160), (128, 176), (128, 192), (128, 208), (256, 96),
                         (256, 112), (256, 128)):
                add(tile, cluster=cluster)
            for tile in ((64, 192), (128, 128)):
                add(tile, "pingpong", cluster=cluster)
    few = -(-m // 128) * -(-n // 128)
    if few <= 66:  # Half of the SMs.
        for parts in range(2, min(4, 132 // few) + 1):
            for tile in ((128, 96), (128, 128)):
                add(tile, cluster=(1, 1, parts), persistence="grid")
        add((64, 128), consumers=1, cluster=(1, 1, 2), persistence="grid")
        if fast:
            add((64, 96), consumers=1, tile_k=256, cluster=(4, 1, 1))
    if scaling == "block":
        found += with_room([config for config in found if config.cluster == (1, 1, 1)])
    return found


def with_room(configs):
    """The same with a stage less, which leaves C more room."""
    return [dataclasses.replace(config, stages=-1) for config in configs if config.consumers == 2]


def shapes():
    listed = [(4096, 4096, 4096), (8192, 8192, 8192)]
    for m in (4096, 64, 1024, 128):
        listed += [(m, n, k) for n, k in ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384),
                                          (4096, 7168), (7168, 2048))]
    draw = random.Random(22)
    for _ in range(40):
        listed.append((draw.choice((96, 512, 2048, 3000, 8192)), 128 * draw.randint(8, 128), 128 * draw.randint(8, 64)))
    return listed


def tflops(m, n, k, us):
    return 2 * m * n * k / us / 1e6


def compile_all(modes, more=()):
    started = time.monotonic()
    KERNELS.compile([config for shape in shapes() for mode in modes.values()
                     for config in candidates(*shape, *mode)] + list(more))
    print(f"compiled {len(KERNELS.cubins)} kernels in {time.monotonic() - started:.0f} s", flush=True)


def time_all(seconds, csv, only=""):
    """Shapes in turn until time is over; `only` names modes, separated by commas."""
    modes = {mode: of for mode, of in MODES.items() if not only or mode in only.split(",")}
    end = time.monotonic() + seconds
    out = open(csv, "w")
    out.write("m,n,k,mode,contestant,us\n")
    compile_all(modes)
    ratios = {mode: [] for mode in modes}
    for shape in shapes():
        if time.monotonic() > end:
            print("time is over")
            break
        for mode, (scaling, promote) in modes.items():
            line = one_shape(shape, mode, scaling, promote, out)
            ratios[mode].append(line)
    for mode, found in ratios.items():
        known = [ratio for ratio in found if ratio]
        if known:
            print(f"SUMMARY {mode:16} geometric mean {statistics.geometric_mean(known):.3f} least "
                  f"{min(known):.3f} of {len(known)}", flush=True)


def medians_in_turns(contestants, rounds):
    """Of samples of (name, sample) pairs that follow each other in an order drawn anew each round."""
    samples = {name: [] for name, _ in contestants}
    for _ in range(rounds):
        random.shuffle(contestants)
        for name, sample in contestants:
            samples[name].append(sample())
    return {name: statistics.median(values) for name, values in samples.items()}


def one_shape(shape, mode, scaling, promote, out):
    m, n, k = shape
    copies = 1 if m == n == k else max(1, min(4, (192 << 20) // (n * k)))
    problem = Problem(m, n, k, scaling, copies=copies)
    c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    expected = None
    try:
        expected = problem.torch_product(promote == 0)()
        peer = sampler([problem.torch_product(promote == 0, b=b) for b in problem.bs])
    except RuntimeError as error:
        print(f"{m} {n} {k} {mode}: no cuBLASLt: {str(error)[:120]}")
        peer = None
    screened = []
    for config in candidates(m, n, k, scaling, promote):
        if not KERNELS.has(config):
            continue
        try:
            runs = [KERNELS.launcher(config, problem.a, b, c, problem.a_scales, problem.b_scales,
                                     **problem.strides()) for b in problem.bs]
            c.fill_(float("nan"))
            runs[0]()
            if expected is not None:
                error = ((c.float() - expected.float()).norm() / expected.float().norm()).item()
                if not error < 1e-2:
                    print(f"WRONG {shape} {mode} {config}: {error}")
                    continue
            sample = sampler(runs)
            screened.append((min(sample() for _ in range(2)), str(config), sample))
        except RuntimeError as error:
            print(f"{shape} {mode} {config}: {error}")
    screened.sort(key=lambda entry: entry[0])
    for us, name, _ in screened:
        out.write(f"{m},{n},{k},{mode},{name} (screened),{us:.3f}\n")
    finalists = screened[:3]
    contestants = ([("cublaslt", peer)] if peer else []) + [(name, sample) for _, name, sample in finalists]
    if mode == "block" and peers.deep_gemm and shape in peers.DENSE:
        contestants.append(("deep_gemm", sampler([peers.deep_gemm_product(problem, c, b) for b in problem.bs])))
    medians = medians_in_turns(contestants, 9)
    for name, us in medians.items():
        out.write(f"{m},{n},{k},{mode},{name},{us:.3f}\n")
    out.flush()
    own_name, own = min(((name, us) for name, us in medians.items() if name not in ("cublaslt", "deep_gemm")),
                        key=lambda entry: entry[1])
    ratio = medians["cublaslt"] / own if peer else None
    deep = medians.get("deep_gemm")
    print(f"{m:5} {n:5} {k:5} {mode:16} " +
          (f"lt {medians['cublaslt']:8.1f} us {tflops(m, n, k, medians['cublaslt']):5.0f} TF " if peer else "lt -  ") +
          f"swr {own:8.1f} us {tflops(m, n, k, own):5.0f} TF " +
          (f"ratio {ratio:.3f} " if ratio else "") +
          (f"deep_gemm {tflops(m, n, k, deep):5.0f} TF {deep / own:.3f} " if deep else "") + own_name, flush=True)
    return ratio


# Fused epilogues.

F = torch.nn.functional
FUSED = {"bias": dict(has_bias=True), "gelu": dict(has_bias=True, activation="gelu"),
         "gelu_tanh": dict(has_bias=True, activation="gelu_tanh"),
         "silu": dict(has_bias=True, activation="silu"),
         "residual": dict(has_bias=True, reads_c=True),
         "gated silu": dict(activation="silu", gated=True),
         "gelu_tanh to fp8": dict(has_bias=True, activation="gelu_tanh", output="fp8",
                                  output_scaling="block"),
         "gated silu to fp8": dict(activation="silu", gated=True, output="fp8", output_scaling="block")}


def fused_reference(name, product, bias, residual):
    x = product if name.startswith("gated") else product + bias.double()
    if name.startswith("gelu"):
        x = F.gelu(x, approximate="tanh" if "tanh" in name else "none")
    if name == "silu":
        x = F.silu(x)
    if name == "residual":
        x = x + residual.double()
    if name.startswith("gated"):
        gate, up = x.chunk(2, 1)
        x = F.silu(gate) * up
    return x


def fused_peer(name, problem, a, b, bias, residual):
    """What PyTorch calls: cuBLASLt's epilogue where it has one, then what it lacks. None where that is more
    than one kernel after the product."""
    if a.dtype == torch.bfloat16:
        def product(bias=None):
            return a @ b.t() if bias is None else torch.addmm(bias, a, b.t())
    else:
        def product(bias=None):
            return torch._scaled_mm(a, b.t(), problem.a_scales[:, None], problem.b_scales[None, :], bias=bias,
                                    out_dtype=torch.bfloat16, use_fast_accum=True)

    def gated():
        gate, up = product().chunk(2, 1)
        return F.silu(gate) * up
    if name == "gelu_tanh":
        return ((lambda: torch._addmm_activation(bias, a, b.t(), use_gelu=True)) if a.dtype == torch.bfloat16
                else lambda: F.gelu(product(bias), approximate="tanh"))
    return {"bare": product, "bias": lambda: product(bias), "gelu": lambda: F.gelu(product(bias)),
            "silu": lambda: F.silu(product(bias)), "residual": lambda: product(bias).add_(residual),
            "gated silu": gated}.get(name)


FUSED_TILES = {
    "bf16": [((128, 256), "cooperative", (2, 1, 1)), ((128, 256), "cooperative", (1, 1, 1)),
             ((256, 128), "cooperative", (1, 1, 1)), ((128, 128), "pingpong", (1, 1, 1)),
             ((128, 176), "pingpong", (1, 1, 1)), ((128, 192), "pingpong", (1, 1, 1)),
             ((64, 256), "pingpong", (1, 1, 1))],
    "e4m3": [((128, 256), "cooperative", (2, 1, 1)), ((128, 128), "pingpong", (1, 1, 1)),
             ((128, 128), "pingpong", (1, 2, 1)), ((128, 160), "pingpong", (1, 1, 1)),
             ((128, 176), "pingpong", (1, 1, 1)), ((128, 192), "pingpong", (1, 1, 1)),
             ((128, 208), "pingpong", (1, 1, 1)), ((64, 256), "pingpong", (1, 1, 1))]}


def fused_configs(dtype, name):
    extras = FUSED.get(name, {})
    for tile, mainloop, cluster in FUSED_TILES[dtype]:
        columns = tile[1] // 2 if extras.get("gated") else tile[1]
        if (extras.get("output_scaling") == "block" and columns % 128) or columns % 16:
            continue
        for band in BANDS:
            config = Config(tile, dtype, mainloop=mainloop, cluster=cluster,
                            tile_k=128 if dtype == "e4m3" else 64,
                            scaling="row" if dtype == "e4m3" else "none", **band, **extras)
            yield from [config] + (with_room([config]) if config.reads_c else [])


def every_fused_config():
    return [c for dtype in FUSED_TILES for name in ["bare", *FUSED] for c in fused_configs(dtype, name)]


def fused(csv):
    """Epilogues beside the bare product and beside PyTorch, in bf16 and FP8 (row scales)."""
    out = open(csv, "w")
    out.write("dtype,m,n,k,epilogue,contestant,us\n")
    every = ["bare", *FUSED]
    KERNELS.compile(every_fused_config(), keep_spilled=True)
    for m, n, k in ((4096, 4096, 2048), (4096, 4096, 4096), (8192, 8192, 4096), (2048, 14336, 4096)):
        for dtype in FUSED_TILES:
            bare = None
            for name in every:
                gated = name.startswith("gated")
                columns = n
                n_out = n // 2 if gated else n
                problem = Problem(m, columns, k, "row", seed=3)
                bf16 = dtype == "bf16"
                a = (problem.a.float() / 16).bfloat16() if bf16 else problem.a
                b = (problem.b.float() / 16).bfloat16() if bf16 else problem.b
                bias = torch.randn(columns, device="cuda").bfloat16()
                residual = torch.randn(m, n_out, device="cuda").bfloat16()
                of_fp8 = name.endswith("fp8")
                c = torch.empty(m, n_out, dtype=torch.float8_e4m3fn if of_fp8 else torch.bfloat16,
                                device="cuda")
                c_scales = torch.empty(n_out // 128, m, device="cuda") if of_fp8 else None
                best = None
                for config in fused_configs(dtype, name):
                    if not KERNELS.has(config):
                        continue
                    run = KERNELS.launcher(
                        config, a, b, c, problem.a_scales, problem.b_scales, bias=bias,
                        addend=residual, c_scales=c_scales, beta=1.0 if name == "residual" else 0.0)
                    run()
                    sample = sampler([run])
                    us = min(sample() for _ in range(3))
                    if best is None or us < best[0]:
                        best = (us, config, sample, run)
                if best is None:
                    print(f"{dtype} {m} {n} {k} {name}: every kernel spills")
                    continue
                best[3]()
                rows = slice(0, 256)
                if bf16:
                    product = a[rows].double() @ b.double().t()
                else:
                    product = (a[rows].double() * problem.a_scales[rows, None].double()) @ \
                        (b.double() * problem.b_scales[:, None].double()).t()
                expected = product if name == "bare" else \
                    fused_reference(name, product, bias, residual[rows])
                found = c[rows].double()
                if of_fp8:
                    found = found * c_scales[:, rows].t().double().repeat_interleave(128, 1)
                error = ((found - expected).norm() / expected.norm()).item()
                peer = fused_peer(name, problem, a, b, bias, residual)
                try:
                    peer = sampler([peer]) if peer else None
                except RuntimeError as error:
                    print(f"{dtype} {name}: PyTorch: {str(error)[:160]}")
                    peer = None
                if name == "bare":
                    bare = best[2]
                samples = {"own": [], "bare": [], "peer": []}
                for _ in range(9):
                    samples["own"].append(best[2]())
                    samples["bare"].append(bare())
                    if peer:
                        samples["peer"].append(peer())
                own, base = statistics.median(samples["own"]), statistics.median(samples["bare"])
                text = f"{dtype} {m:5} {n:5} {k:5} {name:16} {own:8.1f} us over bare {own / base:.3f}"
                out.write(f"{dtype},{m},{n},{k},{name},swr {best[1]},{own:.3f}\n")
                if peer:
                    theirs = statistics.median(samples["peer"])
                    text += f" torch {theirs:8.1f} us ratio {theirs / own:.3f}"
                    out.write(f"{dtype},{m},{n},{k},{name},torch,{theirs:.3f}\n")
                print(f"{text} error {error:.2e} {best[1]}", flush=True)


# Experts.

FORMS = {"row": dict(scaling="row"), "block": dict(scaling="block", promote_every=128)}


def grouped_configs(kind, form, rows):
    """Kernels for groups of about so many rows."""
    tiles = {"row": (((128, 256), 0), ((128, 192), 1), ((128, 160), 1), ((128, 128), 1), ((128, 208), 0)),
             "block": (((128, 128), 0), ((128, 160), 0), ((128, 176), 0), ((128, 192), 0), ((64, 192), 1),
                       ((128, 128), 1))}[kind]
    few = (((64, 64), 0), ((64, 96), 0), ((64, 128), 0), ((64, 192), 0), ((64, 128), 1), ((128, 128), 0),
           ((128, 128), 1))
    for tile, alternates in tiles if rows > 128 else few:
        clusters = ((1, 1, 1), (1, 2, 1)) if form == "contiguous" and tile[0] == 128 else (
            (1, 1, 1), (1, 2, 1), (2, 1, 1))
        for cluster in clusters if rows > 128 else clusters[:2]:
            for band in BANDS if rows > 128 else BANDS[:1]:
                config = Config(tile, mainloop="pingpong" if alternates else "cooperative",
                                consumers=1 + (alternates or tile[0] > 64), cluster=cluster, groups=form,
                                **band, **FORMS[kind])
                yield from [config] + (with_room([config]) if kind == "block" and rows > 128 else [])


def every_grouped_config():
    return [c for case in peers.GROUPED for c in grouped_configs(case.kind, case.form, case.rows)]


def grouped(csv):
    """Experts in FP8 beside DeepGEMM (blocks) and torch._scaled_grouped_mm (rows), the same tensors."""
    out = open(csv, "w")
    out.write("kind,form,groups,rows,n,k,counts,contestant,us\n")
    KERNELS.compile(every_grouped_config())
    ratios = {}
    for case in peers.GROUPED:
        problem = Grouped(case)
        peer_name, peer = peers.grouped_product(problem)
        screened = []
        for config in grouped_configs(case.kind, case.form, case.rows):
            if KERNELS.has(config):
                c = problem.empty()
                run = problem.launcher(KERNELS, config, c)
                run()
                error = problem.error(c)
                if not error < 1e-2:
                    print(f"WRONG {case} {config}: {error}", flush=True)
                    continue
                sample = sampler([run])
                screened.append((min(sample() for _ in range(3)), str(config), sample))
        screened.sort(key=lambda entry: entry[0])
        contestants = [(name, sample) for _, name, sample in screened[:3]]
        if peer:
            try:
                peer()
                error = problem.error(problem.peer_c)
                if not error < 1e-2:
                    print(f"{peer_name} is off by {error} in {case}")
                contestants.append((peer_name, sampler([peer])))
            except RuntimeError as error:
                print(f"{case}: no {peer_name}: {str(error)[:200]}")
        medians = medians_in_turns(contestants, 11)
        for name, us in medians.items():
            out.write(f"{case.kind},{case.form},{case.groups},{case.rows},{case.n},{case.k},{case.spread},{name},{us:.3f}\n")
        theirs = medians.pop(peer_name, None)
        own_name, own = min(medians.items(), key=lambda entry: entry[1])
        flop = 2e-6 * problem.owned * case.n * case.k
        line = f"grouped {case}: swr {own:8.1f} us {flop / own:5.0f} TF"
        if theirs:
            ratios.setdefault((case.kind, case.form), []).append(theirs / own)
            line += f" {peer_name} {theirs:8.1f} us {flop / theirs:5.0f} TF ratio {theirs / own:.3f}"
        print(line, own_name, flush=True)
    for kind, found in ratios.items():
        print(f"SUMMARY grouped {kind}: geometric mean {statistics.geometric_mean(found):.3f} least "
              f"{min(found):.3f} of {len(found)}", flush=True)


if __name__ == "__main__":
    command, rest = sys.argv[1], sys.argv[2:]
    if command == "probe":
        probe()
    elif command == "planted":
        planted()
    elif command == "compile":
        compile_all(MODES, every_fused_config() + every_grouped_config())
    elif command == "warm":  # DeepGEMM compiles when it is first called.
        peers.warm(int(rest[0]), int(rest[1]))
    elif command == "fused":
        fused(rest[0])
    elif command == "grouped":
        grouped(rest[0])
    elif command == "time":
        time_all(float(rest[0]), *rest[1:])
