// SPDX-License-Identifier: MIT
// What limits a result, from its numbers alone: where it stands under the roofs of its GPU, how
// much of each unit it uses, and in words what that says and what to try next. The same for
// measured and predicted results; the words say which they speak of.
#pragma once

#include "model/profile/gpu_profile.h"
#include <swr/problem.h>
#include <swr/result.h>

#include <optional>
#include <string>
#include <vector>

namespace swr {

/// A result under the roofs of matrix rate and memory bandwidth. FLOP are those of the products
/// without masked positions.
struct Roofline {
  double peak_tflop_per_s = 0.0;  ///< Of the instruction that the family multiplies with.
  double dram_gb_per_s = 0.0;     ///< Achievable.
  double tflop_per_s = 0.0;
  /// FLOP per byte of inputs and output moved once.
  double algorithmic_intensity = 0.0;
  /// FLOP per byte that really crossed the memory bus; empty without counters.
  std::optional<double> observed_intensity;

  /// The roof at an intensity.
  double roof_tflop_per_s(double intensity) const;
  /// How many times faster the roof is than the result at its observed intensity, or at the
  /// algorithmic one where that is unknown.
  double vertical_gap() const;
  /// How many times more bytes were moved than necessary.
  std::optional<double> horizontal_gap() const;
};

/// Empty where the spec of a kernel says no operations or bytes of these sizes.
/// Requires: a result that is ok.
std::optional<Roofline> roofline(const Problem& problem, const VariantResult& result,
                                 const GpuProfile& profile);

/// Peak rate of the family's matrix instruction on all SMs at the profile's clock.
double peak_tflop_per_s(Family family, const GpuProfile& profile);

/// Bytes that crossed the memory bus: counted or modelled; empty without counters.
std::optional<long long> dram_bytes(const VariantResult& result);

/// Share of the time in which a unit would do its work at its full rate.
struct UnitUse {
  std::string unit;
  double share = 0.0;
};

/// Units whose work is known, the busiest first. Requires: a result that is ok.
std::vector<UnitUse> unit_use(const Problem& problem, const VariantResult& result,
                              const GpuProfile& profile);

/// CTAs of the launch over the places of all SMs.
double launch_waves(const Problem& problem, const VariantResult& result, const DeviceInfo& device);

/// Sentences about what bounds the result. Requires: a result that is ok.
std::vector<std::string> limits_in_words(const Problem& problem, const VariantResult& result,
                                         const GpuProfile& profile);

/// Sentences about the knobs that close the vertical and the horizontal gap, the more promising
/// first. Requires: a result that is ok.
std::vector<std::string> next_steps_in_words(const Problem& problem, const VariantResult& result,
                                             const GpuProfile& profile);

}  // namespace swr
