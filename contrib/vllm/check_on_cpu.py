# SPDX-License-Identifier: MIT
"""The plug-in inside an installed vLLM, without a GPU: registry, validation, and the back end on batches
as vLLM's own harness draws them (tests/v1/attention), a computation on the CPU standing for the kernels.
    pip install vllm==0.24.0; PYTHONPATH=python:python/tests:contrib/vllm python3 contrib/vllm/check_on_cpu.py"""

import dataclasses
import inspect
import random
import sys
import types
import unittest
from unittest import mock

import torch
import vllm
from vllm.platforms.interface import DeviceCapability
from vllm.v1.attention import selector
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.kv_cache_interface import FullAttentionSpec

import swr_vllm
from test_serving import expected, on_the_cpu

swr_vllm.register()
GOOD = {"head_size": 128, "dtype": torch.bfloat16, "kv_cache_dtype": "auto", "block_size": 16,
        "use_mla": False, "has_sink": True, "use_sparse": False, "use_mm_prefix": False,
        "use_per_head_quant_scales": False, "attn_type": "decoder"}
BAD = {"head_size": 72, "dtype": torch.float32, "kv_cache_dtype": "fp8", "block_size": 24,
       "use_mla": True, "use_sparse": True, "use_mm_prefix": True, "use_per_head_quant_scales": True,
       "attn_type": "encoder_only", "use_non_causal": True, "use_batch_invariant": True}


def scatter(key, value, key_cache, value_cache, slots, kind, k_scale, v_scale):
    """What vLLM's reshape_and_cache_flash does."""
    for i, slot in enumerate(slots.tolist()):
        if slot >= 0:
            page, row = divmod(slot, key_cache.shape[1])
            key_cache[page, row], value_cache[page, row] = key[i], value[i]


def configuration(layer, max_model_len=256):
    """What the builder reads of vLLM's configuration."""
    return types.SimpleNamespace(
        model_config=types.SimpleNamespace(max_model_len=max_model_len),
        scheduler_config=types.SimpleNamespace(max_num_batched_tokens=128, max_num_seqs=4),
        parallel_config=types.SimpleNamespace(use_ubatching=False),
        compilation_config=types.SimpleNamespace(static_forward_context={
            "layer": types.SimpleNamespace(impl=layer)}))


class Harness(unittest.TestCase):
    def setUp(self):
        random.seed(1)
        torch.manual_seed(1)
        for context in (on_the_cpu(),
                        mock.patch("vllm._custom_ops.reshape_and_cache_flash", scatter)):
            context.__enter__()
            self.addCleanup(context.__exit__, None, None, None)
        self.backend = AttentionBackendEnum.CUSTOM.get_class()

    def test_every_question_of_the_selector_is_answered(self):
        asked = selector.AttentionSelectorConfig(**GOOD)
        self.assertEqual(self.backend.validate_configuration(
            device_capability=DeviceCapability(9, 0), **asked._asdict()), [])

    def test_what_is_not_served_is_refused_with_a_reason(self):
        for name, value in BAD.items():
            asked = selector.AttentionSelectorConfig(**{**GOOD, name: value})
            self.assertTrue(self.backend.validate_configuration(
                device_capability=DeviceCapability(9, 0), **asked._asdict()), name)
        self.assertTrue(self.backend.validate_configuration(
            device_capability=DeviceCapability(7, 5), **GOOD))

    def test_classes_have_all_that_vllm_declares(self):
        for cls in (self.backend, self.backend.get_impl_cls(), self.backend.get_builder_cls()):
            self.assertFalse(inspect.isabstract(cls), cls)

    def batch(self, context, queries, page_size, pages):
        """Requests with `context` rows in the cache and new ones, pages in any order."""
        keys = [c + n for c, n in zip(context, queries)]
        free = random.sample(range(1, pages), pages - 1)
        table = torch.full((len(keys), pages), -1, dtype=torch.int32)
        for i, count in enumerate(keys):
            for j in range(-(-count // page_size)):
                table[i, j] = free.pop()
        slots = [int(table[i, at // page_size]) * page_size + at % page_size
                 for i, count in enumerate(keys) for at in range(context[i], count)]
        starts = torch.tensor([sum(queries[:i]) for i in range(len(keys) + 1)], dtype=torch.int32)
        return keys, CommonAttentionMetadata(
            query_start_loc=starts, query_start_loc_cpu=starts,
            seq_lens=torch.tensor(keys, dtype=torch.int32), num_reqs=len(keys),
            num_actual_tokens=sum(queries), max_query_len=max(queries), max_seq_len=max(keys),
            block_table_tensor=table, slot_mapping=torch.tensor(slots), causal=True)

    def run_layers(self, context, queries, window=None, softcap=None, sinks=None, heads=(4, 2),
                   page_size=16):
        layer = self.backend.get_impl_cls()(heads[0], 32, 0.2, heads[1], None, window, "auto", softcap,
                                            sinks=sinks)
        spec = FullAttentionSpec(block_size=page_size, num_kv_heads=heads[1], head_size=32,
                                 dtype=torch.bfloat16)
        builder = self.backend.get_builder_cls()(spec, ["layer"], configuration(layer), "cpu")
        keys, common = self.batch(context, queries, page_size, pages=64)
        metadata = builder.build(0, common)
        rows = [[torch.randn(count, n, 32).bfloat16() for n in (heads[1], heads[1])] for count in keys]
        cache = self.cache(spec)
        scales = types.SimpleNamespace(_k_scale=None, _v_scale=None)
        for i, (k, v) in enumerate(rows):  # What earlier steps wrote.
            for at in range(context[i]):
                page = int(common.block_table_tensor[i, at // page_size])
                for half, row in zip(self.halves(cache), (k, v)):
                    half[page, at % page_size] = row[at]
        new = [torch.cat([r[half][c:] for r, c in zip(rows, context)]) for half in (0, 1)]
        q = torch.randn(sum(queries) + 3, heads[0], 32).bfloat16()  # Graphs pad.
        layer.do_kv_cache_update(scales, *new, cache, common.slot_mapping)
        out = torch.full_like(q, 7.0)
        self.assertIs(layer.forward(scales, q, *new, cache, metadata, out), out)
        for i, (k, v) in enumerate(rows):
            own = slice(int(common.query_start_loc[i]), int(common.query_start_loc[i + 1]))
            right, _ = expected(q[own], k, v, causal=True, left=-1 if window is None else window - 1,
                                softcap=softcap or 0.0, sinks=sinks, scale=0.2)
            torch.testing.assert_close(out[own].float(), right.float(), rtol=2e-2, atol=2e-2)
        self.assertTrue((out[sum(queries):] == 7.0).all())

    def cache(self, spec):
        shape = getattr(self.backend, "get_kv_cache_shape", None)
        if hasattr(vllm.v1.attention.backend.AttentionBackend, "get_kv_cache_shape"):
            return torch.zeros(shape(64, spec.block_size, spec.num_kv_heads, spec.head_size),
                               dtype=spec.dtype)
        return torch.zeros(64, spec.num_kv_heads, spec.block_size, 2 * spec.head_size,
                           dtype=spec.dtype)

    def halves(self, cache):
        if cache.dim() == 5:
            return cache[:, 0], cache[:, 1]
        return cache[..., :32].transpose(1, 2), cache[..., 32:].transpose(1, 2)

    def test_prompts_chunks_and_decodes_of_one_batch(self):
        self.run_layers([0, 40, 17, 33], [23, 9, 1, 1])

    def test_decode_alone(self):
        self.run_layers([100, 3, 47, 0], [1, 1, 1, 1], heads=(8, 1))

    def test_windows_softcap_sinks_and_larger_pages(self):
        self.run_layers([0, 90], [50, 2], window=20, page_size=32)
        self.run_layers([64, 5], [4, 4], softcap=8.0, page_size=64)
        self.run_layers([10, 70], [3, 30], window=16, sinks=torch.randn(4).bfloat16())

    def test_tables_change_between_groups_of_layers(self):
        layer = self.backend.get_impl_cls()(4, 32, 0.2, 2)
        spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=32, dtype=torch.bfloat16)
        builder = self.backend.get_builder_cls()(spec, ["layer"], configuration(layer), "cpu")
        first = builder.build(0, self.batch([3], [1], 16, 8)[1])
        other = builder.update_block_table(first, torch.ones(1, 8), torch.ones(1))
        self.assertEqual(dataclasses.replace(other, block_table=first.block_table,
                                             slot_mapping=first.slot_mapping), first)


if __name__ == "__main__":
    print("vllm", vllm.__version__)
    sys.exit(not unittest.main(exit=False, verbosity=2).result.wasSuccessful())
