// SPDX-License-Identifier: MIT
// Tensors of a program that checks kernels: memory between guards, 16-bit elements, how a tensor
// lies, and how far what a kernel wrote is from the exact values.
#pragma once

#include "experiments/gpu_checks/sections.h"
#include "tests/emulation/attention_backward_reference.h"
#include <swr/attention_params.h>
#include <swr/axes.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace swr::gpu {

inline constexpr unsigned char kPoison = 0xff;
inline const cudaStream_t kStream = cudaStreamPerThread;

inline void check(cudaError_t error, const std::string& what) {
  if (error != cudaSuccess) {
    end_section(what + ": " + cudaGetErrorString(error));
  }
}

/// Device memory between guards that nobody writes.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&memory_, bytes + 2 * kGuard), "cudaMalloc");
    poison();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(memory_); }

  void* data() const { return static_cast<char*>(memory_) + kGuard; }
  std::size_t bytes() const { return bytes_; }
  void poison() const {
    check(cudaMemsetAsync(memory_, kPoison, bytes_ + 2 * kGuard, kStream), "cudaMemset");
  }
  void put(const void* from) const {
    check(cudaMemcpyAsync(data(), from, bytes_, cudaMemcpyHostToDevice, kStream), "cudaMemcpy");
    check(cudaStreamSynchronize(kStream), "upload");
  }
  template <typename Value>
  std::vector<Value> get() const {
    std::vector<Value> values(bytes_ / sizeof(Value));
    check(cudaMemcpyAsync(values.data(), data(), bytes_, cudaMemcpyDeviceToHost, kStream),
          "cudaMemcpy");
    check(cudaStreamSynchronize(kStream), "kernel");
    return values;
  }
  long long disturbed() const {
    std::vector<unsigned char> guards(2 * kGuard);
    check(cudaMemcpy(guards.data(), memory_, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaMemcpy(guards.data() + kGuard, static_cast<char*>(data()) + bytes_, kGuard,
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return std::count_if(guards.begin(), guards.end(), [](auto byte) { return byte != kPoison; });
  }

 private:
  static constexpr std::size_t kGuard = 1024;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

inline std::uint16_t encode(DType dtype, float value) {
  std::uint16_t bits;
  if (dtype == DType::bf16) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
    std::memcpy(&bits, &rounded, sizeof bits);
  } else {
    const __half rounded = __float2half_rn(value);
    std::memcpy(&bits, &rounded, sizeof bits);
  }
  return bits;
}
inline double decode(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) {
    const unsigned word = static_cast<unsigned>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return static_cast<double>(value);
  }
  __half value;
  std::memcpy(&value, &bits, sizeof bits);
  return static_cast<double>(__half2float(value));
}

/// A tensor [batch, heads, seq, columns] of values, and how it lies in memory.
struct Shape {
  int batch;
  int heads;
  int seq;
  int columns;
  bool by_sequence;

  std::size_t row_bytes() const { return 2ULL * static_cast<std::size_t>(columns); }
  /// Where row `index` of [batch, heads, seq] lies in memory, in rows.
  std::size_t row_in_memory(std::size_t index) const {
    const auto s = static_cast<std::size_t>(seq);
    const auto h = static_cast<std::size_t>(heads);
    const std::size_t row = index % s;
    const std::size_t head = index / s % h;
    return by_sequence ? (index / s / h * s + row) * h + head : index;
  }
  TensorStrides strides() const {
    const long long all = 1LL * heads * seq * columns;
    return by_sequence ? TensorStrides{all, columns, 1LL * heads * columns}
                       : TensorStrides{all, 1LL * seq * columns, columns};
  }
};
using Bits = std::vector<std::uint16_t>;
inline Bits to_memory(const Shape& shape, const Bits& bits) {
  Bits lying(bits.size());
  for (std::size_t row = 0; row * shape.row_bytes() < 2 * bits.size(); ++row) {
    std::memcpy(
        reinterpret_cast<char*>(lying.data()) + shape.row_in_memory(row) * shape.row_bytes(),
        reinterpret_cast<const char*>(bits.data()) + row * shape.row_bytes(), shape.row_bytes());
  }
  return lying;
}
inline Bits from_memory(const Shape& shape, const Bits& lying) {
  Bits bits(lying.size());
  for (std::size_t row = 0; row * shape.row_bytes() < 2 * bits.size(); ++row) {
    std::memcpy(
        reinterpret_cast<char*>(bits.data()) + row * shape.row_bytes(),
        reinterpret_cast<const char*>(lying.data()) + shape.row_in_memory(row) * shape.row_bytes(),
        shape.row_bytes());
  }
  return bits;
}

/// Half a unit in the last place, relative.
inline double unit_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11; }

/// A gradient beside the exact one.
struct Judged {
  emulation::GradientError error;
  bool right = false;
  std::string text;  ///< The errors in units; where elements are that are far off.
};

inline emulation::Values decoded(DType dtype, const Memory& memory, const Shape& shape) {
  emulation::Values values;
  for (const std::uint16_t bits : from_memory(shape, memory.get<std::uint16_t>())) {
    values.push_back(decode(dtype, bits));
  }
  return values;
}

/// Elements that are off by more than a tenth of what the terms of an element usually have.
inline std::string far_off(const emulation::Values& found, const Shape& shape,
                           const emulation::Values& exact, const emulation::Values& sizes) {
  double squares = 0.0;
  for (const double size : sizes) {
    squares += size * size;
  }
  const double usual = std::sqrt(squares / static_cast<double>(exact.size()));
  const auto columns = static_cast<std::size_t>(shape.columns);
  std::size_t first = exact.size();
  std::size_t last = 0;
  std::size_t count = 0;
  std::size_t low = columns;
  std::size_t high = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!(std::abs(found[i] - exact[i]) <= 0.1 * usual)) {
      first = std::min(first, i);
      last = i;
      ++count;
      low = std::min(low, i % columns);
      high = std::max(high, i % columns);
    }
  }
  if (count == 0) {
    return "";
  }
  char text[240];
  std::snprintf(text, sizeof text,
                ": %zu of %zu far off, rows %zu to %zu of %d a head, columns %zu to %zu, first is "
                "%g, not %g",
                count, exact.size(), first / columns, last / columns, shape.seq, low, high,
                found[first], exact[first]);
  return text;
}

inline Judged judge(const char* name, DType dtype, const Memory& memory, const Shape& shape,
                    const emulation::Values& exact, const emulation::Values& sizes) {
  const emulation::Values found = decoded(dtype, memory, shape);
  Judged judged;
  judged.error = emulation::gradient_error(found, exact, sizes);
  judged.right = judged.error.is_rounding(unit_of(dtype));
  char text[120];
  std::snprintf(text, sizeof text, "; %s %.2f units, %.2f in row %lld", name,
                judged.error.all / unit_of(dtype), judged.error.row / unit_of(dtype),
                judged.error.worst_row);
  judged.text = text + far_off(found, shape, exact, sizes);
  return judged;
}

}  // namespace swr::gpu
