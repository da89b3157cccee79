# SPDX-License-Identifier: MIT
"""The three classes by which vLLM calls attention: what swr serves, what the layers of a step have in
common, and a layer. For decoders whose cache has the model's type, from vLLM 0.22 on."""

import copy
import dataclasses
import itertools
import logging
import time

import torch
from vllm import _custom_ops
from vllm.distributed.parallel_state import get_tp_group
from vllm.v1.attention.backend import (AttentionBackend, AttentionCGSupport, AttentionImpl,
                                       AttentionMetadata, AttentionMetadataBuilder, AttentionType)

import swr

_log = logging.getLogger("vllm.swr")
# One for all layers of a process: they follow each other on its stream, in captured graphs too.
_workspace = swr.Workspace()


def bound_of(length, most):
    """A power of two, so that few kernels serve all steps, but no more than there can be."""
    return min(1 << max(0, length - 1).bit_length(), max(most, length))


def bounds_up_to(most):
    """All that bound_of gives."""
    powers = itertools.takewhile(lambda power: power < most, (1 << i for i in itertools.count()))
    return [*powers, most]


def keys_and_values(kv_cache, head_size):
    """[pages, page_size, heads, head_size] of each. vLLM has the cache as [pages, 2, page_size,
    heads, head_size], and where it decides itself as [pages, heads, page_size, 2 * head_size]."""
    if kv_cache.dim() == 5:
        return kv_cache.unbind(1)
    return kv_cache.transpose(1, 2).split(head_size, dim=-1)


def require_ranks_to_agree(group):
    """Ranks of a model wait for one another, so all run the same kernels, or it does not start."""
    digest = swr.results_digest()
    first = group.broadcast_object(digest, src=0)
    if digest != first:
        raise RuntimeError(f"rank {group.rank_in_group} chooses kernels by other results than rank 0; "
                           "give all ranks the same file in SWR_DB, which nobody writes meanwhile")


class SwrAttentionBackend(AttentionBackend):
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name():
        return "CUSTOM"

    @staticmethod
    def get_impl_cls():
        return SwrAttentionImpl

    @staticmethod
    def get_builder_cls():
        return SwrMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(num_blocks, block_size, num_kv_heads, head_size, cache_dtype_str="auto"):
        return num_blocks, 2, block_size, num_kv_heads, head_size

    @staticmethod
    def get_kv_cache_stride_order(include_num_layers_dimension=False):
        from vllm.v1.attention.backends.utils import get_kv_cache_layout

        rows_before_heads = get_kv_cache_layout() == "NHD"
        if include_num_layers_dimension:
            return (1, 0, 2, 3, 4, 5) if rows_before_heads else (1, 4, 0, 2, 3, 5)
        return (0, 1, 2, 3, 4) if rows_before_heads else (0, 1, 3, 2, 4)

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        return [16, 32, 64, 128, 256]

    @classmethod
    def get_preferred_block_size(cls, default_block_size):
        """Prompts run faster from pages that hold half a tile of keys or more."""
        return max(64, default_block_size)

    @classmethod
    def supports_head_size(cls, head_size):
        return head_size % 16 == 0 and 16 <= head_size <= 256

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability >= (8, 0)

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def validate_configuration(cls, **configuration):
        """Why not, for vLLM's users. What vLLM asks differs by version."""
        reasons = super().validate_configuration(**configuration)
        cache, model = configuration.get("kv_cache_dtype"), configuration["dtype"]
        if cache in ("float16", "bfloat16") and getattr(torch, cache) != model:
            reasons.append(f"a cache of {cache} under a model of {model} not supported")
        return reasons


@dataclasses.dataclass
class SwrMetadata(AttentionMetadata):
    """Of a step: the lengths on the device, and bounds that no sequence exceeds."""

    num_actual_tokens: int
    most_queries: int
    most_keys: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor


class SwrMetadataBuilder(AttentionMetadataBuilder):
    # Launches read lengths when they run, so that any batch within a graph's bounds may replay it.
    _cudagraph_support = AttentionCGSupport.ALWAYS
    supports_update_block_table = True

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        if getattr(vllm_config.parallel_config, "use_ubatching", False):
            raise ValueError("swr's attention backend runs one batch at a time; leave out --enable-dbo")
        if vllm_config.parallel_config.tensor_parallel_size > 1:
            require_ranks_to_agree(get_tp_group())
        self._most_keys = vllm_config.model_config.max_model_len
        self._most_tokens = vllm_config.scheduler_config.max_num_batched_tokens
        self._load_kernels(vllm_config, device)

    def _load_kernels(self, vllm_config, device):
        """Kernels of all bounds that steps can have are compiled and loaded now, by calls without
        queries, and not when a request waits for them. The workspace becomes as large as it gets."""
        begin = time.monotonic()
        spec, context = self.kv_cache_spec, vllm_config.compilation_config.static_forward_context
        layers = {layer.kind(): layer for layer in (context[name].impl for name in self.layer_names)}
        most_sequences = vllm_config.scheduler_config.max_num_seqs
        nothing = torch.zeros(most_sequences + 1, dtype=torch.int32, device=device)
        width = -(-self._most_keys // spec.block_size)
        table = torch.zeros(most_sequences, width, dtype=torch.int32, device=device)
        page = torch.zeros(1, 2, spec.block_size, spec.num_kv_heads, spec.head_size,
                           dtype=spec.dtype, device=device)
        for layer in layers.values():
            q = torch.zeros(self._most_tokens, layer.num_heads, layer.head_size,
                            dtype=spec.dtype, device=device)
            for batch, queries, keys in itertools.product(
                    bounds_up_to(most_sequences), bounds_up_to(self._most_tokens),
                    bounds_up_to(self._most_keys)):
                tokens = min(batch * queries, self._most_tokens)
                if queries <= keys and queries + batch - 1 <= self._most_tokens:
                    layer.attend(q[:tokens], page, q[:tokens], SwrMetadata(
                        tokens, queries, keys, nothing[:batch + 1], nothing[:batch], table[:batch],
                        nothing))
        _log.info("swr loaded the kernels of %d layers in %.1f s", len(self.layer_names),
                  time.monotonic() - begin)

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        common = common_attn_metadata
        if common.causal is not True:
            raise NotImplementedError("swr's attention backend is for causal attention")
        return SwrMetadata(
            common.num_actual_tokens, bound_of(common.max_query_len, self._most_tokens),
            bound_of(common.max_seq_len, self._most_keys), common.query_start_loc, common.seq_lens,
            common.block_table_tensor, common.slot_mapping)

    def update_block_table(self, metadata, blk_table, slot_mapping):
        updated = copy.copy(metadata)
        updated.block_table, updated.slot_mapping = blk_table, slot_mapping
        return updated


class SwrAttentionImpl(AttentionImpl):
    def __init__(self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None,
                 sliding_window=None, kv_cache_dtype="auto", logits_soft_cap=None,
                 attn_type=AttentionType.DECODER, kv_sharing_target_layer_name=None, sinks=None):
        if alibi_slopes is not None:
            raise NotImplementedError("swr's attention backend has no ALiBi; choose another by "
                                      "--attention-backend")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)
        self.kv_cache_dtype = kv_cache_dtype
        self.softcap = logits_soft_cap or 0.0
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks

    def kind(self):
        """What layers that run the same kernels have in common."""
        return self.num_heads, self.head_size, self.window, bool(self.softcap), self.sinks is None

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None,
                output_block_scale=None):
        """query [tokens, heads, head_size], output as query; keys and values are in the cache."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("swr's attention backend does not quantise its output")
        if attn_metadata is None:  # vLLM measures memory.
            return output.fill_(0)
        tokens = attn_metadata.num_actual_tokens
        self.attend(query[:tokens], kv_cache, output[:tokens], attn_metadata)
        return output

    def attend(self, query, kv_cache, output, metadata):
        keys, values = keys_and_values(kv_cache, self.head_size)
        # Lengths are copied before the model begins, ahead of the launch that made the query.
        swr.flash_attn_varlen_func(
            query, keys, values, metadata.query_start_loc, None, metadata.most_queries,
            metadata.most_keys, seqused_k=metadata.seq_lens, softmax_scale=self.scale, causal=True,
            window_size=self.window, softcap=self.softcap, s_aux=self.sinks,
            block_table=metadata.block_table, out=output, workspace=_workspace,
            lengths_are_ready=True)

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        """Writes the new rows to their slots, by vLLM's own kernel."""
        keys, values = keys_and_values(kv_cache, self.head_size)
        _custom_ops.reshape_and_cache_flash(key, value, keys, values, slot_mapping,
                                            self.kv_cache_dtype, layer._k_scale, layer._v_scale)
