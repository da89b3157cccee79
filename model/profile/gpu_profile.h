// SPDX-License-Identifier: MIT
// What the model knows of a GPU: a JSON file per chip under model/profile/gpus, every number with
// its source. A profile may inherit from a built-in one (profile_inheritance.h).
#pragma once

#include "model/l2/l2_policy.h"
#include <swr/axes.h>
#include <swr/device.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// What the instructions of the portable kernels cost beside the chip's rates. Fitted to measured
/// spaces; docs/model.md says to which and how.
struct KernelCosts {
  /// Clocks of a scheduler between an mma.sync and the next one, whatever the chip's rate.
  double product_gap_clocks = 0.0;
  /// Share of the shared-memory time of K and V in which a warp's products wait for it.
  double smem_share = 0.0;
  /// Clocks of a KV step in which a warp waits for its own results: shuffles, first and last
  /// products.
  double step_latency_clocks = 0.0;
  /// Clocks that a barrier takes.
  double barrier_clocks = 0.0;
  /// Share of the issue slots that a CTA gets, of what the next older one of its SM gets.
  double younger_share = 0.0;
  /// From the start of a Q tile to its first KV step.
  double tile_clocks = 0.0;
  /// Of a launch without work.
  double launch_us = 0.0;
};

/// A cost by its name in a profile.
struct KernelCost {
  std::string_view name;
  double KernelCosts::*member;
};

inline constexpr std::array kKernelCosts{
    KernelCost{"product_gap_clocks", &KernelCosts::product_gap_clocks},
    KernelCost{"smem_share", &KernelCosts::smem_share},
    KernelCost{"step_latency_clocks", &KernelCosts::step_latency_clocks},
    KernelCost{"barrier_clocks", &KernelCosts::barrier_clocks},
    KernelCost{"younger_share", &KernelCosts::younger_share},
    KernelCost{"tile_clocks", &KernelCosts::tile_clocks},
    KernelCost{"launch_us", &KernelCosts::launch_us},
};

/// The main loop that the compiler makes of a kernel of the portable family: variants that agree
/// here run the same instructions in it, but for the mask.
struct KernelCode {
  int head_dim = 0;
  int tile_m = 0;
  int tile_n = 0;
  int warps = 0;
  int stages = 0;
  Order order = Order::cyclic;

  auto operator<=>(const KernelCode&) const = default;
};

/// How far predicted times of a head_dim and mask lie from measured ones.
struct RegimeError {
  bool causal = false;
  int head_dim = 0;    ///< The regime's longest.
  double error = 0.0;  ///< Root mean square, as a share.
};

/// How far the model's times of a chip lie from times that nothing of the model was fitted to
/// (experiments/published_timings). Empty where it is not known.
struct PredictionErrors {
  std::vector<RegimeError> regimes;     ///< Of a mask by growing head_dim.
  double brief = 0.0;                   ///< Of launches under kBriefLaunchUs, whatever the regime.
  std::map<std::string, double> named;  ///< Of kernels that share one error, by its name.
};

inline constexpr double kBriefLaunchUs = 200.0;

struct GpuProfile {
  /// Name on the command line, e.g. "gb10".
  std::string id;
  DeviceInfo device;
  /// Sustained SM clock under matrix load.
  double clock_mhz = 0.0;
  /// Dense fp16/bf16 operations (multiply and add count two) with fp32 accumulation per SM and
  /// clock through mma.sync, the instruction of the portable family.
  double matrix_flop_per_clock_per_sm = 0.0;
  /// ex2 results per SM and clock.
  double exp2_per_clock_per_sm = 0.0;
  /// fp32 FMA results per SM and clock.
  double fma_per_clock_per_sm = 0.0;
  /// Read bandwidth of L2 by all SMs together, in GB/s (1e9 bytes).
  double l2_gb_per_s = 0.0;
  /// From a load to its data with an L2 hit, in SM clocks.
  double l2_latency_clocks = 0.0;
  /// From a load to its data when it comes from memory, in SM clocks.
  double dram_latency_clocks = 0.0;
  /// Achievable share of DeviceInfo::dram_gb_per_s.
  double dram_efficiency = 0.0;
  /// Bytes of L2 that data read by every SM can occupy: chips with two L2 partitions keep a copy
  /// of such data in each.
  long long l2_effective_bytes = 0;
  /// Lines of a set of L2; 0 where not known.
  int l2_ways = 0;
  /// ScheduleShape::partition_runs; empty where not known.
  std::vector<int> l2_partition_runs;
  KernelCosts kernel;
  /// How many times as long as by KernelCosts a KV step of some codes takes; of others it is not
  /// known. Fitted to measured spaces.
  std::map<KernelCode, double> code_factors;
  PredictionErrors prediction_errors;
  /// Source of each number, keyed by its JSON name.
  std::map<std::string, std::string> sources;

  L2Policy l2_policy() const { return {l2_effective_bytes, l2_ways}; }
  /// 1 where it is not known.
  double code_factor(const KernelCode& code) const;
  /// Prediction::relative_error of a launch that is predicted to take so long.
  /// Longer head_dims than any regime's count as the longest's.
  double prediction_error(double time_us, bool causal, int head_dim) const;
  /// The one of that name; 0 where the profile has none.
  double prediction_error(const std::string& name) const;
};

/// Ids of the built-in profiles, sorted.
std::vector<std::string> profile_ids();

/// A built-in profile by id (any case), or a JSON file by path (text with a '/' or ending .json).
/// Throws: Error{not_found} listing the known ids; Error{unreadable} naming the file, the field
/// and what is wrong with it.
GpuProfile load_profile(std::string_view id_or_path);

/// The profile as load_profile reads it, one line per number.
std::string profile_text(const GpuProfile& profile);

/// A number of a profile as a person reads it.
struct ProfileEntry {
  std::string name;
  std::string value;  ///< Of lists: how many rows.
  std::string source;
};

/// Every number of a profile, in the order of its file.
std::vector<ProfileEntry> profile_entries(const GpuProfile& profile);

/// The built-in profile that describes the same device, else one whose unknown rates are scaled
/// from the nearest architecture's; its id is then "auto" and its sources say so.
GpuProfile profile_for_device(const DeviceInfo& device);

/// The SM clock that a profile has for this very chip; empty where none describes it.
std::optional<double> profiled_clock_mhz(const DeviceInfo& device);

}  // namespace swr
