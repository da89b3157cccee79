# SPDX-License-Identifier: MIT
"""vLLM's plug-in without a GPU: registry, validation, and batches as vLLM's own harness draws them, with
a computation on the CPU in the place of swr's kernels. In vLLM's code where that is installed, which
contrib/vllm/check_versions does; else in stubs with the signatures of several versions."""

import dataclasses
import importlib
import importlib.util
import inspect
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import vllm_stub

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import swr
    from test_serving import expected, on_the_cpu

PLUGIN = pathlib.Path(__file__).parents[2] / "contrib" / "vllm"
GOOD = {"head_size": 128, "dtype": getattr(torch, "bfloat16", None), "kv_cache_dtype": "auto", "block_size": 16,
        "use_mla": False, "has_sink": True, "use_sparse": False, "use_mm_prefix": False,
        "use_per_head_quant_scales": False, "attn_type": "decoder"}
BAD = {"head_size": 72, "dtype": getattr(torch, "float32", None), "kv_cache_dtype": "fp8", "block_size": 24,
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
        parallel_config=types.SimpleNamespace(use_ubatching=False, tensor_parallel_size=1),
        compilation_config=types.SimpleNamespace(static_forward_context={
            "layer": types.SimpleNamespace(impl=layer)}))


class Harness:
    version = None  # Of the stubs; None where vLLM is installed.

    def enter(self, context):
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def setUp(self):
        random.seed(1)
        torch.manual_seed(1)
        self.enter(on_the_cpu())
        self.enter(mock.patch.object(sys, "path", [str(PLUGIN), *sys.path]))
        if self.version:
            self.enter(mock.patch.dict(sys.modules, vllm_stub.modules(self.version)))
            # An operator is made once in a process; the rest is imported under these stubs.
            for name in ("swr_vllm", "swr_vllm.attention"):
                sys.modules.pop(name, None)
        self.enter(mock.patch("vllm._custom_ops.reshape_and_cache_flash", scatter))
        importlib.import_module("swr_vllm").register()
        self.vllm = importlib.import_module("vllm.v1.attention.backend")
        self.selector = importlib.import_module("vllm.v1.attention.selector")
        self.capability = importlib.import_module("vllm.platforms.interface").DeviceCapability
        self.spec_class = importlib.import_module("vllm.v1.kv_cache_interface").FullAttentionSpec
        registry = importlib.import_module("vllm.v1.attention.backends.registry")
        self.backend = registry.AttentionBackendEnum.CUSTOM.get_class()

    def test_every_question_of_the_selector_is_answered(self):
        asked = self.selector.AttentionSelectorConfig(**GOOD)
        self.assertEqual(self.backend.validate_configuration(
            device_capability=self.capability(9, 0), **asked._asdict()), [])
        self.assertIn(self.backend.get_preferred_block_size(16),
                      self.backend.get_supported_kernel_block_sizes())

    def test_what_is_not_served_is_refused_with_a_reason(self):
        for name, value in BAD.items():
            asked = self.selector.AttentionSelectorConfig(**{**GOOD, name: value})
            self.assertTrue(self.backend.validate_configuration(
                device_capability=self.capability(9, 0), **asked._asdict()), name)
        self.assertTrue(self.backend.validate_configuration(
            device_capability=self.capability(7, 5), **GOOD))

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
        return keys, self.vllm.CommonAttentionMetadata(
            query_start_loc=starts, query_start_loc_cpu=starts,
            seq_lens=torch.tensor(keys, dtype=torch.int32), num_reqs=len(keys),
            num_actual_tokens=sum(queries), max_query_len=max(queries), max_seq_len=max(keys),
            block_table_tensor=table, slot_mapping=torch.tensor(slots), causal=True)

    def run_layers(self, context, queries, window=None, softcap=None, sinks=None, heads=(4, 2),
                   page_size=16):
        layer = self.backend.get_impl_cls()(heads[0], 32, 0.2, heads[1], None, window, "auto", softcap,
                                            sinks=sinks)
        spec = self.spec_class(block_size=page_size, num_kv_heads=heads[1], head_size=32,
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
        if hasattr(self.vllm.AttentionBackend, "get_kv_cache_shape"):
            shape = self.backend.get_kv_cache_shape(64, spec.block_size, spec.num_kv_heads,
                                                    spec.head_size)
            if self.version is None:  # The layout asks vLLM's configuration.
                return torch.zeros(shape, dtype=spec.dtype)
            order = self.backend.get_kv_cache_stride_order()
            stored = torch.zeros([shape[i] for i in order], dtype=spec.dtype)
            return stored.permute([order.index(i) for i in range(len(order))])
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

    def test_linear_layers_without_quantisation_run_on_swr(self):
        layers = importlib.import_module("vllm.model_executor.layers.linear")
        linear = importlib.import_module("swr_vllm.linear")
        if self.version is None:  # vLLM's layers ask for their rank.
            self.enter(mock.patch("vllm.distributed.parallel_state._TP",
                                  types.SimpleNamespace(rank_in_group=0, world_size=1)))
        registry = importlib.import_module("vllm.model_executor.custom_op").op_registry_oot
        self.enter(mock.patch.dict(registry))
        linear.replace_layers()
        layer = layers.ReplicatedLinear(32, 16, params_dtype=torch.bfloat16, disable_tp=True)
        self.assertIsInstance(layer.quant_method, linear.SwrLinearMethod)
        precise = layers.ReplicatedLinear(32, 16, params_dtype=torch.float32, disable_tp=True)
        self.assertNotIsInstance(precise.quant_method, linear.SwrLinearMethod)
        self.assertEqual(len(registry), 5)

    def test_products_are_those_of_pytorch(self):
        linear = importlib.import_module("swr_vllm.linear")
        weight, bias = torch.randn(16, 32), torch.randn(16)
        multiply = mock.Mock(side_effect=torch.matmul)
        with mock.patch.object(linear.swr, "matmul", multiply):
            for rows, bias in ((3, None), (5, bias), (513, bias)):
                x = torch.randn(rows, 32)
                torch.testing.assert_close(linear.product(x, weight, bias),
                                           torch.nn.functional.linear(x, weight, bias))
        self.assertEqual(multiply.call_count, 2, "long batches stay with PyTorch")

    def test_kernels_of_fp8_come_first_in_both_tables(self):
        linear = importlib.import_module("swr_vllm.linear")
        cuda = linear.PlatformEnum.CUDA
        tables = linear.kernels._POSSIBLE_FP8_KERNELS, linear.kernels._POSSIBLE_FP8_BLOCK_KERNELS
        for table in tables:
            self.enter(mock.patch.dict(table, {cuda: list(table[cuda])}))
        before = [len(table[cuda]) for table in tables]
        linear.put_kernels_first()
        linear.put_kernels_first()
        self.assertEqual([table[cuda][0] for table in tables],
                         [linear.SwrFp8Kernel, linear.SwrFp8BlockKernel])
        self.assertEqual([len(table[cuda]) - 1 for table in tables], before)
        for table in tables:
            self.assertFalse(inspect.isabstract(table[cuda][0]))

    def fp8_layer(self, rows, k, n, scale_a, scale_b):
        """A product of a kernel as vLLM calls it, and what it is in fp32. Scales by shape."""
        linear = importlib.import_module("swr_vllm.linear")
        self.enter(mock.patch.object(linear, "_scaled_mm", linear.scaled_product))
        a, weight = (torch.randn(count, k).to(torch.float8_e4m3fn) for count in (rows, n))
        of_a, of_weight = torch.rand(scale_a) + 0.5, torch.rand(scale_b) + 0.5
        if len(scale_a) == 2:  # vLLM's scales of tokens lie with tokens next to each other.
            of_a = of_a.t().contiguous().t()
        factors = [scale.repeat_interleave(128, -1)[:, :k] if scale.shape[-1] > 1 else
                   scale.reshape(-1, 1) for scale in (of_a, of_weight)]
        if of_weight.shape[-1] > 1:
            factors[1] = factors[1].repeat_interleave(128, 0)[:n]
        right = (a.float() * factors[0]) @ (weight.float() * factors[1]).t()
        if of_weight.shape[-1] > 1:
            kernel = linear.SwrFp8BlockKernel.__new__(linear.SwrFp8BlockKernel)
            kernel.config = types.SimpleNamespace(out_dtype=torch.bfloat16)
            return kernel.apply_block_scaled_mm(a, weight, of_a, of_weight), right
        bias = torch.randn(n).bfloat16()
        kernel = linear.SwrFp8Kernel.__new__(linear.SwrFp8Kernel)
        kernel.logical_output_size = n
        return kernel.apply_scaled_mm(A=a, B=weight.t(), out_dtype=torch.bfloat16, As=of_a, Bs=of_weight,
                                      bias=bias, output_shape=[rows, n]), right + bias.float()

    def test_products_of_fp8_by_every_kind_of_scale(self):
        linear = importlib.import_module("swr_vllm.linear")

        def multiply(a, b, scale_a, scale_b, bias=None, *, out_dtype, use_fast_accum):
            """swr.scaled_mm's contract."""
            (m, k), n = a.shape, b.shape[1]
            kinds = {((1,), (1,)), ((1, 1), (1,)), ((m, 1), (1, n)), ((m, k // 128), (k // 128, n // 128))}
            self.assertIn((tuple(scale_a.shape), tuple(scale_b.shape)), kinds)
            for factor, scale, at in ((a, scale_a, 0), (b, scale_b, 1)):
                self.assertTrue(scale.numel() == 1 or scale.shape[0] == 1 or scale.stride(0) == 1)
            wide = [scale.repeat_interleave(128, 1) if scale.dim() == 2 and scale.shape[1] == k // 128 > 1
                    else scale for scale in (scale_a, scale_b.t() if scale_b.dim() == 2 else scale_b)]
            of_b = wide[1].repeat_interleave(128, 0) if wide[1].shape[-1] > 1 and wide[1].dim() == 2 \
                else wide[1]
            product = (a.float() * wide[0]) @ (b.float().t() * of_b).t()
            return (product if bias is None else product + bias.float()).to(out_dtype)
        self.enter(mock.patch.object(linear.swr, "scaled_mm", multiply))
        for scale_a, scale_b in (((1,), (1,)), ((5, 1), (256, 1)), ((5, 1), (1,)), ((1,), (256, 1)),
                                 ((5, 2), (2, 2))):
            found, right = self.fp8_layer(5, 256, 256, scale_a, scale_b)
            torch.testing.assert_close(found.float(), right, rtol=2e-2, atol=0.3)

    def test_long_batches_of_fp8_stay_with_cutlass(self):
        linear = importlib.import_module("swr_vllm.linear")
        cutlass = mock.Mock(return_value=torch.zeros(513, 16))
        with mock.patch.object(linear._custom_ops, "cutlass_scaled_mm", cutlass):
            self.fp8_layer(513, 32, 16, (513, 1), (16, 1))
        cutlass.assert_called_once()

    def test_tables_change_between_groups_of_layers(self):
        layer = self.backend.get_impl_cls()(4, 32, 0.2, 2)
        spec = self.spec_class(block_size=16, num_kv_heads=2, head_size=32, dtype=torch.bfloat16)
        builder = self.backend.get_builder_cls()(spec, ["layer"], configuration(layer), "cpu")
        first = builder.build(0, self.batch([3], [1], 16, 8)[1])
        other = builder.update_block_table(first, torch.ones(1, 8), torch.ones(1))
        self.assertEqual(dataclasses.replace(other, block_table=first.block_table,
                                             slot_mapping=first.slot_mapping), first)


class Ranks:
    """Two processes of one model, as tensor parallelism has them."""

    version = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tune(self, database, keys):
        swr.tune(keys, head_dim=64, gpu="rtx5090", database=database, arguments=(
            "--tile", "32x32", "--stages", "1", "--persistence", "persistent", "--cache-dir",
            str(self.folder / "cache")))

    def start(self, databases):
        meeting = self.folder / f"meeting{len(list(self.folder.iterdir()))}"
        ranks = [subprocess.Popen(
            [sys.executable, __file__, "rank", str(i), str(meeting), self.version or ""],
            env={**os.environ, "SWR_DB": str(database)}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i, database in enumerate(databases)]
        for rank in ranks:
            self.addCleanup(rank.__exit__, None, None, None)
            self.addCleanup(rank.kill)
        return ranks

    def test_ranks_choose_alike_while_somebody_tunes(self):
        database = self.folder / "tuned.db"
        self.tune(database, 256)
        ranks = self.start([database, database])
        before = [rank.stdout.readline() for rank in ranks]
        self.assertIn("tile_m=32", before[0])
        self.assertEqual(before[0], before[1])
        self.tune(database, 4096)
        for rank in ranks:
            after, errors = rank.communicate("again\n", timeout=120)
            self.assertEqual((after, rank.returncode), (before[0], 0), errors)

    def test_ranks_with_other_results_do_not_start(self):
        databases = self.folder / "one.db", self.folder / "other.db"
        for database, keys in zip(databases, (256, 512)):
            self.tune(database, keys)
        first, second = self.start(databases)
        self.assertIn("tile_m=32", first.stdout.readline())
        self.assertIn("rank 1 chooses kernels by other results than rank 0",
                      second.communicate(timeout=120)[1])
        self.assertEqual(second.returncode, 1)


def run_rank(number, meeting, version):
    """One of the two: agrees with the other, and prints what is chosen before and after a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM logs to its standard output.
    sys.path.insert(0, str(PLUGIN))
    if version:
        sys.modules.update(vllm_stub.modules(version))
    from swr_vllm.attention import require_ranks_to_agree

    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=number,
                                         world_size=2)

    def broadcast(digest, src):
        shared = [digest]
        torch.distributed.broadcast_object_list(shared, src=src)
        return shared[0]
    lookup, device = swr.Lookup(os.environ["SWR_DB"]), swr.profiled_device("rtx5090")
    require_ranks_to_agree(types.SimpleNamespace(rank_in_group=number, broadcast_object=broadcast))
    for _ in range(2):
        print([lookup.best(swr.Problem(keys, head_dim=64), device).variant
               for keys in (256, 4096)], file=answers, flush=True)
        sys.stdin.readline()


if torch is None:
    @unittest.skip("PyTorch is not installed")
    class Vllm(Harness, unittest.TestCase):
        pass
elif importlib.util.find_spec("vllm"):
    class InstalledVllm(Harness, unittest.TestCase):
        pass

    class InstalledRanks(Ranks, unittest.TestCase):
        pass
else:
    for _version in vllm_stub.VERSIONS:
        _name = f"Vllm{_version.replace('.', '_')}"
        globals()[_name] = type(_name, (Harness, unittest.TestCase), {"version": _version})
    StubbedRanks = type("StubbedRanks", (Ranks, unittest.TestCase), {"version": "0.24.0"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        run_rank(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        unittest.main(verbosity=2)
