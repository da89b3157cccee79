// SPDX-License-Identifier: MIT
// The loading warpgroup: one thread keeps the copy engine busy and runs ahead of the consumers as
// far as the rings allow, also into the next Q tile.
#pragma once

#include "attention/hopper/config.h"
#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/work.cuh"
#include "common/hopper_ptx.cuh"
#include "common/ptx.cuh"

namespace swr::hopper {

template <HopperAttentionConfig C>
class Producer {
 public:
  __device__ __forceinline__ Producer(SharedMemory<C> smem, const TensorMap& q, const TensorMap& k,
                                      const TensorMap& v)
      : smem_(smem), q_map_(q), k_map_(k), v_map_(v) {}

  /// K runs one tile ahead of V, because consumers multiply Q with the next K tile before they
  /// multiply P with this V tile; the first K tile does not wait for the Q slot. The next Q tile
  /// goes out as soon as its slot is free, without holding up K and V.
  __device__ __forceinline__ void run(WorkList<C> work) {
    Scan scan = work.current();
    ptx::griddepcontrol_wait();  // Its end has hidden the divisions of the first Q tile.
    work.move_on_from(scan);
    bool q_requested = false;
    while (scan.tiles > 0) {
      load_k(scan, 0);
      if (!q_requested) {
        load_q(scan);
      }
      const Scan next = work.next();
      q_requested = false;
      for (int step = 1; step < scan.tiles; ++step) {
        load_k(scan, step);
        load_v(scan, step - 1);
        if (!q_requested && ptx::mbarrier_test_wait(smem_.q_empty(q_.stage), q_.parity ^ 1)) {
          load_q(next);
          q_requested = true;
        }
      }
      load_v(scan, scan.tiles - 1);
      scan = next;
    }
    if (!q_requested) {
      load_q(scan);
    }
    // Not before: CTAs of the launch after would take the places that are free while others of this
    // one compute, and more of them would fall on one SM than on another.
    ptx::griddepcontrol_launch_dependents();
    work.finish();
  }

 private:
  static constexpr int kQBoxBytes = C.q_box().columns * C.q_box().rows * 2;
  static constexpr int kKvBoxBytes = C.kv_box().columns * C.kv_box().rows * 2;

  /// With tiles = 0, only the entry of the work list, which ends it.
  __device__ __forceinline__ void load_q(const Scan& scan) {
    ptx::mbarrier_wait(smem_.q_empty(q_.stage), q_.parity ^ 1);
    store_scan(smem_.scan(q_.stage), scan);
    if (scan.tiles > 0) {
      ptx::mbarrier_arrive_expect_tx(smem_.q_full(q_.stage), C.q_tile_bytes());
      load_q_boxes(scan);
    } else {
      ptx::mbarrier_arrive(smem_.q_full(q_.stage));
    }
    q_.advance();
  }

  __device__ __forceinline__ void load_q_boxes(const Scan& scan) {
#pragma unroll 1
    for (int consumer = 0; consumer < C.consumers(); ++consumer) {
#pragma unroll 1
      for (int panel = 0; panel < C.panels(); ++panel) {
        ptx::cp_async_bulk_tensor_4d_global_to_shared(
            smem_.q(q_.stage, consumer) + panel * kQBoxBytes, q_map_,
            {panel * C.panel_columns(), scan.first_row + 64 * consumer, scan.head, scan.batch},
            smem_.q_full(q_.stage));
      }
    }
  }

  __device__ __forceinline__ void load_k(const Scan& scan, int step) {
    ptx::mbarrier_wait(smem_.k_empty(k_.stage), k_.parity ^ 1);
    load_tile(smem_.k(k_.stage), k_map_, scan, step, smem_.k_full(k_.stage));
    k_.advance();
  }

  __device__ __forceinline__ void load_v(const Scan& scan, int step) {
    ptx::mbarrier_wait(smem_.v_empty(v_.stage), v_.parity ^ 1);
    load_tile(smem_.v(v_.stage), v_map_, scan, step, smem_.v_full(v_.stage));
    v_.advance();
  }

  __device__ __forceinline__ void load_tile(unsigned shared, const TensorMap& map, const Scan& scan,
                                            int step, unsigned barrier) {
    ptx::mbarrier_arrive_expect_tx(barrier, C.kv_tile_bytes());
#pragma unroll 1  // The loading warpgroup has few registers.
    for (int panel = 0; panel < C.panels(); ++panel) {
      ptx::cp_async_bulk_tensor_4d_global_to_shared(
          shared + panel * kKvBoxBytes, map,
          {panel * C.panel_columns(), scan.tile(step) * C.tile_n, scan.kv_head, scan.batch},
          barrier);
    }
  }

  SharedMemory<C> smem_;
  const TensorMap& q_map_;
  const TensorMap& k_map_;
  const TensorMap& v_map_;
  RingPosition<C.q_slots()> q_;
  RingPosition<C.stages> k_;
  RingPosition<C.stages> v_;
};

}  // namespace swr::hopper
