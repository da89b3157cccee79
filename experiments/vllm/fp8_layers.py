# SPDX-License-Identifier: MIT
"""How far layers of FP8 are from fp64 of the same numbers: the plug-in's, CUTLASS's in vLLM, PyTorch's, and
what rounding the exact result to bf16 costs.
    python3 fp8_layers.py"""

import torch
from vllm import _custom_ops

from swr_vllm.linear import scaled_product

LLAMA = {"qkv": (6144, 4096), "o": (4096, 4096), "gate and up": (28672, 4096), "down": (4096, 14336)}
ROWS = [1, 5, 16, 128, 512]


def layer_of(m, n, k, mean):
    """Activations with a scale a token, as vLLM rounds them, and a weight with one scale."""
    x = torch.randn(m, k, device="cuda").add_(mean).bfloat16()
    a, scale_a = _custom_ops.scaled_fp8_quant(x, use_per_token_if_dynamic=True)
    weight = torch.randn(n, k, device="cuda").mul_(64.0).add_(64.0 * mean).clamp_(-448.0, 448.0)
    return a, weight.to(torch.float8_e4m3fn).T, scale_a, torch.full((1,), 2.0 ** -12, device="cuda")


def by_pytorch(a, b, scale_a, scale_b):
    of_columns = scale_b.expand(1, b.shape[1]).contiguous()
    return torch._scaled_mm(a, b, scale_a, of_columns, out_dtype=torch.bfloat16)


def off(result, exact):
    """The error's norm over the result's, and the largest error over the results' mean square root."""
    error = result.double() - exact
    return (error.norm() / exact.norm()).item(), (error.abs().max() / exact.square().mean().sqrt()).item()


def main():
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    torch.manual_seed(3)
    for mean in (0.0, 0.5):  # Sums of one sign are what few bits of an accumulator lose most of.
        for name, (n, k) in LLAMA.items():
            for m in ROWS:
                a, b, scale_a, scale_b = layer_of(m, n, k, mean)
                exact = (a.double() @ b.double()) * scale_a.double() * scale_b.double()
                found = {"swr": scaled_product(a, b, scale_a, scale_b, None, torch.bfloat16),
                         "CUTLASS": _custom_ops.cutlass_scaled_mm(a, b, scale_a, scale_b, torch.bfloat16),
                         "PyTorch": by_pytorch(a, b, scale_a, scale_b), "rounding": exact.bfloat16()}
                print(f"fp8 | mean {mean} | {name}, {m} rows | " + " | ".join(
                    "{} {:.2e}, {:.2e}".format(who, *off(result, exact)) for who, result in found.items()),
                    flush=True)


if __name__ == "__main__":
    main()
