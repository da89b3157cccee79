// SPDX-License-Identifier: MIT
// Whose device memory launches get, against the fake driver.
#pragma once

#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/support/test.h"

namespace swr {

/// Launches of a stream share memory; another stream and every captured launch have their own.
/// memory_on(stream) launches and returns what the launch got.
template <typename MemoryOn>
void expect_memory_by_stream_and_capture(MemoryOn&& memory_on, CUstream_st* stream) {
  CUstream_st* const other = reinterpret_cast<CUstream_st*>(std::uintptr_t{128});
  const auto* const first = memory_on(stream);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(memory_on(stream), first);
  EXPECT_NE(memory_on(other), first);
  fake_capture(stream);
  const auto* const captured = memory_on(stream);
  EXPECT_NE(captured, first);
  EXPECT_NE(memory_on(stream), captured);
  fake_capture(nullptr);
  EXPECT_EQ(memory_on(stream), first);
}

}  // namespace swr
