# SPDX-License-Identifier: MIT
"""grouped_mm and scaled_grouped_mm: one product for each expert, of rows that only the device knows."""

import ctypes
from typing import Optional

import torch

from ._fused import _ACTIVATIONS, _BLOCK, _DTYPES, _FP8, _ROW, _blocks
from ._library import Error, Gemm, GemmExtras, GroupedGemm, library
from ._matmul import _is_stored_transposed, _strides
from ._torch import DTYPES, Plans, aligned, launch, refuse_derivatives, require_cuda, skips_dispatcher

OFFSETS, CONTIGUOUS, MASKED = 1, 2, 3


def _check(form, a, b, c, numbers, scales, activation, gated):
    """Raises ValueError or TypeError for what no kernel serves. b is [groups, k, n]."""
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation must be None, 'gelu', 'gelu_tanh' or 'silu', not {activation!r}")
    if a.dtype not in (torch.float16, torch.bfloat16, *(_FP8 if scales else ())) or b.dtype != a.dtype:
        raise TypeError(f"a and b must both be float16 or both bfloat16, not {a.dtype}, {b.dtype}; "
                        "FP8 is for scaled_grouped_mm")
    if c.dtype not in DTYPES:
        raise TypeError(f"the result must be float16, bfloat16 or float32, not {c.dtype}")
    rows = b.shape[:1] + a.shape[1:-1] if form == MASKED else a.shape[:1]
    if (b.dim() != 3 or a.dim() != (3 if form == MASKED else 2) or a.shape[-1] != b.shape[1]
            or (1 + gated) * c.shape[-1] != b.shape[2] or c.shape[:-1] != a.shape[:-1] or a.shape[:len(rows)] != rows):
        raise ValueError("a [rows, k] takes b [groups, k, n] (with masked rows a [groups, rows, k]): "
                         f"{tuple(a.shape)}, {tuple(b.shape)}, result {tuple(c.shape)}")
    length = a.shape[0] if form == CONTIGUOUS else b.shape[0]
    if numbers.dtype != torch.int32 or numbers.shape != (length,) or not numbers.is_contiguous():
        raise ValueError(f"the rows of groups are told by {length} contiguous int32 numbers, not "
                         f"{tuple(numbers.shape)} of {numbers.dtype}")
    shapes = (a.shape[:-1], b.shape[::2])
    if _are_of_blocks(scales, a):
        blocks = _blocks(a.shape[-1])
        shapes = ((*a.shape[:-1], blocks), (b.shape[0], _blocks(b.shape[2]), blocks))
    for name, scale, shape in zip(("scale_a", "scale_b"), scales, shapes):
        has_order = scale.is_contiguous() or (len(shape) == a.dim() and name == "scale_a")
        if scale.dtype != torch.float32 or scale.shape != shape or not has_order:
            raise ValueError(f"{name} must be {tuple(shape)} contiguous float32 numbers, not "
                             f"{tuple(scale.shape)} of {scale.dtype}")
    require_cuda(a=a, b=b, c=c, numbers=numbers, **dict(zip(("scale_a", "scale_b"), scales)))
    if _is_stored_transposed(a, "a") or _is_stored_transposed(c, "the result"):
        raise ValueError("the rows of a and of the result must be contiguous; pass a.contiguous()")


def _are_of_blocks(scales, a):
    return bool(scales) and scales[0].dim() == a.dim()


def _extras(scales, a, fast, activation, gated):
    extras = GemmExtras(activation=_ACTIVATIONS[activation], gated=gated)
    if _are_of_blocks(scales, a):
        extras.scaling, extras.accuracy = _BLOCK, 1
        extras.a_scale_stride, extras.b_scale_stride = scales[0].stride(-1), scales[1].stride(1)
    elif scales:
        extras.scaling, extras.accuracy = _ROW, not fast
    return extras


class _Plan:
    """A checked call without its tensors' addresses."""

    __slots__ = ("grouped", "address", "device")

    def __init__(self, form, a, b, c, numbers, expected_rows, skewed, scales, fast, activation, gated):
        _check(form, a, b, c, numbers, scales, activation, gated)
        self.device = a.get_device()
        transposed = _is_stored_transposed(b, "b")
        self.grouped = GroupedGemm(
            Gemm(None, None, None, _strides(a, False), _strides(b, transposed), _strides(c, False),
                 a.shape[-2], c.shape[-1], b.shape[1], b.shape[0], _DTYPES[a.dtype], DTYPES[c.dtype],
                 0 if transposed else 1, 1.0, 0.0), form, expected_rows, skewed,
            _extras(scales, a, fast, activation, gated))
        if gated and not transposed:
            raise ValueError("a gated b [groups, k, 2 n] has contiguous columns, such as weights.mT")
        self.address = ctypes.addressof(self.grouped)


_plans = Plans()


def run(form, a, b, c, numbers, expected_rows=0, skewed=False, scales=(), fast=True, activation=None,
        gated=False):
    """Writes the rows of c that belong to a group. `scales` are those of FP8: of rows of a, and of
    columns of b; or of blocks, as deep_gemm has them."""
    if a.numel() == 0 or c.numel() == 0:
        c.zero_()
        return
    key = (form, a.shape, b.shape, a.stride(), b.stride(), c.stride(), a.dtype, b.dtype, c.dtype,
           c.shape, numbers.shape, numbers.stride(), numbers.dtype, a.get_device(), b.get_device(),
           c.get_device(), numbers.get_device(), expected_rows, skewed, fast,
           activation, gated, *((s.shape, s.stride(), s.dtype, s.get_device()) for s in scales))
    plan = _plans.find(key) or _plans.remember(
        key, _Plan(form, a, b, c, numbers, expected_rows, skewed, scales, fast, activation, gated))
    address = plan.address
    if scales:
        scales = [aligned(scale) for scale in scales]
        own = GroupedGemm.from_buffer_copy(plan.grouped)
        own.extras.a_scales, own.extras.b_scales = (scale.data_ptr() for scale in scales)
        address = ctypes.addressof(own)
    launch(library.swr_runtime_grouped_gemm_at, plan.device, address, a.data_ptr(), b.data_ptr(),
           c.data_ptr(), numbers.data_ptr())


def _output(a, b, out_dtype, gated=False):
    return torch.empty((a.shape[0], b.shape[-1] // (1 + gated)), dtype=out_dtype, device=a.device)


def _product(a, b, offs, out_dtype, skewed, activation, gated):
    c = _output(a, b, out_dtype, gated)
    run(OFFSETS, a, b, c, offs, skewed=skewed, activation=activation, gated=gated)
    return c


@torch.library.custom_op("swr::grouped_mm", mutates_args=(), device_types="cuda")
def _operator(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, out_dtype: torch.dtype,
              skewed: bool, activation: Optional[str], gated: bool) -> torch.Tensor:
    return _product(a, b, offs, out_dtype, skewed, activation, gated)


@_operator.register_fake
def _(a, b, offs, out_dtype, skewed, activation, gated):
    return _output(a, b, out_dtype, gated)


def grouped_mm(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor,
               bias: Optional[torch.Tensor] = None, out_dtype: Optional[torch.dtype] = None, *,
               skewed: bool = False, activation: Optional[str] = None,
               gated: bool = False) -> torch.Tensor:
    """As torch._grouped_mm of a 2-D and a 3-D tensor: rows offs[g - 1] to offs[g] of a [rows, k]
    times b[g], with b [groups, k, n], such as expert_weights.mT, and offs [groups] of int32 on the
    device. float16 or bfloat16, summed in float32. The rows of a, and of each item of b the rows or
    the columns, are contiguous.

    Nothing waits for the device, so a captured call follows what offs holds when it is replayed. Rows
    of the result [rows, n] that belong to no group are not written. `skewed` asks for a kernel that
    was tuned with half of the rows in one group. `activation` and `gated` are those of swr.linear: with
    `gated` b is [groups, k, 2 n], of the gate and then of what it multiplies, and the result has n
    columns. No bias; forward only.
    """
    if bias is not None:
        raise Error("invalid_argument", "swr.grouped_mm adds no bias; add it to the result")
    refuse_derivatives("swr.grouped_mm", a, b)
    if a.dim() != 2 or b.dim() != 3:
        raise ValueError("a must be [rows, k] and b [groups, k, n], not "
                         f"{tuple(a.shape)} and {tuple(b.shape)}")
    out_dtype = a.dtype if out_dtype is None else out_dtype
    if skips_dispatcher(a, b):
        return _product(a, b, offs, out_dtype, skewed, activation, gated)
    return _operator(a, b, offs, out_dtype, skewed, activation, gated)


def scaled_grouped_mm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                      offs: torch.Tensor, bias: Optional[torch.Tensor] = None,
                      scale_result: Optional[torch.Tensor] = None,
                      out_dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False, *,
                      skewed: bool = False) -> torch.Tensor:
    """As torch._scaled_grouped_mm of a 2-D and a 3-D tensor: grouped_mm of float8_e4m3fn or float8_e5m2,
    b with contiguous columns, times scale_a [rows] and scale_b [groups, n] of float32. The result has
    out_dtype, bfloat16 unless given. use_fast_accum as for scaled_mm. Forward only."""
    if bias is not None or scale_result is not None:
        raise Error("invalid_argument", "swr.scaled_grouped_mm takes neither bias nor scale_result")
    if a.dtype not in _FP8 or a.dim() != 2 or b.dim() != 3:
        raise ValueError("a must be [rows, k] and b [groups, k, n] of float8_e4m3fn or float8_e5m2, not "
                         f"{tuple(a.shape)} and {tuple(b.shape)} of {a.dtype}")
    refuse_derivatives("swr.scaled_grouped_mm", a, b, scale_a, scale_b)
    product = _scaled_product if skips_dispatcher(a, b) else _scaled_operator
    return product(a, b, scale_a, scale_b, offs, out_dtype or torch.bfloat16, skewed, use_fast_accum)


def _scaled_product(a, b, scale_a, scale_b, offs, out_dtype, skewed, fast):
    c = _output(a, b, out_dtype)
    run(OFFSETS, a, b, c, offs, skewed=skewed, scales=(scale_a, scale_b), fast=fast)
    return c


@torch.library.custom_op("swr::scaled_grouped_mm", mutates_args=(), device_types="cuda")
def _scaled_operator(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                     offs: torch.Tensor, out_dtype: torch.dtype, skewed: bool, fast: bool) -> torch.Tensor:
    return _scaled_product(a, b, scale_a, scale_b, offs, out_dtype, skewed, fast)


@_scaled_operator.register_fake
def _(a, b, scale_a, scale_b, offs, out_dtype, skewed, fast):
    return _output(a, b, out_dtype)
