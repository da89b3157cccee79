// SPDX-License-Identifier: MIT
// The names of the numbers that are reported for a variant. They stand apart from their values so
// that a spec that names one is checked where it is read, without a result.
#pragma once

#include <array>
#include <string_view>

namespace swr {

/// Columns of CSV files and keys of JSON, in the order of metrics().
inline constexpr std::array<std::string_view, 27> kMetricNames{"registers_per_thread",
                                                               "smem_bytes",
                                                               "ctas_per_sm",
                                                               "l2_sectors",
                                                               "compulsory_sectors",
                                                               "excess_miss_sectors",
                                                               "l2_misses_sectors",
                                                               "l2_hits_sectors",
                                                               "l2_lookups_sectors",
                                                               "l2_fabric_sectors",
                                                               "dram_read_bytes",
                                                               "dram_write_bytes",
                                                               "time_us",
                                                               "p95_us",
                                                               "tflop_per_s",
                                                               "energy_mj",
                                                               "power_w",
                                                               "idle_power_w",
                                                               "gflop_per_j",
                                                               "relative_error",
                                                               "prediction_error",
                                                               "matrix_us",
                                                               "softmax_us",
                                                               "l2_us",
                                                               "dram_us",
                                                               "latency_us",
                                                               "spill_bytes"};

/// Objectives may name these too: shorter names of some, and what is computed from several.
inline constexpr std::array<std::string_view, 4> kFurtherMetricNames{"registers", "l2_misses",
                                                                     "dram_bytes", "occupancy"};

}  // namespace swr
