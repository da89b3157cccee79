// SPDX-License-Identifier: MIT
// What is known about a variant on a device: observed (Measurement) or modelled (Prediction).
// The two never merge; provenance travels with a result to the last line printed.
#pragma once

#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace swr {

enum class Provenance { measured, predicted };

/// Outcome of one variant. Append-only: the spellings are stored.
enum class ResultState {
  ok,
  compile,      ///< NVRTC rejected it.
  constraint,   ///< A named constraint dropped it after compilation, e.g. spills.
  launch,       ///< The driver refused the launch.
  runtime,      ///< The kernel faulted.
  timeout,      ///< It ran past its deadline.
  correctness,  ///< Its output differs from the reference.
  crash,        ///< The measuring process died.
  throttled,    ///< Only samples from a throttled GPU could be taken.
};

std::string_view to_string(Provenance value);
std::string_view to_string(ResultState value);
/// Throws: Error{invalid_argument}.
Provenance parse_provenance(std::string_view text);
ResultState parse_result_state(std::string_view text);

/// Hardware counters of one launch. A sector is 32 bytes. docs/measuring.md defines each.
struct Counters {
  long long sectors_demanded = 0;  ///< Read sectors that the SMs asked L2 for.
  long long l2_lookups = 0;        ///< Sectors looked up in L2.
  long long l2_hits = 0;
  long long l2_misses = 0;
  long long l2_fabric_sectors = 0;  ///< Traffic between L2 partitions, included in the lookups.
  long long dram_read_bytes = 0;
  long long dram_write_bytes = 0;

  bool operator==(const Counters&) const = default;
};

/// How one launch went to shared and to global memory, by hardware counter. A wavefront is one pass
/// over the 32 banks of shared memory, a conflict a wavefront that banks asked for twice made
/// necessary; a request is a warp's access, a sector has 32 bytes, and the bytes are those that
/// threads asked for. Empty where the chip does not count. docs/measuring.md says what each covers.
struct AccessCounters {
  std::optional<long long> smem_load_wavefronts;  ///< Loads, ldmatrix among them.
  std::optional<long long> smem_load_conflicts;
  std::optional<long long> smem_store_wavefronts;  ///< Stores, stmatrix among them.
  std::optional<long long> smem_store_conflicts;
  std::optional<long long> smem_copy_wavefronts;  ///< What cp.async writes.
  std::optional<long long> smem_copy_conflicts;
  std::optional<long long> smem_wgmma_wavefronts;  ///< Operands that wgmma reads.
  std::optional<long long> smem_wgmma_conflicts;
  std::optional<long long> global_load_requests;  ///< Loads into registers.
  std::optional<long long> global_load_sectors;
  std::optional<long long> global_load_bytes;
  std::optional<long long> global_store_requests;
  std::optional<long long> global_store_sectors;
  std::optional<long long> global_store_bytes;
  std::optional<long long> global_copy_requests;  ///< What cp.async reads.
  std::optional<long long> global_copy_sectors;
  std::optional<long long> global_copy_bytes;
  std::optional<long long> tma_load_sectors;  ///< What the copy engine reads, whole by design.

  bool operator==(const AccessCounters&) const = default;
};

/// What the L2 holds when a timed launch begins. Append-only: the spellings are stored.
enum class L2State {
  warm,  ///< What the launch before left.
  cold,  ///< Nothing of the problem: twice its size was written in between.
};

/// How the samples of a measurement were taken. Append-only: the spellings are stored.
enum class Sampling {
  screening,  ///< One variant after the other.
  finals,     ///< In rounds shared with the other finalists, in random order.
};

std::string_view to_string(L2State value);
std::string_view to_string(Sampling value);
/// Throws: Error{invalid_argument}.
L2State parse_l2_state(std::string_view text);
Sampling parse_sampling(std::string_view text);

/// Condition of the GPU at one moment, as NVML reports it; empty where the GPU does not say.
struct GpuCondition {
  std::optional<long long> sm_clock_mhz;
  std::optional<long long> memory_clock_mhz;
  std::optional<long long> temperature_c;
  std::optional<long long> power_mw;
  /// NVML's bit set of reasons for clocks below the highest.
  std::optional<long long> throttle_reasons;

  bool operator==(const GpuCondition&) const = default;
};

/// What a launch takes of energy while launches follow each other, by the GPU's own counter
/// (docs/energy.md).
struct Energy {
  /// Of one launch in each run, millijoule. What the idle GPU draws is in it.
  std::vector<double> samples_mj;
  /// Mean time of one launch in these runs, which load the GPU for longer than samples of time do.
  double launch_us = 0.0;
  /// What the GPU draws with nothing to do, watt.
  double idle_power_w = 0.0;

  /// Mean over the runs, millijoule. Requires: there are runs.
  double mean_mj() const;
  /// Mean power of the runs, watt. Requires: as mean_mj().
  double power_w() const;

  bool operator==(const Energy&) const = default;
};

/// Observed on a GPU.
struct Measurement {
  /// Raw samples in the order taken, microseconds.
  std::vector<double> samples_us;
  double median_us = 0.0;
  double p95_us = 0.0;
  /// ||out - reference|| / ||reference|| against the fp32 reference.
  double relative_error = 0.0;
  std::optional<Counters> counters;
  L2State l2_state = L2State::warm;
  Sampling sampling = Sampling::screening;
  /// Right before the first and right after the last sample.
  GpuCondition before;
  GpuCondition after;
  /// Why the conditions are unknown; empty when the GPU was asked.
  std::string condition_missing_because;
  /// Why counters are absent, or which of them the chip lacks (these are 0); empty when all are
  /// present.
  std::string counters_missing_because;
  /// Counted for winners and those near them alone, because it takes passes of its own.
  std::optional<AccessCounters> accesses;
  /// Why accesses are absent, or which of them the chip does not count; empty also where nobody has
  /// tried yet.
  std::string accesses_missing_because;
  /// Measured for those alone that an objective or the front of time and energy is about, because
  /// it takes seconds.
  std::optional<Energy> energy;
  /// Why energy is absent; empty also where nobody has tried yet.
  std::string energy_missing_because;
};

/// Modelled from the schedule and a GPU profile.
struct Prediction {
  double time_us = 0.0;
  /// Terms of the time: the first four overlap and the largest bounds it; waiting that nothing
  /// hides comes on top (docs/model.md).
  double matrix_us = 0.0;
  double softmax_us = 0.0;
  double l2_us = 0.0;
  double dram_us = 0.0;
  double latency_us = 0.0;
  long long read_sectors = 0;       ///< Read sectors the SMs ask L2 for.
  long long write_sectors = 0;      ///< Sectors of the output.
  long long compulsory_misses = 0;  ///< First touch of each sector.
  long long excess_misses = 0;      ///< Sectors fetched again after eviction.
  /// How far measured times are expected to lie from time_us, as a share of it (root mean square);
  /// 0 where nothing is known of it. Times that differ by less are ties (docs/model.md).
  double relative_error = 0.0;
};

/// One variant's outcome for one problem on one device.
struct VariantResult {
  Variant variant;
  ResultState state = ResultState::ok;
  /// Why the state is not ok; empty otherwise.
  std::string detail;
  KernelResources resources;
  int smem_bytes = 0;
  int ctas_per_sm = 0;
  std::string cubin_digest;
  std::variant<Measurement, Prediction> outcome;

  Provenance provenance() const {
    return std::holds_alternative<Measurement>(outcome) ? Provenance::measured
                                                        : Provenance::predicted;
  }
  const Measurement* measurement() const { return std::get_if<Measurement>(&outcome); }
  const Prediction* prediction() const { return std::get_if<Prediction>(&outcome); }
  /// Median or predicted time in microseconds.
  double time_us() const {
    return measurement() != nullptr ? measurement()->median_us : prediction()->time_us;
  }
};

/// Total L2 sectors moved by the SMs: demanded or looked up when measured, modelled otherwise.
/// Empty when measured without counters.
std::optional<long long> l2_sectors(const VariantResult& result);

/// Sectors that came from DRAM beyond the first touch of each; empty when a counter is missing.
/// Measured: dram_read_bytes / 32 minus the compulsory read sectors, at least 0.
std::optional<long long> excess_miss_sectors(const Problem& problem, const VariantResult& result);
/// The same of a number of bytes that were counted.
long long excess_read_sectors(const Problem& problem, long long dram_read_bytes);

/// Compulsory sectors of a problem: every input and the output once (paper, section 3).
long long compulsory_sectors(const Problem& problem);

inline constexpr int kSectorBytes = 32;

}  // namespace swr
