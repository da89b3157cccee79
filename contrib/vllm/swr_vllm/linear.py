# SPDX-License-Identifier: MIT
"""Linear layers without quantisation. vLLM's register_linear_kernel takes quantised ones alone, so the
layers are replaced by its PluggableLayer."""

from typing import Optional

import torch
from vllm.model_executor.layers import linear

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


class SwrLinearMethod(linear.UnquantizedLinearMethod):
    def apply(self, layer, x, bias=None):
        return _linear(x, layer.weight, bias)


class _OnSwr:
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if (type(self.quant_method) is linear.UnquantizedLinearMethod
                and self.params_dtype in (torch.float16, torch.bfloat16)):
            self.quant_method = SwrLinearMethod()


def replace_layers():
    for layer in (linear.ReplicatedLinear, linear.ColumnParallelLinear,
                  linear.MergedColumnParallelLinear, linear.QKVParallelLinear,
                  linear.RowParallelLinear):
        layer.register_oot(type(f"Swr{layer.__name__}", (_OnSwr, layer), {}))
