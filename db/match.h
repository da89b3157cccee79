// SPDX-License-Identifier: MIT
// The rules by which one stored result is nearer or better than another. Pure functions; the lookup
// table applies them.
#pragma once

#include "core/shape_distance.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <compare>
#include <limits>
#include <optional>

namespace swr {

/// Root of the summed squared log2 ratios of the sizes (db/problem_key.h); 0 when these are equal.
/// Empty between problems of different kinds.
std::optional<double> shape_distance(const Problem& a, const Problem& b);

/// The same measure over SM count, L2 size and memory bandwidth: which of several GPUs of one
/// architecture to learn from.
double device_distance(const DeviceInfo& a, const DeviceInfo& b);

/// What makes a result better than another of the same provenance: smaller time first, then fewer
/// excess misses, then fewer registers. Equal ones are ordered by the variant's key.
struct Merit {
  double time_us = 0.0;
  long long excess_misses = std::numeric_limits<long long>::max();  ///< Unknown counts as most.
  int registers_per_thread = 0;

  auto operator<=>(const Merit&) const = default;
};
Merit merit(const Problem& problem, const VariantResult& result);

/// L2 misses in sectors: counted, or the compulsory and excess ones of a prediction; empty when
/// counters are missing.
std::optional<long long> l2_miss_sectors(const VariantResult& result);

/// By merit, then by the variant's key. Requires: both of the same provenance.
bool is_better(const Problem& problem, const VariantResult& a, const VariantResult& b);

}  // namespace swr
