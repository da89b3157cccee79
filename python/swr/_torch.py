# SPDX-License-Identifier: MIT
"""sdpa: attention on PyTorch CUDA tensors with the best stored kernels, as a custom operator."""

import ctypes
import math
import os
import pathlib
import threading

import torch

from ._library import Attention, Error, RuntimeOptions, Strides, encoded, library

_DTYPES = {torch.float16: 0, torch.bfloat16: 1}

_lock = threading.Lock()
_runtime = None


def _default_database():
    """Where swr-tune stores results, if there are any."""
    named = os.environ.get("SWR_DB")
    data = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share"
    path = pathlib.Path(named) if named else pathlib.Path(data) / "swr" / "tuned.db"
    return path if path.exists() else None


def _default_cache():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("SWR_CACHE_DIR") or pathlib.Path(cache) / "swr")


def configure(*, database=None, exported=None, cache_dir=None, may_compile=True, nvrtc=None):
    """Says where sdpa finds kernels from now on. Without a call it uses swr-tune's database and
    cache. `exported` is a directory that `swr-tune export` wrote; with may_compile=False nothing is
    ever compiled while serving."""
    options = RuntimeOptions(encoded(database), encoded(exported),
                             encoded(cache_dir or _default_cache()),
                             encoded(nvrtc or os.environ.get("SWR_NVRTC")),
                             int(may_compile))
    handle = ctypes.c_void_p()
    library.swr_runtime_create(options, handle)
    global _runtime
    # A former runtime is kept: its kernels may be running, or be part of a captured graph.
    _runtime = handle


def _handle():
    if _runtime is None:
        with _lock:
            if _runtime is None:
                configure(database=_default_database())
    return _runtime


def _check(q, k, v, scale):
    """Raises ValueError or TypeError for what no kernel serves."""
    if q.dtype not in _DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise TypeError("q, k and v must all be float16 or all bfloat16, not "
                        f"{q.dtype}, {k.dtype}, {v.dtype}")
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ValueError("q, k and v must be [batch, heads, length, head_dim]")
    if (k.shape != v.shape or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]
            or q.shape[1] % max(k.shape[1], 1) != 0):
        raise ValueError("k and v must have one shape, q's batch and head_dim, and a divisor of its "
                         f"heads: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.device != q.device or tensor.device.type != "cuda":
            raise ValueError(f"q, k and v must be on one CUDA device; {name} is on {tensor.device}")
        if tensor.stride(3) != 1:
            raise ValueError(f"the innermost dimension of {name} must be contiguous; pass "
                             f"{name}.contiguous()")
    if not scale > 0 or math.isinf(scale):
        raise ValueError(f"scale must be positive, not {scale}")


def _output_like(q):
    """O in the memory order of Q where that keeps head_dim contiguous."""
    o = torch.empty_like(q)
    return o if o.stride(3) == 1 else torch.empty(q.shape, dtype=q.dtype, device=q.device)


def _strides(tensor):
    return Strides(tensor.stride(0), tensor.stride(1), tensor.stride(2))


def _launch(q, k, v, causal, scale):
    o = _output_like(q)
    if q.numel() == 0:
        return o
    attention = Attention(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), None, _strides(q), _strides(k),
        _strides(v), _strides(o), q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2],
        q.shape[3], _DTYPES[q.dtype], int(causal), scale)
    stream = torch.cuda.current_stream(q.device).cuda_stream
    if q.device.index == torch.cuda.current_device():
        library.swr_runtime_attention(_handle(), attention, stream)
    else:
        with torch.cuda.device(q.device):
            library.swr_runtime_attention(_handle(), attention, stream)
    return o


@torch.library.custom_op("swr::sdpa", mutates_args=(), device_types="cuda")
def _operator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
              scale: float) -> torch.Tensor:
    return _launch(q, k, v, causal, scale)


@_operator.register_fake
def _(q, k, v, causal, scale):
    return _output_like(q)


def sdpa(q, k, v, *, causal=False, scale=None):
    """softmax(scale * Q K^T + mask) V for CUDA tensors [batch, heads, length, head_dim] of float16 or
    bfloat16 with any strides but a contiguous head_dim, on the current stream and without copies.

    K and V may have fewer heads than Q (a divisor). The causal mask is aligned to the bottom right;
    a row that sees no key gives zeros. `scale` is 1 / sqrt(head_dim) unless given. Forward only.
    """
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    _check(q, k, v, scale)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise Error("invalid_argument", "swr.sdpa has no backward pass; call it under "
                    "torch.no_grad(), or pass tensors that need no gradient")
    # Plain tensors outside of tracing skip the dispatcher, which costs more than the launch.
    if not torch.compiler.is_compiling() and type(q) is torch.Tensor:
        return _launch(q, k, v, causal, scale)
    return _operator(q, k, v, causal, scale)
