# SPDX-License-Identifier: MIT
"""sdpa: attention on PyTorch CUDA tensors with the best stored kernels, as custom operators: forward,
forward with the log-sum-exp that backward needs, and backward."""

import ctypes
import math
from typing import Optional, Tuple, Union

import torch

from ._library import Attention, AttentionBackward, Error, Strides, library
from ._torch import (DTYPES, Plans, are_transforms_active, call, launch, needs_gradient, refuse_tangents,
                     require_cuda, skips_dispatcher)


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


# `deterministic` is for backward: an operator that is traced reads no global flag.
@torch.library.custom_op("swr::sdpa_lse", mutates_args=(), device_types="cuda")
def _operator_lse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float,
                  deterministic: bool = False) -> Tuple[torch.Tensor, torch.Tensor]:
    return _run(q, k, v, causal, scale, True)


@_operator_lse.register_fake
def _(q, k, v, causal, scale, deterministic=False):
    return _output_like(q), _lse_like(q)


def _contiguous_rows(tensor):
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _run_backward(d_o, q, k, v, o, lse, d_lse, causal, scale, deterministic):
    dq, dk, dv = (_output_like(tensor) for tensor in (q, k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    tensors = {"q": q, "k": k, "v": v, "o": o, "d_o": _contiguous_rows(d_o), "dq": dq, "dk": dk,
               "dv": dv}
    contiguous = {"lse": lse.contiguous(), "d_lse": None if d_lse is None else d_lse.contiguous()}
    description = AttentionBackward(
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        **{name + "_strides": _strides(tensor) for name, tensor in tensors.items()},
        **{name: None if tensor is None else tensor.data_ptr()
           for name, tensor in contiguous.items()},
        batch=q.shape[0], heads_q=q.shape[1], heads_kv=k.shape[1], seq_q=q.shape[2],
        seq_kv=k.shape[2], head_dim=q.shape[3], head_dim_v=v.shape[3], dtype=DTYPES[q.dtype],
        causal=int(causal), deterministic=int(deterministic), scale=scale)
    index, address, size = q.get_device(), ctypes.addressof(description), ctypes.c_int64()
    call(library.swr_runtime_prepare_backward, index, address, ctypes.addressof(size))
    # Of PyTorch's allocator, so that a graph that is captured has it in its pool.
    workspace = torch.empty(size.value, dtype=torch.uint8, device=q.device)
    description.workspace, description.workspace_bytes = workspace.data_ptr(), size.value
    launch(library.swr_runtime_attention_backward, index, address)
    return dq, dk, dv


@torch.library.custom_op("swr::sdpa_backward", mutates_args=(), device_types="cuda")
def _operator_backward(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                       o: torch.Tensor, lse: torch.Tensor, d_lse: Optional[torch.Tensor],
                       causal: bool, scale: float, deterministic: bool
                       ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _run_backward(d_o, q, k, v, o, lse, d_lse, causal, scale, deterministic)


@_operator_backward.register_fake
def _(d_o, q, k, v, o, lse, d_lse, causal, scale, deterministic):
    return _output_like(q), _output_like(k), _output_like(v)


def _save(ctx, inputs, output):
    q, k, v, ctx.causal, ctx.scale, ctx.deterministic = inputs
    ctx.save_for_backward(q, k, v, *output)


def _differentiate(ctx, d_o, d_lse):
    q, k, v, o, lse = ctx.saved_tensors
    d_o = torch.zeros_like(o) if d_o is None else d_o
    gradients = _operator_backward(d_o, q, k, v, o, lse, d_lse, ctx.causal, ctx.scale,
                                   ctx.deterministic)
    return (*gradients, None, None, None)


_operator_lse.register_autograd(_differentiate, setup_context=_save)


def _check_backward(head_dim):
    unit = 32 if head_dim > 128 else 16
    if head_dim % unit != 0:
        raise ValueError(f"backward needs a head_dim that is a multiple of {unit}, not {head_dim}; "
                         "pad it, or call sdpa under torch.no_grad()")


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False,
         scale: Optional[float] = None, return_lse: bool = False
         ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """softmax(scale * Q K^T + mask) V for CUDA tensors [batch, heads, length, head_dim] of float16 or
    bfloat16 with any strides but a contiguous head_dim, on the current stream and without copies.

    K and V may have fewer heads than Q (a divisor). The causal mask is aligned to the bottom right;
    a row that sees no key gives zeros. `scale` is 1 / sqrt(head_dim) unless given. With return_lse
    also the natural logarithm of each row's sum of exponentials, float32 [batch, heads, length];
    -inf for a row that sees no key.

    Differentiable once, in q, k, v and through both results. Gradients repeat to the bit where
    torch.use_deterministic_algorithms(True) is in force when sdpa is called.
    """
    causal = bool(causal)
    refuse_tangents("swr.sdpa", q, k, v)
    differentiable = needs_gradient(q, k, v)
    if not differentiable and skips_dispatcher(q, k, v):
        return _run(q, k, v, causal, None if scale is None else float(scale), return_lse)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    _check(q, k, v, scale)
    if differentiable:
        if not torch.compiler.is_compiling() and are_transforms_active():
            raise Error("invalid_argument", "swr.sdpa has gradients by backward() and torch.autograd.grad, not by "
                        "torch.func")
        _check_backward(q.shape[-1])
        o, lse = _operator_lse(q, k, v, causal, scale,
                               torch.are_deterministic_algorithms_enabled())
        return (o, lse) if return_lse else o
    return (_operator_lse if return_lse else _operator)(q, k, v, causal, scale)
