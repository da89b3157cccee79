// SPDX-License-Identifier: MIT
#include "operations/attention_serving/merge_states.h"
#include "operations/attention_serving/serving_attention.h"
#include <swr/runtime.h>

namespace swr {

void Runtime::attention(const ServingAttentionCall& call, CUstream_st* stream) {
  const ServingAttentionProblem problem = problem_of(call);
  require_tensors(call);
  launch(problem, &call, call.params.q, stream);
}

void Runtime::merge_states(const MergeStatesCall& call, CUstream_st* stream) {
  validate(call);
  launch_fixed(call.params.parts, [&](const FixedSite& site) { launch_merge(call, site, stream); });
}

long long Runtime::prepare(const ServingAttentionCall& call) {
  return prepare(problem_of(call), &call);
}

}  // namespace swr
