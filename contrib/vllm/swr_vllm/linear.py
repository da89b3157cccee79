# SPDX-License-Identifier: MIT
"""Linear layers. Those without quantisation are replaced by vLLM's PluggableLayer, since its tables of
kernels have quantised ones alone; of FP8 there are kernels for both of its tables."""

from typing import Optional

import torch
from vllm import _custom_ops
from vllm.model_executor.kernels import linear as kernels
from vllm.model_executor.layers import linear
from vllm.platforms.interface import PlatformEnum

import swr

# Batches that vLLM captures. Longer ones have any number of rows, for which kernels would be compiled
# while requests wait.
_MOST_ROWS = 512


@torch.library.custom_op("swr_vllm::linear", mutates_args=(), device_types="cuda")
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    return product(x, weight, bias)


@_linear.register_fake
def _(x, weight, bias):
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def product(x, weight, bias):
    """x [..., k] times the transpose of weight [n, k], plus bias [n]."""
    if x.numel() > _MOST_ROWS * x.shape[-1]:
        return torch.nn.functional.linear(x, weight, bias)
    y = swr.matmul(x, weight.T)
    return y if bias is None else y.add_(bias)


@torch.library.custom_op("swr_vllm::scaled_mm", mutates_args=(), device_types="cuda")
def _scaled_mm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
               bias: Optional[torch.Tensor], out_dtype: torch.dtype) -> torch.Tensor:
    return scaled_product(a, b, scale_a, scale_b, bias, out_dtype)


@_scaled_mm.register_fake
def _(a, b, scale_a, scale_b, bias, out_dtype):
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)


def scaled_product(a, b, scale_a, scale_b, bias, out_dtype):
    """a [m, k] times b [k, n] of FP8, by scales of one value, [m, 1] and [n, 1] in any combination, or of
    blocks [m, k / 128] and [k / 128, n / 128]."""
    m, n = a.shape[0], b.shape[1]
    if m > _MOST_ROWS:
        return _custom_ops.cutlass_scaled_mm(a, b, scale_a, scale_b, out_dtype, bias)
    if scale_a.dim() < 2 or scale_a.shape[1] == 1:
        if scale_a.numel() == 1 < scale_b.numel():
            scale_a = scale_a.reshape(1, 1).expand(m, 1).contiguous()
        if scale_b.numel() > 1 or scale_a.numel() > 1:
            scale_b = scale_b.reshape(1, -1).expand(1, n).contiguous()
    return swr.scaled_mm(a, b, scale_a, scale_b, bias, out_dtype=out_dtype, use_fast_accum=True)


class SwrFp8Kernel(kernels.CutlassFP8ScaledMMLinearKernel):
    """Scales of tensors, tokens and channels. What is padded stays with CUTLASS."""

    def apply_scaled_mm(self, *, A, B, out_dtype, As, Bs, bias, output_shape):
        if B.shape != (A.shape[1], self.logical_output_size):
            return super().apply_scaled_mm(A=A, B=B, out_dtype=out_dtype, As=As, Bs=Bs, bias=bias,
                                           output_shape=output_shape)
        return _scaled_mm(A, B, As, Bs, bias, out_dtype).view(*output_shape)


class SwrFp8BlockKernel(kernels.CutlassFp8BlockScaledMMKernel):
    """Scales of 128 elements of a token, and of 128 x 128 of the weight."""

    def apply_block_scaled_mm(self, A, B, As, Bs):
        return _scaled_mm(A, B.T, As, Bs.T, None, self.config.out_dtype)


class SwrLinearMethod(linear.UnquantizedLinearMethod):
    def apply(self, layer, x, bias=None):
        return _linear(x, layer.weight, bias)


class _OnSwr:
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if (type(self.quant_method) is linear.UnquantizedLinearMethod
                and self.params_dtype in (torch.float16, torch.bfloat16)):
            self.quant_method = SwrLinearMethod()


def put_kernels_first():
    """register_linear_kernel appends, behind kernels that take everything, and knows no blocks."""
    for table, kernel in ((kernels._POSSIBLE_FP8_KERNELS, SwrFp8Kernel),
                          (kernels._POSSIBLE_FP8_BLOCK_KERNELS, SwrFp8BlockKernel)):
        if kernel not in table[PlatformEnum.CUDA]:
            table[PlatformEnum.CUDA].insert(0, kernel)


def replace_layers():
    for layer in (linear.ReplicatedLinear, linear.ColumnParallelLinear,
                  linear.MergedColumnParallelLinear, linear.QKVParallelLinear,
                  linear.RowParallelLinear):
        layer.register_oot(type(f"Swr{layer.__name__}", (_OnSwr, layer), {}))
