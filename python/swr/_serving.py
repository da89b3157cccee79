# SPDX-License-Identifier: MIT
"""Attention over unequal sequences and pages as two PyTorch operators, one of which appends to the
caches. What callers of FlashAttention and FlashInfer pass ends here."""

import ctypes
import dataclasses
import functools
import math
from typing import Optional, Tuple

import torch

from . import _torch
from ._library import Error, KvAppend, ServingAttention, Strides, library
from ._torch import DTYPES, Plans, launch, refuse_derivatives, require_cuda, skips_dispatcher

MASK_NONE, MASK_CAUSAL, MASK_WINDOW = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Scores:
    """What happens to scores: everything of a call that is neither a tensor nor a length."""

    scale: float
    mask: int = MASK_NONE
    left: int = -1
    right: int = -1
    chunk: int = 0
    softcap: float = 0.0
    accurate: bool = False  # tanh to 2^-22 instead of 2^-11.
    in_base_2: bool = False

    @staticmethod
    def of(head_dim, scale, causal, window, chunk, softcap, max_seq_q, max_seq_kv):
        """By FlashAttention-3's rules: causal is a window without keys to the right, and a bound
        beyond the longest sequence is none."""
        make = Scores._checked if torch.compiler.is_compiling() else _checked_before
        return make(head_dim, scale, causal, *window, chunk, softcap, max_seq_q, max_seq_kv)

    @staticmethod
    def _checked(head_dim, scale, causal, left, right, chunk, softcap, max_seq_q, max_seq_kv):
        scale = head_dim ** -0.5 if scale is None else float(scale)
        window = left, right = int(left), int(right)
        if left < -1 or right < -1:
            raise ValueError(f"window_size has keys to the left and to the right, or -1: {window}")
        if not 0 < scale < math.inf:
            raise ValueError(f"softmax_scale must be positive, not {scale}")
        if not 0 <= softcap < math.inf:
            raise ValueError(f"softcap must be positive, or 0 for none, not {softcap}")
        if chunk < 0:
            raise ValueError(f"attention_chunk must be positive, or 0 for none, not {chunk}")
        left = -1 if left >= max_seq_kv - 1 else left
        right = -1 if right >= max_seq_q - 1 else right
        right = 0 if causal else right
        chunk = 0 if chunk >= max_seq_kv else int(chunk)
        mask = MASK_WINDOW
        if left < 0 and chunk == 0:
            mask = MASK_NONE if right < 0 else MASK_CAUSAL if right == 0 else MASK_WINDOW
        return Scores(scale, mask, left, right, chunk, float(softcap))


_checked_before = functools.lru_cache(maxsize=1 << 12)(Scores._checked)  # Most calls are alike.


class Workspace:
    """Device memory of PyTorch's for calls that follow each other on a stream, whatever their
    shapes: calls that are given one allocate nothing once it is large enough, and captured graphs
    share it too. It grows outside of captures, and keeps what it had before, which graphs may still
    use. Calls that may run at the same time need one each."""

    def __init__(self):
        self._parts = []

    def part_of(self, size_bytes, device):
        """Memory of at least so many bytes on the device, zeroed before its first use."""
        for part in reversed(self._parts):
            if part.numel() >= size_bytes and part.device == device:
                return part
        if torch.cuda.is_current_stream_capturing():
            raise Error("invalid_argument", f"the workspace has too little memory for a captured "
                        f"call, which takes {size_bytes} bytes; make the call once before capturing")
        part = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
        self._parts.append(part)
        return part


# Names of the tensors of int32 that a call may have, in the order of the operators' arguments.
_LENGTHS = ("cu_seqlens_q", "seqused_q", "cu_seqlens_k", "seqused_k", "leftpad_k",
            "kv_batch_index", "page_table", "page_indptr", "page_indices", "last_page_len")


def _require(holds, kind, text):
    if not holds:
        raise kind(text)


def _check_elements(**tensors):
    """Types and places of tensors with a head_dim."""
    q = tensors["q"]
    _require(q.dtype in (torch.float16, torch.bfloat16), TypeError,
             f"q must be float16 or bfloat16, not {q.dtype}")
    for name, tensor in tensors.items():
        if tensor is not None:
            _require(tensor.dtype == q.dtype, TypeError,
                     f"{name} must have q's type {q.dtype}, not {tensor.dtype}")
            _require(tensor.stride(-1) == 1, ValueError,
                     f"the innermost dimension of {name} must be contiguous; pass "
                     f"{name}.contiguous()")


def _check_lengths(lengths, batch):
    sizes = {"cu_seqlens_q": batch + 1, "cu_seqlens_k": batch + 1, "page_indptr": batch + 1,
             "page_indices": None, "page_table": None}
    for name, tensor in lengths.items():
        if tensor is None:
            continue
        _require(tensor.dtype == torch.int32, TypeError,
                 f"{name} must be int32, not {tensor.dtype}")
        dimensions = 2 if name == "page_table" else 1
        _require(tensor.dim() == dimensions, ValueError,
                 f"{name} must have {dimensions} dimension(s), not {tensor.dim()}")
        _require(tensor.stride(-1) == 1 or tensor.shape[-1] < 2, ValueError,
                 f"{name} must be contiguous")
        size = sizes.get(name, batch)
        _require(size is None or tensor.shape[0] == size, ValueError,
                 f"{name} must have {size} elements, not {tensor.shape[0]}")
    table = lengths["page_table"]
    _require(table is None or table.shape[0] == batch, ValueError,
             f"page_table must have a row for each of {batch} sequences")


def _batch_of(q, lengths):
    starts = lengths["cu_seqlens_q"]
    return q.shape[0] if starts is None else starts.shape[0] - 1


def _check_shapes(q, k, v, lengths):
    is_ragged = lengths["cu_seqlens_q"] is not None
    _require(q.dim() == (3 if is_ragged else 4), ValueError,
             "q must be [total, heads, head_dim] with cu_seqlens_q and [batch, length, heads, "
             f"head_dim] without, not {tuple(q.shape)}")
    rows_follow = lengths["cu_seqlens_k"] is not None
    _require(k.dim() == v.dim() == (3 if rows_follow else 4), ValueError,
             "k and v must be [total, heads, head_dim] with cu_seqlens_k, and [batch or pages, "
             f"rows, heads, head_dim] without, not {tuple(k.shape)} and {tuple(v.shape)}")
    _require(k.shape[:-1] == v.shape[:-1] and k.shape[-1] == q.shape[-1], ValueError,
             "k and v must have one shape but for v's head_dim, and k must have q's head_dim: "
             f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    _require(k.shape[-2] > 0 and q.shape[-2] % k.shape[-2] == 0, ValueError,
             f"the heads of q, {q.shape[-2]}, must be a multiple of those of k, {k.shape[-2]}")


def _strides(tensor):
    """Of [.., rows, heads, head_dim], with or without a dimension before."""
    # PyTorch says anything of the stride of a dimension of one, which nobody steps over.
    *first, row, head = [stride if size > 1 else tensor.shape[-1]
                         for size, stride in zip(tensor.shape[:-1], tensor.stride())]
    return Strides(first[0] if first else 0, head, row)


def _lse_shape(q, is_ragged, tokens_first):
    if tokens_first:
        return q.shape[:-1]
    return (q.shape[1], q.shape[0]) if is_ragged else (q.shape[0], q.shape[2], q.shape[1])


def _lse_strides(lse, is_ragged, tokens_first):
    if tokens_first:
        return Strides(lse.stride(0) if not is_ragged else 0, lse.stride(-1), lse.stride(-2))
    return Strides(lse.stride(0) if not is_ragged else 0, lse.stride(-2), lse.stride(-1))


class _Plan:
    """A checked call without its tensors' addresses."""

    __slots__ = ("template", "device", "o_shape", "lse_shape", "workspace_bytes")

    def __init__(self, q, k, v, lengths, sinks, max_seq_q, max_seq_kv, scores, tokens_first):
        _check_shapes(q, k, v, lengths)
        _check_elements(q=q, k=k, v=v)
        batch = _batch_of(q, lengths)
        _check_lengths(lengths, batch)
        require_cuda(q=q, k=k, v=v, s_aux=sinks, **lengths)
        if sinks is not None:
            _require(sinks.shape == (q.shape[-2],), ValueError,
                     f"s_aux must have a score for each of {q.shape[-2]} heads")
            _require(sinks.dtype in DTYPES, TypeError, f"s_aux cannot be {sinks.dtype}")
        is_ragged = lengths["cu_seqlens_q"] is not None
        self.device = q.get_device()
        self.o_shape = (*q.shape[:-1], v.shape[-1])
        self.lse_shape = _lse_shape(q, is_ragged, tokens_first)
        self.workspace_bytes = None  # With the number of refreshes; nobody has asked yet.
        o = torch.empty(self.o_shape, dtype=q.dtype, device="meta")
        lse = torch.empty(self.lse_shape, dtype=torch.float32, device="meta")
        table = lengths["page_table"]
        pages = table is not None or lengths["page_indptr"] is not None
        self.template = bytes(ServingAttention(
            size=ctypes.sizeof(ServingAttention), q_strides=_strides(q), k_strides=_strides(k),
            v_strides=_strides(v), o_strides=_strides(o),
            lse_strides=_lse_strides(lse, is_ragged, tokens_first), batch=batch,
            heads_q=q.shape[-2], heads_kv=k.shape[-2], head_dim=q.shape[-1],
            head_dim_v=v.shape[-1], dtype=DTYPES[q.dtype], max_seq_q=max_seq_q,
            max_seq_kv=max_seq_kv if k.numel() else 0, total_q=q.shape[0] if is_ragged else 0,
            page_table_stride=0 if table is None else table.stride(0),
            pages_per_sequence=0 if table is None else table.shape[1],
            page_size=k.shape[1] if pages else 0, mask=scores.mask, window_left=scores.left,
            window_right=scores.right, chunk=scores.chunk, scale=scores.scale,
            softcap=scores.softcap,
            accurate_softcap=int(scores.accurate), lse_in_base_2=int(scores.in_base_2),
            sink_dtype=0 if sinks is None else DTYPES[sinks.dtype]))


_plans = Plans()


def _traits(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device()


def _pointer(tensor):
    return None if tensor is None else tensor.data_ptr()


def _checked_out(out, plan, q):
    if (out.shape != plan.o_shape or not out.is_contiguous() or out.dtype != q.dtype
            or out.device != q.device):
        raise ValueError("out must be a contiguous tensor of q's type and device, and of O's shape")
    return out


def _workspace_bytes(plan, call):
    """What the call takes, asked once for every choice of kernels."""
    refreshes = _torch.refreshes()
    if plan.workspace_bytes is None or plan.workspace_bytes[0] != refreshes:
        size_bytes = ctypes.c_int64()
        _torch.call(library.swr_runtime_prepare_serving, plan.device, ctypes.addressof(call),
                    ctypes.byref(size_bytes))
        plan.workspace_bytes = refreshes, size_bytes.value
    return plan.workspace_bytes[1]


def _run(q, k, v, lengths, sinks, max_seq_q, max_seq_kv, scores, tokens_first, return_lse,
         append=None, out=None, workspace=None, lengths_are_ready=False):
    key = (_traits(q), _traits(k), _traits(v),
           *[t if t is None else _traits(t) for t in (*lengths, sinks)],
           max_seq_q, max_seq_kv, scores, tokens_first)
    plan = _plans.find(key) or _plans.remember(
        key, _Plan(q, k, v, dict(zip(_LENGTHS, lengths)), sinks, max_seq_q, max_seq_kv, scores,
                   tokens_first))
    if out is None:
        o = torch.empty(plan.o_shape, dtype=q.dtype, device=q.device)
    else:
        o = _checked_out(out, plan, q)
    lse = None
    if return_lse:
        lse = torch.empty(plan.lse_shape, dtype=torch.float32, device=q.device)
    if q.numel() == 0 and (append is None or append.total_k_new == 0):
        return o, lse  # Of an empty page table there is no address.
    call = ServingAttention.from_buffer_copy(plan.template)
    call.q, call.k, call.v, call.o = q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr()
    call.lse = _pointer(lse)
    (call.cu_seqlens_q, call.seqused_q, call.cu_seqlens_k, call.seqused_k, call.leftpad_k,
     call.kv_batch_index, call.page_table, call.page_indptr, call.page_indices,
     call.last_page_len) = [t if t is None else t.data_ptr() for t in lengths]
    call.sinks = _pointer(sinks)
    call.lengths_are_ready = int(lengths_are_ready)
    if append is not None:
        call.append = ctypes.addressof(append)
    if workspace is not None and q.numel() > 0:
        part = workspace.part_of(_workspace_bytes(plan, call), q.device)
        call.workspace, call.workspace_bytes = part.data_ptr(), part.numel()
    launch(library.swr_runtime_serving_attention, plan.device, ctypes.addressof(call))
    return o, lse


def _check_append(batch, q, k, v, k_new, v_new, cu_seqlens_k_new, rotary_cos, rotary_sin,
                  rotary_positions):
    """Rows as those of the caches k and v, and as many sequences."""
    _check_elements(q=q, k=k_new, v=v_new, rotary_cos=rotary_cos, rotary_sin=rotary_sin)
    require_cuda(q=q, k=k_new, v=v_new, cu_seqlens_k_new=cu_seqlens_k_new, rotary_cos=rotary_cos,
                 rotary_sin=rotary_sin, rotary_seqlens=rotary_positions)
    is_ragged = cu_seqlens_k_new is not None
    _require(k_new.dim() == v_new.dim() == (3 if is_ragged else 4), ValueError,
             "k and v must be [total, heads, head_dim] with cu_seqlens_k_new, and [batch, length, "
             "heads, head_dim] without")
    _require(k_new.shape[-2:] == k.shape[-2:] and v_new.shape[-2:] == v.shape[-2:]
             and k_new.shape[:-2] == v_new.shape[:-2] and (is_ragged or k_new.shape[0] == batch), ValueError,
             f"k and v must have as many rows of {batch} sequences, with the heads and head_dim of their "
             f"caches: {tuple(k_new.shape)}, {tuple(v_new.shape)}, caches {tuple(k.shape)}, {tuple(v.shape)}")
    for name, numbers, count in (("cu_seqlens_k_new", cu_seqlens_k_new, batch + 1),
                                 ("rotary_seqlens", rotary_positions, batch)):
        _require(numbers is None or (numbers.dtype == torch.int32 and numbers.shape == (count,)
                                     and numbers.is_contiguous()), ValueError,
                 f"{name} must be {count} contiguous int32 numbers")


_appends = Plans()


def _append_of(q, k, v, batch, k_new, v_new, cu_seqlens_k_new, rotary_cos, rotary_sin,
               rotary_positions, rotary_interleaved, queries_stay):
    """The structure of what is appended, checked once for each kind of calls."""
    tensors = (q, k, v, k_new, v_new, cu_seqlens_k_new, rotary_cos, rotary_sin, rotary_positions)
    key = (batch, *[t if t is None else _traits(t) for t in tensors])
    if not _appends.find(key):
        _check_append(batch, *tensors)
        _appends.remember(key, True)
    is_ragged = cu_seqlens_k_new is not None
    append = KvAppend(
        size=ctypes.sizeof(KvAppend), k_new=k_new.data_ptr(), v_new=v_new.data_ptr(),
        k_new_strides=_strides(k_new), v_new_strides=_strides(v_new),
        seq_k_new=0 if is_ragged else k_new.shape[1], total_k_new=k_new.shape[0],
        cu_seqlens_k_new=_pointer(cu_seqlens_k_new))
    if rotary_cos is not None:
        _require(rotary_cos.shape == rotary_sin.shape and rotary_cos.dim() == 2, ValueError,
                 "rotary_cos and rotary_sin must be [positions, rotary_dim / 2] both")
        append.rotary_cos, append.rotary_sin = rotary_cos.data_ptr(), rotary_sin.data_ptr()
        append.rotary_stride, append.rotary_dim = rotary_cos.stride(0), 2 * rotary_cos.shape[1]
        append.rotary_interleaved, append.queries_stay = int(rotary_interleaved), int(queries_stay)
        append.rotary_positions = _pointer(rotary_positions)
    return append


def _as_tensors(o, lse):
    """An operator returns tensors, whatever was asked for."""
    return o, torch.empty(0, dtype=torch.float32, device=o.device) if lse is None else lse


def _fake(q, v, cu_seqlens_q, tokens_first, return_lse):
    o = torch.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype, device=q.device)
    shape = _lse_shape(q, cu_seqlens_q is not None, tokens_first) if return_lse else (0,)
    return o, torch.empty(shape, dtype=torch.float32, device=q.device)


_T = torch.Tensor
_OptT = Optional[torch.Tensor]


@torch.library.custom_op("swr::serving_attention", mutates_args=(), device_types="cuda")
def _operator(q: _T, k: _T, v: _T, cu_seqlens_q: _OptT, seqused_q: _OptT, cu_seqlens_k: _OptT,
              seqused_k: _OptT, leftpad_k: _OptT, kv_batch_index: _OptT, page_table: _OptT,
              page_indptr: _OptT, page_indices: _OptT, last_page_len: _OptT, sinks: _OptT,
              max_seq_q: int, max_seq_kv: int, scale: float, mask: int, left: int, right: int,
              chunk: int, softcap: float, accurate: bool, in_base_2: bool, tokens_first: bool,
              return_lse: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    lengths = (cu_seqlens_q, seqused_q, cu_seqlens_k, seqused_k, leftpad_k, kv_batch_index,
               page_table, page_indptr, page_indices, last_page_len)
    scores = Scores(scale, mask, left, right, chunk, softcap, accurate, in_base_2)
    return _as_tensors(*_run(q, k, v, lengths, sinks, max_seq_q, max_seq_kv, scores, tokens_first,
                             return_lse))


@_operator.register_fake
def _(q, k, v, cu_seqlens_q, seqused_q, cu_seqlens_k, seqused_k, leftpad_k, kv_batch_index,
      page_table, page_indptr, page_indices, last_page_len, sinks, max_seq_q, max_seq_kv, scale,
      mask, left, right, chunk, softcap, accurate, in_base_2, tokens_first, return_lse):
    return _fake(q, v, cu_seqlens_q, tokens_first, return_lse)


@torch.library.custom_op("swr::serving_attention_append", mutates_args=("k", "v"),
                         device_types="cuda")
def _appending_operator(
        q: _T, k: _T, v: _T, k_new: _T, v_new: _T, cu_seqlens_k_new: _OptT, rotary_cos: _OptT,
        rotary_sin: _OptT, rotary_positions: _OptT, rotary_interleaved: bool, queries_stay: bool,
        cu_seqlens_q: _OptT, seqused_k: _OptT, leftpad_k: _OptT, kv_batch_index: _OptT,
        page_table: _OptT, sinks: _OptT, max_seq_q: int, max_seq_kv: int, scale: float, mask: int,
        left: int, right: int, chunk: int, softcap: float, accurate: bool,
        return_lse: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    batch = _batch_of(q, {"cu_seqlens_q": cu_seqlens_q})
    append = _append_of(q, k, v, batch, k_new, v_new, cu_seqlens_k_new, rotary_cos, rotary_sin,
                        rotary_positions, rotary_interleaved, queries_stay)
    lengths = (cu_seqlens_q, None, None, seqused_k, leftpad_k, kv_batch_index, page_table, None,
               None, None)
    scores = Scores(scale, mask, left, right, chunk, softcap, accurate)
    return _as_tensors(*_run(q, k, v, lengths, sinks, max_seq_q, max_seq_kv, scores, False, return_lse,
                             append))


@_appending_operator.register_fake
def _(q, k, v, k_new, v_new, cu_seqlens_k_new, rotary_cos, rotary_sin, rotary_positions,
      rotary_interleaved, queries_stay, cu_seqlens_q, seqused_k, leftpad_k, kv_batch_index,
      page_table, sinks, max_seq_q, max_seq_kv, scale, mask, left, right, chunk, softcap, accurate,
      return_lse):
    return _fake(q, v, cu_seqlens_q, False, return_lse)


def attend(q, k, v, *, lengths, max_seq_q, max_seq_kv, scores, sinks=None, tokens_first=False,
           return_lse=False, out=None, workspace=None, lengths_are_ready=False):
    """O and, where it is asked for, the log-sum-exp. `lengths` maps names of _LENGTHS to
    tensors, of which the caller may promise that they were complete before the launch ahead of this
    one began (traced calls do without the promise, and without the workspace)."""
    refuse_derivatives("attention of swr over unequal sequences", q, k, v, sinks)
    sinks = None if sinks is None else sinks.contiguous()
    in_order = [lengths.get(name) for name in _LENGTHS]
    if skips_dispatcher(q, k, v):
        return _run(q, k, v, in_order, sinks, max_seq_q, max_seq_kv, scores, tokens_first,
                    return_lse, out=out, workspace=workspace, lengths_are_ready=lengths_are_ready)
    o, lse = _operator(q, k, v, *in_order, sinks, max_seq_q, max_seq_kv,
                       *dataclasses.astuple(scores), tokens_first, return_lse)
    return (o if out is None else out.copy_(o)), lse


def append_and_attend(q, k, v, append, *, lengths, max_seq_q, max_seq_kv, scores, sinks,
                      return_lse):
    """The same after the rows of `append`, the operator's arguments from k_new to queries_stay."""
    refuse_derivatives("attention of swr over unequal sequences", q, k, v, sinks, *append[:2])
    sinks = None if sinks is None else sinks.contiguous()
    if skips_dispatcher(q, k, v):
        return _run(q, k, v, [lengths.get(name) for name in _LENGTHS], sinks, max_seq_q,
                    max_seq_kv, scores, False, return_lse,
                    _append_of(q, k, v, _batch_of(q, lengths), *append))
    return _appending_operator(
        q, k, v, *append, lengths.get("cu_seqlens_q"), lengths.get("seqused_k"),
        lengths.get("leftpad_k"), lengths.get("kv_batch_index"), lengths.get("page_table"), sinks,
        max_seq_q, max_seq_kv, *dataclasses.astuple(scores)[:-1], return_lse)
