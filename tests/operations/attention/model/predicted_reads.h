// SPDX-License-Identifier: MIT
// What the tests that compare bytes read from memory share.
#pragma once

#include "model/profile/gpu_profile.h"
#include "operations/attention/model/time.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <sstream>
#include <string>
#include <vector>

namespace swr {

/// The enumerator of this spelling.
template <typename Enum>
Enum enumerator(const std::string& spelling) {
  int value = 0;
  while (to_string(static_cast<Enum>(value)) != spelling) {
    ++value;
  }
  return static_cast<Enum>(value);
}

inline std::vector<std::string> split_line(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    fields.push_back(field);
  }
  return fields;
}

/// Megabytes that the model lets an H200 with an empty L2 read.
inline double predicted_read_mb(const AttentionProblem& problem, const AttentionVariant& variant,
                                int ctas_per_sm) {
  static const GpuProfile h200 = load_profile("h200");
  const ScheduleShape shape = schedule_on_gpu(problem, variant, ctas_per_sm, h200);
  const L2Traffic traffic = simulate_l2(shape, h200.l2_policy());
  const long long fetched =
      traffic.compulsory_misses + traffic.excess_misses - traffic.schedule.write_sectors;
  return static_cast<double>(fetched * kSectorBytes) / 1e6;
}

}  // namespace swr
