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

bool has_experts(const Json& config) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"num_local_experts", "num_experts", "n_routed_experts"},
      [&](const char* key) { return model_number(config, key).value_or(0) > 1; });
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
  model.mlp_size = has_experts(config) ? 0 : model_number(config, "intermediate_size").value_or(0);
  model.vocabulary = model_number(config, "vocab_size").value_or(0);
  model.gated_mlp = has_gated_mlp(config);
  model.causal = is_decoder(document);
  model.dtype = model_dtype(config);
  return model;
}

}  // namespace swr
