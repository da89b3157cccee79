// SPDX-License-Identifier: MIT
// From the walk of a GEMM of the Hopper family to a time. The search ranks GEMM by a floor so far
// (tuner/search/model_ranking.cpp): a walk for each of its variants has not been timed.
#pragma once

#include "tuner/model/gemm_walk.h"
#include "tuner/model/gpu_profile.h"
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
  double split_us = 0.0;  ///< Writing, waiting for and adding what other splits computed.
};

/// The launch as this GPU runs it. Requires: a variant of the Hopper family.
GemmLaunch gemm_launch_on_gpu(const GemmProblem& problem, const GemmVariant& variant,
                              int ctas_per_sm, const GpuProfile& profile);

/// Requires: `launch` is that of the problem and variant, `traffic` its walk through
/// profile.l2_policy(), and the variant is of the Hopper family.
GemmPrediction predict_gemm_time(const GemmProblem& problem, const GemmVariant& variant,
                                 const GemmLaunch& launch, const GemmTraffic& traffic,
                                 const GpuProfile& profile);

}  // namespace swr
