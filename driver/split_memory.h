// SPDX-License-Identifier: MIT
// The memory in which kernels with several splits, of k or of K and V, leave partial results, for
// programs that launch on streams and graphs of their own. Exported packages carry this very file.
#pragma once

#include "driver/launch_calls.h"

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace swr {

/// Memory of one context, handed out such that launches that may overlap never share it: a stream
/// has its own, since its launches follow each other, and so has every launch that is captured,
/// since a graph may run beside the stream it was captured from. Safe from any thread. Requires:
/// the context is current in every call.
class SplitMemory {
 public:
  struct Part {
    float* partials = nullptr;
    unsigned* arrivals = nullptr;  ///< All 0; kernels leave them so.
  };

  explicit SplitMemory(const LaunchCalls& calls) : calls_(calls) {}
  /// No launch may still run.
  ~SplitMemory() {
    for (const CUdeviceptr memory : all_) {
      calls_.mem_free(memory);
    }
  }
  SplitMemory(const SplitMemory&) = delete;
  SplitMemory& operator=(const SplitMemory&) = delete;

  /// What a launch on this stream needs at least. Allocates for a stream's first launch, for one
  /// that needs more than those before, and for every captured one.
  CUresult of_launch(CUstream stream, std::size_t partials_bytes, std::size_t arrival_words,
                     Part& part) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = calls_.stream_is_capturing(stream, &capture);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (result == CUDA_SUCCESS && capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
      Block captured;
      result = allocate(partials_bytes, arrival_words, captured);
      part = captured.part;
      return result;
    }
    unsigned long long id = 0;
    result = result == CUDA_SUCCESS ? calls_.stream_get_id(stream, &id) : result;
    if (result != CUDA_SUCCESS) {
      return result;
    }
    Block& block = of_stream_[id];
    if (block.partials_bytes < partials_bytes || block.arrival_words < arrival_words) {
      // The smaller one stays: a launch before may still use it.
      result = allocate(partials_bytes, arrival_words, block);
    }
    part = block.part;
    return result;
  }

 private:
  struct Block {
    std::size_t partials_bytes = 0;
    std::size_t arrival_words = 0;
    Part part;
  };

  CUresult allocate(std::size_t partials_bytes, std::size_t arrival_words, Block& block) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t arrivals_at = (partials_bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t arrival_bytes = arrival_words * sizeof(unsigned);
    const RelaxedCapture relaxed(calls_);
    CUdeviceptr memory = 0;
    const CUresult allocated = calls_.mem_alloc(&memory, arrivals_at + arrival_bytes);
    if (allocated != CUDA_SUCCESS) {
      return allocated;
    }
    const CUresult cleared = clear(memory + arrivals_at, arrival_bytes);
    if (cleared != CUDA_SUCCESS) {
      calls_.mem_free(memory);
      return cleared;
    }
    all_.push_back(memory);
    block = {partials_bytes,
             arrival_words,
             {reinterpret_cast<float*>(memory), reinterpret_cast<unsigned*>(memory + arrivals_at)}};
    return CUDA_SUCCESS;
  }

  /// On a stream of its own, which waits for nobody and is not being captured.
  CUresult clear(CUdeviceptr memory, std::size_t bytes) const {
    CUstream stream = nullptr;
    CUresult result = calls_.stream_create(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
      return result;
    }
    result = calls_.memset_async(memory, 0, bytes, stream);
    if (result == CUDA_SUCCESS) {
      result = calls_.stream_synchronize(stream);
    }
    calls_.stream_destroy(stream);
    return result;
  }

  LaunchCalls calls_;
  std::mutex mutex_;
  std::vector<CUdeviceptr> all_;
  std::unordered_map<unsigned long long, Block> of_stream_;
};

}  // namespace swr
