# SPDX-License-Identifier: MIT
"""Pages as FlashInfer names them: what a step has in common is planned once, and run for every
layer. And the merge of results over different keys."""

import ctypes
import dataclasses
from typing import Optional, Tuple, Union

import torch

from ._library import States, Strides, library
from ._serving import Scores, attend
from ._torch import DTYPES, launch, refuse_derivatives, require_cuda, skips_dispatcher


@dataclasses.dataclass(frozen=True)
class PagedPlan:
    """What plan_paged() makes: lengths and pages of a batch, and what every layer does with them.
    Its tensors may be overwritten between runs, also between replays of a captured graph, as long
    as the bounds hold."""

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    kv_last_page_len: torch.Tensor
    num_qo_heads: int
    num_kv_heads: int
    page_size: int
    max_seqlen_q: int
    max_seqlen_k: int
    scores: Scores
    kv_layout: str


def _most(indptr, bound, name):
    """The longest step of cumulative lengths; of those on a device only the caller knows it."""
    if bound is not None:
        return int(bound)
    if indptr.device.type != "cpu":
        raise ValueError(f"{name} must be given where lengths are on the device: nobody waits for "
                         "them")
    return int(indptr.diff().max()) if indptr.numel() > 1 else 0


def plan_paged(qo_indptr: torch.Tensor, kv_indptr: torch.Tensor, kv_indices: torch.Tensor,
               kv_last_page_len: torch.Tensor, num_qo_heads: int, num_kv_heads: int, head_dim: int,
               page_size: int, *, causal: bool = False, sm_scale: Optional[float] = None,
               window_left: int = -1, logits_soft_cap: Optional[float] = None,
               kv_layout: str = "NHD", max_seqlen_q: Optional[int] = None,
               max_seqlen_k: Optional[int] = None,
               device: Union[torch.device, str, None] = None) -> PagedPlan:
    """Sequence i has queries [qo_indptr[i], qo_indptr[i + 1]) and the keys of pages
    kv_indices[kv_indptr[i]:kv_indptr[i + 1]], of whose last kv_last_page_len[i] rows are used;
    all int32. Tensors of the CPU are copied to `device` (usually cuda) and say the bounds; of
    tensors of a device `max_seqlen_q` and `max_seqlen_k` must be told, and nobody waits."""
    if kv_layout not in ("NHD", "HND"):
        raise ValueError(f"kv_layout must be NHD or HND, not {kv_layout!r}")
    if page_size < 1:
        raise ValueError(f"page_size must be positive, not {page_size}")
    most_q = _most(qo_indptr, max_seqlen_q, "max_seqlen_q")
    most_k = (int(max_seqlen_k) if max_seqlen_k is not None
              else _most(kv_indptr, None, "max_seqlen_k") * page_size)
    scores = dataclasses.replace(
        Scores.of(head_dim, sm_scale, causal, (window_left, -1), 0, logits_soft_cap or 0.0, most_q,
                  most_k), in_base_2=True)
    tensors = [t.to(device if t.device.type == "cpu" and device is not None else t.device,
                    torch.int32) for t in (qo_indptr, kv_indptr, kv_indices, kv_last_page_len)]
    return PagedPlan(*tensors, num_qo_heads, num_kv_heads, page_size, most_q, most_k, scores,
                     kv_layout)


def run_paged(plan: PagedPlan, q: torch.Tensor,
              paged_kv_cache: Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]], *,
              out: Optional[torch.Tensor] = None, sinks: Optional[torch.Tensor] = None,
              return_lse: bool = False, lengths_are_ready: bool = False
              ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """q [tokens, heads, head_dim]; the cache [pages, 2, page_size, heads, head_dim] (NHD) or
    [pages, 2, heads, page_size, head_dim] (HND), or K and V apart without the 2. O as q, and with
    return_lse the logarithm to base 2 of each row's sum of exponentials [tokens, heads], as
    merge_states takes it.

    lengths_are_ready promises that the plan's tensors were complete before the launch ahead of this
    one began, as they are in every layer of a step but the first: work is then dealt while that
    launch still ends."""
    k, v = (paged_kv_cache if isinstance(paged_kv_cache, (tuple, list))
            else (paged_kv_cache[:, 0], paged_kv_cache[:, 1]))
    if plan.kv_layout == "HND":
        k, v = k.transpose(1, 2), v.transpose(1, 2)
    if q.shape[-2] != plan.num_qo_heads or k.shape[-2] != plan.num_kv_heads:
        raise ValueError(f"planned for {plan.num_qo_heads} heads of q and {plan.num_kv_heads} of "
                         f"k, not {q.shape[-2]} and {k.shape[-2]}")
    if k.shape[1] != plan.page_size:
        raise ValueError(f"planned for pages of {plan.page_size} rows, not {k.shape[1]}")
    lengths = {"cu_seqlens_q": plan.qo_indptr, "page_indptr": plan.kv_indptr,
               "page_indices": plan.kv_indices, "last_page_len": plan.kv_last_page_len}
    o, lse = attend(q, k, v, lengths=lengths, max_seq_q=plan.max_seqlen_q,
                    max_seq_kv=plan.max_seqlen_k, scores=plan.scores, sinks=sinks,
                    tokens_first=True, return_lse=return_lse, out=out,
                    lengths_are_ready=lengths_are_ready)
    return (o, lse) if return_lse else o


def _merge(v, s):
    require_cuda(v=v, s=s)
    o = torch.empty((v.shape[0], v.shape[2], v.shape[3]), dtype=v.dtype, device=v.device)
    lse = torch.empty(o.shape[:2], dtype=torch.float32, device=v.device)
    if o.numel() == 0:
        return o, lse
    states = States(
        size=ctypes.sizeof(States), parts=v.data_ptr(), part_lse=s.data_ptr(), o=o.data_ptr(),
        lse=lse.data_ptr(), part_strides=Strides(v.stride(1), v.stride(2), v.stride(0)),
        part_lse_strides=Strides(s.stride(1), s.stride(2), s.stride(0)),
        o_strides=Strides(0, o.stride(1), o.stride(0)),
        lse_strides=Strides(0, lse.stride(1), lse.stride(0)), part_count=v.shape[1],
        heads=v.shape[2], rows=v.shape[0], head_dim=v.shape[3], part_dtype=DTYPES[v.dtype],
        output_dtype=DTYPES[v.dtype], lse_in_base_2=1)
    launch(library.swr_merge_states, v.get_device(), ctypes.addressof(states))
    return o, lse


@torch.library.custom_op("swr::merge_states", mutates_args=(), device_types="cuda")
def _operator(v: torch.Tensor, s: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    return _merge(v, s)


@_operator.register_fake
def _(v, s):
    shape = (v.shape[0], v.shape[2], v.shape[3])
    return (torch.empty(shape, dtype=v.dtype, device=v.device),
            torch.empty(shape[:2], dtype=torch.float32, device=v.device))


def merge_states(v: torch.Tensor, s: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Attention over different keys of the same queries, v [tokens, parts, heads, head_dim] with
    logarithms to base 2 s [tokens, parts, heads] in float32, becomes attention over all of them:
    [tokens, heads, head_dim] and [tokens, heads]. A part without keys has s = -inf."""
    refuse_derivatives("swr.merge_states", v, s)
    if v.dim() != 4 or s.shape != v.shape[:3]:
        raise ValueError("v must be [tokens, parts, heads, head_dim] and s [tokens, parts, heads], "
                         f"not {tuple(v.shape)} and {tuple(s.shape)}")
    if v.dtype not in DTYPES or s.dtype != torch.float32:
        raise TypeError("v must be float16, bfloat16 or float32, and s float32, not "
                        f"{v.dtype} and {s.dtype}")
    if v.stride(-1) != 1:
        raise ValueError("the innermost dimension of v must be contiguous; pass v.contiguous()")
    return _merge(v, s) if skips_dispatcher(v, s) else _operator(v, s)
