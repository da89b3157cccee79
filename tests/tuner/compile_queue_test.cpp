// SPDX-License-Identifier: MIT
#include "tuner/compile_queue.h"

#include <swr/error.h>

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace swr {
namespace {

std::vector<Variant> variants(int count) {
  std::vector<Variant> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    all[static_cast<std::size_t>(i)].workers = i;
  }
  return all;
}

CompiledKernel kernel_named_after(const Variant& variant) {
  CompiledKernel kernel;
  kernel.entry = std::to_string(variant.workers);
  return kernel;
}

TEST(CompileQueue, HandsOutKernelsInTheOrderOfTheListFromManyThreads) {
  CompileQueue queue(variants(200), 8, kernel_named_after);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(queue.next().entry, std::to_string(i));
  }
}

TEST(CompileQueue, CompilesOnSeveralThreadsAtOnce) {
  // Each compilation waits for the other: with one thread this test would never end.
  std::latch both(2);
  CompileQueue queue(variants(2), 2, [&both](const Variant& variant) {
    both.arrive_and_wait();
    return kernel_named_after(variant);
  });
  EXPECT_EQ(queue.next().entry, "0");
  EXPECT_EQ(queue.next().entry, "1");
}

TEST(CompileQueue, RunsABoundedNumberAhead) {
  std::atomic<int> compiled = 0;
  {
    CompileQueue queue(variants(100), 2, [&compiled](const Variant& variant) {
      ++compiled;
      return kernel_named_after(variant);
    });
    queue.next();
  }
  EXPECT_LE(compiled, 5);
}

TEST(CompileQueue, ThrowsTheCompilersErrorForThatVariantAlone) {
  CompileQueue queue(variants(3), 2, [](const Variant& variant) {
    if (variant.workers == 1) {
      throw Error(ErrorCode::compile_failed, "bad variant");
    }
    return kernel_named_after(variant);
  });
  EXPECT_EQ(queue.next().entry, "0");
  EXPECT_THROW(queue.next(), Error);
  EXPECT_EQ(queue.next().entry, "2");
}

TEST(CompileQueue, EndsWithoutCompilingWhatNobodyAskedFor) {
  const CompileQueue empty({}, 4, kernel_named_after);
  const CompileQueue abandoned(variants(50), 4, kernel_named_after);
}

}  // namespace
}  // namespace swr
