// SPDX-License-Identifier: MIT
// The kernels for unequal sequences that serving_check runs on a GPU, and the few things that its
// host code, which shares its problems with the emulation, needs of the device.
#pragma once

#include "attention_serving/config.h"
#include "attention_serving/hopper/config.h"
#include "operations/attention_serving/launch_plan.h"
#include <swr/kv_append_params.h>
#include <swr/serving_attention_params.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace swr::gpu {

/// A kernel of the Hopper family has `piece_rows` other than 0; its problems are those of `config`,
/// of which it takes what it shares.
struct CheckedKernel {
  const char* name;
  ServingAttentionConfig config;
  int piece_rows = 0;
  Mainloop mainloop = Mainloop::overlap_ordered;

  SWR_HD constexpr bool is_hopper() const { return piece_rows > 0; }
  SWR_HD constexpr HopperServingConfig hopper() const {
    return {.head_dim = config.head_dim,
            .dtype = config.dtype,
            .mask = config.mask,
            .softcap = config.softcap,
            .kv_source = config.kv_source,
            .piece_rows = piece_rows,
            .tile_m = config.tile_m,
            .tile_n = config.tile_n,
            .stages = config.stages,
            .mainloop = mainloop,
            .order = config.order,
            .persistence = config.persistence};
  }
  SWR_HD constexpr int threads() const {
    return is_hopper() ? hopper().threads() : config.threads();
  }
  /// Of a launch that was planned for `config`.
  constexpr int smem_bytes(int planned) const {
    return is_hopper() ? planned - config.fixed_smem_bytes() + hopper().fixed_smem_bytes()
                       : planned;
  }
};

inline constexpr ServingAttentionConfig kDecode{.stages = 2};
inline constexpr ServingAttentionConfig kPrefill{.tile_m = 128,
                                                 .tile_n = 64,
                                                 .warps = 8,
                                                 .persistence = Persistence::persistent,
                                                 .pack_gqa = false,
                                                 .deal = Deal::whole};

/// For the Hopper family, whose pages no padding shifts.
inline constexpr ServingAttentionConfig kHopper{.page_copy = PageCopy::run16,
                                                .tile_m = 128,
                                                .tile_n = 128,
                                                .warps = 8,
                                                .persistence = Persistence::persistent,
                                                .pack_gqa = false,
                                                .deal = Deal::whole};

constexpr ServingAttentionConfig changed(ServingAttentionConfig config, auto change) {
  change(config);
  return config;
}
constexpr ServingAttentionConfig with_dims(ServingAttentionConfig config, int head_dim,
                                           int head_dim_v) {
  config.head_dim = head_dim;
  config.head_dim_v = head_dim_v;
  return config;
}
using Config = ServingAttentionConfig;

// The first three differ in where K and V lie and in nothing else.
inline constexpr CheckedKernel kCheckedKernels[] = {
    {"decode 128", kDecode},
    {"decode 128 run16", changed(kDecode, [](Config& c) { c.page_copy = PageCopy::run16; })},
    {"decode 128 rows", changed(kDecode, [](Config& c) { c.kv_source = KvSource::rows; })},
    {"decode 128, 3 stages", changed(kDecode, [](Config& c) { c.stages = 3; })},
    {"decode 128, 128 keys", changed(kDecode, [](Config& c) { c.tile_n = 128; })},
    {"decode 128 run16, 128 keys", changed(kDecode,
                                           [](Config& c) {
                                             c.page_copy = PageCopy::run16;
                                             c.tile_n = 128;
                                           })},
    {"decode 64", changed(with_dims(kDecode, 64, 64), [](Config& c) { c.stages = 3; })},
    {"decode 64 full cap", changed(with_dims(kDecode, 64, 64),
                                   [](Config& c) {
                                     c.mask = ServingMask::full;
                                     c.softcap = Softcap::approximate;
                                   })},
    {"decode 128 fp16, 8 warps", changed(kDecode,
                                         [](Config& c) {
                                           c.dtype = DType::fp16;
                                           c.tile_n = 128;
                                           c.warps = 8;
                                         })},
    {"decode 128 window", changed(kDecode, [](Config& c) { c.mask = ServingMask::window; })},
    {"decode 128, 64 rows", changed(kDecode, [](Config& c) { c.tile_m = 64; })},
    {"decode 192/128", with_dims(kDecode, 192, 128)},
    {"decode 256 window cap", changed(with_dims(kDecode, 256, 256),
                                      [](Config& c) {
                                        c.mask = ServingMask::window;
                                        c.softcap = Softcap::accurate;
                                      })},
    {"prefill 128", kPrefill},
    {"prefill 128 rows", changed(kPrefill, [](Config& c) { c.kv_source = KvSource::rows; })},
    {"prefill 128 fp16 rows", changed(kPrefill,
                                      [](Config& c) {
                                        c.dtype = DType::fp16;
                                        c.kv_source = KvSource::rows;
                                        c.persistence = Persistence::snake;
                                        c.order = Order::sawtooth;
                                      })},
    {"prefill 128 run16", changed(kPrefill,
                                  [](Config& c) {
                                    c.page_copy = PageCopy::run16;
                                    c.order = Order::right_to_left;
                                  })},
    {"prefill 128 window", changed(kPrefill,
                                   [](Config& c) {
                                     c.mask = ServingMask::window;
                                     c.persistence = Persistence::pairs;
                                   })},
    {"prefill 64", changed(with_dims(kPrefill, 64, 64), [](Config& c) { c.warps = 4; })},
    {"prefill 192/128",
     changed(with_dims(kPrefill, 192, 128), [](Config& c) { c.persistence = Persistence::grid; })},
    {"prefill 256 window cap", changed(with_dims(kPrefill, 256, 256),
                                       [](Config& c) {
                                         c.mask = ServingMask::window;
                                         c.softcap = Softcap::approximate;
                                         c.tile_m = 64;
                                         c.tile_n = 32;
                                         c.warps = 4;
                                       })},
    {"chunks in ranges 128", changed(kPrefill, [](Config& c) { c.deal = Deal::ranges; })},
    {"chunks in ranges 128, packed", changed(kPrefill,
                                             [](Config& c) {
                                               c.deal = Deal::ranges;
                                               c.pack_gqa = true;
                                               c.tile_m = 64;
                                               c.warps = 4;
                                             })},
    {"hopper 128 rows", changed(kHopper, [](Config& c) { c.kv_source = KvSource::rows; }), 128},
    {"hopper 128 rows, fp16, full",
     changed(kHopper,
             [](Config& c) {
               c.kv_source = KvSource::rows;
               c.dtype = DType::fp16;
               c.mask = ServingMask::full;
               c.persistence = Persistence::snake;
               c.order = Order::sawtooth;
             }),
     128},
    {"hopper 128 pages of 16", kHopper, 16},
    {"hopper 128 pages of 64", changed(kHopper, [](Config& c) { c.dtype = DType::fp16; }), 64},
    {"hopper 128 pages of 64, bf16", kHopper, 64},
    {"hopper 128 pages of 128",
     changed(kHopper,
             [](Config& c) {
               c.order = Order::right_to_left;
               c.persistence = Persistence::pairs;
             }),
     128},
    {"hopper 128 pages of 256", kHopper, 128},
    {"hopper 128 pages of 8, mutex",
     changed(kHopper, [](Config& c) { c.persistence = Persistence::snake; }), 8, Mainloop::mutex},
    {"hopper 64 pages of 16, 64 rows",
     changed(with_dims(kHopper, 64, 64),
             [](Config& c) {
               c.tile_m = 64;
               c.warps = 4;
               c.persistence = Persistence::grid;
               c.order = Order::right_to_left;
             }),
     16, Mainloop::overlap},
    {"hopper 96 rows, plain",
     changed(with_dims(kHopper, 96, 96),
             [](Config& c) {
               c.kv_source = KvSource::rows;
               c.mask = ServingMask::full;
             }),
     128, Mainloop::plain},
    {"hopper 256 pages of 16",
     changed(with_dims(kHopper, 256, 256),
             [](Config& c) {
               c.tile_n = 80;
               c.order = Order::sawtooth;
             }),
     16},
    {"hopper 128 window pages of 16",
     changed(kHopper, [](Config& c) { c.mask = ServingMask::window; }), 16},
    {"hopper 128 window rows",
     changed(kHopper,
             [](Config& c) {
               c.kv_source = KvSource::rows;
               c.mask = ServingMask::window;
             }),
     16},
    {"hopper 128 cap pages of 16",
     changed(kHopper, [](Config& c) { c.softcap = Softcap::approximate; }), 16},
    {"hopper 128 cap rows",
     changed(kHopper,
             [](Config& c) {
               c.kv_source = KvSource::rows;
               c.softcap = Softcap::accurate;
             }),
     128},
    {"hopper 96 window rows, plain",
     changed(with_dims(kHopper, 96, 96),
             [](Config& c) {
               c.kv_source = KvSource::rows;
               c.mask = ServingMask::window;
               c.order = Order::sawtooth;
             }),
     16, Mainloop::plain},
    {"hopper 192 window pages of 8, cap",
     changed(with_dims(kHopper, 192, 192),
             [](Config& c) {
               c.tile_n = 80;
               c.mask = ServingMask::window;
               c.softcap = Softcap::accurate;
               c.order = Order::right_to_left;
             }),
     8},
    {"hopper 64 window pages of 16",
     changed(with_dims(kHopper, 64, 64),
             [](Config& c) {
               c.mask = ServingMask::window;
               c.stages = 3;
             }),
     16},
    {"hopper 64 window pages of 16, 64 rows",
     changed(with_dims(kHopper, 64, 64),
             [](Config& c) {
               c.tile_m = 64;
               c.warps = 4;
               c.mask = ServingMask::window;
               c.persistence = Persistence::grid;
             }),
     16, Mainloop::overlap},
};
inline constexpr std::size_t kCheckedCount = sizeof(kCheckedKernels) / sizeof(kCheckedKernels[0]);

/// The index of the kernel of this name; the count when there is none.
constexpr std::size_t kernel_named(std::string_view name) {
  std::size_t i = 0;
  while (i < kCheckedCount && name != kCheckedKernels[i].name) {
    ++i;
  }
  return i;
}

// Every call ends the section with the error's text when CUDA reports one. All work of a host
// thread is in the order of its calls.

void* allocate(std::size_t bytes);
void release(void* memory);
void fill(void* memory, int byte, std::size_t bytes);
void upload(void* memory, const void* from, std::size_t bytes);
void download(void* to, const void* memory, std::size_t bytes);
std::size_t free_bytes();
int sm_count();
void wait();

/// An array that the launch before writes when the one after may already run.
struct LateArray {
  void* target;
  const void* source;
  std::size_t bytes;
};

/// may_begin_early: when the launch before has let it, rather than ended.
void launch_serving(std::size_t kernel, const ServingLaunch& launch,
                    const ServingAttentionParams& params, bool may_begin_early = false);
/// Behind a launch that lets it begin at once, sleeps and only then writes `late`.
void launch_serving_early(std::size_t kernel, const ServingLaunch& launch,
                          const ServingAttentionParams& params, const std::vector<LateArray>& late);
/// A launch that was captured. Replays read what is in memory then.
class CapturedServing {
 public:
  CapturedServing(std::size_t kernel, const ServingLaunch& launch,
                  const ServingAttentionParams& params);
  ~CapturedServing();
  CapturedServing(const CapturedServing&) = delete;
  CapturedServing& operator=(const CapturedServing&) = delete;
  void replay() const;

 private:
  void* executable_ = nullptr;
};
/// CTAs of the kernel that the GPU holds at once.
int resident_ctas(std::size_t kernel, int dynamic_smem_bytes);

/// O [rows, heads_q, head_dim_v] and lse [rows, heads_q] of swr_serving_attention_reference.
void launch_reference(const ServingAttentionConfig& config, const ServingAttentionParams& params,
                      double scale, double cap, float* o, double* lse);

void launch_append(DType dtype, const KvAppendParams& params);

}  // namespace swr::gpu
