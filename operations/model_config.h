// SPDX-License-Identifier: MIT
// What a published model's config.json says of its shapes.
#pragma once

#include "core/json.h"
#include <swr/problem.h>

#include <string>

namespace swr {

/// Of the language model, where the model has several parts.
struct ModelConfig {
  int heads_q = 0;
  int heads_kv = 0;
  int head_dim = 0;
  // 0 where the configuration does not say.
  int hidden_size = 0;
  int mlp_size = 0;  ///< Of a dense MLP; 0 where experts are in its place in every layer.
  int experts = 0;   ///< 0 without, and where one of the two below is not known.
  int experts_per_token = 0;
  int expert_size = 0;
  long long shared_expert_size = 0;  ///< Of an MLP that every token takes beside its experts.
  int vocabulary = 0;
  bool gated_mlp = false;
  bool causal = false;  ///< It is known to be a decoder.
  DType dtype = DType::fp16;
  std::string note;  ///< Where it speaks of experts in words that are not known, those.
};

/// Throws: Error{invalid_argument} naming the field.
ModelConfig read_model_config(const Json& document);

}  // namespace swr
