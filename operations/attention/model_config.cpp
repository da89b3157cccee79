// SPDX-License-Identifier: MIT
#include "core/reject.h"
#include "operations/attention/parts.h"
#include <swr/attention_problem.h>

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

DType model_dtype(const Json& config) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key) && config[key] == "bfloat16") {
      return DType::bf16;
    }
  }
  return DType::fp16;
}

/// Models of several kinds of input keep their language model's numbers apart.
const Json& attention_part(const Json& config) {
  const bool is_nested = config.is_object() && !config.contains("num_attention_heads") &&
                         config.contains("text_config");
  return is_nested ? config["text_config"] : config;
}

}  // namespace

std::vector<Problem> attention_problems_of_model(const Json& document, const ModelWork& work) {
  const Json& config = attention_part(document);
  if (!config.is_object()) {
    reject("it is no model's configuration");
  }
  AttentionProblem problem;
  problem.heads_q = required_number(config, "num_attention_heads");
  problem.heads_kv = model_number(config, "num_key_value_heads").value_or(problem.heads_q);
  problem.head_dim = head_dim_of(config, problem.heads_q);
  problem.dtype = work.dtype.value_or(model_dtype(config));
  problem.causal = work.causal;
  std::vector<Problem> problems;
  for (const int length : work.lengths) {
    for (const int batch : work.batches) {
      problem.batch = batch;
      problem.seq_q = problem.seq_kv = length;
      validate(problem);
      problems.emplace_back(problem);
    }
  }
  return problems;
}

}  // namespace swr
