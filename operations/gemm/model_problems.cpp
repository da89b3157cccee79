// SPDX-License-Identifier: MIT
// The projections of a published model, merged as servers merge them: Q, K and V in one product,
// gate and up in one.
#include "core/reject.h"
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

/// Those of a layer that the configuration speaks of.
std::vector<Weight> weights_of_layer(const ModelConfig& model) {
  const long long query_columns = 1LL * model.heads_q * model.head_dim;
  const long long kv_columns = 2LL * model.heads_kv * model.head_dim;
  const long long hidden = model.hidden_size;
  std::vector<Weight> weights{{query_columns + kv_columns, hidden}, {hidden, query_columns}};
  if (model.mlp_size > 0) {
    weights.push_back({(model.gated_mlp ? 2LL : 1LL) * model.mlp_size, hidden});
    weights.push_back({hidden, model.mlp_size});
  }
  return weights;
}

int checked(long long number, const char* name) {
  if (number > std::numeric_limits<int>::max()) {
    reject(std::string(name) + " " + std::to_string(number) + " of a projection is too large");
  }
  return static_cast<int>(number);
}

Problem projection(long long rows, const Weight& weight, DType dtype) {
  const GemmProblem problem{.m = checked(rows, "m"),
                            .n = checked(weight.n, "n"),
                            .k = checked(weight.k, "k"),
                            .dtype = dtype,
                            .output = parse_output_type(to_string(dtype))};
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
  const DType dtype = work.dtype.value_or(model.dtype);
  for (const long long rows : rows_of(work)) {
    for (const Weight& weight : weights_of_layer(model)) {
      problems.push_back(projection(rows, weight, dtype));
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
