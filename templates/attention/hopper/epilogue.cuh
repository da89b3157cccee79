// SPDX-License-Identifier: MIT
// Writes the output of a consumer warpgroup: O through swizzled shared memory and the copy engine,
// which leaves out rows and columns past the tensor's end, and the log-sum-exp directly.
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/consumer.cuh"
#include "attention/hopper/matrix.cuh"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/hopper/work.cuh"
#include "common/hopper_ptx.cuh"
#include <swr/attention_params.h>

namespace swr::hopper {

template <HopperConfig C>
class Epilogue {
 public:
  __device__ __forceinline__ Epilogue(SharedMemory<C> smem, int consumer, const TensorMap& o)
      : tile_(smem.o(consumer)), consumer_(consumer), o_map_(o) {}

  /// The stores are still under way on return.
  __device__ __forceinline__ void write(const Scan& scan, const Output<C>& output) const {
    constexpr int kLine = C.panel_columns() * 2;
    unsigned packed[C.padded_head_dim() / 4];
    pack_pairs<C.dtype>(packed, output);
    if (Consumer<C>::is_leader()) {
      ptx::wait_stores_read();  // Those of the Q tile before, from the same shared memory.
    }
    sync_consumer();
    store_panels<kLine>(tile_, packed, Consumer<C>::thread_row() / 16 * 16);
    ptx::fence_async_shared();
    sync_consumer();
    if (Consumer<C>::is_leader()) {
      store_tile(scan);
    }
  }

  __device__ __forceinline__ void write_lse(const Scan& scan, const AttentionParams& params,
                                            const float (&lse)[2]) const {
    if (params.lse == nullptr || threadIdx.x % 4 != 0) {
      return;
    }
    const int row = scan.first_row + 64 * consumer_ + Consumer<C>::thread_row();
    float* target = params.lse + static_cast<long long>(scan.batch_head) * params.seq_q;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row + 8 * half < params.seq_q) {
        target[row + 8 * half] = lse[half];
      }
    }
  }

 private:
  __device__ __forceinline__ void sync_consumer() const {
    ptx::named_sync<C.kWarpgroup>(kFirstOwnBarrier + consumer_);
  }

  __device__ __forceinline__ void store_tile(const Scan& scan) const {
    const int row = scan.first_row + 64 * consumer_;
#pragma unroll
    for (int panel = 0; panel < C.panels(); ++panel) {
      ptx::store_box(o_map_, {panel * C.panel_columns(), row, scan.head, scan.batch},
                     tile_ + panel * 64 * C.panel_columns() * 2);
    }
    ptx::commit_stores();
  }

  unsigned tile_;
  int consumer_;
  const TensorMap& o_map_;
};

}  // namespace swr::hopper
