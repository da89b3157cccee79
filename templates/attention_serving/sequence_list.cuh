// SPDX-License-Identifier: MIT
// The list of sequences that a CTA makes for itself from the lengths in device memory: where each
// one's units end. No launch before has to make it, and nobody waits for the host.
#pragma once

#include "common/ptx.cuh"
#include "common/serving_ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// In shared memory: the end of every place of the list, 8 bytes each, then the entry that stands
/// there, 4 bytes each.
template <auto C>
class SequenceList {
 public:
  __device__ SequenceList(const ServingAttentionParams& params, unsigned smem)
      : params_(params),
        ends_(smem + C.list_offset()),
        entries_(ends_ + static_cast<unsigned>(count() * kEndBytes)) {}

  /// All threads of the CTA. Reads every length once, all at the same time.
  __device__ void build() const {
    if (sorted()) {
      sort();
    }
    for (int place = thread(); place < count(); place += C.threads()) {
      put_end(place, entry_units(C.tiles(), params_, entry(place)));
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      sum_up();
    }
    __syncthreads();
  }

  __device__ long long end(int place) const { return ptx::ld_shared_b64(end_address(place)); }
  __device__ int entry(int place) const {
    return sorted() ? static_cast<int>(ptx::ld_shared_b32(entry_address(place))) : place;
  }
  __device__ long long units() const { return end(count() - 1); }

  /// Deal::ranges: what the list is cut into. All threads of a warp together.
  __device__ Ranges ranges() const {
    Ranges ranges = cut_ranges(units(), static_cast<int>(gridDim.x), params_.least_units);
    if (ranges.workers > 1 && sequences_per_entry(params_.batch) == 1 && is_uniform()) {
      const int first = entry(0);
      const SequenceItems items =
          items_of(C.tiles(), params_, query_length(params_, first), key_length(params_, first));
      ranges.workers = even(count() * static_cast<int>(items.items()), ranges.workers);
    }
    return ranges;
  }

 private:
  static constexpr int kEndBytes = 8;
  static constexpr long long kMostUnits = 1LL << 30;  ///< That are looked at for evenness.

  /// Whether all sequences have as many units, so that all items are equally long.
  __device__ bool is_uniform() const {
    const long long first = end(0);
    bool differs = units() > kMostUnits;
    for (int place = lane() + 1; place < count(); place += 32) {
      differs = differs || end(place) - end(place - 1) != first;
    }
    return ptx::vote_ballot(differs) == 0;
  }
  /// even_workers(), by a warp.
  __device__ static int even(int items, int most) {
    const int least = least_even_workers(most);
    for (int above = most; above >= least; above -= 32) {
      const int workers = above - lane();
      const unsigned found = ptx::vote_ballot(workers >= least && are_even(items, workers));
      if (found != 0) {
        return above - (31 - ptx::clz(found & (0U - found)));
      }
    }
    return most;
  }

  __device__ int count() const { return list_entries(params_.batch); }
  __device__ bool sorted() const { return is_sorted(params_.item_order, params_.batch); }
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  __device__ unsigned end_address(int place) const {
    return ends_ + static_cast<unsigned>(place * kEndBytes);
  }
  __device__ unsigned entry_address(int place) const {
    return entries_ + static_cast<unsigned>(place * 4);
  }
  __device__ void put_end(int place, long long end) const {
    ptx::st_shared_b64(end_address(place), end);
  }

  /// Longest first: an entry's place is the number of those that come before it. As many steps as
  /// the square of the list over the threads, which for a list of 512 is less than a tile takes.
  __device__ void sort() const {
    for (int i = thread(); i < count(); i += C.threads()) {
      put_end(i, sorting_key(C.tiles(), params_, i));
    }
    __syncthreads();
    for (int i = thread(); i < count(); i += C.threads()) {
      const long long own = end(i);
      int place = 0;
      for (int other = 0; other < count(); ++other) {
        const long long key = end(other);
        place += key > own || (key == own && other < i) ? 1 : 0;
      }
      ptx::st_shared(entry_address(place), static_cast<unsigned>(i));
    }
    __syncthreads();
  }

  /// One warp turns units into ends: each lane those of its neighbouring places.
  __device__ void sum_up() const {
    const int lane = thread();
    const int places = ceil_div(count(), 32);
    const int first = lane * places;
    const int last = min_of(first + places, count());
    long long own = 0;
    for (int place = first; place < last; ++place) {
      own += end(place);
    }
    long long sum = own;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const long long below = ptx::shfl_sync_up(sum, lanes);
      sum += lane >= lanes ? below : 0;
    }
    sum -= own;
    for (int place = first; place < last; ++place) {
      sum += end(place);
      put_end(place, sum);
    }
  }

  const ServingAttentionParams& params_;
  unsigned ends_;
  unsigned entries_;
};

}  // namespace swr::serving
