# SPDX-License-Identifier: MIT
"""Models of current widths, as directories that vLLM loads with --load-format dummy."""

import json
import pathlib

_COMMON = {"torch_dtype": "bfloat16", "vocab_size": 32000, "max_position_embeddings": 40960,
           "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
           "attention_bias": False, "attention_dropout": 0.0}

MODELS = {
    # For many requests: what it takes is the attention's and vLLM's own work.
    "small": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
              "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2,
              "head_dim": 64, "hidden_act": "silu", "rope_theta": 10000.0, "vocab_size": 512},
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
              "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
              "head_dim": 128, "hidden_act": "silu", "rope_theta": 500000.0},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120,
              "intermediate_size": 17408, "num_attention_heads": 40, "num_key_value_heads": 8,
              "head_dim": 128, "hidden_act": "silu", "rope_theta": 1000000.0},
    "gemma": {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 3584,
              "intermediate_size": 14336, "num_attention_heads": 16, "num_key_value_heads": 8,
              "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
              "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
              "sliding_window": 1024, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
              "rope_theta": 10000.0, "tie_word_embeddings": True},
    "gpt_oss": {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880,
                "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
                "head_dim": 64, "hidden_act": "silu", "sliding_window": 128, "num_local_experts": 32,
                "num_experts_per_tok": 4, "swiglu_limit": 7.0, "attention_bias": True,
                "rope_theta": 150000.0, "max_position_embeddings": 131072,
                "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
                                 "beta_slow": 1.0, "truncate": False,
                                 "original_max_position_embeddings": 4096}},
}
# Without a router's choice: a rounding chooses no other expert.
MODELS["gpt_oss_all"] = {**MODELS["gpt_oss"], "num_local_experts": 4}


def write(name, layers, folder):
    """The directory of a model with so many layers."""
    path = pathlib.Path(folder) / name
    path.mkdir(parents=True, exist_ok=True)
    config = {**_COMMON, **MODELS[name], "num_hidden_layers": layers}
    if name.startswith("gpt_oss"):
        config["layer_types"] = (["sliding_attention", "full_attention"] * layers)[:layers]
    (path / "config.json").write_text(json.dumps(config))
    return str(path)
