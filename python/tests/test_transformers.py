# SPDX-License-Identifier: MIT
"""Hugging Face models without a GPU: small ones with random weights give the logits and the tokens
of eager attention, in fp32 and with a computation on the CPU in the place of swr's kernels."""

import contextlib
import math
import unittest
from unittest import mock

try:
    import torch
    import transformers
except ImportError:
    transformers = None

if transformers is not None:
    import swr.transformers
    from swr import _serving
    from test_serving import int32, normal, on_the_cpu


def math_sdpa(q, k, v, *, causal, scale):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    if causal:
        rows = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(torch.arange(k.shape[2])[None] > rows, -math.inf)
    return scores.softmax(-1) @ v


@contextlib.contextmanager
def in_fp32_on_the_cpu():
    with on_the_cpu(), mock.patch.object(_serving, "_check_elements", lambda **tensors: None), \
            mock.patch.object(swr.transformers, "sdpa", math_sdpa):
        yield


SMALL = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "max_position_embeddings": 256, "pad_token_id": 0, "eos_token_id": None,
         "bos_token_id": None}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))


def gemma2():
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **SMALL, sliding_window=8, attn_logit_softcapping=5.0, query_pre_attn_scalar=16))


def gpt_oss():
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(
        **SMALL, sliding_window=8, num_local_experts=2, num_experts_per_tok=1))


def pages_have_names():
    """Transformers before 5.20."""
    return "paged|flash_attention_3" in transformers.AttentionInterface().valid_keys()


@unittest.skipIf(transformers is None, "Transformers is not installed")
class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        swr.transformers.register()

    def models(self):
        for make in (llama, gemma2, gpt_oss):
            model = make().eval()
            for name, parameter in model.named_parameters():
                if "sinks" in name:
                    torch.nn.init.normal_(parameter)
            yield make.__name__, model

    def both(self, model, action):
        """The result with eager attention and with swr's."""
        results = []
        for implementation in ("eager", "swr"):
            model.set_attn_implementation(implementation)
            with torch.no_grad(), in_fp32_on_the_cpu():
                results.append(action(model))
        return results

    def test_logits_of_padded_batches(self):
        tokens = torch.randint(1, 64, (3, 20))
        masks = torch.ones(3, 20, dtype=torch.long)
        left, right, both = masks.clone(), masks.clone(), masks.clone()
        left[1, :7] = 0
        left[2, :1] = 0
        right[0, 15:] = 0
        both[1, :4], both[1, 18:] = 0, 0
        for name, model in self.models():
            for mask in (masks, left, right, both):
                eager, served = self.both(
                    model, lambda m: m(tokens, attention_mask=mask, use_cache=False).logits)
                torch.testing.assert_close(served[mask.bool()], eager[mask.bool()], rtol=1e-4,
                                           atol=1e-4, msg=lambda text: f"{name}: {text}")

    def test_greedy_tokens(self):
        tokens = torch.randint(1, 64, (2, 12))
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[0, :5] = 0
        for name, model in self.models():
            for more in ({}, {"cache_implementation": "static"}):
                eager, served = self.both(model, lambda m: m.generate(
                    tokens, attention_mask=mask, max_new_tokens=12, do_sample=False, **more))
                self.assertTrue(torch.equal(eager, served), (name, more))

    def test_lengths_of_a_mask_are_worked_out_once(self):
        mask = torch.ones(2, 6, dtype=torch.long)
        mask[0, :2] = 0
        work_out = swr.transformers._work_out_lengths
        with mock.patch.object(swr.transformers, "_work_out_lengths", side_effect=work_out) as worked:
            first = swr.transformers._padded_lengths(mask, 6)
            self.assertIs(swr.transformers._padded_lengths(mask, 6), first)
            self.assertEqual(worked.call_count, 1)
            self.assertEqual(first["leftpad_k"].tolist(), [2, 0])
            swr.transformers._padded_lengths(mask, 1)
            mask[1, :3] = 0
            changed = swr.transformers._padded_lengths(mask, 6)
            self.assertEqual(changed["leftpad_k"].tolist(), [2, 3])
            self.assertEqual(worked.call_count, 3)
            with torch.inference_mode():
                untracked = mask.clone()
                for _ in range(2):
                    swr.transformers._padded_lengths(untracked, 6)
            self.assertEqual(worked.call_count, 5)

    def test_packed_sequences(self):
        first, second = torch.randint(1, 64, (1, 9)), torch.randint(1, 64, (1, 6))
        positions = torch.cat([torch.arange(9), torch.arange(6)])[None]
        for name, model in self.models():
            model.set_attn_implementation("swr")
            with torch.no_grad(), in_fp32_on_the_cpu():
                packed = model(torch.cat([first, second], 1), position_ids=positions,
                               use_cache=False).logits
                apart = [model(tokens, use_cache=False).logits for tokens in (first, second)]
            torch.testing.assert_close(packed, torch.cat(apart, 1), rtol=1e-4, atol=1e-4,
                                       msg=lambda text: f"{name}: {text}")

    def test_what_it_cannot_do_is_said(self):
        q = torch.zeros(1, 2, 3, 16)
        module = torch.nn.Module()
        with self.assertRaisesRegex(ValueError, "masks of padding"):
            swr.transformers.attention(module, q, q, q, torch.zeros(1, 1, 3, 3))
        with self.assertRaisesRegex(ValueError, "dropout"):
            swr.transformers.attention(module, q, q, q, None, dropout=0.1)

    def test_continuous_batching_is_known_by_the_name_with_pages(self):
        """What a model is switched to as batching begins; since 5.20 the name stays as it is."""
        from transformers.modeling_flash_attention_utils import lazy_import_flash_attention
        name = "paged|" + swr.transformers.CONTINUOUS_BATCHING
        if not pages_have_names():
            self.skipTest("this Transformers has no names for pages")
        model = llama()
        model.set_attn_implementation(name)
        self.assertEqual(model.config._attn_implementation, name)
        known = transformers.AttentionInterface()
        self.assertIs(known[name], known["paged|flash_attention_3"])
        functions, _ = lazy_import_flash_attention(name)
        self.assertIs(functions[1], swr.flash_attn_varlen_func)
        self.assertIs(functions[2], swr.flash_attn_with_kvcache)

    def test_continuous_batching_finds_the_functions_that_page(self):
        from transformers.modeling_flash_attention_utils import lazy_import_flash_attention
        if pages_have_names():
            self.skipTest("this Transformers appends to pages elsewhere")
        functions, _ = lazy_import_flash_attention(swr.transformers.CONTINUOUS_BATCHING)
        self.assertIs(functions[1], swr.flash_attn_varlen_func)
        # One step of decoding through Transformers' own code, which appends to pages.
        from transformers.integrations.flash_attention import flash_attention_forward
        module = torch.nn.Module()
        module.config = mock.Mock(_attn_implementation=swr.transformers.CONTINUOUS_BATCHING)
        module.is_causal = True
        k_cache, v_cache = normal(6, 4, 2, 16), normal(6, 4, 2, 16)
        q, k, v = normal(1, 4, 2, 16), normal(1, 2, 2, 16), normal(1, 2, 2, 16)
        table = int32(2, 0, 5, -1).view(2, 2)
        keys = [k_cache[[2, 0]].flatten(0, 1).clone(), k_cache[[5]].flatten(0, 1).clone()]
        values = [v_cache[[2, 0]].flatten(0, 1).clone(), v_cache[[5]].flatten(0, 1).clone()]
        with on_the_cpu():
            out, _ = flash_attention_forward(
                module, q, k, v, None, scaling=0.25, block_table=table, k_cache=k_cache,
                v_cache=v_cache, cu_seq_lens_q=int32(0, 1, 2), cu_seq_lens_k=int32(0, 6, 9),
                max_length_q=1, max_length_k=6)
        for i, length in enumerate((5, 2)):
            keys[i][length], values[i][length] = k[0, :, i], v[0, :, i]
            of_sequence = math_sdpa(
                *(t.float() for t in (q[:, :, i:i + 1], keys[i][None, :length + 1].transpose(1, 2),
                                      values[i][None, :length + 1].transpose(1, 2))),
                causal=True, scale=0.25)
            torch.testing.assert_close(out[:, i].float(), of_sequence[:, :, 0], rtol=0.02,
                                       atol=0.02)
        self.assertTrue(torch.equal(k_cache[0, 1], k[0, :, 0]), "the fifth row, in page 0")


if __name__ == "__main__":
    unittest.main()
