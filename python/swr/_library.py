# SPDX-License-Identifier: MIT
"""libswr.so through ctypes: its structures and functions, as the headers of the C interface declare
them, and its errors."""

import ctypes
import os
import pathlib
from typing import Optional, Union

from ._declarations import declared

API_VERSION = declared.enumerators["SWR_API_VERSION"]
_STATUSES = declared.enumerations["swr_status"]
STATUS_NAMES = {value: name.removeprefix("SWR_").lower() for name, value in _STATUSES.items()}


class Error(RuntimeError):
    """What swr refuses or cannot do. `code` names the kind, the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple:
        # Of a worker's error that cannot be unpickled a pool never hears.
        return type(self), (self.code, str(self))


def _int32s(structure: type[ctypes.Structure], *values: int) -> tuple[int, ...]:
    """The values of the structure's fields; ctypes would cut off what they do not hold."""
    for (name, _), value in zip(structure._fields_, values):
        if not -2**31 <= value < 2**31:
            raise Error("invalid_argument",
                        f"{name} is {value}, more than 32 bits hold; swr takes no such size")
    return values


_INPUTS = ("fp16", "bf16")
_OUTPUTS = ("fp16", "bf16", "fp32")
_LAYOUTS = ("nt", "nn", "tn")


def _number(name: str, value: str, values: tuple[str, ...]) -> int:
    """The place of a value among those there are. Raises Error."""
    if value not in values:
        raise Error("invalid_argument", f"{name} must be one of {', '.join(values)}, not {value!r}")
    return values.index(value)


def _text(structure: ctypes.Structure) -> str:
    """"Device(name='NVIDIA H200', sm_arch=90, ...)": every field by its name."""
    def value(name: str) -> str:
        found = getattr(structure, name)
        return repr(found.decode(errors="replace") if isinstance(found, bytes) else found)
    fields = ", ".join(f"{name}={value(name)}" for name, *_ in structure._fields_)
    return f"{type(structure).__name__}({fields})"


class Problem(declared.structures["swr_problem"]):
    """One attention forward pass. The constructor's names and defaults are the command line's: dtype is
    "fp16" or "bf16", as a field the number 0 or 1."""

    def __init__(self, seq: int, seq_kv: Optional[int] = None, batch: int = 1, heads: int = 1,
                 kv_heads: Optional[int] = None, head_dim: int = 64, dtype: str = "fp16",
                 causal: bool = False, alignment: int = 16) -> None:
        super().__init__(*_int32s(Problem, batch, heads, kv_heads or heads, seq, seq_kv or seq,
                                  head_dim, _number("dtype", dtype, _INPUTS), int(causal), alignment))

    def __repr__(self) -> str:
        return _text(self)


class GemmProblem(declared.structures["swr_gemm_problem"]):
    """C = alpha A B + beta C; `layout` is 0 for nt (A [m, k], B [n, k]), 1 for nn and 2 for tn, the
    types are 0 for fp16, 1 for bf16 and, of C alone, 2 for fp32."""

    def __init__(self, m: int, n: int, k: int, batch: int = 1, dtype: str = "fp16",
                 output: Optional[str] = None, layout: str = "nt", reads_c: bool = False,
                 alignment: int = 16) -> None:
        super().__init__(*_int32s(GemmProblem, m, n, k, batch, _number("dtype", dtype, _INPUTS),
                                  _number("output", output or dtype, _OUTPUTS),
                                  _number("layout", layout, _LAYOUTS), int(reads_c), alignment))

    def __repr__(self) -> str:
        return _text(self)


class Device(declared.structures["swr_device"]):
    """What a GPU is to swr; present_device() and profiled_device() make it."""

    def __repr__(self) -> str:
        return _text(self)


class AttentionBackward(declared.structures["swr_attention_backward"]):
    """swr_attention_backward (swr/swr_backward_c.h); the constructor takes what follows the size."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


RawAnswer = declared.structures["swr_answer"]
RawGemmAnswer = declared.structures["swr_gemm_answer"]
RuntimeOptions = declared.structures["swr_runtime_options"]
Strides = declared.structures["swr_strides"]
Attention = declared.structures["swr_attention"]
KvAppend = declared.structures["swr_kv_append"]
ServingAttention = declared.structures["swr_serving_attention"]
States = declared.structures["swr_states"]
MatrixStrides = declared.structures["swr_matrix_strides"]
Gemm = declared.structures["swr_gemm"]
GemmExtras = declared.structures["swr_gemm_extras"]
GroupedGemm = declared.structures["swr_grouped_gemm"]
RawKernelArgument = declared.structures["swr_kernel_argument"]
RawKernelAnswer = declared.structures["swr_kernel_answer"]

# Called per launch, with the address of a description and of each tensor; the caller looks at the
# status, which costs less than a call back from ctypes.
_LAUNCHES = {"swr_runtime_attention_at", "swr_runtime_attention_backward", "swr_runtime_prepare_backward",
             "swr_runtime_gemm_at", "swr_runtime_fused_gemm", "swr_runtime_grouped_gemm_at",
             "swr_runtime_serving_attention", "swr_runtime_prepare_serving", "swr_merge_states",
             "swr_runtime_launch_kernel"}


def _candidates():
    """SWR_LIBRARY, then beside this package, then the loader's path."""
    named = os.environ.get("SWR_LIBRARY")
    if named:
        return [named]
    return [str(pathlib.Path(__file__).with_name("libswr.so.1")), "libswr.so.1"]


def _open():
    failures = []
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(str(error))
    raise Error("not_found", "libswr.so cannot be loaded (" + "; ".join(failures) +
                "); build and install swr, or name the library in SWR_LIBRARY")


class _Library:
    """The library, opened on first use; its functions raise Error."""

    def __init__(self):
        self._library = None

    def __getattr__(self, name):
        if self._library is None:
            self._library = self._checked(_open())
        function = getattr(self._library, name)
        is_launch = name in _LAUNCHES
        if declared.declare(function, name, takes_addresses=is_launch) and not is_launch:
            function.errcheck = self._check
        setattr(self, name, function)
        return function

    @staticmethod
    def _checked(library):
        declared.declare(library.swr_last_error, "swr_last_error", takes_addresses=False)
        version = library.swr_api_version()
        if version != API_VERSION:
            raise Error("invalid_argument", f"libswr.so speaks version {version} of its interface "
                        f"and this package version {API_VERSION}; install both from one release")
        return library

    def _check(self, status, function, arguments):
        if status != 0:
            raise self.error(status)
        return status

    def error(self, status):
        """What the last call of this thread, which ended with `status`, has to say."""
        return Error(STATUS_NAMES.get(status, str(status)),
                     self._library.swr_last_error().decode(errors="replace"))


library = _Library()


def encoded(path: Union[str, "os.PathLike[str]", None]) -> Optional[bytes]:
    """A path for C; None stays None."""
    return None if path is None else os.fsencode(path)
