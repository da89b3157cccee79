# SPDX-License-Identifier: MIT
"""Tuned kernels: ask a database, tune, and run attention and GEMM on PyTorch tensors.

    import swr
    o = swr.sdpa(q, k, v, causal=True)
    y = swr.matmul(x, weight.T)

`query` and `tune` need neither PyTorch nor, for another GPU than this machine's, a driver.
"""

from typing import TYPE_CHECKING, Any

from ._library import Device, Error, GemmProblem, Problem
from ._query import Answer, Lookup, present_device, profiled_device
from ._tune import tune
from ._version import __version__

if TYPE_CHECKING:
    from ._matmul import matmul
    from ._sdpa import sdpa
    from ._torch import configure

__all__ = [
    "Answer", "Device", "Error", "GemmProblem", "Lookup", "Problem", "__version__", "configure",
    "matmul", "present_device", "profiled_device", "sdpa", "tune",
]


def __getattr__(name: str) -> Any:
    # PyTorch is imported by those who use it. What was found stays: looking it up again on every
    # call costs 1 us.
    if name == "configure":
        from ._torch import configure as found
    elif name == "sdpa":
        from ._sdpa import sdpa as found
    elif name == "matmul":
        from ._matmul import matmul as found
    else:
        raise AttributeError(f"module 'swr' has no attribute {name!r}")
    globals()[name] = found
    return found
