#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random problems for every form of the Hopper GEMM on the GPU present, element by element against fp64.

    checks.py correct COUNT [SEED] | small | compile

`small` runs one problem of each kernel, for compute-sanitizer. C lies between rows of NaN, rows of C that
belong to no group hold NaN, and so do scales that nobody may read."""

import random
import sys
import time

import torch

from kernels import Config, Kernels
from peers import Case
from problems import UNITS, Grouped, Problem, product_bound, worst_over

F = torch.nn.functional
TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn}
KERNELS = Kernels()
INF = float("inf")


def scaled_forms():
    """FP8 with each kind of scales and interval, and each way to share a tile out."""
    configs = []
    for scaling, promotes in (("tensor", (0, 128)), ("row", (0, 128, 256, 512)), ("block", (128,))):
        for promote in promotes:
            for tile, more in (((64, 64), dict(consumers=1)), ((128, 128), {}),
                               ((128, 128), dict(cluster=(2, 1, 1))),
                               ((128, 160), dict(cluster=(1, 2, 1))),
                               ((64, 192), dict(mainloop="pingpong")),
                               ((128, 96), dict(mainloop="pingpong", cluster=(2, 1, 1))),
                               ((256, 96), {}), ((64, 32), dict(consumers=1, splits=3)),
                               ((128, 96), dict(cluster=(1, 1, 2), persistence="grid"))):
                output = ("bf16", "fp32", "fp16")[len(configs) % 3]
                dtype = "e5m2" if len(configs) % 7 == 3 else "e4m3"
                configs.append(Config(tile, dtype, output, scaling=scaling, promote_every=promote, **more))
    return configs


def fused_forms():
    """Every activation with and without a gate and an addend, in every type of C, and C of FP8."""
    configs = []
    shapes = (((128, 128), {}), ((128, 176), dict(mainloop="pingpong")), ((64, 96), dict(consumers=1)),
              ((128, 208), {}), ((256, 128), {}), ((128, 160), dict(cluster=(2, 1, 1))),
              ((64, 64), dict(consumers=1, splits=2)),
              ((128, 96), dict(cluster=(1, 1, 2), persistence="grid")))
    for dtype in ("bf16", "e4m3", "fp16"):
        for activation in ("none", "gelu", "gelu_tanh", "silu"):
            for gated in (False, True):
                for reads_c in (False, True):
                    tile, more = shapes[len(configs) * 3 % len(shapes)]
                    output = ("bf16", "fp32", "fp16")[len(configs) % 3]
                    if gated and tile[1] // 2 % 16:
                        tile = (tile[0], 128)
                    configs.append(fused_config(tile, dtype, output, activation=activation, gated=gated,
                                                reads_c=reads_c, has_bias=len(configs) % 4 != 3, **more))
    # C alone is added to, without anything else that an epilogue does.
    for i, (tile, more) in enumerate(shapes):
        configs.append(fused_config(tile, "bf16", ("bf16", "fp32")[i % 2], reads_c=True, **more))
    # Warps that write one of their blocks of rows alone.
    configs.append(fused_config((256, 96), "e4m3", "bf16", reads_c=True, cluster=(1, 1, 3), persistence="grid"))
    for output_scaling in ("tensor", "block"):
        for dtype in ("bf16", "e4m3"):
            for gated in (False, True):
                configs.append(fused_config((128, 256), dtype, "fp8", output_scaling=output_scaling,
                                            activation="silu", gated=gated, has_bias=True))
    return configs


def fused_config(tile, dtype, output, **more):
    fp8 = dtype == "e4m3"
    return Config(tile, dtype, output, tile_k=128 if fp8 else 64, scaling="row" if fp8 else "none", **more)


def grouped_forms():
    configs = []
    for kind, promotes in (("bf16", (0,)), ("row", (0, 128)), ("block", (128,))):
        for promote in promotes:
            for form in ("offsets", "contiguous", "masked"):
                if kind == "block" and form == "offsets":
                    continue
                for tile, more in (((64, 64), dict(consumers=1)), ((128, 128), {}),
                                   ((64, 192), dict(mainloop="pingpong")),
                                   ((128, 128), dict(mainloop="pingpong")),
                                   ((64, 96), dict(mainloop="pingpong", cluster=(2, 1, 1))),
                                   ((128, 160), dict(cluster=(1, 2, 1))),
                                   ((256, 96), {})):
                    if form == "contiguous" and tile[0] > 128:
                        continue
                    configs.append(Config(
                        tile, "bf16" if kind == "bf16" else "e4m3", ("bf16", "fp32")[len(configs) % 5 == 4],
                        tile_k=64 if kind == "bf16" else 128, promote_every=promote, groups=form,
                        scaling="none" if kind == "bf16" else kind, **more))
    for form in ("offsets", "contiguous", "masked"):  # The first product of experts.
        for kind in ("bf16", "row"):
            for tile, more in (((128, 160), dict(mainloop="pingpong")), ((64, 96), dict(consumers=1, cluster=(2, 1, 1))),
                               ((128, 256), {})):
                configs.append(Config(tile, "bf16" if kind == "bf16" else "e4m3", "bf16", groups=form, gated=True,
                                      tile_k=64 if kind == "bf16" else 128, activation="silu",
                                      scaling="none" if kind == "bf16" else kind, **more))
    return configs


def drawn_size(config, draw):
    """m, n and k that the copy engine takes, ragged against tiles."""
    unit = {"fp32": 4, "fp8": 16}.get(config.output, 8)
    n = unit * draw.randint(2, 480 // unit)
    if config.output_scaling == "block":
        n = 128 * draw.randint(1, 3)
    k = (16 if "e" in config.dtype else 8) * draw.randint(1, 160)
    if config.splits > 1 or config.cluster[2] > 1:
        k = max(k, 16 * 8 * 4)
    return draw.choice((1, 7, 64, 65, 200, 333)), n, k


def scaled_ratio(config, draw, seed):
    m, n, k = drawn_size(config, draw)
    dtype = torch.float8_e5m2 if config.dtype == "e5m2" else torch.float8_e4m3fn
    problem = Problem(m, n, k, config.scaling, dtype, ("normal", "uniform")[seed % 2], seed)
    c = framed(m, n, config.output)
    KERNELS.launcher(config, problem.a, problem.b, c[1:-1], problem.a_scales, problem.b_scales,
                     **problem.strides())()
    expected, magnitude = problem.reference()
    allowed = product_bound(magnitude, k, config.promote_every) + expected.abs() * UNITS[config.output]
    return outside(c) + worst_over(c[1:-1], expected, allowed)


def framed(m, n, output):
    """C between two rows that nobody may write."""
    c = torch.full((m + 2, n), float("nan"), dtype=torch.float32, device="cuda")
    return c.to(TORCH[output])


def outside(c):
    """Infinite where a row beside C was written."""
    written = ~c[::c.shape[0] - 1].float().isnan().all()
    return torch.where(written, INF, 0.0).double()


def activated(x, activation):
    if activation == "silu":
        return F.silu(x)
    return x if activation == "none" else F.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")


def fused_ratio(config, draw, seed):
    m, n, k = drawn_size(config, draw)
    fp8 = config.dtype == "e4m3"
    columns = 2 * n if config.gated else n
    problem = Problem(m, columns, k, "row", seed=seed)
    a, b, scales = problem.a, problem.b, (problem.a_scales, problem.b_scales)
    if not fp8:
        a, b = (x.float().to(TORCH[config.dtype]) / 256 for x in (a, b))
        scales = (None, None)
    small = TORCH["bf16" if config.output == "fp8" else config.output]
    bias = torch.randn(columns, device="cuda").to(small) if config.has_bias else None
    beta = (1.0, -0.5)[seed % 2] if config.reads_c else 0.0
    c = framed(m, n, config.output)
    addend = None
    if config.reads_c:
        addend = torch.randn(m, n, device="cuda").to(small)
        if seed % 3 == 0:  # Added to in place.
            c[1:-1] = addend
    c_scales = None
    if config.output == "fp8":
        c_scales = (torch.full((1,), 3.0, device="cuda") if config.output_scaling == "tensor" else
                    torch.full((n // 128, m), float("nan"), device="cuda"))
    KERNELS.launcher(config, a, b, c[1:-1], *scales, bias=bias, c_scales=c_scales, beta=beta, alpha=0.5,
                     addend=None if seed % 3 == 0 else addend)()
    x, y = a.double(), b.double()
    if fp8:
        x, y = x * problem.a_scales[:, None].double(), y * problem.b_scales[:, None].double()
    product = 0.5 * (x @ y.t()) + (bias.double() if config.has_bias else 0.0)
    allowed = product_bound(0.5 * (x.abs() @ y.abs().t()), k, 0, fp8)
    allowed = allowed + product.abs() * 2**-22
    gate = product[:, :n]
    expected = activated(gate, config.activation)
    # tanh.approx is within 2^-11; slopes of activations are below 1.13.
    of_activation = 0.0 if config.activation == "none" else gate.abs() * (
        4e-6 if config.output == "fp32" else 2**-11) + 5e-5 * (config.activation == "gelu")
    of_c = 1.13 * allowed[:, :n] + of_activation
    if config.gated:
        of_c = of_c * (product[:, n:].abs() + allowed[:, n:]) + expected.abs() * allowed[:, n:]
        expected = expected * product[:, n:]
    if config.reads_c:
        expected = expected + beta * addend.double()
    found = c[1:-1].double()
    if config.output == "fp8":
        one = 1 / c_scales.double() if config.output_scaling == "tensor" else \
            c_scales.double().t().repeat_interleave(128, 1)
        expected, found = expected.clamp(-448 * one, 448 * one), found * one
        of_c = of_c + expected.abs() * 2**-4 + one * 2**-10
    else:
        of_c = of_c + expected.abs() * UNITS[config.output]
    return outside(c) + worst_over(found, expected, of_c + 1e-6)


COUNTS = (0, 1, 7, 63, 64, 65, 127, 128, 129, 200)


def gated_and_bound(product, allowed, activation):
    """Of 16-bit outputs."""
    n = product.shape[1] // 2
    gate, up = product[:, :n], product[:, n:]
    of_gate = 1.13 * allowed[:, :n] + gate.abs() * 2**-11 + 1e-6
    bound = of_gate * (up.abs() + allowed[:, n:]) + activated(gate, activation).abs() * allowed[:, n:]
    return activated(gate, activation) * up, bound


def grouped_ratio(config, draw, seed):
    kind = "bf16" if config.dtype == "bf16" else config.scaling
    groups = draw.choice((1, 2, 5, 9, 40))
    counts = [draw.choice(COUNTS if groups < 40 else (0, 0, 1, 3)) for _ in range(groups)]
    _, n, k = drawn_size(config, draw)
    case = Case(kind, config.groups, groups, 1, 2 * n if config.gated else n, k, "")
    problem = Grouped(case, counts, seed)
    c = problem.empty(TORCH[config.output])[..., :n].contiguous()
    problem.launcher(KERNELS, config, c)()
    expected, magnitude = problem.products()
    allowed = product_bound(magnitude, k, config.promote_every, kind != "bf16")
    if config.gated:
        expected, allowed = gated_and_bound(expected, allowed, config.activation)
    allowed = allowed + expected.abs() * UNITS[config.output]
    found = c.reshape(-1, n)
    owned = problem.items >= 0
    if config.groups == "contiguous":  # Padding behind a group's rows may be written.
        untouched = (~owned).view(-1, 128).all(1).repeat_interleave(128)
    else:
        untouched = ~owned
    spilled = (untouched[:, None] & ~found.isnan()).any()
    ratio = torch.where(owned[:, None], (found.double() - expected).abs() / (allowed + 1e-30), 0.0).max()
    return torch.where(spilled, INF, 0.0) + ratio


KINDS = {"scaled": (scaled_forms, scaled_ratio, 0.5), "fused": (fused_forms, fused_ratio, 0.25),
         "grouped": (grouped_forms, grouped_ratio, 0.25)}


def correct(count, seed):
    """Draws problems for the kernels in turn. True when none is wrong."""
    wrong = total = 0
    for kind, (forms, ratio_of, share) in KINDS.items():
        begun = time.monotonic()
        configs = forms()
        KERNELS.compile(configs, keep_spilled=True)
        draw = random.Random(seed)
        ratios = []
        number = round(share * count)
        for i in range(number):
            ratios.append(ratio_of(configs[i % len(configs)], draw, seed * 1000003 + i))
        ratios = torch.stack(ratios).nan_to_num(nan=INF).tolist()
        bad = [i for i, ratio in enumerate(ratios) if not ratio <= 1]
        for i in bad[:12]:
            print(f"WRONG {kind} {i}: {ratios[i]:.3g} of the bound, {configs[i % len(configs)]} {configs[i % len(configs)].header().splitlines()[3]}")
        wrong += len(bad)
        total += number
        print(f"correct {kind:8} {number} problems, {len(configs)} kernels, {len(bad)} wrong, largest error "
              f"{max(r for r in ratios if r < INF):.3f} of the bound, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"correct: {total} problems, {wrong} wrong", flush=True)
    return wrong == 0


def small():
    for kind, (forms, ratio_of, _) in KINDS.items():
        configs = [config for i, config in enumerate(forms()) if kind == "grouped" or i % 3 == 0]
        draw = random.Random(7)
        worst = max(ratio_of(config, draw, i).item() for i, config in enumerate(configs))
        print(f"small {kind}: {len(configs)} kernels, largest error {worst:.3f} of the bound", flush=True)


if __name__ == "__main__":
    command, rest = sys.argv[1], sys.argv[2:]
    if command == "correct":
        sys.exit(0 if correct(int(rest[0]), int(rest[1]) if rest[1:] else 1) else 1)
    KERNELS.compile([config for forms, _, _ in KINDS.values() for config in forms()], keep_spilled=True)
    if command == "small":
        small()
