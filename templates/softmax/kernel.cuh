// SPDX-License-Identifier: MIT
// Softmax over rows for sm_80 to sm_121: a row in registers, or read twice through them or a ring.
#pragma once

#include "common/ptx.cuh"
#include "softmax/config.h"

namespace swr::softmax {

/// What elements add up to: the largest, and the sum of e^(element - largest).
struct Sum {
  float max;
  float sum;
};

__device__ inline float minus_infinity() { return __uint_as_float(0xff800000U); }
__device__ inline float exponential(float x) { return ptx::ex2_approx(x * 1.44269504F); }

/// What is subtracted from elements: never an infinity that would meet itself.
__device__ inline float base_of(float max) { return max == minus_infinity() ? 0.0F : max; }

/// By what sums over `from` are multiplied to be sums over `to`, which is no less.
__device__ inline float scale(float from, float to) {
  return from == minus_infinity() ? 0.0F : exponential(from - to);
}

__device__ inline Sum over_lanes(Sum own) {
  float max = own.max;
  for (int distance = 16; distance > 0; distance /= 2) {
    max = fmaxf(max, __shfl_xor_sync(0xffffffffU, max, distance));
  }
  float sum = own.sum * scale(own.max, max);
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  }
  return {max, sum};
}

/// Over the threads of a row. Every thread of the CTA calls it.
template <SoftmaxConfig C>
__device__ inline Sum over_row(Sum own, unsigned partials) {
  const Sum warp = over_lanes(own);
  if constexpr (C.warps_per_row() == 1) {
    return warp;
  }
  if constexpr (C.persistence == Persistence::persistent) {
    __syncthreads();  // The sums of the tile before have been read.
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) {
    ptx::st_shared(partials + threadIdx.x / 32 * 8, make_float2(warp.max, warp.sum));
  }
  __syncthreads();
  Sum other = {minus_infinity(), 0.0F};
  if (lane < C.warps_per_row()) {
    const unsigned first = threadIdx.x / C.threads_per_row * C.warps_per_row();
    const unsigned address = partials + (first + static_cast<unsigned>(lane)) * 8;
    other = {__uint_as_float(ptx::ld_shared_b32(address)),
             __uint_as_float(ptx::ld_shared_b32(address + 4))};
  }
  return over_lanes(other);
}

template <int Count>
struct alignas(2 * Count) Elements {
  unsigned short bits[Count];
};

/// One thread's part of a row: vector `step` of it begins at column (step * threads + thread) *
/// vector. Elements past the end read as minus infinity and are not written.
template <SoftmaxConfig C>
class Row {
 public:
  using Values = float[C.vector];

  __device__ Row(const SoftmaxParams& params, int row, unsigned ring)
      : columns_(row < params.rows ? params.columns : 0),
        x_(static_cast<const unsigned short*>(params.x) + row * params.x_stride),
        y_(static_cast<unsigned short*>(params.y) + row * params.y_stride),
        slot_(ring + threadIdx.x * 16) {}

  __device__ void load(int step, Values& values) const {
    const int column = column_of(step);
    Elements<C.vector> elements;
    if (column + C.vector <= columns_) {
      elements = *reinterpret_cast<const Elements<C.vector>*>(x_ + column);
    } else {
#pragma unroll
      for (int i = 0; i < C.vector; ++i) {
        elements.bits[i] = column + i < columns_ ? x_[column + i] : kMinusInfinity;
      }
    }
    decode(elements, values);
  }

  __device__ void store(int step, const Values& values) const {
    const int column = column_of(step);
    Elements<C.vector> elements;
#pragma unroll
    for (int i = 0; i < C.vector; i += 2) {
      const float next = i + 1 < C.vector ? values[(i + 1) % C.vector] : 0.0F;
      const unsigned pair = ptx::cvt_rn_x2<C.dtype>(values[i], next);
      elements.bits[i] = static_cast<unsigned short>(pair);
      if (i + 1 < C.vector) {
        elements.bits[(i + 1) % C.vector] = static_cast<unsigned short>(pair >> 16);
      }
    }
    if (column + C.vector <= columns_) {
      *reinterpret_cast<Elements<C.vector>*>(y_ + column) = elements;
      return;
    }
    for (int i = 0; i < C.vector && column + i < columns_; ++i) {
      y_[column + i] = elements.bits[i];
    }
  }

  /// visit(step, values) for every vector, from the last to the first if `backward`.
  template <typename Visit>
  __device__ void walk(bool backward, const Visit& visit) const {
    const int steps = C.steps(columns_);
    const auto step_at = [&](int i) { return backward ? steps - 1 - i : i; };
    if constexpr (C.stages == 1) {
#pragma unroll 4
      for (int i = 0; i < steps; ++i) {
        Values values;
        load(step_at(i), values);
        visit(step_at(i), values);
      }
    } else {
      for (int i = 0; i < C.stages - 1; ++i) {
        request(i, i < steps, step_at(i));
      }
      for (int i = 0; i < steps; ++i) {
        // A thread reads what it copied itself, so that no barrier is needed.
        ptx::cp_async_wait_group<C.stages - 2>();
        Values values;
        take(i, step_at(i), values);
        const int ahead = i + C.stages - 1;
        request(ahead, ahead < steps, step_at(ahead));
        visit(step_at(i), values);
      }
    }
  }

 private:
  static constexpr unsigned short kMinusInfinity = C.dtype == DType::fp16 ? 0xfc00U : 0xff80U;

  __device__ static int column_of(int step) {
    const int thread = static_cast<int>(threadIdx.x) % C.threads_per_row;
    return (step * C.threads_per_row + thread) * C.vector;
  }

  __device__ static void decode(const Elements<C.vector>& elements, Values& values) {
#pragma unroll
    for (int i = 0; i < C.vector; ++i) {
      values[i] = C.dtype == DType::fp16
                      ? ptx::cvt_f32_f16(elements.bits[i])
                      : __uint_as_float(static_cast<unsigned>(elements.bits[i]) << 16);
    }
  }

  __device__ unsigned slot(int i) const {
    return slot_ + static_cast<unsigned>(i % C.stages * C.threads() * 16);
  }

  /// Copies a vector as one group; the group is empty past the end, which keeps their count.
  __device__ void request(int i, bool exists, int step) const {
    const int column = column_of(step);
    if (exists && column < columns_) {
      const int rest = columns_ - column;
      ptx::cp_async<16>(slot(i), x_ + column, rest < 8 ? 2 * rest : 16);
    }
    ptx::cp_async_commit_group();
  }

  __device__ void take(int turn, int step, Values& values) const {
    const uint4 words = ptx::ld_shared_v4_b32(slot(turn));
    const unsigned pairs[4] = {words.x, words.y, words.z, words.w};
    const int rest = columns_ - column_of(step);
    Elements<C.vector> elements;
#pragma unroll
    for (int i = 0; i < C.vector; ++i) {
      const unsigned pair = pairs[i / 2];
      const auto bits = static_cast<unsigned short>(i % 2 == 0 ? pair : pair >> 16);
      elements.bits[i] = i < rest ? bits : kMinusInfinity;
    }
    decode(elements, values);
  }

  int columns_;
  const unsigned short* x_;
  unsigned short* y_;
  unsigned slot_;
};

template <SoftmaxConfig C>
__device__ inline void compute_held(const Row<C>& row, unsigned partials) {
  float values[C.held][C.vector];
  Sum own = {minus_infinity(), 0.0F};
#pragma unroll
  for (int step = 0; step < C.held; ++step) {
    row.load(step, values[step]);
  }
#pragma unroll
  for (int i = 0; i < C.held * C.vector; ++i) {
    own.max = fmaxf(own.max, values[i / C.vector][i % C.vector]);
  }
  const float base = base_of(own.max);
#pragma unroll
  for (int i = 0; i < C.held * C.vector; ++i) {
    float& value = values[i / C.vector][i % C.vector];
    value = exponential(value - base);
    own.sum += value;
  }
  const Sum all = over_row<C>(own, partials);
  const float factor = scale(own.max, all.max) / all.sum;
#pragma unroll
  for (int step = 0; step < C.held; ++step) {
#pragma unroll
    for (int i = 0; i < C.vector; ++i) {
      values[step][i] *= factor;
    }
    row.store(step, values[step]);
  }
}

template <SoftmaxConfig C>
__device__ inline void compute_twice_read(const Row<C>& row, unsigned partials) {
  using Values = typename Row<C>::Values;
  Sum own = {minus_infinity(), 0.0F};
  row.walk(false, [&](int /*step*/, const Values& values) {
    float max = own.max;
#pragma unroll
    for (int i = 0; i < C.vector; ++i) {
      max = fmaxf(max, values[i]);
    }
    const float base = base_of(max);
    own = {max, own.sum * scale(own.max, max)};
#pragma unroll
    for (int i = 0; i < C.vector; ++i) {
      own.sum += exponential(values[i] - base);
    }
  });
  const Sum all = over_row<C>(own, partials);
  const float base = base_of(all.max);
  const float factor = 1.0F / all.sum;
  row.walk(C.order == Order::sawtooth, [&](int step, const Values& values) {
    Values results;
#pragma unroll
    for (int i = 0; i < C.vector; ++i) {
      results[i] = exponential(values[i] - base) * factor;
    }
    row.store(step, results);
  });
}

template <SoftmaxConfig C>
__device__ inline void run(const SoftmaxParams& params, unsigned shared) {
  const int tiles = C.tiles(params.rows);
  const int row_of_tile = static_cast<int>(threadIdx.x) / C.threads_per_row;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const Row<C> row(params, tile * C.tile_rows + row_of_tile, shared);
    if constexpr (C.held > 0) {
      compute_held<C>(row, shared + C.ring_bytes());
    } else {
      compute_twice_read<C>(row, shared + C.ring_bytes());
    }
  }
}

}  // namespace swr::softmax
