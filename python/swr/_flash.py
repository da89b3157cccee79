# SPDX-License-Identifier: MIT
"""FlashAttention-3's functions, by its names, argument order, defaults and meaning
(github.com/Dao-AILab/flash-attention, hopper/flash_attn_interface.py). Forward only.

What swr has no kernel for is a ValueError that names the argument. Hints that only change which
kernel runs (num_splits, pack_gqa, deterministic) are taken and ignored: swr's are tuned, and every
result is repeatable."""

from typing import Optional, Tuple, Union

import torch

from ._serving import Scores, Workspace, append_and_attend, attend


def _refuse(**arguments):
    """Raises for the first argument that was passed."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"swr has no kernel for {name}; leave it out")


def _result(o, lse, with_lse):
    return (o, lse) if with_lse else o


def flash_attn_func(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, softmax_scale: Optional[float] = None,
        causal: bool = False, qv=None, q_descale=None, k_descale=None, v_descale=None,
        window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
        num_splits: int = 1, pack_gqa=None, deterministic: bool = False, sm_margin: int = 0,
        return_attn_probs: bool = False, *, s_aux: Optional[torch.Tensor] = None
        ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """q [batch, length, heads, head_dim], k and v [batch, keys, heads of k, head_dim]: O as q, and
    with return_attn_probs the log-sum-exp [batch, heads, length]. `s_aux` [heads]: a score without
    a value that every query sees (attention sinks)."""
    _refuse(qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale,
            sm_margin=sm_margin or None)
    scores = Scores.of(q.shape[-1], softmax_scale, causal, window_size, attention_chunk, softcap,
                       q.shape[1], k.shape[1])
    return _result(*attend(q, k, v, lengths={}, max_seq_q=q.shape[1], max_seq_kv=k.shape[1],
                           scores=scores, sinks=s_aux, return_lse=return_attn_probs),
                   return_attn_probs)


def flash_attn_varlen_func(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: Optional[torch.Tensor], max_seqlen_q: int, max_seqlen_k: int,
        seqused_q: Optional[torch.Tensor] = None, seqused_k: Optional[torch.Tensor] = None,
        softmax_scale: Optional[float] = None, causal: bool = False, qv=None, q_descale=None,
        k_descale=None, v_descale=None, window_size: Tuple[int, int] = (-1, -1),
        attention_chunk: int = 0, softcap: float = 0.0, num_splits: int = 1, pack_gqa=None,
        deterministic: bool = False, sm_margin: int = 0, return_attn_probs: bool = False, *,
        s_aux: Optional[torch.Tensor] = None, block_table: Optional[torch.Tensor] = None,
        out: Optional[torch.Tensor] = None, workspace: Optional[Workspace] = None,
        lengths_are_ready: bool = False
        ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """q [total, heads, head_dim], of which sequence i has rows [cu_seqlens_q[i],
    cu_seqlens_q[i + 1]), k and v alike: O as q, and with return_attn_probs the log-sum-exp [heads,
    total]. With `block_table` [batch, pages] k and v are [pages, page_size, heads of k, head_dim],
    cu_seqlens_k is None and seqused_k says how many keys there are (vLLM's form). `s_aux` as in
    flash_attn_func. O is written to `out`, a contiguous tensor, if given.

    lengths_are_ready promises that lengths and table were complete before the launch ahead of this
    one began, as in every layer of a model: work is then dealt while that launch still ends."""
    _refuse(qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale,
            sm_margin=sm_margin or None)
    if (cu_seqlens_k is None) == (block_table is None):
        raise ValueError("pass cu_seqlens_k, or block_table with seqused_k")
    if block_table is not None and seqused_k is None:
        raise ValueError("block_table needs seqused_k, the keys of each sequence")
    scores = Scores.of(q.shape[-1], softmax_scale, causal, window_size, attention_chunk, softcap,
                       max_seqlen_q, max_seqlen_k)
    lengths = {"cu_seqlens_q": cu_seqlens_q, "seqused_q": seqused_q, "cu_seqlens_k": cu_seqlens_k,
               "seqused_k": seqused_k, "page_table": block_table}
    return _result(*attend(q, k, v, lengths=lengths, max_seq_q=int(max_seqlen_q),
                           max_seq_kv=int(max_seqlen_k), scores=scores, sinks=s_aux,
                           return_lse=return_attn_probs, out=out, workspace=workspace,
                           lengths_are_ready=lengths_are_ready), return_attn_probs)


def flash_attn_with_kvcache(
        q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
        k: Optional[torch.Tensor] = None, v: Optional[torch.Tensor] = None, qv=None,
        rotary_cos: Optional[torch.Tensor] = None, rotary_sin: Optional[torch.Tensor] = None,
        cache_seqlens: Optional[Union[int, torch.Tensor]] = None,
        cache_batch_idx: Optional[torch.Tensor] = None,
        cache_leftpad: Optional[torch.Tensor] = None, page_table: Optional[torch.Tensor] = None,
        cu_seqlens_q: Optional[torch.Tensor] = None,
        cu_seqlens_k_new: Optional[torch.Tensor] = None, max_seqlen_q: Optional[int] = None,
        rotary_seqlens: Optional[torch.Tensor] = None, q_descale=None, k_descale=None,
        v_descale=None, softmax_scale: Optional[float] = None, causal: bool = False,
        window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
        rotary_interleaved: bool = True, scheduler_metadata=None, num_splits: int = 0,
        pack_gqa=None, sm_margin: int = 0, return_softmax_lse: bool = False, *,
        s_aux: Optional[torch.Tensor] = None
        ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """q [batch, length, heads, head_dim], or [total, heads, head_dim] with cu_seqlens_q and
    max_seqlen_q; caches [batch, rows, heads of k, head_dim], or [pages, page_size, heads of k,
    head_dim] with page_table. Rows k and v are turned by rotary_cos and rotary_sin and written
    behind the cache_seqlens rows of each sequence, in place, before anybody attends. Returns O as
    q, and with return_softmax_lse the log-sum-exp [batch, heads, length] or [heads, total].
    `s_aux` as in flash_attn_func."""
    _refuse(qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale,
            scheduler_metadata=scheduler_metadata, sm_margin=sm_margin or None)
    if (k is None) != (v is None):
        raise ValueError("k and v belong together: rows of both are appended")
    if k is None and (rotary_cos is not None or cu_seqlens_k_new is not None):
        raise ValueError("rotary_cos, rotary_sin and cu_seqlens_k_new are for calls that append "
                         "k and v")
    if (rotary_cos is None) != (rotary_sin is None):
        raise ValueError("rotary_cos and rotary_sin belong together")
    if k is not None and cache_seqlens is None:
        raise ValueError("appending k and v needs cache_seqlens, the rows that are there before")
    if cu_seqlens_q is not None and max_seqlen_q is None:
        raise ValueError("cu_seqlens_q needs max_seqlen_q")
    if page_table is not None and cache_batch_idx is not None:
        raise ValueError("cache_batch_idx is for caches without page_table")
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=q.device)
    max_seq_q = q.shape[1] if cu_seqlens_q is None else int(max_seqlen_q)
    rows = k_cache.shape[1]
    max_seq_kv = rows if page_table is None else rows * page_table.shape[1]
    scores = Scores.of(q.shape[-1], softmax_scale, causal, window_size, attention_chunk, softcap,
                       max_seq_q, max_seq_kv)
    common = {"max_seq_q": max_seq_q, "max_seq_kv": max_seq_kv, "scores": scores, "sinks": s_aux,
              "return_lse": return_softmax_lse,
              "lengths": {"cu_seqlens_q": cu_seqlens_q, "seqused_k": cache_seqlens,
                          "leftpad_k": cache_leftpad, "kv_batch_index": cache_batch_idx,
                          "page_table": page_table}}
    if k is None:
        return _result(*attend(q, k_cache, v_cache, **common), return_softmax_lse)
    queries_stay = not causal and tuple(window_size) == (-1, -1)
    append = (k, v, cu_seqlens_k_new, rotary_cos, rotary_sin, rotary_seqlens, rotary_interleaved,
              queries_stay)
    return _result(*append_and_attend(q, k_cache, v_cache, append, **common), return_softmax_lse)
