// SPDX-License-Identifier: MIT
#include "operations/model_config.h"

#include "core/reject.h"

#include <algorithm>
#include <optional>
#include <string>

namespace swr {
namespace {

/// A number of the model; published configurations say null for what follows from the others.
std::optional<int> model_number(const Json& config, const char* key) {
  constexpr int kMost = 1 << 24;
  if (!config.contains(key) || config[key].is_null()) {
    return std::nullopt;
  }
  return static_cast<int>(json_integer(config, key, 1, kMost));
}

int required_number(const Json& config, const char* key) {
  const auto number = model_number(config, key);
  if (!number) {
    reject(std::string(key) + " is missing");
  }
  return *number;
}

int head_dim_of(const Json& config, int heads) {
  if (const auto given = model_number(config, "head_dim")) {
    return *given;
  }
  const int hidden_size = required_number(config, "hidden_size");
  if (hidden_size % heads != 0) {
    reject("hidden_size " + std::to_string(hidden_size) + " is no multiple of " +
           std::to_string(heads) + " heads, and there is no head_dim");
  }
  return hidden_size / heads;
}

std::string model_word(const Json& config, const char* key) {
  return config.contains(key) && config[key].is_string() ? config[key].get<std::string>() : "";
}

DType model_dtype(const Json& config) {
  const bool is_bf16 =
      model_word(config, "torch_dtype") == "bfloat16" || model_word(config, "dtype") == "bfloat16";
  return is_bf16 ? DType::bf16 : DType::fp16;
}

/// SiLU gates in every published decoder; what Gemma names is plain GELU elsewhere.
bool has_gated_mlp(const Json& config) {
  return model_word(config, "hidden_act") == "silu" ||
         model_word(config, "model_type").starts_with("gemma");
}

/// The first of them that is a size, else 0: models without experts say 0 or nothing.
int first_size(const Json& config, std::initializer_list<const char*> keys) {
  constexpr long long kMost = 1 << 24;
  for (const char* const key : keys) {
    const bool is_there = config.contains(key) && config[key].is_number_integer();
    const long long size = is_there ? config[key].get<long long>() : 0;
    if (size > 0 && size <= kMost) {
      return static_cast<int>(size);
    }
  }
  return 0;
}

/// Whether some layers have a dense MLP beside those with experts.
bool has_dense_layers(const Json& config) {
  return first_size(config, {"first_k_dense_replace"}) > 0 ||
         first_size(config, {"decoder_sparse_step", "moe_layer_freq"}) > 1 ||
         (config.contains("mlp_only_layers") && !config["mlp_only_layers"].empty());
}

/// Keys that speak of experts, for a note: no list of names is complete.
std::string words_of_experts(const Json& config) {
  std::string words;
  for (const auto& [key, value] : config.items()) {
    const bool is_about_experts =
        key.find("expert") != std::string::npos || key.find("moe") != std::string::npos;
    if (is_about_experts && (value.is_object() || (value.is_number() && value > 1))) {
      words += (words.empty() ? "" : ", ") + key;
    }
  }
  return words;
}

/// Sizes of experts, by the names that Mixtral, Qwen, DeepSeek, gpt-oss and Granite use.
void read_experts(const Json& config, ModelConfig& model) {
  const int experts = first_size(config, {"num_local_experts", "num_experts", "n_routed_experts"});
  const int own_size = first_size(config, {"moe_intermediate_size"});
  model.experts_per_token = first_size(config, {"num_experts_per_tok", "experts_per_token"});
  model.expert_size = own_size > 0 ? own_size : model.mlp_size;
  if (experts > 1 && model.experts_per_token > 0 && model.expert_size > 0) {
    model.experts = experts;
    model.shared_expert_size =
        1LL * first_size(config, {"n_shared_experts"}) * own_size +
        first_size(config, {"shared_expert_intermediate_size", "shared_intermediate_size"});
  } else {
    model.note = words_of_experts(config);
  }
  if ((experts > 1 || !model.note.empty()) && (own_size == 0 || !has_dense_layers(config))) {
    model.mlp_size = 0;
  }
}

bool is_decoder(const Json& config) {
  return config.contains("architectures") &&
         std::ranges::any_of(config["architectures"], [](const Json& name) {
           return name.is_string() && name.get<std::string>().ends_with("ForCausalLM");
         });
}

/// Models of several kinds of input keep their language model's numbers apart.
const Json& language_part(const Json& config) {
  const bool is_nested = config.is_object() && !config.contains("num_attention_heads") &&
                         config.contains("text_config");
  return is_nested ? config["text_config"] : config;
}

}  // namespace

ModelConfig read_model_config(const Json& document) {
  const Json& config = language_part(document);
  if (!config.is_object()) {
    reject("it is no model's configuration");
  }
  ModelConfig model;
  model.heads_q = required_number(config, "num_attention_heads");
  model.heads_kv = model_number(config, "num_key_value_heads").value_or(model.heads_q);
  model.head_dim = head_dim_of(config, model.heads_q);
  model.hidden_size = model_number(config, "hidden_size").value_or(0);
  model.mlp_size = model_number(config, "intermediate_size").value_or(0);
  read_experts(config, model);
  model.vocabulary = model_number(config, "vocab_size").value_or(0);
  model.gated_mlp = has_gated_mlp(config);
  model.causal = is_decoder(document);
  model.dtype = model_dtype(config);
  return model;
}

}  // namespace swr
