// SPDX-License-Identifier: MIT
// Where rows of K and V lie, and which of them exist: what copying threads of both families need.
#pragma once

#include "attention_serving/item.cuh"
#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// One operand's rows that lie one after another, as the thread that copies knows them.
struct KvRows {
  const char* base;
  long long row_stride_bytes;
};

/// One operand's rows in pages.
struct PagedRows {
  unsigned places;  ///< The shared address of the operand's place of the tile's first run.
  long long row_stride_bytes;
};

/// Which rows of a tile exist, counted from a thread's first.
struct LiveRows {
  int first;
  unsigned count;

  __device__ LiveRows(KeyRange keys, int first_key)
      : first(keys.first - first_key), count(static_cast<unsigned>(keys.end - keys.first)) {}
  __device__ bool contain(int row) const { return static_cast<unsigned>(row - first) < count; }
};

/// The addresses of the runs of rows of paged tiles, in shared memory: thread i looks run i up,
/// whose page it has fetched a tile ahead. Address arithmetic is then done once per run, not once
/// per 16 bytes. What is worked out ahead of a barrier costs no time where others are waited for.
template <auto C>
class PagePlaces {
 public:
  __device__ PagePlaces(const ServingAttentionParams& params, unsigned smem, const Item<C>& item,
                        int thread)
      : params_(params), first_(smem + C.places_offset()), item_(item), thread_(thread) {}

  /// The shared address of the place in K of the first run of the tile in `slot`; that in V lies 8
  /// bytes further, and the next run's C.kPlaceBytes.
  __device__ unsigned at(int slot) const {
    return first_ + static_cast<unsigned>(slot * C.runs_per_tile() * C.kPlaceBytes);
  }

  /// The entry of the page table for this thread's run of the tile whose first key is `first_key`;
  /// null for a run that no row sees, which is not looked up.
  __device__ const int* entry(int first_key, KeyRange keys) const {
    const int key = first_key + thread_ * C.run_rows();
    if (!looks_up() || key + C.run_rows() <= keys.first || key >= keys.end) {
      return nullptr;
    }
    const Pages pages = item_.pages();
    return pages.ids + pages.split.page(pages.first_kv + key);
  }
  __device__ static int fetch(const int* entry) { return entry == nullptr ? 0 : *entry; }

  /// The addresses of K and of V at this thread's run, which lies in page `id`; of runs that are
  /// not looked up an address that nobody reads from.
  __device__ uint4 addresses(int first_key, int id) const {
    if (!looks_up()) {
      return make_uint4(0, 0, 0, 0);
    }
    const Pages pages = item_.pages();
    const KvBases bases = item_.bases();
    const int position = pages.first_kv + first_key + thread_ * C.run_rows();
    const int row = position - pages.split.page(position) * pages.split.page_size;
    const auto k = bits(bases.k + offset(params_.k_strides, id, row));
    const auto v = bits(bases.v + offset(params_.v_strides, id, row));
    return make_uint4(static_cast<unsigned>(k), static_cast<unsigned>(k >> 32),
                      static_cast<unsigned>(v), static_cast<unsigned>(v >> 32));
  }
  /// Leaves them for the tile in `slot`.
  __device__ void put(int slot, const uint4& addresses) const {
    if (looks_up()) {
      ptx::st_shared(at(slot) + static_cast<unsigned>(thread_ * C.kPlaceBytes), addresses);
    }
  }

 private:
  __device__ bool looks_up() const { return thread_ < C.runs_per_tile(); }
  __device__ static unsigned long long bits(const char* address) {
    return reinterpret_cast<unsigned long long>(address);
  }
  __device__ static long long offset(const TensorStrides& strides, int id, int row) {
    return (id * strides.batch + row * strides.seq) * kElementBytes;
  }

  const ServingAttentionParams& params_;
  unsigned first_;
  const Item<C>& item_;
  int thread_;
};

}  // namespace swr::serving
