// SPDX-License-Identifier: MIT
// One variant on one problem against the reference. Shapes are small, so that the programs also run
// under compute-sanitizer.
#pragma once

#include "operations/attention/workload.h"
#include "tests/gpu/gpu_test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <array>
#include <ostream>
#include <string>
#include <vector>

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

struct NamedVariant {
  std::string name;
  AttentionVariant variant;
};

/// Each on short and long K and V, with and without the mask.
inline std::vector<VariantCase> length_cases_of(const std::vector<NamedVariant>& variants,
                                                const std::vector<int>& seq_qs) {
  std::vector<VariantCase> cases;
  for (const int seq_q : seq_qs) {
    for (const int seq_kv : {1, 15, 129, 300}) {
      for (const bool causal : {false, true}) {
        const AttentionProblem problem{.heads_q = 2,
                                       .heads_kv = 1,
                                       .seq_q = seq_q,
                                       .seq_kv = seq_kv,
                                       .head_dim = 64,
                                       .causal = causal};
        for (const auto& [name, variant] : variants) {
          cases.push_back(
              {name + "_q_" + text(seq_q) + "_kv_" + text(seq_kv) + (causal ? "_causal" : ""),
               problem, variant});
        }
      }
    }
  }
  return cases;
}

/// Every head_dim class, both types, with and without the mask.
inline std::vector<VariantCase> head_dim_cases_of(const AttentionVariant& variant, int seq_q) {
  std::vector<VariantCase> cases;
  for (const int head_dim : {16, 48, 64, 80, 96, 128, 160, 192, 256}) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      for (const bool causal : {false, true}) {
        const AttentionProblem problem{.heads_q = 2,
                                       .heads_kv = 2,
                                       .seq_q = seq_q,
                                       .seq_kv = seq_q + 20,
                                       .head_dim = head_dim,
                                       .dtype = dtype,
                                       .causal = causal};
        cases.push_back({"head_dim_" + text(head_dim) + "_" + std::string(to_string(dtype)) +
                             (causal ? "_causal" : ""),
                         problem, variant});
      }
    }
  }
  return cases;
}

/// Several batches, and query heads that share K and V heads.
inline std::vector<VariantCase> head_cases_of(const AttentionVariant& variant) {
  std::vector<VariantCase> cases;
  for (const auto& [batch, heads_q, heads_kv] :
       {std::array{3, 6, 2}, std::array{2, 5, 1}, std::array{2, 3, 3}}) {
    AttentionProblem problem = common_problem();
    problem.batch = batch;
    problem.heads_q = heads_q;
    problem.heads_kv = heads_kv;
    const std::string name = "heads_" + text(heads_q) + "_on_" + text(heads_kv);
    cases.push_back({name, problem, variant});
    cases.push_back({name + "_without_lse", problem, variant, MemoryOrder::bhsd, false});
  }
  return cases;
}

inline void append(std::vector<VariantCase>& cases, std::vector<VariantCase> more) {
  cases.insert(cases.end(), more.begin(), more.end());
}

class VariantTest : public GpuTest, public ::testing::WithParamInterface<VariantCase> {
 protected:
  /// Skips when a constraint forbids the variant on this device.
  static void expect_match(const VariantCase& given);
};

}  // namespace swr
