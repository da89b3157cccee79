# SPDX-License-Identifier: MIT
"""Attention over unequal sequences on the CPU, by the structure alone that kernels are launched
with: reads memory as swr/swr_serving_c.h describes it, one sequence after another, in float32."""

import ctypes
import math

import torch

from swr import _library

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def tensor_at(address, shape, strides, dtype):
    """The elements at an address."""
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    last = sum((size - 1) * stride for size, stride in zip(shape, strides))
    size_bytes = (last + 1) * torch.empty(0, dtype=dtype).element_size()
    memory = (ctypes.c_char * size_bytes).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(shape, strides)


def ints(address, count):
    return list((ctypes.c_int32 * count).from_address(address)) if address else None


class _Sequence:
    """Lengths and rows of the i-th sequence."""

    def __init__(self, call, append, i):
        self.call, self.append, self.i = call, append, i
        self.dtype = DTYPES[call.dtype]
        batch = call.batch
        starts = ints(call.cu_seqlens_q, batch + 1)
        rows = starts[i + 1] - starts[i] if starts else call.max_seq_q
        used = ints(call.seqused_q, batch)
        self.first_q = starts[i] if starts else 0
        self.q_batch = 0 if starts else i
        self.queries = min(rows, used[i] if used else rows)
        self.cached = self._cached_rows()
        self.new = self._new_rows()
        self.padding = (ints(call.leftpad_k, batch) or [0] * batch)[i]

    def _cached_rows(self):
        call, i = self.call, self.i
        used, starts = ints(call.seqused_k, call.batch), ints(call.cu_seqlens_k, call.batch + 1)
        if used:
            return used[i]
        if starts:
            return starts[i + 1] - starts[i]
        if call.page_indptr:
            pages = self._pages()
            return (len(pages) - 1) * call.page_size + ints(call.last_page_len, call.batch)[i] \
                if pages else 0
        return call.max_seq_kv

    def _new_rows(self):
        if self.append is None:
            return 0
        starts = ints(self.append.cu_seqlens_k_new, self.call.batch + 1)
        return starts[self.i + 1] - starts[self.i] if starts else self.append.seq_k_new

    def _pages(self):
        call, i = self.call, self.i
        if call.page_indptr:
            starts = ints(call.page_indptr, call.batch + 1)
            return ints(call.page_indices, starts[-1])[starts[i]:starts[i + 1]]
        all_ids = ints(call.page_table,
                       (call.batch - 1) * call.page_table_stride + call.pages_per_sequence)
        first = i * call.page_table_stride
        return all_ids[first:first + call.pages_per_sequence]

    def row(self, operand, strides, columns, row):
        """[heads, columns] of one row of the cache."""
        call = self.call
        container = self.i
        if call.page_size:
            container, row = self._pages()[row // call.page_size], row % call.page_size
        elif call.cu_seqlens_k:
            container, row = 0, ints(call.cu_seqlens_k, call.batch + 1)[self.i] + row
        elif call.kv_batch_index:
            container = ints(call.kv_batch_index, call.batch)[self.i]
        offset = container * strides.batch + row * strides.seq
        return tensor_at(operand + offset * self.dtype.itemsize, (call.heads_kv, columns),
                         (strides.head, 1), self.dtype)

    def positions(self):
        given = ints(self.append.rotary_positions, self.call.batch)
        return given[self.i] if given else self.cached

    def turned(self, row, position):
        """Rotary embedding of [heads, columns], rounded as the cache is."""
        append, dim = self.append, self.append.rotary_dim
        if not append.rotary_cos:
            return row
        row = row.float().clone()
        cos, sin = (tensor_at(table + position * append.rotary_stride * self.dtype.itemsize,
                              (dim // 2,), (1,), self.dtype).float()
                    for table in (append.rotary_cos, append.rotary_sin))
        first, second = ((slice(0, dim, 2), slice(1, dim, 2)) if append.rotary_interleaved
                         else (slice(0, dim // 2), slice(dim // 2, dim)))
        a, b = row[:, first].clone(), row[:, second].clone()
        row[:, first], row[:, second] = a * cos - b * sin, a * sin + b * cos
        return row.to(self.dtype)

    def append_rows(self):
        append, call = self.append, self.call
        starts = ints(append.cu_seqlens_k_new, call.batch + 1)
        for j in range(self.new):
            for source, strides, cache, cache_strides, columns in (
                    (append.k_new, append.k_new_strides, call.k, call.k_strides, call.head_dim),
                    (append.v_new, append.v_new_strides, call.v, call.v_strides, call.head_dim_v)):
                first = (starts[self.i] + j) * strides.seq if starts else \
                    self.i * strides.batch + j * strides.seq
                row = tensor_at(source + first * self.dtype.itemsize, (call.heads_kv, columns),
                                (strides.head, 1), self.dtype)
                if source == append.k_new:
                    row = self.turned(row, self.positions() + j)
                self.row(cache, cache_strides, columns, self.cached + j).copy_(row)

    def q_rows(self, operand, strides, columns, dtype):
        offset = self.q_batch * strides.batch + self.first_q * strides.seq
        return tensor_at(operand + offset * dtype.itemsize,
                         (self.call.heads_q, self.queries, columns),
                         (strides.head, strides.seq, 1), dtype)


def _hidden(call, queries, keys):
    """[queries, keys]: what nobody sees."""
    position = torch.arange(queries)[:, None] + keys - queries
    key = torch.arange(keys)[None, :]
    hidden = torch.zeros(queries, keys, dtype=torch.bool)
    if call.mask == 0:
        return hidden
    left, right, chunk = ((-1, 0, 0) if call.mask == 1
                          else (call.window_left, call.window_right, call.chunk))
    if left >= 0:
        hidden |= key < position - left
    if right >= 0:
        hidden |= key > position + right
    if chunk > 0:
        hidden |= key // chunk != torch.div(position, chunk, rounding_mode="floor")
    return hidden


def _attend(sequence):
    call = sequence.call
    rows = range(sequence.padding, sequence.cached + sequence.new)
    queries, keys = sequence.queries, len(rows)
    q = sequence.q_rows(call.q, call.q_strides, call.head_dim, sequence.dtype).float()
    if sequence.append is not None and sequence.append.rotary_cos:
        stays = sequence.append.queries_stay
        q = torch.stack([sequence.turned(q[:, i].to(sequence.dtype),
                                         sequence.positions() + (0 if stays else i)).float()
                         for i in range(queries)], 1)
    group = call.heads_q // call.heads_kv

    def gathered(operand, strides, columns):
        if not keys:
            return torch.zeros(call.heads_q, 0, columns)
        found = torch.stack([sequence.row(operand, strides, columns, row) for row in rows], 1)
        return found.float().repeat_interleave(group, 0)
    k = gathered(call.k, call.k_strides, call.head_dim)
    v = gathered(call.v, call.v_strides, call.head_dim_v)
    scores = q @ k.mT * (call.scale or call.head_dim ** -0.5)
    if call.softcap:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    scores.masked_fill_(_hidden(call, queries, keys), -math.inf)
    if call.sinks:
        sinks = tensor_at(call.sinks, (call.heads_q,), (1,), DTYPES[call.sink_dtype]).float()
        scores = torch.cat([scores, sinks[:, None, None].expand(-1, queries, 1)], -1)
        v = torch.cat([v, torch.zeros(call.heads_q, 1, call.head_dim_v)], 1)
    lse = scores.logsumexp(-1) if scores.shape[-1] else torch.full(scores.shape[:-1], -math.inf)
    sequence.q_rows(call.o, call.o_strides, call.head_dim_v, sequence.dtype).copy_(
        torch.nan_to_num(scores.softmax(-1)) @ v)
    if call.lse:
        strides = call.lse_strides
        offset = sequence.q_batch * strides.batch + sequence.first_q * strides.seq
        tensor_at(call.lse + offset * 4, lse.shape, (strides.head, strides.seq),
                  torch.float32).copy_(lse / math.log(2.0) if call.lse_in_base_2 else lse)


def bytes_of(call):
    """What the calls below take of a workspace: more for more queries, as partial results do."""
    return 65536 + 256 * call.max_seq_q


def prepare(runtime, description, size_bytes):
    """What swr_runtime_prepare_serving does."""
    size_bytes._obj.value = bytes_of(_library.ServingAttention.from_address(description))
    return 0


def serving(runtime, description, stream):
    """What swr_runtime_serving_attention does."""
    call = _library.ServingAttention.from_address(description)
    assert not call.workspace or call.workspace_bytes >= bytes_of(call)
    append = _library.KvAppend.from_address(call.append) if call.append else None
    assert call.size == ctypes.sizeof(call)
    sequences = [_Sequence(call, append, i) for i in range(call.batch)]
    for sequence in sequences:
        sequence.append_rows() if append else None
    for sequence in sequences:
        assert sequence.queries <= call.max_seq_q
        if sequence.queries > 0:
            _attend(sequence)
    return 0


def merge(runtime, description, stream):
    """What swr_merge_states does."""
    d = _library.States.from_address(description)

    def tensor(address, strides, dtype, *more):
        shape = (d.part_count, d.heads, d.rows) if more[0] else (d.heads, d.rows)
        steps = (strides.batch, strides.head, strides.seq) if more[0] else (strides.head, strides.seq)
        return (tensor_at(address, (*shape, d.head_dim), (*steps, 1), dtype) if more[1]
                else tensor_at(address, shape, steps, dtype))
    parts = tensor(d.parts, d.part_strides, DTYPES[d.part_dtype], True, True).float()
    unit = math.log(2.0) if d.lse_in_base_2 else 1.0
    lse = tensor(d.part_lse, d.part_lse_strides, torch.float32, True, False) * unit
    weights = torch.nan_to_num(lse.softmax(0))[..., None]
    tensor(d.o, d.o_strides, DTYPES[d.output_dtype], False, True).copy_(
        torch.where(weights == 0, torch.zeros(()), weights * parts).sum(0))
    tensor(d.lse, d.lse_strides, torch.float32, False, False).copy_(lse.logsumexp(0) / unit)
    return 0
