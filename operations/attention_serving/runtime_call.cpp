// SPDX-License-Identifier: MIT
#include "operations/attention_serving/serving_attention.h"
#include <swr/runtime.h>

namespace swr {

void Runtime::attention(const ServingAttentionCall& call, CUstream_st* stream) {
  const ServingAttentionProblem problem = problem_of(call);
  require_tensors(call);
  launch(problem, &call, call.params.q, stream);
}

long long Runtime::prepare(const ServingAttentionCall& call) {
  return prepare(problem_of(call), &call);
}

}  // namespace swr
