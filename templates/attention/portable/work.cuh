// SPDX-License-Identifier: MIT
// What the portable attention kernel takes, and which Q tile a CTA works on.
#pragma once

#include "attention/config.h"
#include "attention/portable/query_rows.cuh"
#include "attention/portable/tile_copy.cuh"
#include "common/attention_schedule.h"
#include "common/ptx.cuh"
#include <swr/attention_params.h>
#include <swr/tensor_map.h>

namespace swr::portable {

/// The kernel's one argument: the parameters, which maps of K and V follow where the copy engine
/// brings them.
template <PortableAttentionConfig C, bool TakesMaps = C.uses_tma()>
struct Arguments {
  AttentionParams params;
};
template <PortableAttentionConfig C>
struct Arguments<C, true> : MappedAttentionParams {};

/// A head of K and V.
struct KvHead {
  int batch;
  int head;
};

/// Which Q tile it is, and where its K and V lie: in registers, or parked in shared memory when
/// C.parks_work().
template <PortableAttentionConfig C>
class Work {
 public:
  /// Every thread of the CTA calls it with the same values, and passes a barrier before the others.
  __device__ Work(const Arguments<C>& arguments, unsigned smem, QTile tile)
      : arguments_(arguments),
        params_(arguments.params),
        parked_(smem + C.parked_offset()),
        tile_(tile),
        head_{ptx::redux_sync_or(tile.head / scheduled_heads<C>(params_)),
              ptx::redux_sync_or(kv_head_of<C>(params_, tile.head))} {
    if constexpr (!C.uses_tma()) {
      keys_ = first_row(params_.k, params_.k_strides);
      values_ = first_row(params_.v, params_.v_strides);
    }
    if (C.parks_work() && threadIdx.x == 0) {
      park();
    }
  }

  __device__ const Arguments<C>& arguments() const { return arguments_; }
  __device__ QTile tile() const {
    if constexpr (C.parks_work()) {
      const uint4 parked = ptx::ld_shared_v4_b32(parked_ + 16);
      return {static_cast<int>(parked.x), static_cast<int>(parked.y)};
    } else {
      return tile_;
    }
  }
  __device__ KvHead kv_head() const {
    if constexpr (C.parks_work()) {
      const uint4 parked = ptx::ld_shared_v4_b32(parked_ + 16);
      return {static_cast<int>(parked.z), static_cast<int>(parked.w)};
    } else {
      return head_;
    }
  }
  /// Rows of K and V. Not for kernels that use TMA.
  __device__ GlobalRows keys() const {
    const uint4 parked = bases();
    return {pointer(parked.x, parked.y), params_.k_strides.seq * 2, params_.seq_kv};
  }
  __device__ GlobalRows values() const {
    const uint4 parked = bases();
    return {pointer(parked.z, parked.w), params_.v_strides.seq * 2, params_.seq_kv};
  }

 private:
  __device__ char* first_row(const void* tensor, const TensorStrides& strides) const {
    return head_rows(tensor, strides, head_.batch, head_.head, params_.seq_kv).base;
  }
  __device__ void park() const {
    if constexpr (!C.uses_tma()) {
      ptx::st_shared(parked_, halves(keys_, values_));
    }
    ptx::st_shared(
        parked_ + 16,
        make_uint4(static_cast<unsigned>(tile_.head), static_cast<unsigned>(tile_.index),
                   static_cast<unsigned>(head_.batch), static_cast<unsigned>(head_.head)));
  }
  __device__ uint4 bases() const {
    if constexpr (C.parks_work()) {
      return ptx::ld_shared_v4_b32(parked_);
    } else {
      return halves(keys_, values_);
    }
  }
  __device__ static uint4 halves(const char* first, const char* second) {
    const auto a = reinterpret_cast<unsigned long long>(first);
    const auto b = reinterpret_cast<unsigned long long>(second);
    return make_uint4(static_cast<unsigned>(a), static_cast<unsigned>(a >> 32),
                      static_cast<unsigned>(b), static_cast<unsigned>(b >> 32));
  }
  __device__ static char* pointer(unsigned low, unsigned high) {
    return reinterpret_cast<char*>(static_cast<unsigned long long>(high) << 32 | low);
  }

  const Arguments<C>& arguments_;
  const AttentionParams& params_;
  unsigned parked_;
  QTile tile_;
  KvHead head_;
  char* keys_ = nullptr;
  char* values_ = nullptr;
};

}  // namespace swr::portable
