# SPDX-License-Identifier: MIT
"""DeepGEMM's products of FP8 and its grouped ones by their signatures, for programs that call them:

    from swr import deep_gemm
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a, scale_a), (b, scale_b), d, m_indices)

All write d, and return nothing. A [rows, k] has scales [rows, k / 128] of float32, and b [n, k] those
of 128 x 128, [n / 128, k / 128]; masked a, and b of groups, have a dimension more in front. Scales of a
whose rows are contiguous, and lie at multiples of 16 bytes, are read where they are, others copied.
"""

from typing import Optional

import torch

from ._fused import scaled_product
from ._grouped import CONTIGUOUS, MASKED, run
from ._torch import skips_dispatcher


def fp8_gemm_nt(a, b, d, c=None, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False):
    """d [m, n]. a and b are pairs of a matrix and its scales."""
    _refuse(c is not None, "c; add it to d")
    (a, scale_a), (b, scale_b) = a, b
    (_fp8 if skips_dispatcher(a, b, d) else _fp8_operator)(a, b, scale_a, scale_b, d)


def m_grouped_fp8_gemm_nt_contiguous(a, b, d, m_indices, recipe=None, compiled_dims="nk",
                                     disable_ue8m0_cast=False, use_psum_layout=False):
    """m_grouped_bf16_gemm_nt_contiguous of FP8; a and b are pairs of matrices and their scales."""
    _refuse(use_psum_layout, "use_psum_layout; pass m_indices of every row")
    _grouped(CONTIGUOUS, a[0], b[0], d, m_indices, 0, a[1], b[1])


def m_grouped_fp8_gemm_nt_masked(a, b, d, masked_m, expected_m, recipe=None, compiled_dims="nk",
                                 disable_ue8m0_cast=False):
    """m_grouped_bf16_gemm_nt_masked of FP8; a and b are pairs of matrices and their scales."""
    _grouped(MASKED, a[0], b[0], d, masked_m, int(expected_m), a[1], b[1])


def m_grouped_bf16_gemm_nt_contiguous(a, b, d, m_indices, compiled_dims="nk"):
    """a [rows, k], d [rows, n]. m_indices [rows] of int32 on the device: the group of each row, whole
    runs of 128 rows per group, -1 for padding. Padding in the last tile of a group may be written."""
    _grouped(CONTIGUOUS, a, b, d, m_indices)


def m_grouped_bf16_gemm_nt_masked(a, b, d, masked_m, expected_m, compiled_dims="nk"):
    """a [groups, rows, k], d [groups, rows, n]. masked_m [groups] of int32 on the device: how many
    rows each group has; expected_m: about how many, on average."""
    _grouped(MASKED, a, b, d, masked_m, int(expected_m))


def _refuse(is_given, what):
    if is_given:
        raise ValueError(f"swr.deep_gemm does not take {what}")


def _fp8(a, b, scale_a, scale_b, d):
    scaled_product(a, b.t(), _with_rows_along_memory(scale_a), scale_b.contiguous().t(),
                   out_dtype=d.dtype, c=d)


@torch.library.custom_op("swr::deep_gemm_fp8", mutates_args=("d",), device_types="cuda")
def _fp8_operator(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                  d: torch.Tensor) -> None:
    _fp8(a, b, scale_a, scale_b, d)


def _grouped(form, a, b, d, numbers, expected_rows=0, scale_a=None, scale_b=None):
    write = _write_groups if skips_dispatcher(a, b, d) else _grouped_operator
    write(form, a, b, d, numbers, expected_rows, scale_a, scale_b)


def _write_groups(form, a, b, d, numbers, expected_rows, scale_a, scale_b):
    scales = () if scale_a is None else (_with_rows_along_memory(scale_a), scale_b.contiguous())
    run(form, a, b.mT, d, numbers, expected_rows, scales=scales, fast=not scales)


@torch.library.custom_op("swr::deep_gemm_grouped", mutates_args=("d",), device_types="cuda")
def _grouped_operator(form: int, a: torch.Tensor, b: torch.Tensor, d: torch.Tensor,
                      numbers: torch.Tensor, expected_rows: int, scale_a: Optional[torch.Tensor],
                      scale_b: Optional[torch.Tensor]) -> None:
    _write_groups(form, a, b, d, numbers, expected_rows, scale_a, scale_b)


for _operator in (_fp8_operator, _grouped_operator):
    _operator.register_fake(lambda *arguments: None)


def _with_rows_along_memory(scale):
    """Scales [..., rows, k / 128] as kernels read them."""
    rows, blocks = scale.shape[-2:]
    pitch = scale.stride(-1)
    if ((scale.stride(-2) == 1 or rows == 1) and pitch >= rows and pitch % 4 == 0
            and scale.data_ptr() % 16 == 0 and (scale.dim() == 2 or scale.stride(0) == blocks * pitch)):
        return scale
    return torch.nn.functional.pad(scale.mT, (0, -rows % 4)).contiguous().mT[..., :rows, :]
