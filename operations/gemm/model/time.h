// SPDX-License-Identifier: MIT
// From the walk of a GEMM to a time. What the Hopper family costs was read off measurements
// (experiments/gemm); the portable family takes the costs of portable attention and has not
// been compared with any.
#pragma once

#include "model/profile/gpu_profile.h"
#include "operations/gemm/model/walk.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {

/// Terms of a predicted time. SMs, L2 and memory work at the same time; the rest comes on top.
struct GemmPrediction {
  double time_us = 0.0;
  double matrix_us = 0.0;    ///< Products of the SM that works longest.
  double epilogue_us = 0.0;  ///< Of its tiles, as far as no products hide it.
  double l2_us = 0.0;
  double dram_us = 0.0;
  double split_us = 0.0;        ///< Writing, waiting for and adding what other splits computed.
  double copy_us = 0.0;         ///< Rows of A and B to whole lines, before the rest.
  double latency_us = 0.0;      ///< What lies beyond the overlap of products, L2 and DRAM.
  double relative_error = 0.0;  ///< Prediction::relative_error.
};

/// The launch as this GPU runs it.
GemmLaunch gemm_launch_on_gpu(const GemmProblem& problem, const GemmVariant& variant,
                              int ctas_per_sm, const GpuProfile& profile);

/// Requires: `launch` is that of the problem and variant, and `traffic` its walk through
/// profile.l2_policy().
GemmPrediction predict_gemm_time(const GemmProblem& problem, const GemmVariant& variant,
                                 const GemmLaunch& launch, const GemmTraffic& traffic,
                                 const GpuProfile& profile);

/// Both in the form in which they are stored.
Prediction as_prediction(const GemmPrediction& terms, const GemmTraffic& traffic);

}  // namespace swr
