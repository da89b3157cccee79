# SPDX-License-Identifier: MIT
"""DeepGEMM's products of FP8 and its grouped ones by their signatures, for programs that call them:

    from swr import deep_gemm
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a, scale_a), (b, scale_b), d, m_indices)

All write d, and return nothing. A [rows, k] has scales [rows, k / 128] of float32, and b [n, k] those
of 128 x 128, [n / 128, k / 128]; masked a, and b of groups, have a dimension more in front. Scales of a
whose rows are contiguous, and lie at multiples of 16 bytes, are read where they are, others copied.
"""

import torch

from ._fused import scaled_product
from ._grouped import CONTIGUOUS, MASKED, run


def fp8_gemm_nt(a, b, d, c=None, recipe=None, compiled_dims="nk", disable_ue8m0_cast=False):
    """d [m, n]. a and b are pairs of a matrix and its scales."""
    _refuse(c is not None, "c; add it to d")
    (a, scale_a), (b, scale_b) = a, b
    scaled_product(a, b.t(), _with_rows_along_memory(scale_a), scale_b.contiguous().t(),
                   out_dtype=d.dtype, c=d)


def m_grouped_fp8_gemm_nt_contiguous(a, b, d, m_indices, recipe=None, compiled_dims="nk",
                                     disable_ue8m0_cast=False, use_psum_layout=False):
    """m_grouped_bf16_gemm_nt_contiguous of FP8; a and b are pairs of matrices and their scales."""
    _refuse(use_psum_layout, "use_psum_layout; pass m_indices of every row")
    _grouped_fp8(CONTIGUOUS, a, b, d, m_indices)


def m_grouped_fp8_gemm_nt_masked(a, b, d, masked_m, expected_m, recipe=None, compiled_dims="nk",
                                 disable_ue8m0_cast=False):
    """m_grouped_bf16_gemm_nt_masked of FP8; a and b are pairs of matrices and their scales."""
    _grouped_fp8(MASKED, a, b, d, masked_m, int(expected_m))


def m_grouped_bf16_gemm_nt_contiguous(a, b, d, m_indices, compiled_dims="nk"):
    """a [rows, k], d [rows, n]. m_indices [rows] of int32 on the device: the group of each row, whole
    runs of 128 rows per group, -1 for padding. Padding in the last tile of a group may be written."""
    run(CONTIGUOUS, a, b.mT, d, m_indices)


def m_grouped_bf16_gemm_nt_masked(a, b, d, masked_m, expected_m, compiled_dims="nk"):
    """a [groups, rows, k], d [groups, rows, n]. masked_m [groups] of int32 on the device: how many
    rows each group has; expected_m: about how many, on average."""
    run(MASKED, a, b.mT, d, masked_m, expected_rows=int(expected_m))


def _refuse(is_given, what):
    if is_given:
        raise ValueError(f"swr.deep_gemm does not take {what}")


def _grouped_fp8(form, a, b, d, numbers, expected_rows=0):
    (a, scale_a), (b, scale_b) = a, b
    run(form, a, b.mT, d, numbers, expected_rows,
        scales=(_with_rows_along_memory(scale_a), scale_b.contiguous()), fast=False)


def _with_rows_along_memory(scale):
    """Scales [..., rows, k / 128] as kernels read them."""
    rows, blocks = scale.shape[-2:]
    pitch = scale.stride(-1)
    if ((scale.stride(-2) == 1 or rows == 1) and pitch >= rows and pitch % 4 == 0
            and scale.data_ptr() % 16 == 0 and (scale.dim() == 2 or scale.stride(0) == blocks * pitch)):
        return scale
    return torch.nn.functional.pad(scale.mT, (0, -rows % 4)).contiguous().mT[..., :rows, :]
