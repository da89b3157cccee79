// SPDX-License-Identifier: MIT
#include "operations/attention_serving/serving_attention.h"
#include "operations/attention_serving/serving_launch.h"
#include <swr/runtime.h>

namespace swr {

void Runtime::attention(const ServingAttentionCall& call, CUstream_st* stream) {
  const ServingAttentionProblem problem = problem_of(call);
  require_tensors(call);
  const ServingAttentionParams& p = call.params;
  if (p.batch > 0) {
    launch(problem, &call, p.q == nullptr ? p.k : p.q, stream);
  }
}

void Runtime::merge_states(const MergeStatesCall& call, CUstream_st* stream) {
  validate(call);
  if (call.params.rows == 0) {
    return;
  }
  launch_fixed(call.params.parts, [&](const FixedSite& site) { launch_merge(call, site, stream); });
}

long long Runtime::prepare(const ServingAttentionCall& call) {
  return prepare(problem_of(call), &call, call.params.q);
}

}  // namespace swr
