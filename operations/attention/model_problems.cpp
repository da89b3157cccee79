// SPDX-License-Identifier: MIT
#include "operations/attention/parts.h"
#include "operations/model_config.h"
#include <swr/attention_problem.h>

namespace swr {

std::vector<Problem> attention_problems_of_model(const Json& document, const ModelWork& work) {
  const ModelConfig model = read_model_config(document);
  AttentionProblem problem{.heads_q = model.heads_q,
                           .heads_kv = model.heads_kv,
                           .head_dim = model.head_dim,
                           .dtype = work.dtype.value_or(model.dtype),
                           .causal = work.causal || model.causal};
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
