# SPDX-License-Identifier: MIT
"""scaled_mm and linear: products of FP8, and what follows a product, in one kernel."""

import ctypes
import math
from typing import Optional

import torch

from ._library import Gemm, GemmExtras, MatrixStrides, library
from ._torch import aligned, launch, refuse_derivatives, require_cuda, skips_dispatcher

_DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float8_e4m3fn: 3,
           torch.float8_e5m2: 4}
_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_ACTIVATIONS = {None: 0, "gelu": 1, "gelu_tanh": 2, "silu": 3}
_UNSCALED, _TENSOR, _ROW, _BLOCK = range(4)
_BLOCK_SIZE = 128


def _require(holds, message, error=ValueError):
    if not holds:
        raise error(message)


def _blocks(elements):
    return -(-elements // _BLOCK_SIZE)


def _strides(tensor):
    return MatrixStrides(0, tensor.stride(0))


def _launch(a, b_rows, c, n, extras, bias=None, residual=None, activation=None, gated=False):
    """C [m, n] from a [m, k] and the rows of B [n or 2 n, k], all of them checked."""
    extras.activation = _ACTIVATIONS[activation]
    extras.gated = int(gated)
    bias = aligned(bias)
    extras.bias = None if bias is None else bias.data_ptr()
    extras.addend = None if residual is None else residual.data_ptr()
    gemm = Gemm(a.data_ptr(), b_rows.data_ptr(), c.data_ptr(), _strides(a), _strides(b_rows),
                _strides(c), a.shape[0], n, a.shape[1], 1, _DTYPES[a.dtype], _DTYPES[c.dtype], 0, 1.0,
                0.0 if residual is None else 1.0)
    launch(library.swr_runtime_fused_gemm, a.get_device(), ctypes.addressof(gemm),
           ctypes.addressof(extras))
    return c


def _scale_extras(scale_a, scale_b, m, n, k):
    """By the shapes of torch._scaled_mm: one value each; [m, 1] and [1, n]; or [m, k / 128] and
    [k / 128, n / 128], both contiguous along their first dimension."""
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        _require(scale.dtype == torch.float32, f"{name} must be float32, not {scale.dtype}", TypeError)
    blocks = _blocks(k)
    extras = GemmExtras()
    if scale_a.numel() == 1 and scale_b.numel() == 1:
        extras.scaling = _TENSOR
    elif tuple(scale_a.shape) == (m, 1) and tuple(scale_b.shape) == (1, n):
        _require(scale_a.stride(0) == 1 or m == 1, "scale_a must be contiguous")
        _require(scale_b.stride(1) == 1 or n == 1, "scale_b must be contiguous")
        extras.scaling = _ROW
    elif tuple(scale_a.shape) == (m, blocks) and scale_b.dim() == 2 and \
            scale_b.shape[0] >= blocks and scale_b.shape[1] == _blocks(n):
        _require((scale_a.stride(0) == 1 or m == 1) and (scale_b.stride(0) == 1 or blocks == 1),
                 "scales of blocks must be contiguous along their first dimension: pass "
                 "scale.t().contiguous().t()")
        extras.scaling, extras.accuracy = _BLOCK, 1
        extras.a_scale_stride = scale_a.stride(1) if blocks > 1 else (m + 3) // 4 * 4
        if extras.a_scale_stride % 4 or scale_a.data_ptr() % 16:  # Rows of whole 16 bytes.
            padded = torch.empty(blocks, (m + 3) // 4 * 4, dtype=torch.float32, device=scale_a.device)
            padded[:, :m] = scale_a.t()
            scale_a, extras.a_scale_stride = padded, padded.stride(0)
        if scale_b.data_ptr() % 8:
            scale_b = scale_b.t().clone(memory_format=torch.contiguous_format).t()
        extras.b_scale_stride = scale_b.stride(1) if n > _BLOCK_SIZE else blocks
    else:
        raise ValueError(
            f"scales of {tuple(scale_a.shape)} and {tuple(scale_b.shape)} for [{m}, {k}] times "
            f"[{k}, {n}]: give one value each, [{m}, 1] and [1, {n}], or [{m}, {blocks}] and "
            f"[{blocks}, {_blocks(n)}]")
    extras.kept = scale_a, scale_b = aligned(scale_a), aligned(scale_b)
    extras.a_scales, extras.b_scales = scale_a.data_ptr(), scale_b.data_ptr()
    return extras


def scaled_mm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
              bias: Optional[torch.Tensor] = None, scale_result: Optional[torch.Tensor] = None,
              out_dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False) -> torch.Tensor:
    """torch._scaled_mm on swr's kernels: a [m, k] with contiguous rows times b [k, n] with contiguous
    columns, both float8_e4m3fn or both float8_e5m2, times their scales: one value each; [m, 1] and
    [1, n]; or, of 128 elements of k and of 128 x 128 of b, [m, k / 128] and [k / 128, n / 128],
    contiguous along the first dimension. `bias` [n] has out_dtype. The result [m, n] has out_dtype,
    bfloat16 unless given: float16, bfloat16, float32, or float8_e4m3fn, which is multiplied by
    scale_result before it is rounded.

    use_fast_accum leaves sums to the tensor cores, which on sm_89 and sm_90 keep 13 bits; without it
    fp32 takes over every 128 or 256 elements of k. k is a multiple of 16. Forward only."""
    refuse_derivatives("swr.scaled_mm", a, b, scale_a, scale_b, bias, scale_result)
    run = scaled_product if skips_dispatcher(a, b) else _scaled_operator
    return run(a, b, scale_a, scale_b, bias, scale_result, out_dtype or torch.bfloat16, use_fast_accum)


def scaled_product(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None,
                   use_fast_accum=False, c=None):
    """scaled_mm, to `c` where that is given."""
    _require(a.dtype in _FP8 and b.dtype == a.dtype, "a and b must both be float8_e4m3fn or both "
             f"float8_e5m2, not {a.dtype} and {b.dtype}", TypeError)
    _require(a.dim() == 2 and b.dim() == 2 and a.shape[1] == b.shape[0],
             f"a [m, k] takes b [k, n], not {tuple(a.shape)} and {tuple(b.shape)}")
    _require(a.stride(1) == 1 and b.stride(0) == 1,
             "a must have contiguous rows and b contiguous columns, such as weight.t()")
    require_cuda(a=a, b=b, scale_a=scale_a, scale_b=scale_b, bias=bias, scale_result=scale_result, c=c)
    m, k = a.shape
    n = b.shape[1]
    out_dtype = out_dtype or torch.bfloat16
    is_fp8 = out_dtype == torch.float8_e4m3fn
    _require(is_fp8 or out_dtype in (torch.float16, torch.bfloat16, torch.float32),
             f"out_dtype must be float16, bfloat16, float32 or float8_e4m3fn, not {out_dtype}", TypeError)
    _require(is_fp8 == (scale_result is not None),
             "scale_result belongs to out_dtype float8_e4m3fn, which needs it")
    _require(not is_fp8 or (scale_result.numel() == 1 and scale_result.dtype == torch.float32),
             "scale_result must be one float32 value")
    _check_bias(bias, n, torch.bfloat16 if is_fp8 else out_dtype)
    extras = _scale_extras(scale_a, scale_b, m, n, k)
    extras.accuracy = max(extras.accuracy, int(not use_fast_accum))
    if is_fp8:
        scale_result = aligned(scale_result)
        extras.output_scaling, extras.c_scales = _TENSOR, scale_result.data_ptr()
    c = torch.empty(m, n, dtype=out_dtype, device=a.device) if c is None else c
    _require(c.shape == (m, n) and c.dtype == out_dtype and (n == 1 or c.stride(1) == 1),
             f"the result must be {out_dtype} of {(m, n)} with contiguous rows")
    return _launch(a, b.t(), c, n, extras, bias) if m and n else c


@torch.library.custom_op("swr::scaled_mm", mutates_args=(), device_types="cuda")
def _scaled_operator(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                     bias: Optional[torch.Tensor], scale_result: Optional[torch.Tensor],
                     out_dtype: torch.dtype, use_fast_accum: bool) -> torch.Tensor:
    return scaled_product(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)


@_scaled_operator.register_fake
def _(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    return torch.empty(a.shape[0], b.shape[1], dtype=out_dtype, device=a.device)


def _check_bias(bias, n, dtype):
    if bias is not None:
        _require(bias.dtype == dtype, f"bias must be {dtype}, not {bias.dtype}", TypeError)
        _require(tuple(bias.shape) == (n,) and bias.stride(0) == 1, f"bias must be [{n}], contiguous")


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None, *,
           activation: Optional[str] = None, gated: bool = False,
           residual: Optional[torch.Tensor] = None) -> torch.Tensor:
    """activation(x @ weight.T + bias) + residual in one kernel, for float16 and bfloat16 tensors:
    x [..., k], weight [n, k], bias [n], residual [..., n]. activation is None, "gelu" (with the error
    function, as torch's default), "gelu_tanh" or "silu".

    With `gated` weight is [2 n, k] and bias [2 n], of the gate and then of what it multiplies:
    activation(x @ weight[:n].T + bias[:n]) * (x @ weight[n:].T + bias[n:]) + residual. Forward only."""
    _require(x.dtype in (torch.float16, torch.bfloat16) and weight.dtype == x.dtype,
             f"x and weight must both be float16 or both bfloat16, not {x.dtype}, {weight.dtype}", TypeError)
    _require(activation in _ACTIVATIONS,
             f"activation must be None, 'gelu', 'gelu_tanh' or 'silu', not {activation!r}")
    _require(weight.dim() == 2 and x.dim() >= 1 and x.shape[-1] == weight.shape[1],
             f"x [..., k] takes weight [n, k], not {tuple(x.shape)} and {tuple(weight.shape)}")
    _require(not gated or weight.shape[0] % 2 == 0, "a gated weight has two halves of rows")
    _require(weight.stride(1) == 1 or weight.shape[1] == 1, "the rows of weight must be contiguous")
    refuse_derivatives("swr.linear", x, weight, bias, residual)
    run = _linear if skips_dispatcher(x, weight) else _linear_operator
    return run(x, weight, bias, residual, activation, gated)


def _linear(x, weight, bias, residual, activation, gated):
    require_cuda(x=x, weight=weight, bias=bias, residual=residual)
    n = weight.shape[0] // (2 if gated else 1)
    shape = (*x.shape[:-1], n)
    rows = x.reshape(math.prod(shape[:-1]), x.shape[-1])
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    _check_bias(bias, weight.shape[0], x.dtype)
    c = torch.empty(rows.shape[0], n, dtype=x.dtype, device=x.device)
    if residual is not None:
        _require(tuple(residual.shape) == shape and residual.dtype == x.dtype,
                 f"residual must be {x.dtype} of {shape}, not {residual.dtype} of {tuple(residual.shape)}")
        residual = residual.reshape(c.shape).contiguous()
    if c.numel():
        _launch(rows, weight, c, n, GemmExtras(), bias, residual, activation, gated)
    return c.view(shape)


@torch.library.custom_op("swr::linear", mutates_args=(), device_types="cuda")
def _linear_operator(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor],
                     residual: Optional[torch.Tensor], activation: Optional[str],
                     gated: bool) -> torch.Tensor:
    return _linear(x, weight, bias, residual, activation, gated)


@_linear_operator.register_fake
def _(x, weight, bias, residual, activation, gated):
    return torch.empty((*x.shape[:-1], weight.shape[0] // (1 + gated)), dtype=x.dtype, device=x.device)
