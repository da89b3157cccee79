// SPDX-License-Identifier: MIT
#include "tuner/run/compile_queue.h"

#include "tests/support/attention.h"
#include <swr/error.h>

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace swr {
namespace {

std::vector<Variant> variants(int count) {
  std::vector<Variant> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    attention(all[static_cast<std::size_t>(i)]).workers = i;
  }
  return all;
}

CompiledKernel kernel_named_after(const Variant& variant) {
  CompiledKernel kernel;
  kernel.entry = std::to_string(attention(variant).workers);
  return kernel;
}

TEST(CompileQueue, HandsOutKernelsInTheOrderWantedFromManyThreads) {
  const auto all = variants(200);
  CompileQueue queue(8, kernel_named_after);
  queue.want(all);
  for (const Variant& variant : all) {
    ASSERT_EQ(queue.take(variant).entry, std::to_string(attention(variant).workers));
  }
}

TEST(CompileQueue, CompilesOnSeveralThreadsAtOnce) {
  // Each compilation waits for the other: with one thread this test would never end.
  std::latch both(2);
  const auto all = variants(2);
  CompileQueue queue(2, [&both](const Variant& variant) {
    both.arrive_and_wait();
    return kernel_named_after(variant);
  });
  queue.want(all);
  EXPECT_EQ(queue.take(all[0]).entry, "0");
  EXPECT_EQ(queue.take(all[1]).entry, "1");
}

TEST(CompileQueue, RunsABoundedNumberAhead) {
  std::atomic<int> compiled = 0;
  const auto all = variants(100);
  {
    CompileQueue queue(2, [&compiled](const Variant& variant) {
      ++compiled;
      return kernel_named_after(variant);
    });
    queue.want(all);
    queue.expect(variants(200));
    queue.take(all[0]);
  }
  EXPECT_LE(compiled, 5);
}

TEST(CompileQueue, CompilesWhatIsExpectedBeforeItIsWanted) {
  const auto all = variants(3);
  std::latch expected_done(1);
  std::atomic<int> compiled = 0;
  CompileQueue queue(1, [&](const Variant& variant) {
    if (++compiled == 2) {
      expected_done.count_down();
    }
    return kernel_named_after(variant);
  });
  queue.want(std::span(all).first(1));
  queue.expect({all[2]});
  EXPECT_EQ(queue.take(all[0]).entry, "0");
  expected_done.wait();
  queue.want(std::span(all).last(2));
  EXPECT_EQ(queue.take(all[1]).entry, "1");
  EXPECT_EQ(queue.take(all[2]).entry, "2");
  EXPECT_EQ(compiled, 3);
}

TEST(CompileQueue, AWantedVariantCanBeWantedAgainOnceItWasTaken) {
  const auto all = variants(1);
  CompileQueue queue(2, kernel_named_after);
  for (int i = 0; i < 3; ++i) {
    queue.want(all);
    EXPECT_EQ(queue.take(all[0]).entry, "0");
  }
}

TEST(CompileQueue, ThrowsTheCompilersErrorForThatVariantAlone) {
  const auto all = variants(3);
  CompileQueue queue(2, [](const Variant& variant) {
    if (attention(variant).workers == 1) {
      throw Error(ErrorCode::compile_failed, "bad variant");
    }
    return kernel_named_after(variant);
  });
  queue.want(all);
  EXPECT_EQ(queue.take(all[0]).entry, "0");
  EXPECT_THROW(queue.take(all[1]), Error);
  EXPECT_EQ(queue.take(all[2]).entry, "2");
}

TEST(CompileQueue, EndsWithoutCompilingWhatNobodyAskedFor) {
  const CompileQueue empty(4, kernel_named_after);
  CompileQueue abandoned(4, kernel_named_after);
  abandoned.want(variants(50));
}

}  // namespace
}  // namespace swr
