// SPDX-License-Identifier: MIT
// A runtime of the C interface over what a test has recorded and exported.
#pragma once

#include "tests/runtime/serving.h"
#include <swr/swr_c.h>

namespace swr {

class CRuntimeTest : public ServingTest {
 protected:
  /// Call it when everything is recorded.
  void create_runtime() {
    const std::string exported = export_all();
    const swr_runtime_options options{
        database_.c_str(), exported.c_str(), nullptr, nullptr, 0, nullptr};
    ASSERT_EQ(swr_runtime_create(&options, &runtime_), SWR_OK) << swr_last_error();
  }
  void TearDown() override { swr_runtime_destroy(runtime_); }

  /// An address on the device that nobody reads.
  template <typename Value = void>
  static Value* at(std::uintptr_t place) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody reads it.
    return reinterpret_cast<Value*>(place * 4096);
  }

  swr_runtime* runtime_ = nullptr;
};

}  // namespace swr
