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

  /// Of a problem of 4096 rows, all tensors at one address.
  static swr_attention attention() {
    swr_attention call{};
    call.q = call.k = call.v = call.o = at(1);
    call.q_strides = call.k_strides = call.v_strides = call.o_strides = {0, 4096 * 64, 64};
    call.batch = 1;
    call.heads_q = call.heads_kv = 8;
    call.seq_q = call.seq_kv = 4096;
    call.head_dim = 64;
    return call;
  }
  static swr_gemm product() {
    swr_gemm call{};
    call.a = call.b = call.c = at(1);
    call.a_strides = call.b_strides = call.c_strides = {0, 64};
    call.m = call.n = call.k = 64;
    call.batch = 1;
    call.dtype = call.output = SWR_BF16;
    call.alpha = 1.0F;
    return call;
  }

  swr_runtime* runtime_ = nullptr;
};

}  // namespace swr
