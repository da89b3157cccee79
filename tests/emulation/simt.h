// SPDX-License-Identifier: MIT
// Runs a CTA of a kernel template on the CPU: one thread per CUDA thread, barriers where the
// hardware has them. Instructions that a whole warp executes exchange their operands here; see
// common/ptx.cuh beside this file, which stands in for the template of the same name.
#pragma once

#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#define __device__
#define __forceinline__ inline

struct Dim3 {
  unsigned x = 1;
};
inline thread_local Dim3 threadIdx;
inline thread_local Dim3 blockIdx;
inline thread_local Dim3 gridDim;

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulation {

/// When cp.async moves its bytes. The hardware may do either: late finds reads before the wait,
/// early finds copies into what is still being read.
enum class CopyTime { early, late };

/// What the 32 lanes of a warp exchange. Two sets of slots take turns, so that one barrier per
/// exchange is enough.
class Warp {
 public:
  template <typename Value>
  std::span<const Value> exchange(const Value& own) {
    hold_back();
    static_assert(sizeof(Value) <= sizeof(Slot));
    auto& slots = slots_[turn_of_[lane()]++ % 2];
    std::memcpy(slots[lane()].data(), &own, sizeof own);
    barrier_.arrive_and_wait();
    auto& values = gathered<Value>();
    for (std::size_t i = 0; i < 32; ++i) {
      std::memcpy(&values[i], slots[i].data(), sizeof(Value));
    }
    return values;
  }

 private:
  static void hold_back();

  using Slot = std::array<std::byte, 32>;
  static std::size_t lane() { return threadIdx.x % 32; }
  template <typename Value>
  static std::array<Value, 32>& gathered() {
    static thread_local std::array<Value, 32> values;
    return values;
  }

  std::array<std::array<Slot, 32>, 2> slots_;
  std::array<unsigned, 32> turn_of_{};
  std::barrier<> barrier_{32};
};

struct Copy {
  unsigned shared;
  const void* global;
  int bytes;
  int source_bytes;
};

struct Cta {
  Cta(int threads, int smem_bytes, CopyTime copies, bool drifting)
      : warps(static_cast<std::size_t>(threads / 32)),
        smem(static_cast<std::size_t>(smem_bytes), std::byte{0xff}),
        barrier(threads),
        copy_time(copies),
        is_drifting(drifting) {}

  std::vector<Warp> warps;
  std::vector<std::byte> smem;
  std::barrier<> barrier;
  CopyTime copy_time;
  bool is_drifting;  ///< The first warp runs ahead of the others as far as barriers let it.
};

inline thread_local Cta* cta = nullptr;
/// Copies of this thread that have not moved, by group; the last group is open.
inline thread_local std::vector<std::vector<Copy>> pending_copies;

inline void Warp::hold_back() {
  if (cta->is_drifting && threadIdx.x >= 32 && lane() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

inline Warp& warp() { return cta->warps[threadIdx.x / 32]; }
inline std::byte* shared(unsigned address, std::size_t bytes) {
  if (address % bytes != 0 || address + bytes > cta->smem.size()) {
    std::abort();  // Misaligned or past the end: the hardware would fault.
  }
  return cta->smem.data() + address;
}

/// Runs `kernel` in every thread of every CTA of a grid, one CTA after the other.
inline void launch(unsigned grid, int threads, int smem_bytes, CopyTime copies, bool drifting,
                   const std::function<void()>& kernel) {
  for (unsigned block = 0; block < grid; ++block) {
    Cta state(threads, smem_bytes, copies, drifting);
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, block, thread] {
        threadIdx.x = static_cast<unsigned>(thread);
        blockIdx.x = block;
        gridDim.x = grid;
        cta = &state;
        pending_copies.assign(1, {});
        kernel();
      });
    }
  }
}

}  // namespace emulation

inline void __syncthreads() { emulation::cta->barrier.arrive_and_wait(); }
inline void __threadfence() {}
inline void __stcg(float4* target, float4 value) { *target = value; }
inline float4 __ldcg(const float4* source) { return *source; }
inline unsigned atomicAdd(unsigned* target, unsigned value) {
  const unsigned old = *target;
  *target += value;
  return old;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
