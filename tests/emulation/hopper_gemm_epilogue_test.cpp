// SPDX-License-Identifier: MIT
// From the sums of the Hopper GEMM to C, template and all, run on the CPU: rows that begin
// anywhere, panels and tiles that reach or lie past the end of C, an addend, a bias, a gate, every
// type. Small integers, so that results are exact.
#include "gemm/hopper/epilogue.cuh"
#include "tests/emulation/simt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace swr::hopper {
namespace {

constexpr HopperGemmConfig kBase{.dtype = DType::bf16,
                                 .output = OutputType::bf16,
                                 .layout = GemmLayout::nt,
                                 .reads_c = false,
                                 .tile_m = 128,
                                 .tile_n = 152,
                                 .tile_k = 64,
                                 .stages = 2,
                                 .mainloop = GemmMainloop::cooperative,
                                 .consumers = 2,
                                 .cluster_m = 1,
                                 .cluster_n = 1,
                                 .cluster_k = 1,
                                 .persistence = Persistence::grid,
                                 .k_order = Order::cyclic,
                                 .split_k = false,
                                 .alignment_bytes = 2};

struct Size {
  int m;
  int n;
  int batch = 1;
};

constexpr float kBeta = 2.0F;

// What the tests put in.
float sum_at(int item, int row, int column) {
  return static_cast<float>((3 * row + 5 * column + item) % 17 - 8);
}
float bias_at(int column) { return static_cast<float>(column % 5); }
float added_at(int row, int column) { return static_cast<float>((row + column) % 3); }

template <OutputType Type>
auto bits_of_output(float value) {
  if constexpr (Type == OutputType::fp32) {
    return std::bit_cast<std::uint32_t>(value);
  } else {
    return bits_of(value, Type == OutputType::fp16 ? DType::fp16 : DType::bf16);
  }
}

/// C, and what its kernels write.
template <HopperGemmConfig C>
class Epilogue {
 public:
  /// The first element lies `skipped` units of alignment behind a multiple of 16 bytes, rows one
  /// unit further apart than they must.
  Epilogue(const Size& size, int skipped) : size_(size), offset_(8 + skipped * kUnit) {
    stride_ = (size.n + kUnit - 1) / kUnit * kUnit + kUnit;
    constexpr int kBehind = 256;  // What a tile may reach past the last row.
    memory_.resize(static_cast<std::size_t>(offset_ + size.batch * size.m * stride_ + kBehind),
                   kPoison);
    bias_.resize(static_cast<std::size_t>(C.gated ? 2 * size.n : size.n));
    for (std::size_t i = 0; i < bias_.size(); ++i) {
      bias_[i] = bits_of_output<C.output>(bias_at(static_cast<int>(i)));
    }
    for_each_element([&](int /*item*/, int row, int column, Element& element) {
      element = C.reads_c ? bits_of_output<C.output>(added_at(row, column)) : kPoison;
    });
    mapped_ = {.base = memory_.data() + offset_,
               .sizes = {size.n, size.m, size.batch, 1},
               .strides = {1, stride_, static_cast<long long>(size.m) * stride_, 0},
               .box = C.c_box()};
  }

  void expect_exact(emulation::CopyTime copies) {
    emulation::run({.threads = C.threads(), .smem_bytes = C.smem_bytes(), .copies = copies},
                   [&] { write_all_tiles(); });
    std::size_t wrong = 0;
    std::size_t written = 0;
    for_each_element([&](int item, int row, int column, Element& element) {
      wrong += element != bits_of_output<C.output>(expected(item, row, column)) ? 1 : 0;
      ++written;
      element = kPoison;
    });
    EXPECT_EQ(wrong, 0U) << "of " << written << " of " << size_.m << "x" << size_.n;
    EXPECT_TRUE(std::ranges::all_of(memory_, [](Element element) { return element == kPoison; }))
        << "written beside C, " << size_.m << "x" << size_.n;
  }

 private:
  using Element = decltype(bits_of_output<C.output>(0.0F));
  static constexpr Element kPoison = static_cast<Element>(~Element{0});
  static constexpr int kUnit = C.alignment_bytes / C.output_bytes();

  template <typename Use>
  void for_each_element(const Use& use) {
    for (int item = 0; item < size_.batch; ++item) {
      for (int row = 0; row < size_.m; ++row) {
        for (int column = 0; column < size_.n; ++column) {
          use(item, row, column,
              memory_[static_cast<std::size_t>(offset_ + (item * size_.m + row) * stride_ +
                                               column)]);
        }
      }
    }
  }

  float expected(int item, int row, int column) const {
    const auto product = [&](int of_product) {
      return sum_at(item, row, of_product) + (C.has_bias ? bias_at(of_product) : 0.0F);
    };
    const float value = product(column) * (C.gated ? product(size_.n + column) : 1.0F);
    return C.reads_c ? value + kBeta * added_at(row, column) : value;
  }

  GemmParams params() {
    return GemmParams{.c = memory_.data() + offset_,
                      .c_strides = {static_cast<long long>(size_.m) * stride_, stride_},
                      .m = size_.m,
                      .n = size_.n,
                      .batch = size_.batch,
                      .beta = C.reads_c ? kBeta : 0.0F};
  }

  /// A thread's share of all tiles.
  void write_all_tiles() {
    const int consumer = static_cast<int>(threadIdx.x) / C.kWarpgroup - 1;
    if (consumer < 0) {
      return;
    }
    const GemmParams given = params();
    GemmExtras extras{.bias = bias_.data()};
    int slot = 0;
    for (int item = 0; item < size_.batch; ++item) {
      for (int m = 0; m < size_.m; m += C.tile_m) {
        for (int n = 0; n < size_.n; n += C.c_columns()) {
          const GemmJob job{.steps = 1, .m = m, .n = n, .batch = item, .split = 0, .tile_index = 0};
          write_tile(given, extras, job, consumer * C.consumer_rows(), slot);
        }
      }
    }
    ptx::cp_async_bulk_wait_group_read();
  }

  void write_tile(const GemmParams& params, const GemmExtras& extras, const GemmJob& job,
                  int first_row, int& slot) {
    const GemmMemory<C> smem{0};
    GemmSums<C> sums;
    for (int i = 0; i < C.m_blocks() * C.tile_n / 2; ++i) {
      const int of_block = i % (C.tile_n / 2);
      const int row = job.m + first_row + 64 * (i / (C.tile_n / 2)) + warp_row() + lane_row() +
                      of_block / 2 % 2 * 8;
      const int column = of_block / 4 * 8 + lane_column() + of_block % 2;
      const bool is_up = C.gated && column >= C.c_columns();
      sums[i / (C.tile_n / 2)][of_block] =
          sum_at(job.batch, row, job.n + column + (is_up ? params.n - C.c_columns() : 0));
    }
    int requested = 0;
    if constexpr (kAddsEarly<C>) {  // One among the products, the others before C is written.
      request_addends<C>(smem, params, extras, job, job.m + first_row + warp_row(), slot, requested,
                         1);
    }
    scale_sums<C>(sums, params, extras, job, first_row);
    store_sums<C>(sums, smem, params, extras, ptx::map_of(mapped_), job, first_row, slot,
                  requested);
  }

  Size size_;
  int offset_;
  int stride_ = 0;
  std::vector<Element> memory_;
  std::vector<Element> bias_;
  ptx::MappedTensor mapped_;  ///< For the copy engine, which writes elements of two bytes here.
};

/// Whole tiles, parts of them, and widths whose last panels lie past the last column.
template <HopperGemmConfig C>
void expect_exact() {
  for (const Size& size : {Size{1, 1}, Size{17, 63, 2}, Size{130, 8}, Size{70, 153},
                           Size{64, 2 * C.c_columns()}, Size{5, C.c_columns() + 65}}) {
    constexpr int kColumns = C.alignment_bytes / C.output_bytes();
    const Size fitting{size.m, (size.n + kColumns - 1) / kColumns * kColumns, size.batch};
    for (const int skipped : {0, 1}) {
      for (const emulation::CopyTime copies :
           {emulation::CopyTime::early, emulation::CopyTime::late}) {
        Epilogue<C>(fitting, skipped).expect_exact(copies);
      }
    }
  }
}

constexpr HopperGemmConfig with(OutputType output, int alignment_bytes, bool reads_c = false) {
  HopperGemmConfig config = kBase;
  config.output = output;
  config.alignment_bytes = alignment_bytes;
  config.reads_c = reads_c;
  return config;
}

TEST(EmulatedHopperGemmEpilogue, WritesRowsThatBeginAnywhere) {
  expect_exact<with(OutputType::bf16, 16)>();
  expect_exact<with(OutputType::bf16, 2)>();
  expect_exact<with(OutputType::fp16, 2)>();
  expect_exact<with(OutputType::bf16, 4)>();
  expect_exact<with(OutputType::bf16, 8)>();
  expect_exact<with(OutputType::fp32, 4)>();
  expect_exact<with(OutputType::fp32, 8)>();
}

TEST(EmulatedHopperGemmEpilogue, WritesNoMoreOfEveryWidthOfTile) {
  constexpr auto kOf = [](int tile_m, int tile_n, GemmMainloop mainloop) {
    HopperGemmConfig config = kBase;
    config.tile_m = tile_m;
    config.tile_n = tile_n;
    config.mainloop = mainloop;
    return config;
  };
  expect_exact<kOf(128, 16, GemmMainloop::cooperative)>();
  expect_exact<kOf(128, 48, GemmMainloop::cooperative)>();
  expect_exact<kOf(256, 64, GemmMainloop::cooperative)>();
  expect_exact<kOf(128, 256, GemmMainloop::cooperative)>();
}

/// 152 columns are panels that overlap by 24.
TEST(EmulatedHopperGemmEpilogue, AddsWhatLiesAnywhereOnce) {
  expect_exact<with(OutputType::bf16, 16, true)>();
  expect_exact<with(OutputType::bf16, 2, true)>();
  expect_exact<with(OutputType::fp16, 4, true)>();
  expect_exact<with(OutputType::fp32, 4, true)>();
}

/// Two blocks of rows of three panels, through two and four slots.
TEST(EmulatedHopperGemmEpilogue, SlotsOfAddendsAreRefilledAcrossBlocks) {
  constexpr auto kOf = [](int stages, int alignment_bytes) {
    HopperGemmConfig config = with(OutputType::bf16, alignment_bytes, true);
    config.tile_m = 256;
    config.stages = stages;
    return config;
  };
  static_assert(kOf(4, 16).staging_slots() == 2 && kOf(3, 16).staging_slots() == 4);
  expect_exact<kOf(4, 16)>();
  expect_exact<kOf(3, 16)>();
  expect_exact<kOf(4, 2)>();
}

TEST(EmulatedHopperGemmEpilogue, ReadsABiasOfAnOddNumberOfColumns) {
  constexpr auto kBiased = [](OutputType output, bool gated) {
    HopperGemmConfig config = with(output, output_bytes(output));
    config.tile_n = 160;
    config.has_bias = true;
    config.gated = gated;
    return config;
  };
  expect_exact<kBiased(OutputType::bf16, false)>();
  expect_exact<kBiased(OutputType::fp32, false)>();
  expect_exact<kBiased(OutputType::bf16, true)>();
  expect_exact<kBiased(OutputType::fp32, true)>();
}

}  // namespace
}  // namespace swr::hopper
