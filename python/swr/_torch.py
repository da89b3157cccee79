# SPDX-License-Identifier: MIT
"""What the operators on PyTorch CUDA tensors share: where kernels come from, what was worked out for
calls of one kind, and the launch."""

import contextlib
import ctypes
import hashlib
import os
import pathlib
import threading
import warnings
from typing import Iterator, Optional, Sequence, Union

import torch

from . import _program
from ._background import BackgroundTuning, missed_file
from ._library import Error, RuntimeOptions, encoded, library
from ._tune import tune_missed

DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}

_lock = threading.Lock()
_runtime = None
_background = None
_refreshes = 0
_results = ()  # Where kernels are chosen by: a database, an exported directory.
_settings = {}  # Of the last configure().

# What PyTorch's compiler calls too; the public functions, which make a Stream object, take 1 us.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream",
                      lambda index: torch.cuda.current_stream(index).cuda_stream)
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
# Those of torch.func.
are_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


def _default_database():
    """Where swr-tune stores results."""
    named = os.environ.get("SWR_DB")
    data = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share"
    return pathlib.Path(named) if named else pathlib.Path(data) / "swr" / "tuned.db"


def _default_cache():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("SWR_CACHE_DIR") or pathlib.Path(cache) / "swr")


def configure(*, database: Union[str, "os.PathLike[str]", None] = None,
              exported: Union[str, "os.PathLike[str]", None] = None,
              cache_dir: Union[str, "os.PathLike[str]", None] = None, may_compile: bool = True,
              nvrtc: Union[str, "os.PathLike[str]", None] = None, l2: str = "warm",
              tune: Optional[str] = None, tune_seconds: float = 60.0) -> None:
    """Says where sdpa and matmul find kernels from now on. Without a call they use swr-tune's
    database and cache. `exported` is a directory that `swr-tune export` wrote; with
    may_compile=False nothing is ever compiled while serving: kernels come from there, the cache and
    the package swr-kernels. l2="cold" serves what was tuned with
    --l2 cold.

    tune="note" notes the questions that no measurement answered exactly, for `swr-tune tune
    --missed`; tune="background" also tunes them, in a child of low priority that works tune_seconds
    at a time on the GPU that serves, and then serves what it found. Both take swr-tune's database
    where none is named, and one that is not there yet is made."""
    settings = {"database": database, "exported": exported, "cache_dir": cache_dir, "may_compile": may_compile,
                "nvrtc": nvrtc, "l2": l2, "tune": tune, "tune_seconds": tune_seconds}
    if tune not in (None, "note", "background"):
        raise Error("invalid_argument", f'tune must be None, "note" or "background", not {tune!r}')
    beside = _default_database() if database is None else pathlib.Path(database)
    if tune is not None:
        beside.parent.mkdir(parents=True, exist_ok=True)
        database = beside if beside.exists() else None
    options = RuntimeOptions(encoded(database), encoded(exported),
                             encoded(cache_dir or _default_cache()),
                             encoded(nvrtc or _program.nvrtc()),
                             int(may_compile), encoded(l2))
    handle = ctypes.c_void_p()
    library.swr_runtime_create(options, handle)
    _use_kernels(handle)

    def swap():
        if database is not None:
            library.swr_runtime_refresh(handle, None)
            _count_refresh()
        else:  # The first results have made the file.
            configure(**settings | {"database": beside})

    if tune is not None:
        library.swr_runtime_note_missed(handle, encoded(missed_file(beside)))
    background = None
    if tune == "background":
        background = BackgroundTuning(beside, swap, seconds=tune_seconds, arguments=("--l2", l2))
    global _runtime, _background, _results, _settings
    _settings = settings
    _results = tuple(pathlib.Path(path) for path in (database, exported) if path is not None)
    # A former runtime is kept: its kernels may be running, or be part of a captured graph.
    _runtime = handle
    _count_refresh()
    former, _background = _background, background
    if former is not None:
        former.stop()


def _use_kernels(handle):
    """Those of the package swr-kernels. What is installed and damaged keeps nobody from serving."""
    archive = _program.kernels()
    if archive is None:
        return
    try:
        library.swr_runtime_use_kernels(handle, encoded(archive))
    except Error as error:
        warnings.warn(f"{error}; until then kernels are compiled", stacklevel=4)


@contextlib.contextmanager
def autotune(seconds: float = 60.0, *, progress: Optional[bool] = None, arguments: Sequence[str] = (),
             program: Optional[str] = None) -> Iterator[None]:
    """Runs what stands inside, say a forward pass, and then tunes on the GPU the problems that it asked for and
    no measurement answered, for `seconds` at most, the most frequent first. From then on they are served with
    what was found, in this process and in others that use the database. `progress`, `arguments` and `program`
    are those of tune(). Not for several threads at once."""
    _handle()
    settings = dict(_settings)
    configure(**settings | {"tune": "note"})
    try:
        yield
    except BaseException:
        configure(**settings)
        raise
    database = pathlib.Path(settings["database"] or _default_database())
    try:
        tune_missed(database, ["--within", str(seconds), "--l2", settings["l2"], *arguments], progress, program)
    finally:
        configure(**settings | {"database": database if database.exists() else settings["database"]})


def _count_refresh():
    global _refreshes
    _refreshes += 1


def refreshes():
    """How often kernels may have been chosen anew: what is known of the choice before is stale."""
    return _refreshes


def _handle():
    if _runtime is None:
        with _lock:
            if _runtime is None:
                database = _default_database()
                configure(database=database if database.exists() else None)
    return _runtime


def results_digest() -> str:
    """A digest of the stored results by which kernels are chosen from now on. Processes on GPUs of one
    kind that have the same one, and do not tune, choose alike."""
    _handle()
    digest = hashlib.sha256()
    for path in _results:
        files = path.rglob("*") if path.is_dir() else (path, path.with_name(path.name + "-wal"))
        for file in sorted(files):
            if file.is_file():
                digest.update(file.read_bytes())
    return digest.hexdigest()


def call(function, index, *arguments):
    """Calls function(runtime, *arguments) while the index-th GPU is the current one. Raises Error."""
    with torch.cuda.device(index):
        status = function(_handle(), *arguments)
    if status != 0:
        raise library.error(status)


def launch(function, index, *arguments):
    """Calls function(runtime, *arguments, stream) on the current stream of the index-th GPU. Raises
    Error."""
    if index == _current_device():
        status = function(_handle(), *arguments, _raw_stream(index))
    else:
        with torch.cuda.device(index):
            status = function(_handle(), *arguments, _raw_stream(index))
    if status != 0:
        raise library.error(status)


class Plans:
    """What calls of one kind have in common, made once for each key. A key must hold all that a plan
    depends on, so that a plan that is found needs no checks. Plans are immutable: threads share
    them."""

    # Differing lengths must not grow the table without end.
    _MOST = 1 << 16

    def __init__(self):
        self._plans = {}
        self.find = self._plans.get

    def remember(self, key, plan):
        if len(self._plans) >= self._MOST:
            self._plans.clear()
        self._plans[key] = plan
        return plan


def require_cuda(**tensors):
    """Raises ValueError unless all, but for those that are None, are on one CUDA device."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    names = ", ".join(given)
    device = next(iter(given.values())).device
    for name, tensor in given.items():
        if tensor.device != device or tensor.device.type != "cuda":
            raise ValueError(f"{names} must be on one CUDA device; {name} is on {tensor.device}")


def skips_dispatcher(*tensors):
    """True for plain tensors outside of tracing, of torch.func and of modes that see operators: the
    dispatcher costs more than the launch."""
    if torch.compiler.is_compiling() or are_transforms_active() or _count_modes():
        return False
    for tensor in tensors:
        if type(tensor) is not torch.Tensor:
            return False
    return True


def needs_gradient(*tensors):
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def refuse_tangents(name, *tensors):
    """Raises Error for a tangent, which would be dropped."""
    forward_ad = torch.autograd.forward_ad
    if forward_ad._current_level < 0 or torch.compiler.is_compiling():
        return
    for tensor in tensors:
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise Error("invalid_argument", f"{name} has no forward-mode derivative; pass tensors without "
                        "a tangent")


def refuse_derivatives(name, *tensors):
    """Raises Error where a derivative is asked for that nobody computes; tensors may be None."""
    if needs_gradient(*tensors):
        raise Error("invalid_argument", f"{name} has no backward pass; call it under torch.no_grad(), or pass "
                    "tensors that need no gradient")
    refuse_tangents(name, *tensors)


def aligned(vector):
    """The vector itself where it lies at a multiple of 8 bytes, as kernels read scales and a bias, else a
    copy."""
    return vector if vector is None or vector.data_ptr() % 8 == 0 else vector.clone()
