#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A gated feed-forward block and a layer of experts whole, on the GPU present: swr's products beside
torch.compile of PyTorch's, the same weights, CUDA graphs in turns.

Usage: layers.py [--tuned DATABASE] [--rounds N] [--no-autotune]
Prints a Markdown table. Errors are of root mean squares, against float32 products of the same weights."""

import argparse
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import gpu_timing  # noqa: E402

import swr  # noqa: E402


def drawn(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").mul_(shape[-1]**-0.5).to(dtype)


def gated(x, gate_up, down):
    gate, up = F.linear(x, gate_up).chunk(2, -1)
    return F.linear(F.silu(gate) * up, down)


def gated_by_swr(x, gate_up, down):
    return swr.linear(swr.linear(x, gate_up, activation="silu", gated=True), down)


def experts(first, second, x, router, gate_up, down, top=8):
    """Qwen3's layer: the `top` of the experts of each token, by softmax, weighed by their probabilities.
    `first` takes the gate's product and what it multiplies, `second` leads back to the hidden size."""
    weights, chosen = F.linear(x, router).float().softmax(-1).topk(top)
    weights = weights / weights.sum(-1, keepdim=True)
    order = chosen.flatten().argsort(stable=True)
    ones = torch.ones_like(order, dtype=torch.int32)
    counts = torch.zeros(router.shape[0], dtype=torch.int32, device=x.device).scatter_add_(
        0, chosen.flatten(), ones)
    offs = counts.cumsum(0).to(torch.int32)
    tokens = order // top
    y = second(first(x[tokens], gate_up.mT, offs).to(x.dtype), down.mT, offs)
    y = y * weights.flatten()[order][:, None]
    return torch.zeros_like(x, dtype=torch.float32).index_add_(0, tokens, y.float()).to(x.dtype)


def by_torch(a, b, offs):
    return torch._grouped_mm(a, b, offs)


def gated_by(product):
    def gated_product(a, b, offs):
        gate, up = product(a, b, offs).chunk(2, -1)
        return F.silu(gate) * up
    return gated_product


def first_by_swr(a, b, offs):
    return swr.grouped_mm(a, b, offs, activation="silu", gated=True)


def by_swr(a, b, offs):
    return swr.grouped_mm(a, b, offs)


def in_fp32(a, b, offs):
    """The products of each expert's rows, for the reference."""
    begin, parts = 0, []
    for item, end in enumerate(offs.tolist()):
        parts.append(a[begin:end].float() @ b[item].float())
        begin = end
    return torch.cat(parts)


def cases(autotune):
    """(name, reference, {contestant: call})"""
    modes = {"torch.compile": {}}
    if autotune:
        modes["torch.compile, max-autotune"] = {"mode": "max-autotune-no-cudagraphs"}
    for m, d, inner in ((4096, 4096, 14336), (512, 4096, 14336)):
        x, gate_up, down = drawn(m, d), drawn(2 * inner, d), drawn(d, inner)
        x = x * d**0.5
        calls = {"swr": lambda: gated_by_swr(x, gate_up, down)}
        for mode, options in modes.items():
            compiled = torch.compile(gated, dynamic=False, **options)
            calls[mode] = lambda compiled=compiled: compiled(x, gate_up, down)
        yield (f"gated feed-forward, {m} x {d}, inner {inner}",
               lambda: gated(x.float(), gate_up.float(), down.float()), calls)
        torch._dynamo.reset()
    for tokens, hidden, inner, count in ((4096, 2048, 768, 128), (512, 2048, 768, 128)):
        x = drawn(tokens, hidden) * hidden**0.5
        router = drawn(count, hidden)
        gate_up, down = drawn(count, 2 * inner, hidden), drawn(count, hidden, inner)
        calls = {}
        own = torch.compile(experts, dynamic=False)
        calls["swr"] = lambda: own(first_by_swr, by_swr, x, router, gate_up, down)
        calls["swr, not compiled"] = lambda: experts(first_by_swr, by_swr, x, router, gate_up, down)
        for mode, options in modes.items():
            compiled = torch.compile(experts, dynamic=False, **options)
            calls[mode] = lambda compiled=compiled: compiled(
                gated_by(by_torch), by_torch, x, router, gate_up, down)
        yield (f"{count} experts of {inner}, 8 of them for each of {tokens} tokens of {hidden}",
               lambda: experts(gated_by(in_fp32), in_fp32, x, router, gate_up, down), calls)
        torch._dynamo.reset()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tuned")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-autotune", action="store_true")
    parser.add_argument("--only", default="", help="of the layers, those whose names have this text")
    given = parser.parse_args()
    swr.configure(database=given.tuned)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| layer | contestant | us | its time over swr's | error |\n|---|---|---|---|---|", flush=True)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, reference, calls in cases(not given.no_autotune):
            if given.only not in name:
                continue
            expected = reference().float()
            errors, graphs = {}, {}
            for contestant, call in calls.items():
                try:
                    found = call().float()
                except Exception as error:  # One mode that does not compile leaves the others.
                    print(f"| {name} | {contestant} | {type(error).__name__}: {str(error)[:80]!r} | | |")
                    continue
                errors[contestant] = ((found - expected).norm() / expected.norm()).item()
                graphs[contestant] = gpu_timing.graph_of(call)
            samples = gpu_timing.sample_in_turns(graphs, given.rounds, 1)
            times = {contestant: statistics.median(values) for contestant, values in samples.items()}
            for contestant, us in times.items():
                print(f"| {name} | {contestant} | {us:.1f} | {us / times.get('swr', us):.3f} | "
                      f"{errors[contestant]:.1e} |", flush=True)


if __name__ == "__main__":
    main()
