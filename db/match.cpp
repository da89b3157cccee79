// SPDX-License-Identifier: MIT
#include "db/match.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <tuple>

namespace swr {
namespace {

struct Ratio {
  double a = 0.0;
  double b = 0.0;
};

double log_distance(std::initializer_list<Ratio> ratios) {
  double sum = 0.0;
  for (const Ratio& ratio : ratios) {
    const double octaves = std::log2(ratio.a / ratio.b);
    sum += octaves * octaves;
  }
  return std::sqrt(sum);
}

Ratio ratio(long long a, long long b) { return {static_cast<double>(a), static_cast<double>(b)}; }

auto rank(const AttentionProblem& problem, const VariantResult& result) {
  const auto excess = excess_miss_sectors(problem, result);
  return std::tuple(result.time_us(), excess.value_or(std::numeric_limits<long long>::max()),
                    result.resources.registers_per_thread, to_key(result.variant));
}

}  // namespace

std::optional<double> shape_distance(const AttentionProblem& a, const AttentionProblem& b) {
  if (a.dtype != b.dtype || a.head_dim != b.head_dim || a.causal != b.causal ||
      a.alignment_bytes != b.alignment_bytes) {
    return std::nullopt;
  }
  return log_distance({ratio(a.batch, b.batch), ratio(a.heads_q, b.heads_q),
                       ratio(a.heads_kv, b.heads_kv), ratio(a.seq_q, b.seq_q),
                       ratio(a.seq_kv, b.seq_kv)});
}

double device_distance(const DeviceInfo& a, const DeviceInfo& b) {
  return log_distance({ratio(a.sm_count, b.sm_count), ratio(a.l2_bytes, b.l2_bytes),
                       Ratio{a.dram_gb_per_s, b.dram_gb_per_s}});
}

bool is_better(const AttentionProblem& problem, const VariantResult& a, const VariantResult& b) {
  return rank(problem, a) < rank(problem, b);
}

}  // namespace swr
