// SPDX-License-Identifier: MIT
// The portable GEMM kernel with FP8 operands, scales, biases, activations and gates, run on the CPU
// against fp64.
#include "gemm/portable/kernel.cuh"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"
#include "tests/support/with.h"

namespace swr {
namespace {

using Config = PortableGemmConfig;

constexpr PortableGemmConfig kFp8{.dtype = DType::e4m3,
                                  .output = OutputType::fp32,
                                  .layout = GemmLayout::nt,
                                  .reads_c = false,
                                  .alignment_bytes = 16,
                                  .tile_m = 32,
                                  .tile_n = 64,
                                  .tile_k = 64,
                                  .warps_m = 1,
                                  .warps_n = 2,
                                  .stages = 2,
                                  .persistence = Persistence::grid,
                                  .k_order = Order::cyclic,
                                  .split_k = false};

struct FusedSize {
  int m;
  int n;
  int k;
};

int blocks_of(int elements) { return ceil_div(elements, kScaleBlock); }

/// A launch on random data. Whatever nobody may read is NaN. Of groups there are two: contiguous
/// ones share the m rows, the second of masked ones has all but the last five of its own.
template <PortableGemmConfig C>
class FusedProduct {
 public:
  explicit FusedProduct(const FusedSize& size)
      : size_(size), columns_(C.gated ? 2 * size.n : size.n) {
    row_bytes_ = ceil_div(size.k * C.element_bytes(), 16) * 16 + 16;
    fill(a_, rows());
    fill(b_, kItems * columns_);
    const bool by_block = C.scaling == Scaling::block;
    padded_m_ = ceil_div(size.m, 4) * 4;
    a_scales_ = scales(by_block ? kMatrices * blocks_of(size.k) * padded_m_ : rows());
    b_scales_ = scales(kItems * (by_block ? blocks_of(columns_) * blocks_of(size.k) : columns_));
    // A line more than there is, which nobody may write.
    c_scales_.assign(static_cast<std::size_t>((blocks_of(size.n) + 1) * padded_m_), kUnscaled);
    bias_.resize(static_cast<std::size_t>(columns_));
    addend_.resize(static_cast<std::size_t>(rows() * (size.n + 16)));
    for (auto* values : {&bias_, &addend_}) {
      for (float& value : *values) {
        value = normal_(random_);
      }
    }
  }

  /// Largest error, relative to the largest element, of C against fp64.
  double error(int splits = 1) {
    std::vector<unsigned char> c(static_cast<std::size_t>(rows() * c_row() * C.output_bytes()),
                                 0xff);
    GemmParams params{.a = a_.data(), .b = b_.data(), .c = c.data()};
    params.a_strides.row = params.b_strides.row = row_bytes_ / C.element_bytes();
    params.c_strides.row = c_row();
    params.a_strides.batch = size_.m * params.a_strides.row;
    params.b_strides.batch = columns_ * params.b_strides.row;
    params.c_strides.batch = size_.m * params.c_strides.row;
    params.batch = kItems;
    std::vector<int> groups{size_.m, size_.m - kUnowned};
    if (C.groups == GemmGroups::contiguous) {
      groups.resize(static_cast<std::size_t>(size_.m));
      std::ranges::generate(groups, [&, row = 0]() mutable { return item_of(row++); });
    }
    params.groups = groups.data();
    params.m = size_.m;
    params.n = size_.n;
    params.k = size_.k;
    params.alpha = kAlpha;
    params.beta = C.reads_c ? kBeta : 0.0F;
    params.splits = splits;
    std::vector<unsigned short> bf16_bias;  // What a C of FP8 takes.
    for (float& value : bias_) {
      const unsigned bits = ptx::encode<DType::bf16>(value);
      value = C.output == OutputType::fp8 ? ptx::decode<DType::bf16>(bits) : value;
      bf16_bias.push_back(static_cast<unsigned short>(bits));
    }
    GemmExtras extras{
        .a_scales = a_scales_.data(),
        .b_scales = b_scales_.data(),
        .a_scale_stride = padded_m_,
        .b_scale_stride = blocks_of(size_.k),
        .bias = C.output == OutputType::fp8 ? static_cast<void*>(bf16_bias.data()) : bias_.data(),
        .addend = addend_.data(),
        .c_scales = c_scales_.data(),
        .c_scale_stride = padded_m_};
    const GemmSchedule schedule = C.schedule(params);
    std::vector<float> partials(static_cast<std::size_t>(C.partials_bytes(params) / 4));
    std::vector<unsigned> arrivals(static_cast<std::size_t>(C.arrival_words(params)));
    params.partials = partials.data();
    params.arrivals = arrivals.data();
    emulation::run({.grid = static_cast<unsigned>(schedule.clusters(3)),
                    .threads = C.threads(),
                    .smem_bytes = C.smem_bytes()},
                   [&] { portable::run<C>(params, extras, 0); });
    for (std::size_t i = c_scales_.size() - static_cast<std::size_t>(padded_m_);
         i < c_scales_.size(); ++i) {
      EXPECT_EQ(c_scales_[i], kUnscaled) << "behind the scales of C";
    }
    double worst = 0.0;
    double largest = 0.0;
    for (int m = 0; m < rows(); ++m) {
      for (int n = 0; n < c_row(); ++n) {
        const std::size_t place = static_cast<std::size_t>(m * c_row() + n);
        if (n >= size_.n || (kMatrices > 1 && m >= rows() - kUnowned)) {
          EXPECT_EQ(c[place * static_cast<std::size_t>(C.output_bytes())], 0xff) << "beside C";
          continue;
        }
        const double wanted = expected(m, n);
        const double off = std::fabs(element(c.data(), place, m, n) - wanted);
        worst = off <= worst ? worst : off;  // NaN stays.
        if (std::isnan(worst)) {
          return worst;
        }
        largest = std::max(largest, std::fabs(wanted));
      }
    }
    return worst / largest;
  }

 private:
  static constexpr float kAlpha = 0.5F;
  static constexpr float kBeta = 2.0F;
  static constexpr float kUnscaled = 0.25F;
  static constexpr int kItems = C.is_grouped() ? 2 : 1;
  static constexpr int kMatrices = C.groups == GemmGroups::masked ? 2 : 1;
  static constexpr int kUnowned = 5;

  /// Of all matrices of A.
  int rows() const { return kMatrices * size_.m; }
  int item_of(int row) const {
    return C.groups == GemmGroups::contiguous ? row / kContiguousRows : row / size_.m;
  }
  int c_row() const { return size_.n + 16; }

  void fill(std::vector<unsigned char>& matrix, int rows) {
    matrix.assign(static_cast<std::size_t>(rows * row_bytes_), 0xff);
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < size_.k; ++k) {
        const float value = normal_(random_);
        unsigned char* const target = matrix.data() + row * row_bytes_ + k * C.element_bytes();
        if constexpr (is_fp8(C.dtype)) {
          const unsigned bits = ptx::encode_e4m3(value);
          // Patterns of e4m3 without the exponents that e5m2 has for infinities.
          *target = static_cast<unsigned char>(C.dtype == DType::e4m3 ? bits : bits & 0xbfU);
        } else {
          const auto bits = static_cast<unsigned short>(ptx::encode<C.dtype>(value));
          std::memcpy(target, &bits, sizeof bits);
        }
      }
    }
  }

  std::vector<float> scales(int count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = std::exp2(normal_(random_));
    }
    return values;
  }

  double input(const std::vector<unsigned char>& matrix, int row, int k) const {
    const unsigned char* const at = matrix.data() + row * row_bytes_ + k * C.element_bytes();
    if constexpr (is_fp8(C.dtype)) {
      return ptx::decode_fp8(*at, C.dtype);
    } else {
      unsigned short bits = 0;
      std::memcpy(&bits, at, sizeof bits);
      return ptx::decode<C.dtype>(bits);
    }
  }

  double scale(int m, int column, int k) const {
    const auto at = [](const std::vector<float>& values, int i) {
      return static_cast<double>(values[static_cast<std::size_t>(i)]);
    };
    switch (C.scaling) {
      case Scaling::none:
        return 1.0;
      case Scaling::tensor:
        return at(a_scales_, 0) * at(b_scales_, 0);
      case Scaling::row:
        return at(a_scales_, m) * at(b_scales_, item_of(m) * columns_ + column);
      case Scaling::block: {
        const int blocks = blocks_of(size_.k);
        const int line = m / size_.m * blocks + k / kScaleBlock;
        const int column_block = item_of(m) * blocks_of(columns_) + column / kScaleBlock;
        return at(a_scales_, line * padded_m_ + m % size_.m) *
               at(b_scales_, column_block * blocks + k / kScaleBlock);
      }
    }
    return 0.0;
  }

  double product(int m, int column) const {
    double sum = 0.0;
    for (int k = 0; k < size_.k; ++k) {
      sum += scale(m, column, k) * input(a_, m, k) * input(b_, item_of(m) * columns_ + column, k);
    }
    return kAlpha * sum + (C.has_bias ? bias_[static_cast<std::size_t>(column)] : 0.0F);
  }

  static double activated(double x) {
    switch (C.activation) {
      case Activation::none:
        return x;
      case Activation::gelu:
        return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::gelu_tanh:
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      case Activation::silu:
        return x / (1 + std::exp(-x));
    }
    return 0.0;
  }

  double expected(int m, int n) const {
    double value = activated(product(m, n));
    if (C.gated) {
      value *= product(m, size_.n + n);
    }
    // The addend lies as C does.
    return C.reads_c ? value + kBeta * addend_[static_cast<std::size_t>(m * c_row() + n)] : value;
  }

  double element(const unsigned char* c, std::size_t place, int m, int n) const {
    if constexpr (C.output == OutputType::fp8) {
      const float scale =
          C.output_scaling == Scaling::tensor
              ? 1.0F / c_scales_[0]
              : c_scales_[static_cast<std::size_t>(n / kScaleBlock * padded_m_ + m)];
      return scale * ptx::decode_fp8(c[place], DType::e4m3);
    } else {
      float value = 0.0F;
      std::memcpy(&value, c + 4 * place, sizeof value);
      return value;
    }
  }

  FusedSize size_;
  int columns_;
  int row_bytes_ = 0;
  int padded_m_ = 0;
  std::mt19937 random_{11};
  std::normal_distribution<float> normal_;
  std::vector<unsigned char> a_;
  std::vector<unsigned char> b_;
  std::vector<float> a_scales_;
  std::vector<float> b_scales_;
  std::vector<float> c_scales_;
  std::vector<float> bias_;
  std::vector<float> addend_;
};

constexpr double kFp32Error = 2e-6;
constexpr FusedSize kFusedRagged{.m = 45, .n = 77, .k = 300};

constexpr PortableGemmConfig scaled(Scaling scaling, int promote_every, DType dtype = DType::e4m3) {
  return with(kFp8, &Config::dtype, dtype, &Config::scaling, scaling, &Config::promote_every,
              promote_every, &Config::tile_k, scaling == Scaling::block ? kScaleBlock : 64);
}

TEST(EmulatedFusedGemm, ScalesOfEveryRecipe) {
  EXPECT_LT(FusedProduct<scaled(Scaling::none, 0)>(kFusedRagged).error(), kFp32Error);
  EXPECT_LT(FusedProduct<scaled(Scaling::tensor, 0)>(kFusedRagged).error(), kFp32Error);
  EXPECT_LT((FusedProduct<scaled(Scaling::row, 128, DType::e5m2)>(kFusedRagged).error()),
            kFp32Error);
  EXPECT_LT((FusedProduct<scaled(Scaling::row, 256)>(kFusedRagged).error()), kFp32Error);
  EXPECT_LT((FusedProduct<scaled(Scaling::block, 128)>(kFusedRagged).error()), kFp32Error);
  EXPECT_LT((FusedProduct<scaled(Scaling::block, 128)>({.m = 1, .n = 200, .k = 128}).error()),
            kFp32Error);
  EXPECT_LT((FusedProduct<scaled(Scaling::block, 128)>({.m = 33, .n = 129, .k = 16}).error()),
            kFp32Error);
}

constexpr PortableGemmConfig wide_blocks(int tile_n) {
  return with(scaled(Scaling::block, 128), &Config::tile_n, tile_n, &Config::warps_n, 1);
}

TEST(EmulatedFusedGemm, BlocksOfBAreScaledWhereverTilesBegin) {
  constexpr FusedSize kSeveralTiles{.m = 33, .n = 600, .k = 300};
  EXPECT_LT(FusedProduct<wide_blocks(48)>(kSeveralTiles).error(), kFp32Error);
  EXPECT_LT(FusedProduct<wide_blocks(128)>(kSeveralTiles).error(), kFp32Error);
  EXPECT_LT(FusedProduct<wide_blocks(176)>(kSeveralTiles).error(), kFp32Error);
}

constexpr PortableGemmConfig in_groups(GemmGroups groups, Scaling scaling) {
  return with(scaled(scaling, 128), &Config::groups, groups, &Config::persistence,
              Persistence::persistent, &Config::k_order, Order::sawtooth);
}

TEST(EmulatedFusedGemm, GroupsHaveScalesOfTheirOwn) {
  constexpr FusedSize kTwoRuns{.m = 200, .n = 150, .k = 300};
  constexpr auto kContiguous = GemmGroups::contiguous;
  constexpr auto kMasked = GemmGroups::masked;
  EXPECT_LT((FusedProduct<in_groups(kContiguous, Scaling::row)>(kTwoRuns).error()), kFp32Error);
  EXPECT_LT((FusedProduct<in_groups(kContiguous, Scaling::block)>(kTwoRuns).error()), kFp32Error);
  EXPECT_LT((FusedProduct<in_groups(kMasked, Scaling::row)>(kFusedRagged).error()), kFp32Error);
  EXPECT_LT((FusedProduct<in_groups(kMasked, Scaling::block)>(kFusedRagged).error()), kFp32Error);
  constexpr auto kGated = [] {
    return with(in_groups(GemmGroups::contiguous, Scaling::row), &Config::activation,
                Activation::silu, &Config::gated, true);
  }();
  EXPECT_LT(FusedProduct<kGated>(kTwoRuns).error(), kFp32Error);
}

constexpr PortableGemmConfig in_pieces() {
  return with(scaled(Scaling::block, 128), &Config::split_k, true, &Config::has_bias, true,
              &Config::activation, Activation::silu, &Config::persistence, Persistence::persistent,
              &Config::k_order, Order::sawtooth);
}

TEST(EmulatedFusedGemm, SplitsAreScaledByTheirOwnBlocksAndFinishedOnce) {
  for (const int splits : {1, 2, 3}) {
    EXPECT_LT(FusedProduct<in_pieces()>(kFusedRagged).error(splits), kFp32Error);
  }
}

constexpr PortableGemmConfig fused(Activation activation, bool gated, bool reads_c,
                                   DType dtype = DType::bf16) {
  PortableGemmConfig config = kFp8;
  config.dtype = dtype;
  config.tile_k = 64 / config.element_bytes();
  config.has_bias = true;
  config.activation = activation;
  config.gated = gated;
  config.reads_c = reads_c;
  return config;
}

TEST(EmulatedFusedGemm, BiasActivationGateAndAddend) {
  EXPECT_LT((FusedProduct<fused(Activation::none, false, true)>(kFusedRagged).error()), kFp32Error);
  EXPECT_LT((FusedProduct<fused(Activation::gelu, false, false)>(kFusedRagged).error()),
            kFp32Error);
  EXPECT_LT((FusedProduct<fused(Activation::gelu_tanh, false, true)>(kFusedRagged).error()),
            kFp32Error);
  EXPECT_LT((FusedProduct<fused(Activation::silu, true, false)>(kFusedRagged).error()), kFp32Error);
  EXPECT_LT((FusedProduct<fused(Activation::silu, true, true, DType::e4m3)>(kFusedRagged).error()),
            kFp32Error);
  EXPECT_LT(
      (FusedProduct<fused(Activation::gelu, true, false, DType::fp16)>({.m = 3, .n = 129, .k = 40})
           .error()),
      kFp32Error);
}

constexpr PortableGemmConfig to_fp8(Scaling output_scaling, bool gated) {
  return with(kFp8, &Config::output, OutputType::fp8, &Config::output_scaling, output_scaling,
              &Config::gated, gated, &Config::has_bias, true, &Config::tile_n, gated ? 256 : 128,
              &Config::tile_m, 32, &Config::warps_m, 2, &Config::warps_n, 1);
}

TEST(EmulatedFusedGemm, OutputOfFp8IsScaledByTensorOrBlock) {
  constexpr double kRounding = 0x1p-4;  // Of the largest element, and so of every other.
  EXPECT_LT((FusedProduct<to_fp8(Scaling::tensor, false)>({.m = 40, .n = 76, .k = 100}).error()),
            kRounding);
  EXPECT_LT((FusedProduct<to_fp8(Scaling::block, false)>({.m = 40, .n = 256, .k = 100}).error()),
            kRounding);
  constexpr auto kTwoBlocks = [] {
    return with(to_fp8(Scaling::block, false), &Config::tile_n, 256, &Config::warps_n, 2);
  }();
  EXPECT_LT((FusedProduct<kTwoBlocks>({.m = 40, .n = 128, .k = 100}).error()), kRounding);
  EXPECT_LT((FusedProduct<to_fp8(Scaling::block, true)>({.m = 40, .n = 128, .k = 100}).error()),
            kRounding);
}

}  // namespace
}  // namespace swr
