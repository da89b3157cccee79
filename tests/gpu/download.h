// SPDX-License-Identifier: MIT
// Device memory back on the host, as float64.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/workload.h"
#include "tests/support/attention_reference.h"
#include <swr/attention_problem.h>
#include <swr/axes.h>

#include <cmath>
#include <vector>

namespace swr {

/// A strided tensor as contiguous [batch, heads, seq, head_dim].
std::vector<double> download(const GuardedTensor& tensor, DType dtype);

/// A buffer of fp32.
std::vector<double> download_fp32(const DeviceBuffer& buffer);

/// ||a - b|| / ||b||; 0 when both are zero.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

/// What the reference computes of a problem, with the usual scale.
inline emulation::AttentionCase case_of(const AttentionProblem& problem) {
  return {.batch = problem.batch,
          .heads_q = problem.heads_q,
          .heads_kv = problem.heads_kv,
          .seq_q = problem.seq_q,
          .seq_kv = problem.seq_kv,
          .head_dim = problem.head_dim,
          .value_dim = problem.head_dim,
          .causal = problem.causal,
          .scale = 1.0 / std::sqrt(problem.head_dim)};
}

}  // namespace swr
