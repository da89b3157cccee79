// SPDX-License-Identifier: MIT
// The Hopper attention backward kernels run on the CPU against fp64, their named barriers, bulk
// copies and products under way included.
#include "attention_backward/hopper/kernel.cuh"
#include "attention_backward/portable/around_key_pass.cuh"
#include "attention_backward/portable/query_pass.cuh"
#include "tests/emulation/backward_memory.h"
#include "tests/emulation/resident_grid.h"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"

namespace emulation {
namespace {

/// What a call can choose when the kernels are compiled.
struct HopperBackwardChoice {
  int workers = 2;
  int parts = 1;
  bool last_kv_first = false;
  int bands = 1;
  Fault fault = Fault::none;
  CopyTime copies = CopyTime::early;
  Pace pace = Pace::together;
  /// CTAs of the pass over K and V tiles that run side by side; 0: one after the other.
  unsigned room = 0;
  unsigned seed = 1;
};

/// Kernels of one variant. Q is ignored where the pass over K and V tiles sums dQ.
template <swr::HopperKeyPassConfig K, swr::QueryPassConfig Q>
class HopperBackwardProblem : public BackwardMemory {
 public:
  HopperBackwardProblem(const AttentionCase& problem, const HopperBackwardChoice& choice)
      : BackwardMemory(problem, K.dtype, MemoryOrder::bshd, 16, 11, true), choice_(choice) {}

  /// Forward in fp64, then the kernels. False when CTAs wait for each other for ever.
  bool run() {
    const swr::AttentionBackwardGeometry geometry = prepare(make_plan());
    if constexpr (K.sums_dq()) {
      run(geometry.prepare, [this] { swr::portable::prepare<K>(params_); });
    } else {
      run(geometry.query_pass, [this] { swr::portable::run_query_pass<Q>(params_, 0); });
    }
    const bool ended = run_key_pass(geometry.key_pass);
    if (ended && geometry.finish.grid_x > 0) {
      run(geometry.finish, [this] { swr::portable::finish<K>(params_); });
    }
    return ended;
  }

  /// Of the pass over K and V tiles, unless CTAs ran side by side.
  const SharedTraffic& traffic() const { return traffic_; }

 private:
  swr::AttentionBackwardPlan make_plan() const {
    swr::AttentionBackwardPlan plan = swr::plan_of_configs(K, Q);
    plan.workers = plan.query_workers = choice_.workers;
    plan.parts = choice_.parts;
    plan.last_kv_first = choice_.last_kv_first;
    plan.bands = choice_.bands;
    return plan;
  }

  /// The launch before wrote the workspace.
  Launch launch(const swr::KernelLaunch& kernel) {
    before_.writes(words_, kPoison);
    return {.grid = static_cast<unsigned>(kernel.grid_x),
            .threads = kernel.block_x,
            .smem_bytes = kernel.dynamic_smem_bytes,
            .copies = choice_.copies,
            .pace = choice_.pace,
            .fault = choice_.fault,
            .end_launch_before = std::exchange(before_, {})};
  }
  void run(const swr::KernelLaunch& how, const std::function<void()>& kernel) {
    emulation::run(launch(how), kernel);
  }

  bool run_key_pass(const swr::KernelLaunch& how) {
    using swr::ptx::map_of;
    using swr::ptx::MappedTensor;
    const MappedTensor q = mapped(q_, K.row_box());
    const MappedTensor k = mapped(k_, K.key_box());
    const MappedTensor v = mapped(v_, K.key_box());
    const MappedTensor d_o = mapped(d_o_, K.row_box());
    const MappedTensor dk = mapped(dk_, K.gradient_box());
    const MappedTensor dv = mapped(dv_, K.gradient_box());
    const std::array<swr::TensorMap, 6> maps{map_of(q),   map_of(k),  map_of(v),
                                             map_of(d_o), map_of(dk), map_of(dv)};
    const auto kernel = [&] {
      swr::hopper::run_key_pass<K>(params_, {maps[0], maps[1], maps[2], maps[3], maps[4], maps[5]},
                                   0);
    };
    if (choice_.room > 0) {
      return ResidentGrid(launch(how), choice_.room, choice_.seed, kernel).run();
    }
    traffic_ = emulation::run(launch(how), kernel);
    return true;
  }

  static swr::ptx::MappedTensor mapped(StridedTensor& tensor, const swr::TensorBox& box) {
    const TensorSizes& sizes = tensor.sizes();
    const swr::TensorStrides& strides = tensor.strides();
    return {.base = tensor.address(),
            .sizes = {sizes.columns, sizes.seq, sizes.heads, sizes.batch},
            .strides = {1, strides.seq, strides.head, strides.batch},
            .box = box};
  }

  HopperBackwardChoice choice_;
  LaunchBefore before_;
  SharedTraffic traffic_;
};

}  // namespace
}  // namespace emulation

namespace swr {
namespace {

using emulation::Access;
using emulation::AttentionCase;
using emulation::CopyTime;
using emulation::Deviation;
using emulation::Fault;
using emulation::HopperBackwardChoice;
using emulation::HopperBackwardProblem;
using emulation::Pace;

constexpr HopperKeyPassConfig config_of(int head_dim, int value_dim, bool causal, DqSum sum) {
  const bool divides = head_dim > 128 || value_dim > 128;
  return {.head_dim = head_dim,
          .value_dim = value_dim,
          .dtype = DType::bf16,
          .causal = causal,
          .tile_m = head_dim <= 64 && value_dim <= 64 ? 128 : 64,
          .tile_n = divides ? 64 : 128,
          .warps = 8,
          .stages = 2,
          .dq_sum = sum,
          .order = QOrder::cyclic,
          .persistence = Persistence::grid};
}
constexpr HopperKeyPassConfig walking(HopperKeyPassConfig config, QOrder order,
                                      Persistence persistence) {
  config.order = order;
  config.persistence = persistence;
  return config;
}
constexpr HopperKeyPassConfig with_stages(HopperKeyPassConfig config, int stages) {
  config.stages = stages;
  return config;
}

constexpr QueryPassConfig query_of(const HopperKeyPassConfig& key) {
  return {.head_dim = key.head_dim,
          .value_dim = key.value_dim,
          .dtype = key.dtype,
          .causal = key.causal,
          .alignment_bytes = 16,
          .tile_m = 64,
          .tile_n = 64,
          .warps = 4,
          .keys_at_once = 32,
          .stages = 1,
          .order = Order::cyclic,
          .persistence = Persistence::grid,
          .smem_swizzle = true};
}

/// Both lengths end within a tile, and a walk has an odd number of steps.
constexpr AttentionCase kShape{
    .batch = 1, .heads_q = 2, .heads_kv = 1, .seq_q = 171, .seq_kv = 201};

template <HopperKeyPassConfig K>
AttentionCase case_of(AttentionCase shape) {
  shape.head_dim = K.head_dim;
  shape.value_dim = K.value_dim;
  shape.causal = K.causal;
  shape.scale = 1.0 / std::sqrt(K.head_dim);
  return shape;
}

template <HopperKeyPassConfig K>
void expect_right(HopperBackwardChoice choice = {}, const AttentionCase& shape = kShape) {
  for (const auto& [copies, pace] : {std::pair{CopyTime::early, Pace::first_warp_ahead},
                                     std::pair{CopyTime::late, Pace::last_warp_ahead}}) {
    choice.copies = copies;
    choice.pace = pace;
    HopperBackwardProblem<K, query_of(K)> backward(case_of<K>(shape), choice);
    ASSERT_TRUE(backward.run());
    const Deviation off = backward.deviation();
    EXPECT_EQ(off.wrong, 0);
    EXPECT_LE(off.worst, 1.0);
    EXPECT_EQ(backward.disturbed(), 0);
    EXPECT_EQ(backward.traffic()[Access::store].conflicts(), 0);
    EXPECT_EQ(backward.traffic()[Access::load].conflicts(), 0);
  }
}

TEST(EmulatedHopperBackward, SumsInAnyOrderAreRight) {
  expect_right<config_of(128, 128, true, DqSum::atomic)>();
  expect_right<config_of(64, 64, true, DqSum::atomic)>();
  expect_right<config_of(96, 96, false, DqSum::atomic)>();
  expect_right<config_of(256, 256, true, DqSum::atomic)>();
}

TEST(EmulatedHopperBackward, SumsInTurnAreRight) {
  expect_right<config_of(128, 128, false, DqSum::ordered)>();
  expect_right<config_of(64, 64, true, DqSum::ordered)>({.last_kv_first = true, .room = 3});
  expect_right<config_of(80, 48, true, DqSum::ordered)>({.room = 2});
  expect_right<config_of(192, 128, true, DqSum::ordered)>({.parts = 2, .room = 8});
}

TEST(EmulatedHopperBackward, NoSumsAreRight) {
  expect_right<config_of(64, 64, true, DqSum::none)>();
  expect_right<config_of(128, 96, false, DqSum::none)>();
}

/// Several items of a CTA, of no, one, two and more steps.
TEST(EmulatedHopperBackward, ItemsFollowEachOther) {
  constexpr AttentionCase kFew{
      .batch = 1, .heads_q = 3, .heads_kv = 1, .seq_q = 100, .seq_kv = 260};
  constexpr auto kAtomic = config_of(128, 128, true, DqSum::atomic);
  expect_right<walking(kAtomic, QOrder::sawtooth, Persistence::persistent)>({.parts = 4}, kFew);
  expect_right<with_stages(walking(kAtomic, QOrder::right_to_left, Persistence::persistent), 3)>(
      {.parts = 9}, kFew);
}

constexpr AttentionCase kManyTiles{
    .batch = 1, .heads_q = 2, .heads_kv = 1, .seq_q = 256, .seq_kv = 384};

template <HopperKeyPassConfig K>
std::set<std::vector<std::uint16_t>> bits_of_runs(HopperBackwardChoice choice) {
  std::set<std::vector<std::uint16_t>> results;
  for (choice.seed = 1; choice.seed <= 3; ++choice.seed) {
    choice.copies = choice.seed % 2 == 0 ? CopyTime::early : CopyTime::late;
    HopperBackwardProblem<K, query_of(K)> backward(case_of<K>(kManyTiles), choice);
    EXPECT_TRUE(backward.run());
    results.insert(backward.bits());
  }
  return results;
}

TEST(EmulatedHopperBackward, SumsInTurnRepeatWhoeverIsAhead) {
  EXPECT_EQ(bits_of_runs<config_of(64, 64, false, DqSum::ordered)>({.bands = 2, .room = 3}).size(),
            1U);
}

template <HopperKeyPassConfig K>
void expect_seen(const HopperBackwardChoice& choice) {
  HopperBackwardProblem<K, query_of(K)> backward(case_of<K>(kManyTiles), choice);
  backward.run();
  const Deviation off = backward.deviation();
  EXPECT_TRUE(off.wrong > 0 || off.worst > 1.0) << static_cast<int>(choice.fault);
}

/// What the tests above rest on.
TEST(EmulatedHopperBackward, PlantedFaultsShow) {
  for (const Fault fault :
       {Fault::copies_not_awaited, Fault::barriers_ignored, Fault::launch_not_awaited}) {
    expect_seen<config_of(64, 64, true, DqSum::atomic)>(
        {.fault = fault, .copies = CopyTime::late, .pace = Pace::first_warp_ahead});
  }
  expect_seen<config_of(64, 64, true, DqSum::ordered)>(
      {.fault = Fault::turns_not_awaited, .room = 3});
}

}  // namespace
}  // namespace swr
