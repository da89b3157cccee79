# SPDX-License-Identifier: MIT
"""Microseconds that swr's Python layer takes the CPU per call, without a GPU: tensors of the CPU pass
for tensors of a device, and a function of the C library that does nothing for the launch. What a
driver and PyTorch's allocator for GPUs add is measured by python/tests/torch_checks.py.

    PYTHONPATH=python python bench/python_host_cost.py
"""

import ctypes
import time

import torch

from swr import _library, _matmul, _sdpa, _torch


def do_nothing(name):
    """abs(0), called with all the arguments of a launch."""
    function = ctypes.CDLL(None).abs
    function.argtypes = _library._LAUNCHES[name]
    setattr(_library.library, name, function)


def stub_the_gpu():
    _torch._handle = lambda: 0
    _torch._current_device = lambda: -1
    _torch._raw_stream = lambda index: 0
    _sdpa.require_cuda = _matmul.require_cuda = lambda **tensors: None
    do_nothing("swr_runtime_attention_at")
    do_nothing("swr_runtime_gemm_at")


def host_us(call, calls=64, rounds=500):
    """Median over rounds."""
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - start) / calls * 1e6)
    return sorted(samples)[rounds // 2]


def main():
    stub_the_gpu()
    q, k, v = (torch.randn(1, 1, 64, 64).half() for _ in range(3))
    a, b = (torch.randn(64, 64).half() for _ in range(2))
    with torch.no_grad():
        for name, call in (("torch.empty_like", lambda: torch.empty_like(q)),
                           ("sdpa", lambda: _sdpa.sdpa(q, k, v)),
                           ("sdpa with lse", lambda: _sdpa.sdpa(q, k, v, return_lse=True)),
                           ("matmul", lambda: _matmul.matmul(a, b))):
            print(f"{name}: {host_us(call):.2f} us")


if __name__ == "__main__":
    main()
