# SPDX-License-Identifier: MIT
"""DeepGEMM's grouped bf16 products by their signatures, for programs that call them:

    from swr import deep_gemm
    deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, d, m_indices)

All write d, and return nothing. b is [groups, n, k].
"""

from ._grouped import CONTIGUOUS, MASKED, run


def m_grouped_bf16_gemm_nt_contiguous(a, b, d, m_indices, compiled_dims="nk"):
    """a [rows, k], d [rows, n]. m_indices [rows] of int32 on the device: the group of each row, whole
    runs of 128 rows per group, -1 for padding. Padding in the last tile of a group may be written."""
    run(CONTIGUOUS, a, b.mT, d, m_indices)


def m_grouped_bf16_gemm_nt_masked(a, b, d, masked_m, expected_m, compiled_dims="nk"):
    """a [groups, rows, k], d [groups, rows, n]. masked_m [groups] of int32 on the device: how many
    rows each group has; expected_m: about how many, on average."""
    run(MASKED, a, b.mT, d, masked_m, expected_rows=int(expected_m))
