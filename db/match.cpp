// SPDX-License-Identifier: MIT
#include "db/match.h"

#include <cmath>

namespace swr {
namespace {

DevicePoint device_point(const DeviceInfo& device) {
  return {device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s, device.mig};
}

}  // namespace

ShapePoint shape_point(const AttentionProblem& problem) {
  return shape_point(problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
                     problem.seq_kv);
}

bool is_same_kind(const AttentionProblem& a, const AttentionProblem& b) {
  return a.dtype == b.dtype && a.head_dim == b.head_dim && a.causal == b.causal &&
         a.alignment_bytes == b.alignment_bytes;
}

std::optional<double> shape_distance(const AttentionProblem& a, const AttentionProblem& b) {
  if (!is_same_kind(a, b)) {
    return std::nullopt;
  }
  return std::sqrt(squared_distance(shape_point(a), shape_point(b)));
}

double device_distance(const DeviceInfo& a, const DeviceInfo& b) {
  return device_distance(device_point(a), device_point(b));
}

Merit merit(const AttentionProblem& problem, const VariantResult& result) {
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

bool is_better(const AttentionProblem& problem, const VariantResult& a, const VariantResult& b) {
  const Merit of_a = merit(problem, a);
  const Merit of_b = merit(problem, b);
  return of_a == of_b ? to_key(a.variant) < to_key(b.variant) : of_a < of_b;
}

}  // namespace swr
