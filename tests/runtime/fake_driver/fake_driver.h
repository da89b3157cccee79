// SPDX-License-Identifier: MIT
// What tests ask the fake CUDA driver: a shared library under the driver's name that keeps books
// instead of running kernels, so that dispatch is tested without a GPU.
#pragma once

#include "templates/softmax/config.h"
#include <swr/attention_backward_params.h>
#include <swr/attention_params.h>
#include <swr/gemm_params.h>
#include <swr/kv_append_params.h>
#include <swr/merge_states_params.h>
#include <swr/serving_attention_params.h>

#include <cuda.h>

#include <cstddef>

extern "C" {

/// The last launch of this thread.
struct FakeLaunch {
  unsigned grid_x;
  unsigned block_x;
  unsigned dynamic_smem_bytes;
  void* stream;
  void* function;
  int device;
  // Of these that of the kernel's operation; softmax comes last.
  swr::AttentionParams params;
  swr::GemmParams gemm;
  swr::GemmExtras gemm_extras;
  unsigned cluster_x;
  bool overlaps;  ///< May start while the launch before it ends.
  swr::SoftmaxParams softmax;
};

/// A launch by cuLaunchKernel() runs the function `fake_kernel_NAME` of the test that has it.
struct FakeShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned dynamic_smem_bytes;
};
using FakeKernel = void(FakeShape shape, void** arguments);
/// And a variable NAME of a cubin is `fake_variable_NAME`.
struct FakeVariable {
  void* memory;
  std::size_t bytes;
};

FakeLaunch fake_last_launch();
// The last launch, for programs that know no structure of it: of an operation as a line, and
// whether it may start while the one before ends.
const char* fake_last_gemm();
const char* fake_last_softmax();
/// Of the last launch over unequal sequences.
const swr::ServingAttentionParams* fake_last_serving();
/// Of the last launches of the kernels beside it.
const swr::KvAppendParams* fake_last_append();
const swr::MergeStatesParams* fake_last_merge();
/// Of the last launch of attention backward.
const swr::AttentionBackwardParams* fake_last_backward();
int fake_last_overlaps();
/// Modules loaded, launches and memsets made, tensor maps encoded and such whose address was
/// replaced since the process began.
long long fake_module_loads();
long long fake_launches();
long long fake_memsets();
long long fake_tensor_maps();
long long fake_replaced_addresses();
/// From now on cuTensorMapReplaceAddress fails, or no longer.
void fake_refuse_to_replace_addresses(bool refuse);
/// Modules that are loaded now.
long long fake_modules_alive();
/// Names of the fake devices: "Fake GPU 0" and "Fake GPU 1", both sm_90.
int fake_device_count();
/// From now on this stream is the one that this thread captures; none with nullptr.
void fake_capture(CUstream stream);
}
