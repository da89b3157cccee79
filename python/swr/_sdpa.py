# SPDX-License-Identifier: MIT
"""sdpa: attention on PyTorch CUDA tensors with the best stored kernels, as a custom operator."""

import ctypes
import math
from typing import Optional, Tuple, Union

import torch

from ._library import Attention, Error, Strides, library
from ._torch import DTYPES, Plans, launch, needs_gradient, require_cuda, skips_dispatcher


def _check(q, k, v, scale):
    """Raises ValueError or TypeError for what no kernel serves."""
    if q.dtype not in (torch.float16, torch.bfloat16) or k.dtype != q.dtype or v.dtype != q.dtype:
        raise TypeError("q, k and v must all be float16 or all bfloat16, not "
                        f"{q.dtype}, {k.dtype}, {v.dtype}")
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ValueError("q, k and v must be [batch, heads, length, head_dim]")
    if (k.shape != v.shape or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]
            or q.shape[1] % max(k.shape[1], 1) != 0):
        raise ValueError("k and v must have one shape, q's batch and head_dim, and a divisor of its "
                         f"heads: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    require_cuda(q=q, k=k, v=v)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.stride(3) != 1:
            raise ValueError(f"the innermost dimension of {name} must be contiguous; pass "
                             f"{name}.contiguous()")
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be positive, not {scale}")


def _output_like(q):
    """O in the memory order of Q where that keeps head_dim contiguous."""
    o = torch.empty_like(q)
    return o if o.stride(3) == 1 else torch.empty(q.shape, dtype=q.dtype, device=q.device)


def _lse_like(q):
    return torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def _strides(tensor):
    return Strides(tensor.stride(0), tensor.stride(1), tensor.stride(2))


class _Plan:
    """A checked call without its tensors' addresses."""

    __slots__ = ("attention", "address", "device", "is_empty", "keeps_order")

    def __init__(self, q, k, v, causal, scale):
        scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
        _check(q, k, v, scale)
        o = _output_like(q)
        self.attention = Attention(
            None, None, None, None, None, _strides(q), _strides(k), _strides(v), _strides(o),
            q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3],
            DTYPES[q.dtype], int(causal), scale)
        self.address = ctypes.addressof(self.attention)
        self.device = q.get_device()
        self.is_empty = q.numel() == 0
        self.keeps_order = torch.empty_like(q).stride(3) == 1


_plans = Plans()


def _run(q, k, v, causal, scale, return_lse):
    key = (q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype,
           q.get_device(), k.get_device(), v.get_device(), causal, scale)
    plan = _plans.find(key) or _plans.remember(key, _Plan(q, k, v, causal, scale))
    o = torch.empty_like(q) if plan.keeps_order else _output_like(q)
    lse = _lse_like(q) if return_lse else None
    if not plan.is_empty:
        launch(library.swr_runtime_attention_at, plan.device, plan.address, q.data_ptr(),
               k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr() if return_lse else None)
    return (o, lse) if return_lse else o


@torch.library.custom_op("swr::sdpa", mutates_args=(), device_types="cuda")
def _operator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
              scale: float) -> torch.Tensor:
    return _run(q, k, v, causal, scale, False)


@_operator.register_fake
def _(q, k, v, causal, scale):
    return _output_like(q)


@torch.library.custom_op("swr::sdpa_lse", mutates_args=(), device_types="cuda")
def _operator_lse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
                  scale: float) -> Tuple[torch.Tensor, torch.Tensor]:
    return _run(q, k, v, causal, scale, True)


@_operator_lse.register_fake
def _(q, k, v, causal, scale):
    return _output_like(q), _lse_like(q)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False,
         scale: Optional[float] = None, return_lse: bool = False
         ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """softmax(scale * Q K^T + mask) V for CUDA tensors [batch, heads, length, head_dim] of float16 or
    bfloat16 with any strides but a contiguous head_dim, on the current stream and without copies.

    K and V may have fewer heads than Q (a divisor). The causal mask is aligned to the bottom right;
    a row that sees no key gives zeros. `scale` is 1 / sqrt(head_dim) unless given. With return_lse
    also the natural logarithm of each row's sum of exponentials, float32 [batch, heads, length];
    -inf for a row that sees no key. Forward only.
    """
    causal = bool(causal)
    if needs_gradient(q, k, v):
        raise Error("invalid_argument", "swr.sdpa has no backward pass; call it under "
                    "torch.no_grad(), or pass tensors that need no gradient")
    if skips_dispatcher(q, k, v):
        return _run(q, k, v, causal, None if scale is None else float(scale), return_lse)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    _check(q, k, v, scale)
    return (_operator_lse if return_lse else _operator)(q, k, v, causal, scale)
