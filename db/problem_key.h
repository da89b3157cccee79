// SPDX-License-Identifier: MIT
// A problem of any operation in the form in which the lookup compares them: what selects other
// kernels as one number, and the sizes that may differ between neighbours.
#pragma once

#include "core/operation.h"
#include "core/shape_distance.h"
#include <swr/device.h>
#include <swr/error.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace swr {

struct ProblemKey {
  /// The operation and its fields of that role, packed: no size makes up for a difference in one.
  std::uint64_t kind = 0;
  /// The fields that are sizes, in declared order; 1 behind them.
  std::array<int, ShapePoint::kDimensions> sizes{};

  auto operator<=>(const ProblemKey&) const = default;
};

/// Throws: Error{invalid_argument} when keys have no room for the operation's fields. An operation
/// that is registered must pass, as a test proves.
void require_key(const Operation& operation);

/// Of a problem that is not valid it is equal to no key of a valid one.
ProblemKey problem_key(const Problem& problem);
/// The inverse. Requires, like the following: the key of a valid problem.
Problem problem_of(const ProblemKey& key);

ShapePoint shape_point(const ProblemKey& key);

std::size_t hash_of(const ProblemKey& key);

// The rules by which one stored result is nearer or better than another. Pure functions; the lookup
// table applies them.

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

// What the database works out of an operation's fields and axes, once for each registered one.

/// Throws: Error{invalid_argument}; what the constructor of any operation's `Derived` throws.
[[noreturn]] inline void reject_unregistered(const Operation& operation) {
  throw Error(ErrorCode::invalid_argument,
              "operation " + std::string(operation.name()) +
                  " is not registered; add it to operations/CMakeLists.txt");
}

/// Of operations that were registered after the first question.
template <typename Derived>
const Derived& derived_of_later(const Operation& operation) {
  static std::mutex mutex;
  static std::map<const Operation*, const Derived> later;
  const std::lock_guard lock(mutex);
  if (const auto known = later.find(&operation); known != later.end()) {
    return known->second;
  }
  if (std::ranges::find(operations(), &operation) == operations().end()) {
    reject_unregistered(operation);
  }
  return later.try_emplace(&operation, operation).first->second;
}

/// The `Derived(operation)` of a registered operation; it has a member `operation`. Safe from any
/// thread. Costs no lock for operations that come with swr.
template <typename Derived>
const Derived& derived_of(const Operation& operation) {
  static const std::vector<Derived> all = [] {
    std::vector<Derived> each;
    for (const Operation* const registered : operations()) {
      each.emplace_back(*registered);
    }
    return each;
  }();
  for (const Derived& one : all) {
    if (one.operation == &operation) {
      return one;
    }
  }
  return derived_of_later<Derived>(operation);
}

}  // namespace swr
