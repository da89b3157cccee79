#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swr.grouped_mm beside torch._grouped_mm on the GPU present: the same tensors, CUDA graphs in turns.

Usage: grouped_peers.py [--tuned DATABASE] [--rounds N] [--fp8]
With --fp8 swr.scaled_grouped_mm beside torch._scaled_grouped_mm, e4m3 with scales of rows, both fast.
Prints a Markdown table. Each row is first checked: swr's result against fp32 products, group by group, and
rows behind the last group against what they held before."""

import argparse
import math
import pathlib
import statistics
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import gpu_timing  # noqa: E402

import swr  # noqa: E402

CANARY_ROWS = 64


def skewed_counts(groups, rows):
    """Half of the rows in one group, a quarter of the groups empty, the rest shared out evenly."""
    empty = groups // 4
    others = groups - empty - 1
    rest = rows - rows // 2
    counts = [rows // 2] + [rest // others] * others + [0] * empty
    counts[1] += rest - rest // others * others
    return [counts[(i * 5) % groups] for i in range(groups)] if math.gcd(5, groups) == 1 else counts


def drawn_counts(groups, rows):
    """DeepGEMM's generator: between 0.7 and 1.3 of the average."""
    generator = torch.Generator().manual_seed(5)
    shares = 0.7 + 0.6 * torch.rand(groups, generator=generator, dtype=torch.float64)
    ends = torch.round(torch.cumsum(shares, 0) / shares.sum() * rows).long().tolist()
    return [end - begin for begin, end in zip([0] + ends, ends)]


def cases():
    """(name, counts, n, k, skewed)"""
    for n, k in ((4096, 7168), (7168, 2048)):
        for rows in (8192, 512):
            name = f"8 x {rows // 8}, {n} x {k}"
            yield f"{name}, even", [rows // 8] * 8, n, k, False
            yield f"{name}, drawn", drawn_counts(8, rows), n, k, False
            yield f"{name}, skewed", skewed_counts(8, rows), n, k, True
            yield f"{name}, 5 empty", [0, 0, rows // 4, 0, rows // 4, 0, 0, rows // 2], n, k, True
        yield f"64 x 8, {n} x {k}, drawn", drawn_counts(64, 512), n, k, False
        yield f"64 x 2, {n} x {k}, tiny", [i % 4 for i in range(64)], n, k, False


def tensors(counts, n, k, fp8):
    """With rows behind those of the last group."""
    torch.manual_seed(1)
    a = torch.randn(sum(counts) + CANARY_ROWS, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(len(counts), n, k, device="cuda", dtype=torch.bfloat16)
    offs = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
    if not fp8:
        return a, b.mT, offs, ()
    scales = (torch.rand(a.shape[0], device="cuda") + 0.5, torch.rand(len(counts), n, device="cuda") + 0.5)
    return a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).mT, offs, scales


def check(a, b, counts, offs, scales, skewed):
    """The largest error over the groups, relative to the root mean square of each."""
    c = torch.full((a.shape[0], b.shape[2]), 7.0, device="cuda", dtype=torch.bfloat16)
    from swr import _grouped
    average = math.ceil(sum(counts) / len(counts))
    _grouped.run(_grouped.OFFSETS, a, b, c, offs, average, skewed=skewed, scales=scales)
    assert bool((c[sum(counts):] == 7.0).all()), "rows behind the last group were written"
    worst, begin = 0.0, 0
    for group, count in enumerate(counts):
        if count:
            expected = a[begin:begin + count].float() @ b[group].float()
            if scales:
                expected *= scales[0][begin:begin + count, None] * scales[1][group]
            error = (c[begin:begin + count].float() - expected).square().mean().sqrt()
            worst = max(worst, (error / expected.square().mean().sqrt()).item())
            begin += count
    assert worst < (8e-3 if scales else 3e-3), worst
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tuned")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fp8", action="store_true")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    swr.configure(database=given.tuned)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, "
          f"{'tuned' if given.tuned else 'untuned'}\n")
    print("| groups x rows, n x k, counts | swr us | torch us | swr TFLOP/s | torch TFLOP/s | "
          "speed | error |\n|---|---|---|---|---|---|---|", flush=True)
    ratios = []
    for name, counts, n, k, skewed in cases():
        a, b, offs, scales = tensors(counts, n, k, given.fp8)
        error = check(a, b, counts, offs, scales, skewed)
        a, scales = a[:sum(counts)], tuple(scale[:sum(counts)] if scale.dim() == 1 else scale for scale in scales)
        more = {"out_dtype": torch.bfloat16, "use_fast_accum": True} if given.fp8 else {}
        ours, theirs = ((swr.scaled_grouped_mm, torch._scaled_grouped_mm) if given.fp8
                        else (swr.grouped_mm, torch._grouped_mm))
        graphs = {"swr": gpu_timing.graph_of(lambda: ours(a, b, *scales, offs=offs, skewed=skewed, **more)),
                  "torch": gpu_timing.graph_of(lambda: theirs(a, b, *scales, offs=offs, **more))}
        samples = gpu_timing.sample_in_turns(graphs, given.rounds, 1)
        ours_us, theirs_us = (statistics.median(samples[name]) for name in ("swr", "torch"))
        flop = 2.0 * sum(counts) * n * k
        ratios.append(theirs_us / ours_us)
        print(f"| {name} | {ours_us:.1f} | {theirs_us:.1f} | "
              f"{flop / ours_us / 1e6:.0f} | {flop / theirs_us / 1e6:.0f} | "
              f"{theirs_us / ours_us:.3f} | {error:.1e} |", flush=True)
        del graphs, a, b
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    print(f"\ngeometric mean {mean:.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
