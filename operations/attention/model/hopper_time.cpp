// SPDX-License-Identifier: MIT
#include "operations/attention/model/hopper_time.h"

#include <algorithm>
#include <cmath>

namespace swr {
namespace {

/// Dense fp16 and bf16 operations of wgmma with fp32 accumulation per SM and clock: 989.4 TFLOP/s
/// on 132 SMs at 1830 MHz (H100 SXM data sheet and white paper).
constexpr double kWgmmaFlopPerClock = 4096.0;
/// One wgmma: 64 rows and 16 columns of its left operand.
constexpr int kWgmmaRows = 64;
constexpr int kWgmmaDepth = 16;
/// Shared memory delivers 32 banks of 4 bytes per clock.
constexpr double kWgmmaBytesPerClock = 128.0;
constexpr double kElementBytes = 2.0;
/// Instructions per score beside exp2, counted in templates/attention/hopper/softmax.cuh: maximum,
/// scale and shift, sum, half a conversion to a pair, and one for masks, rescaling and addresses.
constexpr double kSoftmaxInstructions = 4.5;
/// Of an exponential on the FMA pipe (exp2_polynomial in templates/common/ptx.cuh).
constexpr double kPolynomialInstructions = 9.0;
/// Products and softmax take the p-norm of the two: 1 adds them, infinity hides the shorter.
/// Fitted, with kTileClocks, to the 106 choices of
/// experiments/hopper_attention/attention_peers.csv.
constexpr double kOverlappedNorm = 3.0;
/// The same where only the other warpgroups fill the gaps (main loops plain and mutex): between
/// what 549 against 644 TFLOP/s at D 128 and 505 against 545 at D 64 give
/// (experiments/hopper_attention).
constexpr double kInTurnNorm = 1.8;
/// Of a Q tile beside its steps.
constexpr double kTileClocks = 1550.0;

/// The two products of all warpgroups, at wgmma's rate.
double product_clocks(const HopperAttentionConfig& config) {
  const int head_dim = config.padded_head_dim();
  const double q_k = head_dim / kWgmmaDepth * wgmma_clocks(config.tile_n, true);
  const double p_v =
      config.tile_n / kWgmmaDepth * wgmma_clocks(head_dim, config.p_operand == POperand::shared);
  return config.consumers() * (q_k + p_v);
}

double softmax_clocks(const HopperAttentionConfig& config, const GpuProfile& profile) {
  const double scores = static_cast<double>(config.tile_m) * config.tile_n;
  const double on_fma_pipe = config.exp2_fma_eighths / 8.0;
  const double instructions = kSoftmaxInstructions + on_fma_pipe * kPolynomialInstructions;
  return scores * ((1 - on_fma_pipe) / profile.exp2_per_clock_per_sm +
                   instructions / profile.fma_per_clock_per_sm);
}

double norm(double a, double b, double p) {
  return std::pow(std::pow(a, p) + std::pow(b, p), 1.0 / p);
}

}  // namespace

double wgmma_clocks(int columns, bool left_from_smem) {
  const double flop = 2.0 * kWgmmaRows * kWgmmaDepth * columns;
  const double left_bytes = left_from_smem ? kElementBytes * kWgmmaRows * kWgmmaDepth : 0.0;
  const double bytes = left_bytes + kElementBytes * kWgmmaDepth * columns;
  return std::max(flop / kWgmmaFlopPerClock, bytes / kWgmmaBytesPerClock);
}

HopperStep hopper_step(const HopperAttentionConfig& config, const GpuProfile& profile) {
  HopperStep step;
  step.matrix_clocks = product_clocks(config);
  step.softmax_clocks = softmax_clocks(config, profile);
  // A lone warpgroup that does not overlap waits for its own products.
  const double p = config.overlaps()         ? kOverlappedNorm
                   : config.consumers() == 1 ? 1.0
                                             : kInTurnNorm;
  step.step_clocks = norm(step.matrix_clocks, step.softmax_clocks, p);
  return step;
}

double hopper_tile_clocks(const HopperAttentionConfig& config, const GpuProfile& profile) {
  const double wait = config.q_slots() == 2 ? 0.0 : profile.l2_latency_clocks;
  const bool alone = config.overlaps() && !config.chains_q_tiles();
  return kTileClocks + wait + (alone ? softmax_clocks(config, profile) / config.consumers() : 0.0);
}

}  // namespace swr
