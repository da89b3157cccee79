// SPDX-License-Identifier: MIT
// Launches of GEMM that may start while the one before ends: every launch reads what the one before
// wrote, and writes what it read.
#include "operations/gemm/buffers.h"
#include "operations/gemm/config.h"
#include "operations/gemm/kernel.h"
#include "tests/gpu/launch_chain.h"
#include "tests/support/gemm_configs.h"
#include <swr/attention_params.h>
#include <swr/gemm_problem.h>

namespace swr {
namespace {

/// Square, so that C of one launch is A of the next.
constexpr int kRows = 392;
constexpr int kColumns = 512;
constexpr int kLaunches = 60;

struct Link {
  GemmKernel::Config config;
  int splits = 1;
};

struct Chain {
  std::string name;
  std::vector<Link> links;  ///< Taken in turn.
};

[[maybe_unused]] void PrintTo(const Chain& chain, std::ostream* stream) { *stream << chain.name; }

HopperGemmConfig hopper(int tile_m, int tile_n, GemmMainloop mainloop, int consumers) {
  HopperGemmConfig config = test::hopper_gemm(tile_m, tile_n, consumers, mainloop);
  config.reads_c = true;
  return config;
}

Link plain() { return {hopper(64, 64, GemmMainloop::cooperative, 1)}; }

Link clustered() {
  HopperGemmConfig config = hopper(64, 128, GemmMainloop::pingpong, 2);
  config.cluster_n = 2;
  return {config};
}

/// Two CTAs of successive launches fit an SM side by side.
Link grid() {
  HopperGemmConfig config = hopper(64, 32, GemmMainloop::cooperative, 1);
  config.persistence = Persistence::grid;
  return {config};
}

Link split() {
  HopperGemmConfig config = hopper(128, 64, GemmMainloop::cooperative, 2);
  config.split_k = true;
  return {config, 3};
}

Link along_k() {
  HopperGemmConfig config = hopper(64, 48, GemmMainloop::cooperative, 1);
  config.persistence = Persistence::grid;
  config.cluster_k = 3;
  return {config};
}

Link portable() {
  PortableGemmConfig config = test::portable_gemm(64, 64, 2, 2);
  config.reads_c = true;
  return {config};
}

std::vector<Chain> chains() {
  return {{"plain", {plain()}},
          {"cluster", {clustered()}},
          {"grid", {grid()}},
          {"split", {split()}},
          {"along_k", {along_k()}},
          {"all_in_turn",
           {plain(), split(), portable(), grid(), clustered(), along_k(), portable(), split()}}};
}

class GemmOverlap : public LaunchChain, public ::testing::WithParamInterface<Chain> {
 protected:
  GemmOverlap() : LaunchChain(kLaunches) {}

  void SetUp() override {
    LaunchChain::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    if (bench().device.sm_arch != 90) {
      GTEST_SKIP() << "the family runs on sm_90 alone";
    }
    for (const Link& link : GetParam().links) {
      const CompiledKernel compiled = std::visit(
          [](const auto& one) {
            return bench().generator.compile_configured(gemm_operation(), family_of(one),
                                                        config_header(one), bench().device.sm_arch);
          },
          link.config);
      kernels_.push_back(
          std::make_unique<GemmKernel>(compiled, link.config, bench().device.sm_count));
    }
    for (DeviceBuffer& matrix : matrices_) {
      matrix = DeviceBuffer(kRows * kColumns * 2);
    }
    weights_ = DeviceBuffer(kColumns * kColumns * 2);
    partials_ = DeviceBuffer(16U << 20);
    arrivals_ = DeviceBuffer(1U << 16);
    arrivals_.fill(0, bench().stream);
  }

  void reset() override {
    const Stream& stream = bench().stream;
    unsigned long long seed = 1;
    for (const auto& [memory, rows] :
         {std::pair{&matrices_[0], kRows}, {&matrices_[1], kRows}, {&weights_, kColumns}}) {
      bench().gemm_kernels().random_fill.launch({.grid_x = 256, .block_x = 256}, stream,
                                                pointer<void>(*memory),
                                                TensorStrides{.seq = kColumns}, 1, 1, rows,
                                                kColumns, static_cast<int>(DType::bf16), seed++);
    }
    stream.synchronize();
  }

  /// C = A B + C / 2 with products scaled to the size of their terms: what the launch before last
  /// left in C is read too.
  void launch(int index, LaunchOverlap overlap) override {
    const std::size_t turn = static_cast<std::size_t>(index) % kernels_.size();
    GemmParams params;
    params.a = pointer<void>(matrices_.at(static_cast<std::size_t>(index) % 2));
    params.b = pointer<void>(weights_);
    params.c = pointer<void>(matrices_.at(static_cast<std::size_t>(index + 1) % 2));
    params.a_strides.row = kColumns;
    params.b_strides.row = kColumns;
    params.c_strides.row = kColumns;
    params.m = kRows;
    params.n = kColumns;
    params.k = kColumns;
    params.alpha = 0.8F / std::sqrt(static_cast<float>(kColumns));
    params.beta = 0.5F;
    params.splits = GetParam().links[turn].splits;
    params.partials = pointer<float>(partials_);
    params.arrivals = pointer<unsigned>(arrivals_);
    kernels_[turn]->launch(params, bench().stream.handle(), overlap);
  }

  std::vector<const DeviceBuffer*> results() const override {
    return {&matrices_[0], &matrices_[1]};
  }

 private:
  std::vector<std::unique_ptr<GemmKernel>> kernels_;
  std::array<DeviceBuffer, 2> matrices_;
  DeviceBuffer weights_;
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
};

TEST_P(GemmOverlap, ChainsGiveWhatSingleLaunchesGive) {
  expect_overlapping_launches_give_the_same();
}

TEST_P(GemmOverlap, CapturedChainsGiveWhatSingleLaunchesGive) {
  expect_captured_launches_give_the_same();
}

INSTANTIATE_TEST_SUITE_P(Chains, GemmOverlap, ::testing::ValuesIn(chains()),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace swr
