#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Public reports about attention, called as checks.py is."""

import functools
import sys

import torch

import checks
import swr
from checks import (CUDA, all_refused, attention, error_of, fp8, gradients, ints, near, near_gradients,
                    normal,
                    positive, refused)

ATTENTION = {}
check = functools.partial(checks.check, among=ATTENTION)


@check("pytorch/pytorch#116333, vllm-project/vllm#40737, flashinfer-ai/flashinfer#2232")
def strides_of_dimensions_of_one():
    """The stride of a dimension of one element may be anything."""
    def odd(t, stride):
        return t.as_strided(t.shape, [stride if n == 1 else s for n, s in zip(t.shape, t.stride())])
    worst = {}
    for stride in (0, 1, 7):
        q, k, v = (odd(normal(1, heads, rows, 64), stride) for heads, rows in ((4, 1), (1, 80), (1, 80)))
        rows = [t.transpose(1, 2) for t in (q, k, v)]
        one, w, column = odd(normal(1, 512), stride), normal(96, 512), odd(normal(1, 512), stride)
        right = attention(q, k, v)
        a, b = odd(fp8(1, 512), 16 * stride), fp8(96, 512)
        scale = torch.ones((), device=CUDA)
        pairs = {
            "sdpa": (swr.sdpa(q, k, v), right), "func": (swr.flash_attn_func(*rows).transpose(1, 2), right),
            "cache": (swr.flash_attn_with_kvcache(*rows, cache_seqlens=ints(80)).transpose(1, 2), right),
            "pages": (swr.flash_attn_with_kvcache(*rows, cache_seqlens=ints(80),
                                                  page_table=odd(ints(0)[None], stride)).transpose(1, 2),
                      right),
            "matmul": (swr.matmul(one, w.t()), one.double() @ w.double().t()),
            "column": (swr.matmul(w, column.t()), w.double() @ column.double().t()),
            "linear": (swr.linear(one, w), one.double() @ w.double().t()),
            "narrow": (swr.linear(w, column), w.double() @ column.double().t()),
            "fp8": (swr.scaled_mm(a, b.t(), scale, scale), a.double() @ b.double().t()),
            "grouped": (swr.grouped_mm(one, odd(w.t()[None], stride), ints(1)),
                        one.double() @ w.double().t())}
        for name, pair in pairs.items():
            worst[name] = max(worst.get(name, 0.0), error_of(*pair))
        near_gradients((q, k, v), odd(normal(1, 4, 1, 64), stride))
    assert max(worst.values()) < 1e-2, f"{worst}"
    return f"o, c {max(worst.values()):.0e}"


@check("Dao-AILab/flash-attention#2214, alexzhang13/flashattention2-custom-mask#2")
def gradients_of_2_31_elements():
    """Q, O, dO and dQ have more elements than 32 bits count; the last batches beside a small call."""
    batch, heads, rows, d = 65600, 8, 32, 128
    k, v = normal(batch, 1, rows, d), normal(batch, 1, rows, d)
    q = normal(batch, heads, rows, d)
    d_o = normal(1, heads, rows, d).expand(batch, heads, rows, d)
    found = gradients(lambda *t: swr.sdpa(*t, causal=True), (q, k, v), d_o)
    texts = []
    for at in (slice(0, 2), slice(32767, 32769), slice(batch - 2, batch)):
        right = gradients(lambda *t: attention(*t, True), [t[at].double() for t in (q, k, v)],
                          d_o[at].double())
        texts.append(near(1e-2, **{name: (t[at], r) for name, t, r in zip(("dq", "dk", "dv"), found, right)}))
    return texts[-1]


@check("vllm-project/vllm#42273, #53628, #4545")
def pages_left_of_the_window_are_gone():
    """Entries of the table whose pages lie left of the window name a page of NaN, or none; rows that are left
    of it in the first page that stays are NaN."""
    lengths, page, left, worst = (300, 129, 64, 17), 16, 40, 0.0
    q, pool = normal(4, 4, 8, 64), torch.full((2, 90, page, 2, 64), torch.nan, dtype=torch.bfloat16,
                                              device=CUDA)
    for rows in (1, 4):
        for gone in (0, 2 ** 30):
            table, first_page = torch.full((4, 20), gone, dtype=torch.int32, device=CUDA), 1
            keys = []
            for i, length in enumerate(lengths):
                first = max(0, length - rows - left)
                used = range(first // page, -(-length // page))
                table[i, used.start:used.stop] = ints(*range(first_page, first_page + len(used)))
                first_page += len(used)
                rows_of = torch.full((2, len(used) * page, 2, 64), torch.nan, dtype=torch.bfloat16,
                                     device=CUDA)
                rows_of[:, first - used.start * page:length - used.start * page] = normal(2, length - first,
                                                                                          2, 64)
                pool[:, table[i, used.start:used.stop].long()] = rows_of.unflatten(1, (-1, page))
                keys.append(rows_of[:, first - used.start * page:length - used.start * page])
            out = swr.flash_attn_with_kvcache(q[:, :rows], *pool, cache_seqlens=ints(*lengths),
                                              page_table=table,
                                              causal=True, window_size=(left, 0))
            for i, kv in enumerate(keys):
                for row in range(rows):
                    end = kv.shape[1] - rows + 1 + row
                    seen = kv[:, max(0, end - left - 1):end].transpose(1, 2)[:, None]
                    worst = max(worst, error_of(out[i:i + 1, row:row + 1].transpose(1, 2),
                                                attention(q[i:i + 1, row:row + 1].transpose(1, 2), *seen)))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"o {worst:.0e}"


@check("Dao-AILab/flash-attention#2324, NVIDIA-NeMo/Automodel#2826")
def nan_stays_in_its_sequence():
    """Sequences and batches of NaN beside others, forward and backward; a NaN in Q stays in its row."""
    lengths = (5, 70, 1, 33, 129)
    starts = [sum(lengths[:i]) for i in range(6)]
    q, k, v = normal(238, 8, 64), normal(238, 2, 64), normal(238, 2, 64)
    for i in (1, 3):
        for t in (q, k, v):
            t[starts[i]:starts[i + 1]] = torch.nan
    out, worst = swr.flash_attn_varlen_func(q, k, v, ints(*starts), ints(*starts), 129, 129, causal=True), 0.0
    for i in (0, 2, 4):
        part = [t[starts[i]:starts[i + 1]].transpose(0, 1)[None] for t in (q, k, v)]
        worst = max(worst, error_of(out[starts[i]:starts[i + 1]].transpose(0, 1)[None], attention(*part,
                                                                                                  True)))
    q, k, v, d_o = normal(3, 8, 77, 64), normal(3, 2, 100, 64), normal(3, 2, 100, 64), normal(3, 8, 77, 64)
    good = [t[::2].clone() for t in (q, k, v, d_o)]
    for t in (q, k, v, d_o):
        t[1] = torch.nan
    found = gradients(swr.sdpa, (q, k, v), d_o)
    right = gradients(attention, [t.double() for t in good[:3]], good[3].double())
    text = near(1e-2, **{name: (t[::2], r) for name, t, r in zip(("dq", "dk", "dv"), found, right)})
    good[0][0, 3, 40] = torch.nan
    row = swr.sdpa(*good[:3])
    assert int(torch.isnan(row).any(-1).sum()) == 1, "a NaN in a row of Q reaches others"
    assert worst < 1e-2, f"{worst:.1e}"
    return f"o {worst:.0e}, {text}"


@check("flashinfer-ai/flashinfer#3740, gittensor-ai-lab/sparkinfer#41, #185")
def appended_rows_without_room():
    """A full sequence brings more than fits, and a padded one, of pages -1, nothing: no more is written."""
    pools = [torch.zeros(10, 16, 2, 64, dtype=torch.bfloat16, device=CUDA) for _ in range(2)]
    table = ints(3, 1, -1, -1, 0, 2).view(3, 2)
    q, new = normal(8, 8, 64), normal(8, 2, 64)
    out = swr.flash_attn_with_kvcache(q, pools[0][1:9], pools[1][1:9], new, new,
                                      cache_seqlens=ints(30, 0, 5), page_table=table,
                                      cu_seqlens_q=ints(0, 4, 4, 8), cu_seqlens_k_new=ints(0, 4, 4, 8),
                                      max_seqlen_q=4, causal=True)
    for pool in pools:
        right = torch.zeros_like(pool)
        right[2, 14:], right[1, 5:9] = new[:2], new[4:]
        assert torch.equal(pool,
                           right), f"written: {[i for i in range(10) if not torch.equal(pool[i], right[i])]}"
    keys = pools[0][1, :9].transpose(0, 1)[None]
    return near(1e-2, o=(out[4:].transpose(0, 1)[None], attention(q[4:].transpose(0, 1)[None], keys, keys,
                                                                  True)))


@check("flashinfer-ai/flashinfer#1654, RL-Align/RL-Kernel#195")
def what_is_appended_fits_its_cache():
    """Other types of positions, and rows of other heads, sizes and batches, are refused by name."""
    q, caches, new = normal(2, 1, 8, 64), [normal(2, 128, 2, 64) for _ in range(2)], normal(2, 1, 2, 64)
    turn = {"rotary_cos": normal(256, 32), "rotary_sin": normal(256, 32)}
    long = torch.tensor([0, 1, 2], device=CUDA)

    def call(*words, **more):
        rows = {"k": new, "v": new, "cache_seqlens": ints(5, 60), **more}
        return refused(lambda: swr.flash_attn_with_kvcache(q, *[t.clone() for t in caches], **rows), *words)
    assert call(**turn) == "is taken"
    return all_refused(
        rotary_seqlens=call("rotary_seqlens", **turn, rotary_seqlens=long[:2]),
        few_positions=call("rotary_seqlens", **turn, rotary_seqlens=ints(4)),
        cu_seqlens_k_new=call("cu_seqlens_k_new", k=new[:, 0], v=new[:, 0], cu_seqlens_k_new=long),
        heads=call("k", k=normal(2, 1, 1, 64), v=normal(2, 1, 1, 64)),
        head_dim=call("k", k=normal(2, 1, 2, 32), v=normal(2, 1, 2, 32)),
        batch=call("k", k=normal(1, 1, 2, 64), v=normal(1, 1, 2, 64)), rows=call("v", k=normal(2, 2, 2, 64)))


@check("Dao-AILab/flash-attention#753, #952, #1541")
def values_of_another_head_dim():
    """Right, or refused by a message that names head_dim."""
    texts = []
    for d, d_v in ((192, 128), (128, 64), (64, 128), (64, 256), (128, 256), (96, 64), (256, 64)):
        q, k, v = normal(2, 70, 6, d), normal(2, 90, 2, d), normal(2, 90, 2, d_v)
        call = lambda: swr.flash_attn_func(q, k, v, causal=True)
        fault = refused(call, "head_dim", "head-dim")
        assert fault in ("", "is taken"), f"{d}, {d_v} {fault}"
        if fault:
            near(1e-2, o=(call().transpose(1, 2), attention(*(t.transpose(1, 2) for t in (q, k, v)), True)))
        texts.append(f"{d}/{d_v} {'right' if fault else 'refused'}")
        fault = refused(lambda: swr.sdpa(*(t.transpose(1, 2) for t in (q, k, v))), "one shape")
        assert not fault, f"sdpa of {d}, {d_v} {fault}"
    return ", ".join(texts)


@check("InternLM/lmdeploy#1761, fla-org/flash-linear-attention#1029, tenstorrent/tt-metal#5318")
def heads_that_share_by_71_and_128():
    """Any divisor of the heads, forward, backward and a step; what divides nothing is refused."""
    texts = []
    for heads, kv_heads, d in ((71, 1, 64), (128, 1, 128), (25, 5, 256), (40, 8, 80)):
        q, k, v = normal(2, heads, 70, d), normal(2, kv_heads, 90, d), normal(2, kv_heads, 90, d)
        step = swr.flash_attn_with_kvcache(q.transpose(1, 2)[:, :1], k.transpose(1, 2), v.transpose(1, 2),
                                           cache_seqlens=88)
        texts.append(near(1e-2, step=(step.transpose(1, 2), attention(q[:, :, :1], k[:, :, :88], v[:, :,
                                                                                                   :88]))))
        if d % 32 == 0 or d <= 128:
            texts.append(near_gradients((q, k, v), normal(2, heads, 70, d), causal=True))
    q, k = normal(2, 33, 70, 64), normal(2, 2, 90, 64)
    rows = [t.transpose(1, 2) for t in (q, k, k)]
    return texts[0] + "; " + all_refused(sdpa=refused(lambda: swr.sdpa(q, k, k), "divisor"),
                                         func=refused(lambda: swr.flash_attn_func(*rows), "multiple"))


@check("NVIDIA/cudnn-frontend#333, flashinfer-ai/flashinfer#4401")
def sinks_of_infinity():
    """A sink of -infinity is none, one of 1e4 leaves nothing, also where no key is seen or keys are split."""
    worst, sinks = 0.0, torch.tensor([-torch.inf, -torch.inf, 1e4, -1e4, 0.0, -torch.inf, 1.0, -torch.inf],
                                     device=CUDA)
    for rows, keys in ((1, 30000), (70, 50), (130, 200)):
        q, k, v = normal(2, rows, 8, 64), normal(2, keys, 2, 64), normal(2, keys, 2, 64)
        o, lse = swr.flash_attn_func(q, k, v, causal=True, s_aux=sinks, return_attn_probs=True)
        scores = q.transpose(1, 2).double() @ k.transpose(1, 2).double().repeat_interleave(4, 1).mT / 8
        hidden = torch.ones(rows, keys, dtype=torch.bool, device=CUDA).triu(1 + keys - rows)
        scores = torch.cat([scores.masked_fill(hidden, -torch.inf),
                            sinks.double()[None, :, None, None].expand(2, 8, rows, 1)], -1)
        right = torch.nan_to_num(scores.softmax(-1))[..., :-1] @ v.transpose(1,
                                                                             2).double().repeat_interleave(4,
                                                                                                           1)
        worst = max(worst, error_of(o.transpose(1, 2), right))
        found, wanted = lse.double(), scores.logsumexp(-1)
        assert torch.equal(found == -torch.inf,
                           wanted == -torch.inf) and not bool(found.isnan().any()), "lse of rows without keys"
        worst = max(worst, float((found - wanted)[wanted != -torch.inf].abs().max()) / 10)
    assert worst < 1e-2, f"{worst:.1e}"
    return f"o, lse {worst:.0e}"


@check("pytorch/pytorch#162588, lablup/mlxcel#648")
def rows_beyond_2_16_and_a_million_keys():
    """Rows about 65536 of 70001 under the mask, forward and backward, and a step over 1,100,000 keys."""
    q, k, v, d_o = (normal(1, 2, 70001, 64) for _ in range(4))
    o, (dq, _, dv) = swr.sdpa(q, k, v, causal=True), gradients(lambda *t: swr.sdpa(*t, causal=True),
                                                               (q, k, v), d_o)
    worst = 0.0
    for at in (slice(0, 3), slice(65534, 65539), slice(69998, 70001)):
        part = [t[:, :, at].double() for t in (q, d_o)]
        keys = [t[:, :, :at.stop].double() for t in (k, v)]
        worst = max(worst, error_of(o[:, :, at], attention(part[0], *keys, True)))
        right, = gradients(lambda t: attention(t, *keys, True), part[:1], part[1])
        worst = max(worst, error_of(dq[:, :, at], right))
    assert bool(dv.isfinite().all())
    q, k, v = normal(1, 1, 8, 128), normal(1, 1100000, 1, 128), normal(1, 1100000, 1, 128)
    step = swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=ints(1099999))
    worst = max(worst, error_of(step.transpose(1, 2), attention(*(t.transpose(1, 2) for t in (q, k[:, :-1],
                                                                                              v[:, :-1])))))
    assert worst < 1.5e-2, f"{worst:.1e}"
    return f"o, dq {worst:.0e}"


@check("NVIDIA/recsys-examples#86, flashinfer-ai/flashinfer#4002")
def batches_of_nothing_and_bounds_beyond_lengths():
    """No token at all, no key at all, a batch of 0, and bounds a thousand times what there is."""
    none, few = normal(0, 8, 64), normal(9, 8, 64)
    for q, k, starts_q, starts_k in ((none, none, (0, 0, 0), (0, 0, 0)), (few, none, (0, 4, 9), (0, 0, 0)),
                                     (none, few, (0, 0, 0), (0, 4, 9)), (none, none, (0,), (0,))):
        out, lse = swr.flash_attn_varlen_func(q, k, k, ints(*starts_q), ints(*starts_k), 5, 5, causal=True,
                                              return_attn_probs=True)
        assert out.shape == q.shape and not out.any(), f"{starts_q}, {starts_k}"
        assert bool((lse == -torch.inf).all()), f"lse of {starts_q}, {starts_k}"
    caches, q = normal(4, 32, 2, 64), normal(0, 1, 8, 64)
    assert swr.flash_attn_with_kvcache(q, caches[:0], caches[:0], cache_seqlens=ints()).shape == q.shape
    table = torch.zeros(0, 3, dtype=torch.int32, device=CUDA)
    assert swr.flash_attn_with_kvcache(q, caches, caches, cache_seqlens=ints(),
                                       page_table=table).shape == q.shape
    out = swr.flash_attn_varlen_func(few, few, few, ints(0, 4, 9), ints(0, 4, 9), 9000, 90000,
                                     seqused_q=ints(4, 2), causal=True)
    keys = few[4:].transpose(0, 1)[None]
    second = out[4:6].transpose(0, 1)[None], attention(few[4:6].transpose(0, 1)[None], keys, keys, True)
    first = attention(*(few[:4].transpose(0, 1)[None],) * 3, True)
    return near(1e-2, first=(out[:4].transpose(0, 1)[None], first), second=second)


if __name__ == "__main__":
    sys.exit(checks.main(ATTENTION))
