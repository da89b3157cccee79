// SPDX-License-Identifier: MIT
#include "db/match.h"

#include "db/problem_key.h"

#include <cmath>

namespace swr {
namespace {

DevicePoint device_point(const DeviceInfo& device) {
  return {device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s, device.mig};
}

}  // namespace

std::optional<double> shape_distance(const Problem& a, const Problem& b) {
  const ProblemKey key_a = problem_key(a);
  const ProblemKey key_b = problem_key(b);
  if (key_a.kind != key_b.kind) {
    return std::nullopt;
  }
  return std::sqrt(squared_distance(shape_point(key_a), shape_point(key_b)));
}

double device_distance(const DeviceInfo& a, const DeviceInfo& b) {
  return device_distance(device_point(a), device_point(b));
}

Merit merit(const Problem& problem, const VariantResult& result) {
  Merit merit{.time_us = result.time_us(),
              .registers_per_thread = result.resources.registers_per_thread};
  if (const auto excess = excess_miss_sectors(problem, result)) {
    merit.excess_misses = *excess;
  }
  return merit;
}

std::optional<long long> l2_miss_sectors(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->compulsory_misses + prediction->excess_misses;
  }
  const Measurement& measurement = *result.measurement();
  if (!measurement.counters || !measurement.counters_missing_because.empty()) {
    return std::nullopt;
  }
  return measurement.counters->l2_misses;
}

bool is_better(const Problem& problem, const VariantResult& a, const VariantResult& b) {
  const Merit of_a = merit(problem, a);
  const Merit of_b = merit(problem, b);
  return of_a == of_b ? to_key(a.variant) < to_key(b.variant) : of_a < of_b;
}

}  // namespace swr
