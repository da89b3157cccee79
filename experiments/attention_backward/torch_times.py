#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times of attention backward through torch alone, at the points that gpu_checks/backward_check measures.

    experiments/attention_backward/torch_times.py [--seconds N] [--head-dims N ...]

bf16, backward alone, TFLOP/s of five products; causal counts half. The median of five times.
"""

import argparse
import itertools
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_timing import elapsed_us  # noqa: E402

BACK_ENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION}
SHAPES = [(1, 16, 16, 16384), (4, 16, 16, 4096), (1, 64, 8, 16384), (16, 16, 16, 1024)]


def time_us(call, count):
    return elapsed_us(lambda: [call() for _ in range(count)]) / count


def measure(back_end, head_dim, causal, shape):
    batch, heads, kv_heads, seq = shape
    def tensor(count):
        return torch.randn(batch, count, seq, head_dim, device="cuda", dtype=torch.bfloat16)
    q, k, v = (tensor(n).requires_grad_() for n in (heads, kv_heads, kv_heads))
    d_o = tensor(heads)
    with sdpa_kernel(back_end):
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
    def backward():
        torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)
    count = max(1, int(2e4 / max(time_us(backward, 1), time_us(backward, 1))))
    us = statistics.median(time_us(backward, count) for _ in range(5))
    pairs = batch * heads * seq * ((seq + 1) / 2 if causal else seq)
    return us, 10 * pairs * head_dim / us / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--head-dims", type=int, nargs="+", default=[128, 64])
    parser.add_argument("--back-ends", nargs="+", choices=list(BACK_ENDS), default=list(BACK_ENDS))
    options = parser.parse_args()
    end = time.time() + options.seconds
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"{torch.cuda.get_device_name()}", flush=True)
    for head_dim, causal, shape in itertools.product(options.head_dims, (True, False), SHAPES):
        for name in options.back_ends:
            if time.time() > end:
                return
            mask = "causal" if causal else "none"
            place = f"| {name} {head_dim} {mask} b{shape[0]} h{shape[1]}/{shape[2]} s{shape[3]}"
            try:
                us, tflops = measure(BACK_ENDS[name], head_dim, causal, shape)
                print(f"{place} | {us:.1f} us | {tflops:.0f} TFLOP/s |", flush=True)
            except RuntimeError as error:
                print(f"{place} | {str(error).splitlines()[0][:120]} | |", flush=True)


if __name__ == "__main__":
    main()
