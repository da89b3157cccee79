# SPDX-License-Identifier: MIT
"""matmul: products of PyTorch CUDA tensors with the best stored kernels, as a custom operator."""

import ctypes
from typing import Optional

import torch

from ._library import Gemm, MatrixStrides, library
from ._torch import DTYPES, Plans, launch, refuse_derivatives, require_cuda, skips_dispatcher

_LAYOUTS = {(False, True): 0, (False, False): 1, (True, False): 2}


def _check(a, b, out_dtype):
    """Raises ValueError or TypeError for what no kernel serves."""
    if a.dtype not in (torch.float16, torch.bfloat16) or b.dtype != a.dtype:
        raise TypeError(f"a and b must both be float16 or both bfloat16, not {a.dtype}, {b.dtype}")
    if out_dtype not in DTYPES:
        raise TypeError(f"out_dtype must be float16, bfloat16 or float32, not {out_dtype}")
    batched = a.dim() == 3 and b.dim() == 3 and a.shape[0] == b.shape[0]
    if not (batched or (a.dim() >= 2 and b.dim() == 2)) or a.shape[-1] != b.shape[-2]:
        raise ValueError("a [..., m, k] takes b [k, n], and a [batch, m, k] also b [batch, k, n]: "
                         f"{tuple(a.shape)}, {tuple(b.shape)}")
    require_cuda(a=a, b=b)
    for name, tensor in (("a", a), ("b", b)):
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
            raise ValueError(f"{name} is expanded; pass {name}.contiguous()")


def _is_stored_transposed(tensor, name):
    """False for contiguous rows, True for contiguous columns."""
    if tensor.stride(-1) == 1 or tensor.shape[-1] == 1:
        return False
    if tensor.stride(-2) == 1 or tensor.shape[-2] == 1:
        return True
    raise ValueError(f"the rows or the columns of {name} must be contiguous; pass "
                     f"{name}.contiguous()")


def _rows_of(a):
    """a as one matrix, when b is one: its leading dimensions must follow each other in memory."""
    if a.dim() == 2:
        return a
    try:
        return a.view(-1, a.shape[-1])
    except RuntimeError:
        raise ValueError("the leading dimensions of a cannot be taken as rows of one matrix; pass "
                         "a.contiguous()") from None


def _are_both_transposed(a, b):
    return a.dim() == b.dim() and _is_stored_transposed(a, "a") and _is_stored_transposed(b, "b")


def _output(a, b, out_dtype):
    """C, contiguous; its transpose is when both factors are stored transposed."""
    if a.numel() and b.numel() and _are_both_transposed(a, b):
        return _output(b.mT, a.mT, out_dtype).mT
    return torch.empty((*a.shape[:-1], b.shape[-1]), dtype=out_dtype, device=a.device)


def _strides(tensor, transposed):
    return MatrixStrides(tensor.stride(0) if tensor.dim() == 3 else 0,
                         tensor.stride(-1 if transposed else -2))


class _Plan:
    """A checked call without its tensors' addresses."""

    __slots__ = ("gemm", "address", "device", "is_empty", "is_swapped")

    def __init__(self, a, b, out_dtype):
        _check(a, b, out_dtype)
        self.device = a.get_device()
        self.is_empty = a.numel() == 0 or b.numel() == 0
        self.is_swapped = not self.is_empty and _are_both_transposed(a, b)
        if not (self.is_empty or self.is_swapped):
            self._describe(a if b.dim() == 3 else _rows_of(a), b, out_dtype)

    def _describe(self, a, b, out_dtype):
        m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
        transposed = (_is_stored_transposed(a, "a"), _is_stored_transposed(b, "b"))
        if transposed not in _LAYOUTS:
            raise ValueError("a and b are both stored transposed; pass a.contiguous()")
        self.gemm = Gemm(
            None, None, None, _strides(a, transposed[0]), _strides(b, transposed[1]),
            MatrixStrides(m * n, n), m, n, k, a.shape[0] if a.dim() == 3 else 1, DTYPES[a.dtype],
            DTYPES[out_dtype], _LAYOUTS[transposed], 1.0, 0.0)
        self.address = ctypes.addressof(self.gemm)


_plans = Plans()


def _run(a, b, out_dtype):
    key = (a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.get_device(),
           b.get_device(), out_dtype)
    plan = _plans.find(key) or _plans.remember(key, _Plan(a, b, out_dtype))
    if plan.is_swapped:
        return _run(b.mT, a.mT, out_dtype).mT
    c = torch.empty((*a.shape[:-1], b.shape[-1]), dtype=out_dtype, device=a.device)
    if plan.is_empty:
        return c.zero_()
    launch(library.swr_runtime_gemm_at, plan.device, plan.address, a.data_ptr(), b.data_ptr(),
           c.data_ptr())
    return c


@torch.library.custom_op("swr::matmul", mutates_args=(), device_types="cuda")
def _operator(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    return _run(a, b, out_dtype)


@_operator.register_fake
def _(a, b, out_dtype):
    return _output(a, b, out_dtype)


def matmul(a: torch.Tensor, b: torch.Tensor, *,
           out_dtype: Optional[torch.dtype] = None) -> torch.Tensor:
    """A B for CUDA tensors of float16 or bfloat16, summed in float32, on the current stream and
    without copies: a [..., m, k] with b [k, n], such as x @ weight.T, or a [batch, m, k] with
    b [batch, k, n]. Of each the rows or the columns are contiguous, and the leading dimensions of a
    follow each other in memory when b has none.

    The result [..., m, n] has out_dtype, a's type unless given; it may be float32, for which rows (or
    columns) of the factors must lie at multiples of 4 bytes. It is contiguous, or its transpose is
    when both factors are stored transposed. Forward only.
    """
    out_dtype = a.dtype if out_dtype is None else out_dtype
    refuse_derivatives("swr.matmul", a, b)
    if skips_dispatcher(a, b):
        return _run(a, b, out_dtype)
    _check(a, b, out_dtype)
    return _operator(a, b, out_dtype)
