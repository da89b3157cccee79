// SPDX-License-Identifier: MIT
// What a KV step of the Hopper family costs an SM: products by wgmma, softmax, and how far a main
// loop lets them overlap.
#pragma once

#include "model/profile/gpu_profile.h"
#include "operations/attention/config.h"

namespace swr {

/// Clocks of one wgmma of 64 rows, `columns` columns and a depth of 16, with fp16 or bf16 operands.
/// Its right operand always comes from shared memory, its left one from there or from registers.
double wgmma_clocks(int columns, bool left_from_smem);

/// Clocks of the SM for one KV step of one CTA.
struct HopperStep {
  double matrix_clocks = 0.0;   ///< Tensor cores, or the shared memory that feeds them.
  double softmax_clocks = 0.0;  ///< exp2 and the instructions around it, of all warpgroups.
  double step_clocks = 0.0;     ///< The whole step, overlapped as the main loop does.
};

/// Of a launch without work, in microseconds; fitted to spaces of the portable family of 2026-11-21
/// and judged by the choices of this one (experiments/hopper_attention).
inline constexpr double kHopperLaunchUs = 5.53;

HopperStep hopper_step(const HopperAttentionConfig& config, const GpuProfile& profile);

/// Clocks of a Q tile beside its KV steps: the wait for Q where it is not loaded early, the first
/// softmax where nothing hides it, and the way of O into shared memory.
double hopper_tile_clocks(const HopperAttentionConfig& config, const GpuProfile& profile);

}  // namespace swr
