// SPDX-License-Identifier: MIT
// Where rows of K and V lie, and which of them exist: what copying threads of both families need.
#pragma once

#include "attention_serving/item.cuh"
#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// One operand's rows, as the thread that copies knows them.
struct KvRows {
  const char* base;
  long long row_stride_bytes;
  unsigned places;  ///< Of pages: the shared address of the first run's byte offset.
};

/// Which rows of a tile exist, counted from a thread's first.
struct LiveRows {
  int first;
  unsigned count;

  __device__ LiveRows(KeyRange keys, int first_key)
      : first(keys.first - first_key), count(static_cast<unsigned>(keys.end - keys.first)) {}
  __device__ bool contain(int row) const { return static_cast<unsigned>(row - first) < count; }
};

/// The byte offsets of the runs of rows of paged tiles, in shared memory: thread i looks run i up,
/// whose page it has fetched a tile ahead. Address arithmetic is then done once per run, not once
/// per 16 bytes.
template <auto C>
class PagePlaces {
 public:
  __device__ PagePlaces(const ServingAttentionParams& params, unsigned smem, const Item<C>& item,
                        int thread)
      : params_(params), first_(smem + C.places_offset()), item_(item), thread_(thread) {}

  /// The shared address of the offsets of K for the tile in `slot`; those of V lie 8 bytes further.
  __device__ unsigned at(int slot) const {
    return first_ + static_cast<unsigned>(slot * C.runs_per_tile() * C.kPlaceBytes);
  }

  /// Fetches the page of this thread's run of the tile whose first key is `first_key`. Pages of
  /// runs that no row sees are not looked up.
  __device__ int fetch(int first_key) const {
    const int key = first_key + thread_ * C.run_rows();
    const KeyRange keys = item_.keys();
    if (thread_ >= C.runs_per_tile() || key + C.run_rows() <= keys.first || key >= keys.end) {
      return 0;
    }
    const Pages pages = item_.pages();
    return pages.ids[pages.split.page(pages.first_kv + key)];
  }

  /// Leaves the offsets of this thread's run, which lies in page `id`.
  __device__ void put(int slot, int first_key, int id) const {
    if (thread_ >= C.runs_per_tile()) {
      return;
    }
    const Pages pages = item_.pages();
    const int position = pages.first_kv + first_key + thread_ * C.run_rows();
    const int row = position - pages.split.page(position) * pages.split.page_size;
    const unsigned place = at(slot) + static_cast<unsigned>(thread_ * C.kPlaceBytes);
    ptx::st_shared_b64(place, offset(params_.k_strides, id, row));
    ptx::st_shared_b64(place + 8, offset(params_.v_strides, id, row));
  }

 private:
  __device__ static long long offset(const TensorStrides& strides, int id, int row) {
    return (id * strides.batch + row * strides.seq) * kElementBytes;
  }

  const ServingAttentionParams& params_;
  unsigned first_;
  const Item<C>& item_;
  int thread_;
};

}  // namespace swr::serving
