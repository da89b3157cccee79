// SPDX-License-Identifier: MIT
// The counters from which kernels with Persistence::dynamic draw their tiles, for programs that
// launch on streams and graphs of their own. Exported packages carry this very file.
#pragma once

#include "driver/launch_calls.h"

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace swr {

/// Counters in the memory of one context, handed out such that launches that may overlap never
/// share one: a stream has one counter, since its launches follow each other, and every launch that
/// is captured has its own, since a graph may run beside the stream it was captured from. Kernels
/// leave counters at zero. Safe from any thread. Requires: the context is current in every call.
class TileCounters {
 public:
  explicit TileCounters(const LaunchCalls& calls) : calls_(calls) {}
  /// No launch may still run.
  ~TileCounters() {
    for (const CUdeviceptr block : blocks_) {
      calls_.mem_free(block);
    }
  }
  TileCounters(const TileCounters&) = delete;
  TileCounters& operator=(const TileCounters&) = delete;

  /// Allocates the first counters, so that launches need not.
  CUresult reserve() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return blocks_.empty() ? add_block() : CUDA_SUCCESS;
  }

  /// The counter of a launch on this stream, for the tile_counter of its parameters. Allocates when
  /// the streams met and launches captured since the last time are kCountersPerBlock.
  CUresult of_launch(CUstream stream, unsigned*& counter) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = calls_.stream_is_capturing(stream, &capture);
    if (result == CUDA_SUCCESS && capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
      const std::lock_guard<std::mutex> lock(mutex_);
      return next(counter);
    }
    // Handles are used again when a stream is destroyed, and some name another stream in every
    // thread; identifiers do neither.
    unsigned long long id = 0;
    result = result == CUDA_SUCCESS ? calls_.stream_get_id(stream, &id) : result;
    if (result != CUDA_SUCCESS) {
      return result;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    unsigned*& known = of_stream_[id];
    result = known == nullptr ? next(known) : CUDA_SUCCESS;
    counter = known;
    return result;
  }

  static constexpr std::size_t kCountersPerBlock = 4096;

 private:
  /// One sector of the L2 each, so that launches do not slow each other down.
  static constexpr std::size_t kCounterBytes = 32;

  CUresult next(unsigned*& counter) {
    if (blocks_.empty() || used_of_block_ == kCountersPerBlock) {
      const CUresult added = add_block();
      if (added != CUDA_SUCCESS) {
        return added;
      }
    }
    counter = reinterpret_cast<unsigned*>(blocks_.back() + used_of_block_++ * kCounterBytes);
    return CUDA_SUCCESS;
  }

  CUresult add_block() {
    const RelaxedCapture relaxed(calls_);
    CUdeviceptr block = 0;
    const CUresult allocated = calls_.mem_alloc(&block, kCountersPerBlock * kCounterBytes);
    if (allocated != CUDA_SUCCESS) {
      return allocated;
    }
    const CUresult cleared = clear(block);
    if (cleared != CUDA_SUCCESS) {
      calls_.mem_free(block);
      return cleared;
    }
    blocks_.push_back(block);
    used_of_block_ = 0;
    return CUDA_SUCCESS;
  }

  /// On a stream of its own, which waits for nobody and is not being captured.
  CUresult clear(CUdeviceptr block) const {
    CUstream stream = nullptr;
    CUresult result = calls_.stream_create(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
      return result;
    }
    result = calls_.memset_async(block, 0, kCountersPerBlock * kCounterBytes, stream);
    if (result == CUDA_SUCCESS) {
      result = calls_.stream_synchronize(stream);
    }
    calls_.stream_destroy(stream);
    return result;
  }

  LaunchCalls calls_;
  std::mutex mutex_;
  std::vector<CUdeviceptr> blocks_;
  std::size_t used_of_block_ = 0;
  std::unordered_map<unsigned long long, unsigned*> of_stream_;
};

}  // namespace swr
