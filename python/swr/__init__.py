# SPDX-License-Identifier: MIT
"""Tuned attention kernels: ask a database, tune, and run attention on PyTorch tensors.

    from swr import sdpa
    o = sdpa(q, k, v, causal=True)

`query` and `tune` need neither PyTorch nor, for another GPU than this machine's, a driver.
"""

from ._library import Error, Problem
from ._query import Answer, Lookup, present_device, profiled_device
from ._tune import tune

__all__ = [
    "Answer", "Error", "Lookup", "Problem", "configure", "present_device", "profiled_device",
    "sdpa", "tune",
]


def __getattr__(name):
    # PyTorch is imported by those who use it.
    if name in ("sdpa", "configure"):
        from . import _torch
        return getattr(_torch, name)
    raise AttributeError(f"module 'swr' has no attribute {name!r}")
