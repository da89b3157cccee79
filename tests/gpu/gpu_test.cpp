// SPDX-License-Identifier: MIT
#include "tests/gpu/gpu_test.h"

#include "driver/devices.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

std::optional<GpuBench>& shared_bench() {
  static std::optional<GpuBench> bench;
  return bench;
}

/// Why there is no GPU; empty when there is one.
std::string absence() {
  try {
    list_devices();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// The context must go before the driver's own clean-up at the end of the process.
class ReleaseBench : public ::testing::Environment {
 public:
  void TearDown() override { shared_bench().reset(); }
};

[[maybe_unused]] const ::testing::Environment* const kReleaseBench =
    ::testing::AddGlobalTestEnvironment(std::make_unique<ReleaseBench>().release());

}  // namespace

GpuBench::GpuBench()
    : device(list_devices().front()),
      context(0),
      generator(GeneratorOptions{}),
      kernels(generator, device.sm_arch) {}

const CompiledKernel& GpuBench::compile(const AttentionProblem& problem,
                                        const AttentionVariant& variant) {
  const std::string key = generator.config_header(problem, variant);
  const auto found = compiled_.find(key);
  if (found != compiled_.end()) {
    return found->second;
  }
  return compiled_.emplace(key, generator.compile(problem, variant, device.sm_arch)).first->second;
}

const GemmReferenceKernels& GpuBench::gemm_kernels() {
  std::call_once(gemm_kernels_are_made_, [this] {
    gemm_kernels_ = std::make_unique<GemmReferenceKernels>(generator, device.sm_arch);
  });
  return *gemm_kernels_;
}

bool gpu_is_required() {
  const char* const value = std::getenv("SWR_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

void GpuTest::SetUp() {
  static const std::string reason = absence();
  if (!reason.empty() && gpu_is_required()) {
    FAIL() << "SWR_REQUIRE_GPU=1, but " << reason;
  }
  if (!reason.empty()) {
    GTEST_SKIP() << reason;
  }
  bench().context.make_current();
}

GpuBench& GpuTest::bench() {
  if (!shared_bench()) {
    shared_bench().emplace();
  }
  return *shared_bench();
}

}  // namespace swr
