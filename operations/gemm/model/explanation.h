// SPDX-License-Identifier: MIT
// Why a prediction of GEMM is what it is: everything the model knows of one variant.
#pragma once

#include "operations/attention/model/cta_memory.h"
#include "operations/gemm/model/time.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/kernel.h>

#include <optional>
#include <string>
#include <vector>

namespace swr {

/// Bytes of one matrix between L2 and the SMs.
struct MatrixBytes {
  std::string matrix;
  long long demanded = 0;    ///< By all clusters; what a cluster multicasts counts once.
  long long compulsory = 0;  ///< The matrix once.
};

/// How often each operand comes from memory, by the walk.
struct OperandReads {
  double a = 1.0;
  double b = 1.0;

  double most() const { return a > b ? a : b; }
};

/// The same kernel with its tiles in another order.
struct OtherOrder {
  GemmVariant variant;
  OperandReads reads;
  double time_us = 0.0;  ///< Predicted.
};

struct GemmExplanation {
  Occupancy occupancy;
  GemmLaunch launch;
  std::vector<NamedBytes> buffers;  ///< Of shared memory.
  std::vector<MatrixBytes> matrices;
  long long ctas = 0;  ///< Of the launch.
  /// Rounds in which the tiles fill the places for clusters; a fraction is a last round that leaves
  /// some empty.
  double waves = 0.0;
  GemmTraffic traffic;
  OperandReads reads;
  GemmPrediction prediction;
};

/// Throws: Error{invalid_argument} when no CTA fits an SM.
GemmExplanation explain(const GemmProblem& problem, const GemmVariant& variant,
                        const KernelResources& resources, const GpuProfile& profile);

/// The fastest of the other orders, by the model; empty where there is none. Walks each.
std::optional<OtherOrder> fastest_other_order(const GemmProblem& problem,
                                              const GemmVariant& variant, int ctas_per_sm,
                                              const GpuProfile& profile);

}  // namespace swr
