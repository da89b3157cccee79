# SPDX-License-Identifier: MIT
"""Tuned kernels: ask a database, tune, and run attention and GEMM on PyTorch tensors.

    import swr
    o = swr.sdpa(q, k, v, causal=True)
    y = swr.matmul(x, weight.T)
    y = swr.grouped_mm(x, expert_weights.mT, offsets)
    o = swr.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=lengths, page_table=table)
    blur = swr.kernel("blur.cu", ...)  # a kernel of yours: docs/kernels.md

`Lookup` and `tune` need neither PyTorch nor, for another GPU than this machine's, a driver.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._library import Device, Error, GemmProblem, Problem
from ._kernel import Argument, Kernel, array, kernel, scalar, size, texture
from ._query import Answer, Lookup, present_device, profiled_device
from ._tune import tune, tune_gemm
from ._version import __version__

if TYPE_CHECKING:
    from ._flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
    from ._fused import linear, scaled_mm
    from ._grouped import grouped_mm, scaled_grouped_mm
    from ._matmul import matmul
    from ._paged import PagedPlan, merge_states, plan_paged, run_paged
    from ._sdpa import sdpa
    from ._serving import Workspace
    from ._torch import autotune, configure, results_digest

__all__ = [
    "Answer", "Argument", "Device", "Error", "GemmProblem", "Kernel", "Lookup", "PagedPlan", "Problem", "Workspace",
    "__version__", "array", "kernel", "scalar", "size", "texture",
    "autotune", "configure", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
    "grouped_mm", "matmul", "linear", "merge_states", "plan_paged", "present_device", "profiled_device",
    "results_digest", "run_paged", "scaled_grouped_mm", "scaled_mm", "sdpa", "tune", "tune_gemm",
]

# Which module has what needs PyTorch.
_OF_TORCH = {
    "autotune": "_torch", "configure": "_torch", "results_digest": "_torch", "sdpa": "_sdpa",
    "matmul": "_matmul", "linear": "_fused",
    "grouped_mm": "_grouped", "scaled_grouped_mm": "_grouped", "scaled_mm": "_fused", "flash_attn_func": "_flash",
    "flash_attn_varlen_func": "_flash", "flash_attn_with_kvcache": "_flash", "PagedPlan": "_paged",
    "merge_states": "_paged", "plan_paged": "_paged", "run_paged": "_paged", "Workspace": "_serving"}


def __getattr__(name: str) -> Any:
    # PyTorch is imported by those who use it. What was found stays: looking it up again on every
    # call costs 1 us.
    if name not in _OF_TORCH:
        raise AttributeError(f"module 'swr' has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(f".{_OF_TORCH[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"swr.{name} works on PyTorch's tensors: install PyTorch") from error
    globals()[name] = found
    return found
