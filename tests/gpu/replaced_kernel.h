// SPDX-License-Identifier: MIT
// Kernels that misbehave on purpose, put in the portable kernel's place through a template overlay.
#pragma once

#include "tests/gpu/gpu_test.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace swr {

inline MeasureOptions without_counters() {
  MeasureOptions options;
  options.counters = false;
  return options;
}

inline AttentionProblem square(int heads, int seq, int head_dim) {
  return {.heads_q = heads, .heads_kv = heads, .seq_q = seq, .seq_kv = seq, .head_dim = head_dim};
}

/// Replaces the portable kernel by one with this body, whose `params` are the launch's.
class ReplacedKernel : public GpuTest {
 protected:
  VariantResult evaluate_body(Evaluator& evaluator, const AttentionProblem& problem,
                              const std::string& body) {
    GeneratorOptions options;
    options.template_overlay = overlay(body);
    const Generator generator(options);
    return evaluator.evaluate(
        problem, AttentionVariant{},
        generator.compile(problem, AttentionVariant{}, evaluator.device().sm_arch));
  }

  void TearDown() override { std::filesystem::remove_all(directory()); }

 private:
  static std::filesystem::path directory() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::filesystem::path(::testing::TempDir()) / (std::string("swr_") + test->name());
  }

  static std::filesystem::path overlay(const std::string& body) {
    const std::filesystem::path folder = directory() / "attention" / "portable";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "attention.cu")
        << "#include \"selected_portable_attention_config.h\"\n"
           "#include <swr/attention_params.h>\n"
           "extern \"C\" __global__ void swr_attention(\n"
           "    const __grid_constant__ swr::AttentionParams params) {\n"
        << body << "}\n";
    return directory();
  }
};

}  // namespace swr
