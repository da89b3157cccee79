// SPDX-License-Identifier: MIT
// What every function of the C interface does: checks what C cannot, and turns exceptions into
// statuses.
#pragma once

#include "core/number_text.h"
#include "core/of_thread.h"
#include <swr/attention_params.h>
#include <swr/axes.h>
#include <swr/error.h>
#include <swr/gemm_axes.h>
#include <swr/runtime.h>
#include <swr/swr_c.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <pthread.h>
#include <string>

struct swr_runtime {
  explicit swr_runtime(const swr::RuntimeOptions& options) : runtime(options) {}

  swr::Runtime runtime;
};

namespace swr::capi {

inline std::string& last_error() {
  struct LastError;
  return of_thread<std::string, LastError>();
}

/// Runs `action`; whatever it throws becomes a status and a message. Not inlined: its caller's
/// frame must have nothing that a thread which is cancelled there would trip over.
template <typename Action>
[[gnu::noinline]] swr_status status_of(Action&& action) noexcept {
  try {
    try {
      action();
      return SWR_OK;
    } catch (const swr::Error& error) {
      last_error() = error.what();
      return static_cast<swr_status>(static_cast<int>(error.code()) + 1);
    } catch (const std::exception& error) {
      last_error() = std::string("swr failed unexpectedly: ") + error.what();
    }
  } catch (...) {
    // Not even the message could be kept.
  }
  return SWR_INTERNAL;
}

/// The same, of a thread that may be cancelled: pthread_cancel() takes effect before or, of threads
/// that are cancelled at any time, behind it. Unwinding from within would end the program, as would
/// a destructor around it.
template <typename Action>
swr_status guarded(Action&& action) {
  int former = PTHREAD_CANCEL_ENABLE;
  pthread_testcancel();
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former);
  const swr_status status = status_of(action);
  pthread_setcancelstate(former, nullptr);
  return status;
}

inline void require_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    throw swr::Error(swr::ErrorCode::invalid_argument,
                     std::string("the argument '") + name + "' is NULL");
  }
}

[[noreturn]] inline void reject(const std::string& message) {
  throw swr::Error(swr::ErrorCode::invalid_argument, message);
}

/// The structure as this library knows it. One from an older header, of which `least` bytes are all
/// there ever were, lacks fields, which are 0; a newer one must not use fields that are unknown.
template <typename Structure>
Structure known(const Structure* given, std::size_t least, const char* name) {
  constexpr std::uint64_t kMostBytes = sizeof(Structure) + 4096;
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < least || size > kMostBytes) {
    reject("the size of a " + std::string(name) + " is " + std::to_string(size) +
           "; set its field size to sizeof(" + name + ")");
  }
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (std::any_of(bytes + std::min<std::uint64_t>(size, sizeof(Structure)), bytes + size,
                  [](char byte) { return byte != 0; })) {
    reject("the " + std::string(name) +
           " uses fields that this libswr.so does not know; install the library of its header");
  }
  Structure structure{};
  std::memcpy(static_cast<void*>(&structure), bytes,
              std::min<std::uint64_t>(size, sizeof(Structure)));
  return structure;
}

inline swr::DType dtype_of(std::int32_t value) {
  if (value != SWR_FP16 && value != SWR_BF16) {
    throw swr::Error(swr::ErrorCode::invalid_argument,
                     "dtype must be SWR_FP16 or SWR_BF16, not " + std::to_string(value));
  }
  return static_cast<swr::DType>(value);
}

inline swr::OutputType output_of(std::int32_t value) {
  if (value < SWR_FP16 || value > SWR_FP32) {
    throw swr::Error(swr::ErrorCode::invalid_argument,
                     "output must be SWR_FP16, SWR_BF16 or SWR_FP32, not " + std::to_string(value));
  }
  return static_cast<swr::OutputType>(value);
}

inline swr::TensorStrides strides_from(const swr_strides& strides) {
  return {strides.batch, strides.head, strides.seq};
}

inline swr::DeviceInfo device_from(const swr_device& device) {
  const std::size_t length = strnlen(device.name, sizeof(device.name));
  return {.name = std::string(device.name, length),
          .sm_arch = device.sm_arch,
          .sm_count = device.sm_count,
          .l2_bytes = device.l2_bytes,
          .dram_gb_per_s = device.dram_gb_per_s,
          .mig = device.mig != 0,
          .smem_per_cta_bytes = device.smem_per_cta_bytes,
          .smem_per_sm_bytes = device.smem_per_sm_bytes,
          .smem_reserved_per_cta_bytes = device.smem_reserved_per_cta_bytes,
          .registers_per_sm = device.registers_per_sm,
          .max_threads_per_sm = device.max_threads_per_sm,
          .max_ctas_per_sm = device.max_ctas_per_sm};
}

inline float scale_log2_of(float scale) {
  if (!(scale >= 0.0F) || std::isinf(scale)) {
    throw swr::Error(
        swr::ErrorCode::invalid_argument,
        "scale must be positive, or 0 for 1 / sqrt(head_dim), not " + swr::fixed_text(scale, 6));
  }
  return scale * std::numbers::log2e_v<float>;
}

}  // namespace swr::capi
