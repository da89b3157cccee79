# SPDX-License-Identifier: MIT
"""FlashAttention-3's and FlashInfer's forms without a GPU: a computation on the CPU that reads memory
as the structure says stands for the kernels."""

import contextlib
import inspect
import math
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import swr
    from serving_reference import merge, prepare, serving
    from swr import _flash, _library, _paged, _serving, _torch


@contextlib.contextmanager
def on_the_cpu():
    """Tensors of the CPU pass for tensors of a device."""
    patches = (
        mock.patch.object(_torch, "_handle", lambda: 1),
        mock.patch.object(_torch, "_current_device", lambda: -1),
        mock.patch.object(_torch, "_raw_stream", lambda index: 0),
        mock.patch.object(_serving, "require_cuda", lambda **tensors: None),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False),
        mock.patch.object(_paged, "require_cuda", lambda **tensors: None),
        mock.patch.dict(_library.library.__dict__, {
            "swr_runtime_serving_attention": mock.Mock(side_effect=serving),
            "swr_runtime_prepare_serving": mock.Mock(side_effect=prepare),
            "swr_merge_states": mock.Mock(side_effect=merge)}))
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def normal(*shape, dtype=None):
    return torch.randn(*shape).to(dtype or torch.bfloat16)


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def expected(q, k, v, causal=False, left=-1, right=-1, softcap=0.0, sinks=None, scale=None):
    """O [queries, heads, d] and the log-sum-exp [heads, queries] of one sequence, by the book."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.float(), k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    position = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    key = torch.arange(k.shape[0])[None, :]
    right = 0 if causal else right
    if left >= 0:
        scores = scores.masked_fill(key < position - left, -math.inf)
    if right >= 0:
        scores = scores.masked_fill(key > position + right, -math.inf)
    if sinks is not None:
        column = sinks.float()[:, None, None].expand(-1, q.shape[0], 1)
        scores = torch.cat([scores, column], -1)
        v = torch.cat([v, torch.zeros_like(v[:1])])
    return (torch.einsum("hqk,khd->qhd", torch.nan_to_num(scores.softmax(-1)), v),
            scores.logsumexp(-1))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class OnTheCpu(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        context = on_the_cpu()
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def assert_close(self, out, reference):
        self.assertEqual(out.shape, reference.shape)
        torch.testing.assert_close(out.float(), reference.float(), rtol=2e-2, atol=2e-2)

    def refuses(self, text, action, kind=ValueError):
        with self.assertRaisesRegex(kind, text):
            action()


class Varlen(OnTheCpu):
    def check(self, queries, keys, heads=(4, 2), head_dims=(32, 32), **more):
        starts_q = torch.tensor([0, *queries]).cumsum(0).to(torch.int32)
        starts_k = torch.tensor([0, *keys]).cumsum(0).to(torch.int32)
        q = normal(sum(queries), heads[0], head_dims[0])
        k, v = (normal(sum(keys), heads[1], d) for d in head_dims)
        out, lse = swr.flash_attn_varlen_func(q, k, v, starts_q, starts_k, max(queries), max(keys),
                                              return_attn_probs=True, **more)
        self.assertEqual(lse.shape, (heads[0], sum(queries)))
        left, right = more.get("window_size", (-1, -1))
        for i in range(len(queries)):
            rows, cols = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
            o, of_row = expected(q[rows], k[cols], v[cols], more.get("causal", False), left, right,
                                 more.get("softcap", 0.0), more.get("s_aux"),
                                 more.get("softmax_scale"))
            self.assert_close(out[rows], o)
            self.assert_close(lse[:, rows], of_row)

    def test_lengths_masks_and_scores(self):
        for more in ({}, {"causal": True}, {"window_size": (3, 0)}, {"window_size": (2, 1)},
                     {"window_size": (-1, 2)}, {"softcap": 5.0, "causal": True},
                     {"s_aux": torch.randn(4), "causal": True}, {"softmax_scale": 0.3},
                     {"s_aux": normal(4), "window_size": (4, 0)}, {"causal": True,
                                                                   "window_size": (5, 5)}):
            self.check([5, 1, 7, 3], [9, 4, 7, 1], **more)
        self.check([1, 1, 1], [9, 30, 2], causal=True, heads=(8, 1))
        self.check([4, 0, 2], [4, 3, 0], causal=True)
        self.check([4, 6], [4, 9], head_dims=(192, 128), causal=True)

    def test_pages_in_vllms_form(self):
        q, keys = normal(6, 4, 32), int32(5, 11)
        k, v = normal(7, 4, 2, 32), normal(7, 4, 2, 32)
        table = int32(3, 1, -1, 6, 0, 5).view(2, 3)
        out = swr.flash_attn_varlen_func(q, k, v, int32(0, 2, 6), None, 4, 12, seqused_k=keys,
                                         causal=True, block_table=table)
        for i, rows in enumerate((slice(0, 2), slice(2, 6))):
            pages = [p for p in table[i].tolist() if p >= 0]
            cols = slice(0, keys[i])
            o, _ = expected(q[rows], k[pages].flatten(0, 1)[cols], v[pages].flatten(0, 1)[cols], True)
            self.assert_close(out[rows], o)

    def test_bounds_are_part_of_what_a_mask_is(self):
        call = mock.Mock(side_effect=serving)
        with mock.patch.dict(_library.library.__dict__, {"swr_runtime_serving_attention": call}):
            for window, causal, mask in (((-1, -1), False, 0), ((-1, -1), True, 1),
                                         ((100, 0), False, 1), ((3, 0), False, 2),
                                         ((100, 100), False, 0), ((3, 100), True, 2)):
                seen = []
                call.side_effect = lambda runtime, address, stream: seen.append(
                    _library.ServingAttention.from_address(address).mask) or 0
                swr.flash_attn_varlen_func(normal(8, 2, 16), normal(8, 2, 16), normal(8, 2, 16),
                                           int32(0, 8), int32(0, 8), 8, 8, causal=causal,
                                           window_size=window)
                self.assertEqual(seen, [mask], (window, causal))

    def test_nothing_to_do(self):
        empty = normal(0, 2, 16)
        self.assertEqual(swr.flash_attn_varlen_func(empty, normal(3, 2, 16), normal(3, 2, 16),
                                                    int32(0, 0), int32(0, 3), 0, 3).shape,
                         (0, 2, 16))
        out, lse = swr.flash_attn_varlen_func(normal(3, 2, 16), empty, empty, int32(0, 3),
                                              int32(0, 0), 3, 0, return_attn_probs=True)
        self.assertTrue(torch.equal(out, torch.zeros_like(out)))
        self.assertTrue((lse == -math.inf).all())
        sinks = torch.randn(2)
        out, lse = swr.flash_attn_varlen_func(normal(3, 2, 16), empty, empty, int32(0, 3), int32(0, 0), 3, 1,
                                              s_aux=sinks, return_attn_probs=True)
        self.assertTrue(torch.equal(out, torch.zeros_like(out)))
        torch.testing.assert_close(lse, sinks[:, None].expand(2, 3))

    def test_refusals_name_the_argument(self):
        q, starts = normal(4, 2, 16), int32(0, 4)

        def call(**more):
            return swr.flash_attn_varlen_func(
                more.pop("q", q), more.pop("k", q), more.pop("v", q),
                more.pop("cu_seqlens_q", starts), more.pop("cu_seqlens_k", starts), 4, 4, **more)
        for name in ("qv", "q_descale", "k_descale", "v_descale"):
            self.refuses(f"no kernel for {name}", lambda: call(**{name: torch.ones(1)}))
        self.refuses("sm_margin", lambda: call(sm_margin=4))
        self.refuses("softcap", lambda: call(softcap=-1.0))
        self.refuses("softmax_scale", lambda: call(softmax_scale=0.0))
        self.refuses("window_size", lambda: call(window_size=(-2, 0)))
        self.refuses("attention_chunk", lambda: call(attention_chunk=-1))
        self.refuses("s_aux", lambda: call(s_aux=torch.ones(3)))
        self.refuses("cu_seqlens_q must be int32", lambda: call(cu_seqlens_q=starts.long()),
                     TypeError)
        self.refuses("cu_seqlens_k must have 2", lambda: call(cu_seqlens_k=int32(0, 2, 4)))
        self.refuses("q must be float16", lambda: call(q=q.float()), TypeError)
        self.refuses("v must have q's type", lambda: call(v=q.half()), TypeError)
        self.refuses("pass cu_seqlens_k, or block_table", lambda: call(cu_seqlens_k=None))
        self.refuses("multiple of those", lambda: call(k=normal(4, 3, 16), v=normal(4, 3, 16)))
        self.refuses("contiguous", lambda: call(k=normal(4, 2, 32)[..., ::2]))
        self.refuses("no backward", lambda: call(q=q.clone().requires_grad_()), _library.Error)
        self.refuses("no backward", lambda: call(s_aux=torch.ones(2).requires_grad_()), _library.Error)

    def test_sinks_are_a_column_of_a_matrix(self):
        sinks = normal(4, 2)[:, 0]
        self.check((5,), (9,), s_aux=sinks)


class Memory(OnTheCpu):
    """What a caller brings, so that a call allocates nothing."""

    def setUp(self):
        super().setUp()
        self.launches = []

        def launch(runtime, address, stream):
            call = _library.ServingAttention.from_address(address)
            self.launches.append((call.workspace, call.workspace_bytes, call.lengths_are_ready,
                                  call.k_strides.head, call.k_strides.batch, call.k_strides.seq))
            return serving(runtime, address, stream)
        _library.library.__dict__["swr_runtime_serving_attention"].side_effect = launch
        self.prepare = _library.library.__dict__["swr_runtime_prepare_serving"]
        self.prepare.reset_mock()

    def call(self, queries=3, heads=2, kv_heads=2, **more):
        q, k = normal(queries, heads, 16), normal(5, kv_heads, 16)
        out = swr.flash_attn_varlen_func(q, k, k, int32(0, queries), int32(0, 5), queries, 5, **more)
        self.assert_close(out, expected(q, k, k)[0])
        return out

    def test_the_output_is_written_where_the_caller_wants_it(self):
        given = torch.zeros(3, 2, 16, dtype=torch.bfloat16)
        self.assertIs(self.call(out=given), given)
        for wrong in (given[:2], given.float(), torch.zeros(2, 3, 16).bfloat16().transpose(0, 1)):
            self.refuses("out must be a contiguous", lambda: self.call(out=wrong))

    def test_a_workspace_grows_and_is_shared(self):
        workspace = swr.Workspace()
        for queries in (21, 29, 21, 29, 24):
            self.call(queries, workspace=workspace)
        memory = [address for address, *_ in self.launches]
        self.assertEqual(len(set(memory)), 2)
        self.assertEqual(memory[1:], memory[1:2] * 4, "the largest serves all")
        self.assertEqual(self.prepare.call_count, 3, "asked once for each kind of call")
        self.assertTrue(all(not part.any() for part in workspace._parts), "zeroed")

    def test_after_a_refresh_the_workspace_is_asked_for_anew(self):
        workspace = swr.Workspace()
        self.call(6, workspace=workspace)
        self.prepare.side_effect = lambda runtime, address, size_bytes: setattr(
            size_bytes._obj, "value", 1 << 20) or 0
        self.call(6, workspace=workspace)
        self.assertLess(self.launches[-1][1], 1 << 20)
        _torch._count_refresh()
        self.call(6, workspace=workspace)
        self.assertEqual(self.launches[-1][1], 1 << 20)

    def test_a_workspace_does_not_grow_in_a_captured_call(self):
        workspace = swr.Workspace()
        self.call(2, workspace=workspace)
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
            self.call(2, workspace=workspace)
            self.refuses("make the call once before capturing",
                         lambda: self.call(50, workspace=workspace), _library.Error)

    def test_a_promise_and_the_strides_of_single_dimensions_reach_the_kernel(self):
        self.call(lengths_are_ready=True)
        self.assertEqual(self.launches[-1][2], 1)
        q, k = normal(3, 2, 16), normal(5, 1, 16).as_strided((5, 1, 16), (16, 1, 1))
        swr.flash_attn_varlen_func(q, k, k, int32(0, 3), int32(0, 5), 3, 5)
        self.assertEqual(self.launches[-1][2:4], (0, 16))
        q, k = normal(1, 1, 2, 16), normal(1, 1, 2, 16).as_strided((1, 1, 2, 16), (3, 5, 16, 1))
        self.assert_close(swr.flash_attn_func(q, k, k)[0], k[0])
        self.assertTrue(all(stride % 8 == 0 for stride in self.launches[-1][3:]), self.launches[-1])


class KvCache(OnTheCpu):
    def test_rows_are_appended_turned_and_attended_to(self):
        for paged in (False, True):
            for interleaved in (False, True):
                self.append(paged, interleaved)

    def append(self, paged, interleaved):
        lengths, new = int32(5, 0, 9), 3
        q = normal(3, new, 4, 32)
        k_new, v_new = normal(3, new, 2, 32), normal(3, new, 2, 32)
        cos, sin = torch.rand(20, 8).bfloat16(), torch.rand(20, 8).bfloat16()
        if paged:
            k, v = normal(12, 4, 2, 32), normal(12, 4, 2, 32)
            table = torch.randperm(12)[:12].view(3, 4).to(torch.int32)
            dense_k, dense_v = (t[table.long()].flatten(1, 2).clone() for t in (k, v))
        else:
            k, v, table = normal(3, 16, 2, 32), normal(3, 16, 2, 32), None
            dense_k, dense_v = k.clone(), v.clone()
        out = swr.flash_attn_with_kvcache(
            q, k, v, k_new, v_new, rotary_cos=cos, rotary_sin=sin, cache_seqlens=lengths,
            page_table=table, causal=True, rotary_interleaved=interleaved)

        def turned(row, position):
            row = row.float().clone()
            a, b = (row[:, 0:16:2], row[:, 1:16:2]) if interleaved else (row[:, :8], row[:, 8:16])
            c, s = cos[position].float(), sin[position].float()
            x, y = a * c - b * s, a * s + b * c
            if interleaved:
                row[:, 0:16:2], row[:, 1:16:2] = x, y
            else:
                row[:, :8], row[:, 8:16] = x, y
            return row.bfloat16()
        for i, length in enumerate(lengths.tolist()):
            for j in range(new):
                dense_k[i, length + j] = turned(k_new[i, j], length + j)
                dense_v[i, length + j] = v_new[i, j]
            turned_q = torch.stack([turned(q[i, j], length + j) for j in range(new)])
            keys = slice(0, length + new)
            o, _ = expected(turned_q, dense_k[i, keys], dense_v[i, keys], True)
            self.assert_close(out[i], o)
        found = (t[table.long()].flatten(1, 2) if paged else t for t in (k, v))
        for cache, dense in zip(found, (dense_k, dense_v)):
            self.assertTrue(torch.equal(cache, dense), "only new rows change")

    def test_caches_by_index_and_padding(self):
        q, k, v = normal(2, 1, 4, 32), normal(5, 8, 2, 32), normal(5, 8, 2, 32)
        out, lse = swr.flash_attn_with_kvcache(
            q, k, v, cache_seqlens=int32(8, 6), cache_batch_idx=int32(4, 1),
            cache_leftpad=int32(2, 0), causal=True, return_softmax_lse=True)
        self.assertEqual(lse.shape, (2, 4, 1))
        for i, (index, rows) in enumerate(((4, slice(2, 8)), (1, slice(0, 6)))):
            o, of_row = expected(q[i], k[index, rows], v[index, rows], True)
            self.assert_close(out[i], o)
            self.assert_close(lse[i], of_row)
        self.assert_close(swr.flash_attn_with_kvcache(q, k[:2], v[:2], cache_seqlens=3)[0],
                          expected(q[0], k[0, :3], v[0, :3])[0])

    def test_no_sequence(self):
        q, k, table = normal(0, 1, 4, 32), normal(5, 8, 2, 32), torch.zeros(0, 3, dtype=torch.int32)
        for rows in ({}, {"k": normal(0, 1, 2, 32), "v": normal(0, 1, 2, 32)}):
            out = swr.flash_attn_with_kvcache(q, k, k, cache_seqlens=int32(), page_table=table, **rows)
            self.assertEqual(out.shape, q.shape)
        launch = _library.library.__dict__["swr_runtime_serving_attention"]
        launch.assert_not_called()  # The library wants the table's address.
        swr.flash_attn_with_kvcache(q[:, 0], k[:1], k[:1], k[1:2, :2], k[1:2, :2], cache_seqlens=int32(3),
                                    cu_seqlens_q=int32(0, 0), max_seqlen_q=1)
        launch.assert_called_once()  # Rows are appended without a query.

    def test_ragged_queries(self):
        q, k, v = normal(5, 4, 32), normal(2, 9, 2, 32), normal(2, 9, 2, 32)
        out = swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=int32(9, 4), causal=True,
                                          cu_seqlens_q=int32(0, 3, 5), max_seqlen_q=3)
        self.assert_close(out[:3], expected(q[:3], k[0], v[0], True)[0])
        self.assert_close(out[3:], expected(q[3:], k[1, :4], v[1, :4], True)[0])

    def test_refusals_name_the_argument(self):
        q, k = normal(2, 1, 2, 16), normal(2, 8, 2, 16)

        def call(**more):
            return swr.flash_attn_with_kvcache(q, k, k, **more)
        for name in ("qv", "k_descale", "scheduler_metadata"):
            self.refuses(name, lambda: call(**{name: torch.ones(1)}))
        self.refuses("k and v belong together", lambda: call(k=q))
        self.refuses("rotary_cos", lambda: call(rotary_cos=torch.ones(1)))
        self.refuses("cache_seqlens", lambda: call(k=q, v=q))
        self.refuses("max_seqlen_q", lambda: call(cu_seqlens_q=int32(0, 1, 2)))
        self.refuses("cache_batch_idx", lambda: call(page_table=int32(0, 1).view(2, 1),
                                                     cache_batch_idx=int32(0, 1)))
        self.refuses("page_table must have a row", lambda: call(page_table=int32(0).view(1, 1)))
        self.refuses("rotary_cos must have q's type", lambda: call(
            k=q, v=q, cache_seqlens=int32(1, 1), rotary_cos=torch.ones(8, 8),
            rotary_sin=torch.ones(8, 8)), TypeError)

    def test_what_is_appended_fits_its_cache(self):
        q, k = normal(2, 1, 2, 16), normal(2, 8, 2, 16)
        turn = {"rotary_cos": normal(8, 8), "rotary_sin": normal(8, 8)}

        def call(rows=q, **more):
            return swr.flash_attn_with_kvcache(q, k, k.clone(), **{"k": rows, "v": rows, **more},
                                               cache_seqlens=int32(1, 1))
        call(**turn, rotary_seqlens=int32(1, 2))
        for wrong in (normal(2, 1, 1, 16), normal(2, 1, 2, 8), normal(1, 1, 2, 16), normal(3, 1, 2, 16)):
            self.refuses("heads and head_dim of their caches", lambda: call(wrong))
        self.refuses("as many rows", lambda: call(v=normal(2, 2, 2, 16)))
        for wrong in (int32(1, 2).long(), int32(1), int32(1, 0, 2, 0)[::2]):
            self.refuses("rotary_seqlens", lambda: call(**turn, rotary_seqlens=wrong))
        self.refuses("cu_seqlens_k_new", lambda: call(q[:, 0], cu_seqlens_k_new=torch.tensor([0, 1, 2])))
        for name in "kv":
            self.refuses("no backward", lambda: call(**{name: q.clone().requires_grad_()}), _library.Error)


class Paged(OnTheCpu):
    def test_pages_by_csr_in_both_layouts(self):
        indptr, indices, last = int32(0, 2, 2, 5), int32(4, 1, 6, 0, 3), int32(3, 0, 4)
        q = normal(4, 4, 32)
        for layout in ("NHD", "HND"):
            cache = normal(7, 2, 4, 2, 32) if layout == "NHD" else normal(7, 2, 2, 4, 32)
            plan = swr.plan_paged(int32(0, 1, 2, 4), indptr, indices, last, 4, 2, 32, 4,
                                  causal=True, kv_layout=layout, logits_soft_cap=8.0)
            self.assertEqual((plan.max_seqlen_q, plan.max_seqlen_k), (2, 12))
            out, lse = swr.run_paged(plan, q, cache, return_lse=True)
            rows = cache if layout == "NHD" else cache.transpose(2, 3)
            for i, queries in enumerate((slice(0, 1), slice(1, 2), slice(2, 4))):
                pages = indices[indptr[i]:indptr[i + 1]].long()
                keys = (len(pages) - 1) * 4 + int(last[i]) if len(pages) else 0
                k, v = (rows[pages, part].flatten(0, 1)[:keys] for part in (0, 1))
                o, of_row = expected(q[queries], k, v, True, softcap=8.0)
                self.assert_close(out[queries], o)
                self.assert_close(lse[queries].T, of_row / math.log(2.0))
            given = torch.empty_like(q)
            self.assertIs(swr.run_paged(plan, q, (cache[:, 0], cache[:, 1]), out=given), given)
            self.assertTrue(torch.equal(given, out))

    def test_refusals(self):
        one = int32(0, 1)
        self.refuses("kv_layout", lambda: swr.plan_paged(one, one, one, one, 1, 1, 16, 4,
                                                         kv_layout="DHN"))
        self.refuses("max_seqlen_q must be given", lambda: swr.plan_paged(
            one.to("meta"), one, one, one, 1, 1, 16, 4))
        plan = swr.plan_paged(one, one, int32(0), int32(4), 2, 1, 16, 4)
        self.refuses("planned for 2 heads", lambda: swr.run_paged(plan, normal(1, 3, 16),
                                                                  normal(1, 2, 4, 1, 16)))
        self.refuses("pages of 4 rows", lambda: swr.run_paged(plan, normal(1, 2, 16),
                                                              normal(1, 2, 8, 1, 16)))

    def test_states_merge_as_if_all_keys_were_one(self):
        q, k, v = normal(3, 2, 16), normal(9, 2, 16), normal(9, 2, 16)
        parts = [expected(q, k[a:b], v[a:b]) for a, b in ((0, 4), (4, 9))]
        outs = torch.stack([o for o, _ in parts], 1)
        logs = torch.stack([lse.T / math.log(2.0) for _, lse in parts], 1)
        o, lse = swr.merge_states(outs, logs)
        whole, of_whole = expected(q, k, v)
        torch.testing.assert_close(o, whole)
        torch.testing.assert_close(lse, of_whole.T / math.log(2.0))
        self.refuses("v must be", lambda: swr.merge_states(outs[0], logs))
        self.refuses("float32", lambda: swr.merge_states(outs, logs.half()), TypeError)
        for one, other in ((outs.clone().requires_grad_(), logs), (outs, logs.clone().requires_grad_())):
            self.refuses("no backward", lambda: swr.merge_states(one, other), _library.Error)


class Tracing(OnTheCpu):
    def test_fakes_have_the_shapes_of_the_real_ones(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            q, k = (torch.empty(2, n, 2, 16, dtype=torch.bfloat16, device="cuda") for n in (3, 8))
            lengths = torch.empty(2, dtype=torch.int32, device="cuda")
            out, lse = swr.flash_attn_with_kvcache(q, k, k, q, q, cache_seqlens=lengths,
                                                   return_softmax_lse=True)
            self.assertEqual((out.shape, lse.shape), ((2, 3, 2, 16), (2, 2, 3)))
            starts = torch.empty(3, dtype=torch.int32, device="cuda")
            flat = torch.empty(7, 2, 16, dtype=torch.bfloat16, device="cuda")
            out, lse = swr.flash_attn_varlen_func(flat, flat, flat, starts, starts, 5, 5,
                                                  return_attn_probs=True)
            self.assertEqual((out.shape, lse.shape), ((7, 2, 16), (2, 7)))

    def test_operators_say_what_they_write(self):
        schema = str(torch.ops.swr.serving_attention_append.default._schema)
        self.assertIn("Tensor(a1!) k, Tensor(a2!) v", schema)
        self.assertNotIn("!", str(torch.ops.swr.serving_attention.default._schema))


class Signatures(unittest.TestCase):
    """FlashAttention-3's order of arguments."""

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_orders(self):
        def names(function):
            return [p.name for p in inspect.signature(function).parameters.values()
                    if p.kind is p.POSITIONAL_OR_KEYWORD]
        tail = ["qv", "q_descale", "k_descale", "v_descale", "window_size", "attention_chunk",
                "softcap", "num_splits", "pack_gqa", "deterministic", "sm_margin",
                "return_attn_probs"]
        self.assertEqual(names(_flash.flash_attn_func),
                         ["q", "k", "v", "softmax_scale", "causal", *tail])
        self.assertEqual(names(_flash.flash_attn_varlen_func),
                         ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q",
                          "max_seqlen_k", "seqused_q", "seqused_k", "softmax_scale", "causal", *tail])
        self.assertEqual(names(_flash.flash_attn_with_kvcache), [
            "q", "k_cache", "v_cache", "k", "v", "qv", "rotary_cos", "rotary_sin", "cache_seqlens",
            "cache_batch_idx", "cache_leftpad", "page_table", "cu_seqlens_q", "cu_seqlens_k_new",
            "max_seqlen_q", "rotary_seqlens", "q_descale", "k_descale", "v_descale",
            "softmax_scale", "causal", "window_size", "attention_chunk", "softcap",
            "rotary_interleaved", "scheduler_metadata", "num_splits", "pack_gqa", "sm_margin",
            "return_softmax_lse"])


if __name__ == "__main__":
    unittest.main()
