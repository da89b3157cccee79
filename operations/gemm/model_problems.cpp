// SPDX-License-Identifier: MIT
// The projections of a published model, merged as servers merge them: Q, K and V in one product,
// gate and up in one; those of experts as grouped products.
#include "core/reject.h"
#include "operations/gemm/gemm_fit.h"
#include "operations/gemm/parts.h"
#include "operations/model_config.h"
#include <swr/gemm_problem.h>

#include <limits>
#include <set>
#include <string>

namespace swr {
namespace {

struct Weight {
  long long n = 0;
  long long k = 0;
};

/// Up, with the gate where there is one, and down. None of size 0.
std::vector<Weight> weights_of_mlp(const ModelConfig& model, long long size) {
  if (size == 0) {
    return {};
  }
  return {{(model.gated_mlp ? 2LL : 1LL) * size, model.hidden_size}, {model.hidden_size, size}};
}

/// Those of a layer that the configuration speaks of.
std::vector<Weight> weights_of_layer(const ModelConfig& model) {
  const long long query_columns = 1LL * model.heads_q * model.head_dim;
  const long long kv_columns = 2LL * model.heads_kv * model.head_dim;
  const long long hidden = model.hidden_size;
  std::vector<Weight> weights{{query_columns + kv_columns, hidden}, {hidden, query_columns}};
  for (const long long size : {0LL + model.mlp_size, model.shared_expert_size}) {
    const auto of_mlp = weights_of_mlp(model, size);
    weights.insert(weights.end(), of_mlp.begin(), of_mlp.end());
  }
  return weights;
}

int checked(long long number, const char* name) {
  if (number > std::numeric_limits<int>::max()) {
    reject(std::string(name) + " " + std::to_string(number) + " of a projection is too large");
  }
  return static_cast<int>(number);
}

GemmProblem product(long long rows, const Weight& weight, DType dtype) {
  return {.m = checked(rows, "m"),
          .n = checked(weight.n, "n"),
          .k = checked(weight.k, "k"),
          .dtype = dtype,
          .output = parse_output_type(to_string(dtype))};
}

Problem projection(long long rows, const Weight& weight, DType dtype) {
  const GemmProblem problem = product(rows, weight, dtype);
  validate(problem);
  return problem;
}

/// The product of every expert with the rows that chose it, as Runtime asks for it.
Problem expert_projection(long long rows, const Weight& weight, const ModelConfig& model,
                          DType dtype) {
  GemmProblem problem = product(rows * model.experts_per_token, weight, dtype);
  problem.batch = model.experts;
  problem.groups = GemmGroups::offsets;
  problem.m = problem_rows({.m = problem.m, .batch = problem.batch}, {.form = problem.groups});
  validate(problem);
  return problem;
}

/// Of prompts, and of a step of decoding.
std::set<long long> rows_of(const ModelWork& work) {
  std::set<long long> rows(work.batches.begin(), work.batches.end());
  for (const long long length : work.lengths) {
    for (const int batch : work.batches) {
      rows.insert(length * batch);
    }
  }
  return rows;
}

}  // namespace

std::vector<Problem> gemm_problems_of_model(const Json& document, const ModelWork& work) {
  const ModelConfig model = read_model_config(document);
  std::vector<Problem> problems;
  if (model.hidden_size == 0) {
    return problems;
  }
  if (!model.note.empty() && work.notes != nullptr) {
    work.notes->push_back("the products of experts are missing: " + model.note +
                          " say too little of them; list them as shapes with groups=offsets");
  }
  const DType dtype = work.dtype.value_or(model.dtype);
  for (const long long rows : rows_of(work)) {
    for (const Weight& weight : weights_of_layer(model)) {
      problems.push_back(projection(rows, weight, dtype));
    }
    for (const Weight& weight : weights_of_mlp(model, model.experts > 0 ? model.expert_size : 0)) {
      problems.push_back(expert_projection(rows, weight, model, dtype));
    }
  }
  // Only the last row of each sequence becomes logits.
  for (const int batch : work.batches) {
    if (model.vocabulary > 0) {
      problems.push_back(projection(batch, {model.vocabulary, model.hidden_size}, dtype));
    }
  }
  return problems;
}

}  // namespace swr
