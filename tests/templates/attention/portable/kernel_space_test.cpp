// SPDX-License-Identifier: MIT
// Every variant that the default space offers the GB10, the RTX 5090 and the A100 compiles without
// spills and fits. A sample of a fixed seed, because all of them take half an hour of two cores:
//   SWR_WHOLE_SPACE=1 kernel_compile_test
#include "operations/attention/space.h"
#include "tests/templates/attention/portable/chips.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/generator.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace swr {
namespace {

constexpr std::array kHeadDims{64, 96, 128, 160, 192, 256};
constexpr std::size_t kSample = 32;

struct Offer {
  AttentionProblem problem;
  AttentionVariant variant;
};

/// One offer per kernel: variants that differ in launch-time choices share it.
std::vector<Offer> offers(const DeviceInfo& device, const Generator& generator) {
  std::map<std::string, Offer> by_source;
  for (const int head_dim : kHeadDims) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      for (const bool causal : {false, true}) {
        const AttentionProblem problem{.heads_q = 2,
                                       .heads_kv = 2,
                                       .seq_q = 1024,
                                       .seq_kv = 1024,
                                       .head_dim = head_dim,
                                       .dtype = dtype,
                                       .causal = causal};
        for (const Variant& variant : enumerate_space(problem, device, {}).variants) {
          by_source.emplace(generator.config_header(problem, variant),
                            Offer{problem, variant.as<AttentionVariant>()});
        }
      }
    }
  }
  std::vector<Offer> unique;
  for (const auto& [source, offer] : by_source) {
    unique.push_back(offer);
  }
  return unique;
}

std::vector<Offer> sample(std::vector<Offer> all) {
  std::shuffle(all.begin(), all.end(), std::mt19937(19));
  if (std::getenv("SWR_WHOLE_SPACE") == nullptr && all.size() > kSample) {
    all.resize(kSample);
  }
  return all;
}

class PortableSpace : public testing::TestWithParam<int> {};
std::string arch_name(const testing::TestParamInfo<int>& given) {
  return "sm_" + std::to_string(given.param);
}
INSTANTIATE_TEST_SUITE_P(Archs, PortableSpace, testing::Values(80, 120, 121), arch_name);

TEST_P(PortableSpace, CompilesWithoutSpillsAndFits) {
  const DeviceInfo device = device_of(GetParam());
  const Generator generator({});
  const std::vector<Offer> chosen = sample(offers(device, generator));
  ASSERT_GE(chosen.size(), kSample);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  const auto report = [&](const Offer& offer, const std::string& what) {
    const std::lock_guard lock(mutex);
    ADD_FAILURE() << to_string(offer.problem) << " " << to_key(offer.variant) << ": " << what;
  };
  const auto compile = [&] {
    for (std::size_t i = next++; i < chosen.size(); i = next++) {
      if (i % 100 == 0) {
        std::printf("sm_%d: kernel %zu of %zu\n", GetParam(), i, chosen.size());
        std::fflush(stdout);
      }
      const auto& [problem, variant] = chosen[i];
      try {
        const CompiledKernel kernel = generator.compile(problem, variant, GetParam());
        if (const auto dropped = check_compiled(problem, variant, device, kernel.resources)) {
          report(chosen[i], dropped->constraint + ": " + dropped->reason);
        } else if (kernel.resources.spill_store_bytes > 0) {
          report(chosen[i], "spills, if no more than is borne");
        }
      } catch (const Error& error) {
        report(chosen[i], error.what());
      }
    }
  };
  std::vector<std::jthread> compilers;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    compilers.emplace_back(compile);
  }
}

}  // namespace
}  // namespace swr
