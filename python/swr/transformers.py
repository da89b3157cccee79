# SPDX-License-Identifier: MIT
"""Hugging Face models on swr's kernels:

    import swr.transformers
    swr.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="swr")

and with pages, in continuous batching:

    model = AutoModelForCausalLM.from_pretrained(
        name, attn_implementation=swr.transformers.CONTINUOUS_BATCHING)
    model.generate_batch(inputs)

Forward only, fp16 and bf16. Padding on either side, sliding windows, softcaps and sinks are served
without copies and without waiting for the device."""

import dataclasses
from typing import Optional, Tuple

import torch
import transformers
from torch.utils.weak import WeakTensorKeyDictionary

from ._flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from ._sdpa import sdpa
from ._serving import Scores, attend

# Transformers looks for "flash" and the version whose functions it calls in the name.
CONTINUOUS_BATCHING = "swr_flash_attention_3"
# What versions before 5.20 make of an implementation's name once there are pages.
_PAGED = "paged|"


def _window(sliding_window, keys):
    """Transformers counts the query's own key."""
    if sliding_window is None or sliding_window >= keys:
        return (-1, -1)
    return (sliding_window - 1, sliding_window - 1)


# Lengths by the mask they came from, its version and the number of queries: all layers of a model pass
# one mask, and working them out takes longer than a layer's attention while decoding.
_lengths_of_masks = WeakTensorKeyDictionary()


def _padded_lengths(mask, queries):
    """What a mask [batch, keys], of ones with zeros before and behind, says of each sequence: rows
    before its first key, rows up to the last, and queries up to that row."""
    # A graph has to work them out at every replay, and changes of an inference tensor leave no trace.
    if (torch.compiler.is_compiling() or mask.is_inference()
            or (mask.is_cuda and torch.cuda.is_current_stream_capturing())):
        return _work_out_lengths(mask, queries)
    stream = torch.cuda.current_stream(mask.device).cuda_stream if mask.is_cuda else 0
    key = (mask._version, queries, stream)
    known = _lengths_of_masks.get(mask)
    if known is None or known[0] != key:
        known = _lengths_of_masks[mask] = (key, _work_out_lengths(mask, queries))
    return known[1]


def _work_out_lengths(mask, queries):
    mask = mask.bool()
    keys = mask.shape[1]
    first = mask.int().argmax(1)
    behind = mask.flip(1).int().argmax(1)
    end = torch.where(mask.any(1), keys - behind, first)
    return {"leftpad_k": first.int(), "seqused_k": end.int(),
            "seqused_q": (queries - keys + end).clamp(min=0).int()}


def _packed_starts(position_ids, batch, queries, keys):
    """Where sequences begin that stand one after another in one row; None for one sequence. Looks at
    the positions, as Transformers does for FlashAttention."""
    if position_ids is None or batch != 1 or queries == 1 or queries != keys:
        return None
    if torch.compiler.is_compiling() or position_ids.shape != (1, queries):
        return None
    starts = (position_ids[0] == position_ids[0, 0]).nonzero().view(-1)
    if starts.numel() < 2:
        return None
    end = torch.tensor([queries], device=starts.device)
    return torch.cat([starts, end]).int()


def attention(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              attention_mask: Optional[torch.Tensor], dropout: float = 0.0,
              scaling: Optional[float] = None, sliding_window: Optional[int] = None,
              softcap: Optional[float] = None, is_causal: Optional[bool] = None,
              s_aux: Optional[torch.Tensor] = None, position_ids: Optional[torch.Tensor] = None,
              cu_seq_lens_q: Optional[torch.Tensor] = None,
              cu_seq_lens_k: Optional[torch.Tensor] = None, max_length_q: Optional[int] = None,
              max_length_k: Optional[int] = None, **kwargs) -> Tuple[torch.Tensor, None]:
    """What AttentionInterface calls: query [batch, heads, length, head_dim], key and value alike, a
    mask [batch, keys] of padding or None. Returns O [batch, length, heads, head_dim] and no
    weights."""
    if dropout and module.training:
        raise ValueError("swr has no kernel for dropout; set attention_dropout to 0")
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError("swr takes masks of padding [batch, keys]; this model passes one of shape "
                         f"{tuple(attention_mask.shape)}")
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    if attention_mask is not None:  # A static cache has more rows than there are keys.
        key, value = (t[:, :, :attention_mask.shape[1]] for t in (key, value))
    batch, _, queries, head_dim = query.shape
    keys = key.shape[2]
    starts = _packed_starts(position_ids, batch, queries, keys) if cu_seq_lens_q is None else None
    if starts is not None and attention_mask is None:
        cu_seq_lens_q = cu_seq_lens_k = starts
        max_length_q = max_length_k = queries
    is_ragged = attention_mask is None and cu_seq_lens_q is not None and cu_seq_lens_k is not None
    is_plain = (not is_ragged and attention_mask is None and not softcap and s_aux is None
                and head_dim == value.shape[-1] and _window(sliding_window, keys) == (-1, -1))
    if is_plain:
        o = sdpa(query, key, value, causal=causal, scale=scaling)
        return o.transpose(1, 2).contiguous(), None
    most_q, most_k = (int(max_length_q), int(max_length_k)) if is_ragged else (queries, keys)
    scores = dataclasses.replace(
        Scores.of(head_dim, scaling, causal, _window(sliding_window, keys), 0, softcap or 0.0,
                  most_q, most_k), accurate=bool(softcap))
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    common = {"max_seq_q": most_q, "max_seq_kv": most_k, "scores": scores, "sinks": s_aux}
    if is_ragged:
        lengths = {"cu_seqlens_q": cu_seq_lens_q.int(), "cu_seqlens_k": cu_seq_lens_k.int()}
        o, _ = attend(*(t.flatten(0, 1) for t in (q, k, v)), lengths=lengths, **common)
        return o.view(batch, queries, *o.shape[1:]), None
    if attention_mask is None:
        return attend(q, k, v, lengths={}, **common)[0], None
    # Rows of padding stay zero: NaN would come back through the cache.
    out = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=q.dtype, device=q.device)
    attend(q, k, v, lengths=_padded_lengths(attention_mask, queries), out=out, **common)
    return out, None


def _offer_functions(name):
    """Transformers' own code for FlashAttention, which continuous batching needs, finds swr's
    functions under `name`."""
    from transformers import modeling_flash_attention_utils as flash_utils
    found = flash_utils._lazy_imports
    if getattr(found, "of_swr", False):
        return

    def with_swr(implementation, *arguments, **more):
        if implementation is not None and implementation.removeprefix(_PAGED) == name:
            return (flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache,
                    flash_utils._pad_input, flash_utils._unpad_input)
        return found(implementation, *arguments, **more)
    with_swr.of_swr = True
    flash_utils._lazy_imports = with_swr


def register(name: str = "swr") -> None:
    """Makes attn_implementation=name, and CONTINUOUS_BATCHING, known to Transformers (4.57 and later;
    continuous batching with pages needs 5.8)."""
    from transformers.integrations.flash_attention import flash_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask
    transformers.AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, flash_attention_mask)
    transformers.AttentionInterface.register(CONTINUOUS_BATCHING, flash_attention_forward)
    AttentionMaskInterface.register(CONTINUOUS_BATCHING, flash_attention_mask)
    known = transformers.AttentionInterface()
    if _PAGED + "flash_attention_3" in known.valid_keys():
        transformers.AttentionInterface.register(_PAGED + CONTINUOUS_BATCHING,
                                                 known[_PAGED + "flash_attention_3"])
    _offer_functions(CONTINUOUS_BATCHING)
