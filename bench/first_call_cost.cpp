// SPDX-License-Identifier: MIT
// What the first call of a process spends on the processor before its kernel is loaded, step by
// step, for a fresh user of an H200: experiments/right_answers. Needs no GPU. Pass a directory for
// the cubin cache: the first run finds it empty and compiles, a second one reads.
#include "generator/template_set.h"
#include <swr/attention_problem.h>
#include <swr/error.h>
#include <swr/generator.h>
#include <swr/lookup.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace {

using Clock = std::chrono::steady_clock;

/// Prints what a step took.
template <typename Step>
auto timed(const char* name, Step&& step) {
  const auto start = Clock::now();
  auto result = step();
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  std::printf("%-44s %8.2f ms\n", name, took.count());
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: first_call_cost CACHE_DIR\n");
    return 2;
  }
  const swr::AttentionProblem problem{.batch = 4,
                                      .heads_q = 32,
                                      .heads_kv = 8,
                                      .seq_q = 4096,
                                      .seq_kv = 4096,
                                      .head_dim = 128,
                                      .dtype = swr::DType::bf16,
                                      .causal = true};
  try {
    const swr::DeviceInfo h200 = swr::profiled_device("h200");
    const auto lookup = timed("lookup of what comes with swr",
                              [] { return std::make_unique<swr::Lookup>(swr::LookupOptions{}); });
    const swr::Answer answer = timed("first answer", [&] { return lookup->best(problem, h200); });
    timed("digest of the templates", [] { return swr::TemplateSet::built_in().digest(); });
    swr::GeneratorOptions options;
    options.cache_dir = argv[1];
    const swr::Generator generator = timed("NVRTC opened", [&] { return swr::Generator(options); });
    const swr::CompiledKernel kernel = timed("kernel compiled, or read from the cache", [&] {
      return generator.compile(problem, answer.variant, h200.sm_arch);
    });
    std::printf("the cubin has %zu bytes and came %s\n", kernel.cubin.size(),
                kernel.from_cache ? "from the cache" : "from NVRTC");
  } catch (const swr::Error& error) {
    std::fprintf(stderr, "first_call_cost: %s\n", error.what());
    return 1;
  }
  return 0;
}
