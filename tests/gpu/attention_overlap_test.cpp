// SPDX-License-Identifier: MIT
// Launches of attention that may start while the one before ends: every launch reads what the three
// before wrote, and writes what they read. Kernels without their waits give something else.
#include "operations/attention/config.h"
#include "operations/attention/workload.h"
#include "tests/gpu/launch_chain.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <numbers>

namespace swr {
namespace {

constexpr int kHeadDim = 64;
/// Rows of head_dim elements that each tensor of a chain has room for.
constexpr int kRows = 2048;
constexpr int kLaunches = 48;

struct Link {
  AttentionProblem problem;
  AttentionVariant variant;
};

struct Chain {
  std::string name;
  std::vector<Link> links;  ///< Taken in turn.
};

[[maybe_unused]] void PrintTo(const Chain& chain, std::ostream* stream) { *stream << chain.name; }

/// O fills nearly all that Q, K and V of others take.
AttentionProblem square() {
  return {.heads_q = 8,
          .heads_kv = 8,
          .seq_q = 250,
          .seq_kv = 250,
          .head_dim = kHeadDim,
          .dtype = DType::bf16};
}

/// K and V fill the tensors, O is part of them.
AttentionProblem decode() {
  return {.batch = 2,
          .heads_q = 64,
          .heads_kv = 8,
          .seq_q = 1,
          .seq_kv = 128,
          .head_dim = kHeadDim,
          .dtype = DType::bf16};
}

Link portable(Persistence persistence) {
  return {square(), {.tile_n = 32, .order = Order::sawtooth, .persistence = persistence}};
}

Link by_tensor_maps() { return {square(), {.tile_n = 32, .stages = 3, .kv_copy = KvCopy::tma}}; }

Link split(int warps) {
  return {decode(),
          {.tile_m = 16 * warps,
           .tile_n = 16,
           .warps = warps,
           .stages = 3,
           .kv_splits = 4,
           .pack_gqa = true}};
}

/// Warps divide the keys of every tile.
Link key_groups() {
  return {decode(),
          {.tile_m = 16, .tile_n = 64, .warps = 4, .stages = 2, .kv_splits = 2, .pack_gqa = true}};
}

Link hopper(int tile_m, Persistence persistence) {
  return {square(),
          {.family = Family::hopper,
           .tile_m = tile_m,
           .tile_n = 64,
           .warps = tile_m / 16,
           .order = Order::sawtooth,
           .persistence = persistence,
           .mainloop = Mainloop::overlap_ordered}};
}

std::vector<Chain> chains() {
  return {
      {"portable_grid", {portable(Persistence::grid)}},
      {"portable_persistent", {portable(Persistence::persistent)}},
      {"portable_tensor_maps", {by_tensor_maps()}},
      {"decode", {portable(Persistence::grid), split(1), split(4), key_groups()}},
      {"hopper_grid", {hopper(128, Persistence::grid)}},
      {"hopper_persistent", {hopper(64, Persistence::persistent)}},
      {"hopper_dynamic", {hopper(128, Persistence::dynamic)}},
      {"all_in_turn",
       {hopper(128, Persistence::dynamic), split(4), portable(Persistence::grid), by_tensor_maps(),
        split(1), hopper(64, Persistence::grid), portable(Persistence::persistent)}}};
}

TensorStrides contiguous(int heads, int seq) {
  const long long row = kHeadDim;
  return {.batch = row * seq * heads, .head = row * seq, .seq = row};
}

class AttentionOverlap : public LaunchChain, public ::testing::WithParamInterface<Chain> {
 protected:
  AttentionOverlap() : LaunchChain(kLaunches) {}

  void SetUp() override {
    LaunchChain::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    if (bench().device.sm_arch != 90) {
      GTEST_SKIP() << "the Hopper family runs on sm_90 alone";
    }
    load(bench().generator);
    for (DeviceBuffer& tensor : tensors_) {
      tensor = DeviceBuffer(kRows * kHeadDim * 2);
    }
    lse_ = DeviceBuffer(kRows * 4);
    partials_ = DeviceBuffer(16U << 20);
    arrivals_ = DeviceBuffer(1U << 16);
    tile_counter_ = DeviceBuffer(8);
  }

  /// The kernels of the chain as this generator compiles them.
  void load(const Generator& generator) {
    kernels_.clear();
    for (const auto& [problem, variant] : GetParam().links) {
      const DeviceInfo& device = bench().device;
      const CompiledKernel compiled = generator.compile(problem, variant, device.sm_arch);
      ASSERT_TRUE(compiled.may_overlap);
      const int resident = occupancy(compiled.resources, problem, variant, device).ctas_per_sm;
      AttentionLaunchPlan plan = launch_plan(problem, variant, device.sm_count, resident);
      plan.ctas_per_sm = 1;  // Launches of so few CTAs would not overlap, for speed alone.
      kernels_.push_back(std::make_unique<AttentionKernel>(compiled, plan));
    }
  }

  void reset() override {
    const Stream& stream = bench().stream;
    unsigned long long seed = 1;
    for (const DeviceBuffer& tensor : tensors_) {
      bench().kernels.random_fill.launch({.grid_x = 256, .block_x = 256}, stream,
                                         pointer<void>(tensor), contiguous(1, kRows), 1, 1, kRows,
                                         kHeadDim, static_cast<int>(DType::bf16), seed++);
    }
    for (const DeviceBuffer* zeros : {&lse_, &arrivals_, &tile_counter_}) {
      zeros->fill(0, stream);
    }
    stream.synchronize();
  }

  /// What one launch writes is V of the next one, K of the one after that, then Q, then it is
  /// written again.
  void launch(int index, LaunchOverlap overlap) override {
    const auto turn = static_cast<std::size_t>(index) % kernels_.size();
    const auto tensor = [&](int place) {
      return pointer<void>(tensors_.at(static_cast<std::size_t>(index + place) % tensors_.size()));
    };
    const AttentionProblem& problem = GetParam().links[turn].problem;
    AttentionParams params;
    params.q = tensor(0);
    params.k = tensor(1);
    params.v = tensor(2);
    params.o = tensor(3);
    params.lse = pointer<float>(lse_);
    params.q_strides = params.o_strides = contiguous(problem.heads_q, problem.seq_q);
    params.k_strides = params.v_strides = contiguous(problem.heads_kv, problem.seq_kv);
    params.batch = problem.batch;
    params.heads_q = problem.heads_q;
    params.heads_kv = problem.heads_kv;
    params.seq_q = problem.seq_q;
    params.seq_kv = problem.seq_kv;
    // Few keys count, so that the rows of a long chain do not become their mean.
    params.scale_log2 = 0.5F * std::numbers::log2e_v<float>;
    params.partials = pointer<float>(partials_);
    params.arrivals = pointer<unsigned>(arrivals_);
    params.tile_counter = pointer<unsigned>(tile_counter_);
    kernels_[turn]->launch(params, bench().stream.handle(), overlap);
  }

  std::vector<const DeviceBuffer*> results() const override {
    return {&tensors_[0], &tensors_[1], &tensors_[2], &tensors_[3], &lse_};
  }

 private:
  std::vector<std::unique_ptr<AttentionKernel>> kernels_;
  std::array<DeviceBuffer, 4> tensors_;
  DeviceBuffer lse_;
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
  DeviceBuffer tile_counter_;
};

TEST_P(AttentionOverlap, ChainsGiveWhatSingleLaunchesGive) {
  expect_overlapping_launches_give_the_same();
}

TEST_P(AttentionOverlap, CapturedChainsGiveWhatSingleLaunchesGive) {
  expect_captured_launches_give_the_same();
}

/// What the tests above rest on: they see a launch that does not wait.
TEST_P(AttentionOverlap, ChainsWithoutWaitsDiffer) {
  const Bytes expected = one_at_a_time();
  std::string text = bench().generator.template_text("common/ptx.cuh");
  const std::string wait = "griddepcontrol.wait;";
  ASSERT_NE(text.find(wait), std::string::npos);
  // Where the wait was the launch after may start, so that much of it meets this one.
  text.replace(text.find(wait), wait.size(), "griddepcontrol.launch_dependents;");
  const TempDirectory overlay;
  overlay.write("common/ptx.cuh", text);
  load(Generator({.template_overlay = overlay.path()}));
  ASSERT_TRUE(one_at_a_time() == expected);
  constexpr int kMostRepeats = 300;  // Which launches meet is left to the GPU.
  bool differs = false;
  for (int repeat = 0; repeat < kMostRepeats && !differs; ++repeat) {
    differs = overlapping() != expected;
  }
  EXPECT_TRUE(differs);
}

INSTANTIATE_TEST_SUITE_P(Chains, AttentionOverlap, ::testing::ValuesIn(chains()),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace swr
