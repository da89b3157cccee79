// SPDX-License-Identifier: MIT
// One variant on one problem against the reference. Shapes are small, so that the programs also run
// under compute-sanitizer.
#pragma once

#include "operations/attention/buffers.h"
#include "tests/gpu/gpu_test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <ostream>
#include <string>

namespace swr {

struct VariantCase {
  std::string name;
  AttentionProblem problem;
  AttentionVariant variant;
  MemoryOrder order = MemoryOrder::bhsd;
  bool with_lse = true;
};

/// How GoogleTest shows the parameter.
[[maybe_unused]] inline void PrintTo(const VariantCase& given, std::ostream* stream) {
  *stream << to_string(given.problem) << " " << to_key(given.variant);
}

inline std::string text(int value) { return std::to_string(value); }

/// Two batches of four query heads on two key heads, ragged in both lengths, rows that see all of
/// the keys and rows that do not.
inline AttentionProblem common_problem() {
  return {.batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seq_q = 200,
          .seq_kv = 300,
          .head_dim = 64,
          .causal = true};
}

inline std::string case_name(const ::testing::TestParamInfo<VariantCase>& given) {
  return given.param.name;
}

class VariantTest : public GpuTest, public ::testing::WithParamInterface<VariantCase> {
 protected:
  /// Skips when a constraint forbids the variant on this device.
  static void expect_match(const VariantCase& given);
};

}  // namespace swr
