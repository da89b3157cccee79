# SPDX-License-Identifier: MIT
"""libswr.so through ctypes: its structures, its functions and its errors (swr/swr_c.h,
swr/swr_serving_c.h and swr/swr_kernel_c.h)."""

import ctypes
import os
import pathlib
from ctypes import (POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64,
                    c_void_p)
from typing import Optional, Union

API_VERSION = 1

STATUS_NAMES = {
    1: "invalid_argument", 2: "not_found", 3: "unreadable", 4: "not_writable", 5: "no_nvrtc",
    6: "no_driver", 7: "no_counters", 8: "compile_failed", 9: "driver_failed",
    10: "database_locked", 11: "schema_too_new", 12: "nothing_stored", 13: "not_compiled",
    99: "internal",
}


class Error(RuntimeError):
    """What swr refuses or cannot do. `code` names the kind, the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


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


class Problem(ctypes.Structure):
    """One attention forward pass. The constructor's names and defaults are the command line's: dtype is
    "fp16" or "bf16", as a field the number 0 or 1."""

    _fields_ = [(name, c_int32) for name in (
        "batch", "heads_q", "heads_kv", "seq_q", "seq_kv", "head_dim", "dtype", "causal",
        "alignment_bytes")]

    def __init__(self, seq: int, seq_kv: Optional[int] = None, batch: int = 1, heads: int = 1,
                 kv_heads: Optional[int] = None, head_dim: int = 64, dtype: str = "fp16",
                 causal: bool = False, alignment: int = 16) -> None:
        super().__init__(*_int32s(Problem, batch, heads, kv_heads or heads, seq, seq_kv or seq,
                                  head_dim, _number("dtype", dtype, _INPUTS), int(causal), alignment))

    def __repr__(self) -> str:
        return _text(self)


class GemmProblem(ctypes.Structure):
    """C = alpha A B + beta C; `layout` is 0 for nt (A [m, k], B [n, k]), 1 for nn and 2 for tn, the
    types are 0 for fp16, 1 for bf16 and, of C alone, 2 for fp32."""

    _fields_ = [(name, c_int32) for name in (
        "m", "n", "k", "batch", "dtype", "output", "layout", "reads_c", "alignment_bytes")]

    def __init__(self, m: int, n: int, k: int, batch: int = 1, dtype: str = "fp16",
                 output: Optional[str] = None, layout: str = "nt", reads_c: bool = False,
                 alignment: int = 16) -> None:
        super().__init__(*_int32s(GemmProblem, m, n, k, batch, _number("dtype", dtype, _INPUTS),
                                  _number("output", output or dtype, _OUTPUTS),
                                  _number("layout", layout, _LAYOUTS), int(reads_c), alignment))

    def __repr__(self) -> str:
        return _text(self)


class Device(ctypes.Structure):
    """What a GPU is to swr; present_device() and profiled_device() make it."""

    _fields_ = [
        ("name", c_char * 256), ("sm_arch", c_int32), ("sm_count", c_int32), ("l2_bytes", c_int64),
        ("dram_gb_per_s", c_double), ("mig", c_int32), ("smem_per_cta_bytes", c_int32),
        ("smem_per_sm_bytes", c_int32), ("smem_reserved_per_cta_bytes", c_int32),
        ("registers_per_sm", c_int32), ("max_threads_per_sm", c_int32),
        ("max_ctas_per_sm", c_int32)]

    def __repr__(self) -> str:
        return _text(self)


class RawProblem(ctypes.Structure):
    """Problem without its constructor, as a member of other structures."""

    _fields_ = Problem._fields_


class RawGemmProblem(ctypes.Structure):
    _fields_ = GemmProblem._fields_


_ANSWER = [
    ("variant", c_char * 512), ("match", c_int32), ("on_same_device", c_int32),
    ("distance", c_double), ("time_us", c_double), ("l2_misses", c_int64), ("result_id", c_int64)]


class RawAnswer(ctypes.Structure):
    _fields_ = _ANSWER + [("stored_problem", RawProblem)]


class RawGemmAnswer(ctypes.Structure):
    _fields_ = _ANSWER + [("stored_problem", RawGemmProblem)]


class RuntimeOptions(ctypes.Structure):
    _fields_ = [("database", c_char_p), ("exported", c_char_p), ("cache_dir", c_char_p),
                ("nvrtc", c_char_p), ("may_compile", c_int32), ("l2_state", c_char_p)]


class Strides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("seq", c_int64)]


class Attention(ctypes.Structure):
    _fields_ = [
        ("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("o", c_void_p), ("lse", c_void_p),
        ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides),
        ("o_strides", Strides), ("batch", c_int32), ("heads_q", c_int32), ("heads_kv", c_int32),
        ("seq_q", c_int32), ("seq_kv", c_int32), ("head_dim", c_int32), ("dtype", c_int32),
        ("causal", c_int32), ("scale", c_float)]


class AttentionBackward(ctypes.Structure):
    """swr_attention_backward (swr/swr_backward_c.h); the constructor takes what follows the size."""

    _fields_ = [("size", c_uint64)] + [
        (name, c_void_p) for name in ("q", "k", "v", "o", "d_o", "lse", "d_lse", "dq", "dk", "dv")
    ] + [(name + "_strides", Strides) for name in ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")] + [
        (name, c_int32) for name in ("batch", "heads_q", "heads_kv", "seq_q", "seq_kv", "head_dim",
                                     "head_dim_v", "dtype", "causal", "deterministic")
    ] + [("scale", c_float), ("reserved", c_int32), ("workspace", c_void_p),
         ("workspace_bytes", c_int64)]

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class KvAppend(ctypes.Structure):
    _fields_ = [
        ("size", c_uint64), ("k_new", c_void_p), ("v_new", c_void_p), ("k_new_strides", Strides),
        ("v_new_strides", Strides), ("seq_k_new", c_int32), ("rotary_dim", c_int32),
        ("cu_seqlens_k_new", c_void_p), ("total_k_new", c_int64), ("rotary_cos", c_void_p),
        ("rotary_sin", c_void_p), ("rotary_stride", c_int64), ("rotary_interleaved", c_int32),
        ("queries_stay", c_int32), ("rotary_positions", c_void_p)]


class ServingAttention(ctypes.Structure):
    _fields_ = [
        ("size", c_uint64), ("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("o", c_void_p),
        ("lse", c_void_p), ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides),
        ("o_strides", Strides), ("lse_strides", Strides), ("batch", c_int32), ("heads_q", c_int32),
        ("heads_kv", c_int32), ("head_dim", c_int32), ("head_dim_v", c_int32), ("dtype", c_int32),
        ("max_seq_q", c_int32), ("max_seq_kv", c_int32), ("total_q", c_int64),
        ("cu_seqlens_q", c_void_p), ("seqused_q", c_void_p), ("cu_seqlens_k", c_void_p),
        ("seqused_k", c_void_p), ("leftpad_k", c_void_p), ("kv_batch_index", c_void_p),
        ("page_table", c_void_p), ("page_table_stride", c_int64), ("page_indptr", c_void_p),
        ("page_indices", c_void_p), ("last_page_len", c_void_p), ("pages_per_sequence", c_int32),
        ("page_size", c_int32), ("mask", c_int32), ("window_left", c_int32),
        ("window_right", c_int32), ("chunk", c_int32), ("scale", c_float), ("softcap", c_float),
        ("accurate_softcap", c_int32), ("sink_dtype", c_int32), ("sinks", c_void_p),
        ("lse_in_base_2", c_int32), ("lengths", c_int32), ("lengths_are_ready", c_int32),
        ("reserved", c_int32), ("append", c_void_p), ("workspace", c_void_p),
        ("workspace_bytes", c_int64)]


class States(ctypes.Structure):
    _fields_ = [
        ("size", c_uint64), ("parts", c_void_p), ("part_lse", c_void_p), ("o", c_void_p),
        ("lse", c_void_p), ("part_strides", Strides), ("part_lse_strides", Strides),
        ("o_strides", Strides), ("lse_strides", Strides), ("part_count", c_int32),
        ("heads", c_int32), ("rows", c_int64), ("head_dim", c_int32), ("part_dtype", c_int32),
        ("output_dtype", c_int32), ("lse_in_base_2", c_int32)]


class MatrixStrides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("row", c_int64)]


class Gemm(ctypes.Structure):
    _fields_ = [
        ("a", c_void_p), ("b", c_void_p), ("c", c_void_p), ("a_strides", MatrixStrides),
        ("b_strides", MatrixStrides), ("c_strides", MatrixStrides), ("m", c_int32), ("n", c_int32),
        ("k", c_int32), ("batch", c_int32), ("dtype", c_int32), ("output", c_int32),
        ("layout", c_int32), ("alpha", c_float), ("beta", c_float)]


class GemmExtras(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in (
        "scaling", "accuracy", "activation", "gated", "output_scaling", "a_scale_stride",
        "b_scale_stride", "c_scale_stride")] + [(name, c_void_p) for name in (
            "a_scales", "b_scales", "bias", "addend", "c_scales")]
class GroupedGemm(ctypes.Structure):
    _fields_ = [("gemm", Gemm), ("groups", c_int32), ("expected_rows", c_int32),
                ("skewed", c_int32), ("extras", GemmExtras)]


class RawKernelArgument(ctypes.Structure):
    """Where the bytes of an argument lie. Its Python object also holds them, as `kept`."""

    _fields_ = [("bytes", c_void_p), ("size", c_uint64)]


class RawKernelAnswer(ctypes.Structure):
    _fields_ = [("variant", c_char * 512), ("match", c_int32), ("on_same_device", c_int32),
                ("distance", c_double), ("time_us", c_double), ("result_id", c_int64)]


_FUNCTIONS = {
    "swr_present_device": [c_int32, POINTER(Device)],
    "swr_profiled_device": [c_char_p, POINTER(Device)],
    "swr_lookup_open": [c_char_p, c_char_p, POINTER(c_void_p)],
    "swr_lookup_best": [c_void_p, POINTER(Problem), POINTER(Device), POINTER(RawAnswer)],
    "swr_lookup_best_gemm": [c_void_p, POINTER(GemmProblem), POINTER(Device),
                             POINTER(RawGemmAnswer)],
    "swr_lookup_refresh": [c_void_p, POINTER(c_int32)],
    "swr_runtime_create": [POINTER(RuntimeOptions), POINTER(c_void_p)],
    "swr_runtime_note_missed": [c_void_p, c_char_p],
    "swr_runtime_use_kernels": [c_void_p, c_char_p],
    "swr_runtime_refresh": [c_void_p, POINTER(c_int32)],
    "swr_kernel_register": [c_char_p, POINTER(c_void_p)],
    "swr_runtime_best_kernel": [c_void_p, c_void_p, c_void_p, c_int32, POINTER(Device),
                                POINTER(RawKernelAnswer)],
}

# Called per launch, with the address of a description and of each tensor; the caller looks at the
# status, which costs less than a call back from ctypes.
_LAUNCHES = {
    "swr_runtime_attention_at": [c_void_p] * 8,
    "swr_runtime_attention_backward": [c_void_p] * 3,
    "swr_runtime_prepare_backward": [c_void_p] * 3,
    "swr_runtime_gemm_at": [c_void_p] * 6,
    "swr_runtime_fused_gemm": [c_void_p] * 4,
    "swr_runtime_grouped_gemm_at": [c_void_p] * 7,
    "swr_runtime_serving_attention": [c_void_p] * 3,
    "swr_runtime_prepare_serving": [c_void_p] * 3,
    "swr_merge_states": [c_void_p] * 3,
    "swr_runtime_launch_kernel": [c_void_p] * 3 + [c_int32, c_void_p, c_int32, c_void_p, c_void_p],
}


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
        if name in _FUNCTIONS:
            function.argtypes = _FUNCTIONS[name]
            function.errcheck = self._check
        elif name in _LAUNCHES:
            function.argtypes = _LAUNCHES[name]
        setattr(self, name, function)
        return function

    @staticmethod
    def _checked(library):
        library.swr_last_error.restype = c_char_p
        library.swr_match_text.argtypes = [c_int32]
        library.swr_match_text.restype = c_char_p
        library.swr_lookup_close.argtypes = [c_void_p]
        library.swr_lookup_close.restype = None
        library.swr_runtime_destroy.argtypes = [c_void_p]
        library.swr_runtime_destroy.restype = None
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
