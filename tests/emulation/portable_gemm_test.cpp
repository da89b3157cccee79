// SPDX-License-Identifier: MIT
// The portable GEMM kernel, template and all, run on the CPU: every layout, alignment and type,
// ragged and tiny sizes, splits and schedules, without a GPU. 0/1 data, so that results are exact.
#include "gemm/portable/kernel.cuh"
#include "operations/gemm/group_places.h"
#include "tests/emulation/simt.h"
#include "tests/support/gemm_configs.h"
#include "tests/support/test.h"
#include "tests/support/with.h"

namespace swr {
namespace {

using Config = PortableGemmConfig;
using emulation::CopyTime;
using emulation::Pace;

constexpr PortableGemmConfig kBase = test::portable_gemm(32, 32, 1, 1);

struct Size {
  int m;
  int n;
  int k;
  int batch = 1;
};

/// A matrix of a strided batch; everything outside of its rows is NaN in every type.
template <typename Element>
class Matrix {
 public:
  /// Rows lie one unit of alignment further apart than they must, and so does the first element
  /// from the next higher alignment.
  Matrix(int batch, int rows, int columns, int alignment_bytes) : rows_(rows), columns_(columns) {
    const int unit = std::max(1, alignment_bytes / static_cast<int>(sizeof(Element)));
    row_stride_ = ((columns + unit - 1) / unit + 1) * unit;
    offset_ = 64 / static_cast<int>(sizeof(Element)) + (alignment_bytes == 16 ? 0 : unit);
    memory_.resize(static_cast<std::size_t>(offset_ + batch * rows * row_stride_ + 64),
                   static_cast<Element>(~Element{0}));
    // std::vector aligns to 16 bytes.
  }

  Element& at(int item, int row, int column) {
    return memory_[static_cast<std::size_t>(offset_ + (item * rows_ + row) * row_stride_ + column)];
  }
  Element* address() { return memory_.data() + offset_; }
  MatrixStrides strides() const {
    return {.batch = static_cast<long long>(rows_) * row_stride_, .row = row_stride_};
  }
  /// Elements outside of the rows that have changed.
  std::size_t disturbed() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const int place = static_cast<int>(i) - offset_;
      const bool inside = place >= 0 && place % row_stride_ < columns_ && i + 64 < memory_.size();
      count += !inside && memory_[i] != static_cast<Element>(~Element{0}) ? 1 : 0;
    }
    return count;
  }

 private:
  int rows_;
  int columns_;
  int row_stride_;
  int offset_;
  std::vector<Element> memory_;
};

template <PortableGemmConfig C>
struct OutputElement {
  using Type = std::uint16_t;
};
template <PortableGemmConfig C>
requires(C.output == OutputType::fp32) struct OutputElement<C> {
  using Type = std::uint32_t;
};

/// What a launch can choose.
struct Launch {
  Raster raster = Raster::along_n;
  int swizzle_stride = 0;
  int splits = 1;
  int workers = 3;
  Pace pace = Pace::together;
};

template <PortableGemmConfig C>
class Product {
 public:
  /// Of groups m is what their counts make of it.
  explicit Product(const Size& size, const std::vector<int>& counts = {})
      : size_(size),
        places_(C.is_grouped() ? GroupPlaces(C.groups, counts) : every_item(size)),
        a_(places_.matrices, C.a_along_k() ? places_.rows : size.k,
           C.a_along_k() ? size.k : places_.rows, C.alignment_bytes),
        b_(size.batch, C.b_along_k() ? size.n : size.k, C.b_along_k() ? size.k : size.n,
           C.alignment_bytes),
        c_(places_.matrices, places_.rows, size.n, std::max(C.alignment_bytes, C.output_bytes())) {
    std::mt19937 random(7);
    for (int k = 0; k < size.k; ++k) {
      for (int matrix = 0; matrix < places_.matrices; ++matrix) {
        for (int m = 0; m < places_.rows; ++m) {
          a(matrix, m, k) = random() % 4 == 0 ? one() : 0;
        }
      }
      for (int item = 0; item < size.batch; ++item) {
        for (int n = 0; n < size.n; ++n) {
          b(item, k, n) = random() % 4 == 0 ? one() : 0;
        }
      }
    }
    for (int matrix = 0; C.reads_c && matrix < places_.matrices; ++matrix) {
      for (int m = 0; m < places_.rows; ++m) {
        for (int n = 0; n < size.n; ++n) {
          c_.at(matrix, m, n) = encode(static_cast<float>(random() % 2));
        }
      }
    }
  }

  /// A and B lie from now on where nobody can read.
  void forget_inputs() { alpha_ = 0.0F; }

  void expect_exact(const Launch& launch, CopyTime copies) {
    const std::vector<float> expected = reference();
    GemmParams params = make_params(launch);
    const GemmSchedule schedule = C.schedule(params);
    std::vector<float> partials(static_cast<std::size_t>(C.partials_bytes(params) / 4));
    std::vector<unsigned> arrivals(static_cast<std::size_t>(C.arrival_words(params)));
    params.partials = partials.data();
    params.arrivals = arrivals.data();
    const auto traffic =
        emulation::run({.grid = static_cast<unsigned>(schedule.clusters(launch.workers)),
                        .threads = C.threads(),
                        .smem_bytes = C.smem_bytes(),
                        .copies = copies,
                        .pace = launch.pace},
                       [&] { portable::run<C>(params, {}, 0); });
    EXPECT_EQ(traffic[emulation::Access::ldmatrix].conflicts(), 0);
    std::size_t wrong = 0;
    for (int matrix = 0; matrix < places_.matrices; ++matrix) {
      for (int m = 0; m < places_.rows; ++m) {
        for (int n = 0; n < size_.n; ++n) {
          const float value = expected[index(matrix, m, n)];
          const Output wanted = std::isnan(value) ? static_cast<Output>(~Output{0}) : encode(value);
          wrong += c_.at(matrix, m, n) != wanted && !is_padding(matrix, m) ? 1 : 0;
        }
      }
    }
    EXPECT_EQ(wrong, 0U) << size_.m << "x" << size_.n << "x" << size_.k;
    EXPECT_EQ(c_.disturbed(), 0U) << size_.m << "x" << size_.n << "x" << size_.k;
    EXPECT_TRUE(std::ranges::all_of(arrivals, [](unsigned word) { return word == 0; }));
  }

 private:
  using Output = typename OutputElement<C>::Type;
  static constexpr float kAlpha = 0.5F;
  static constexpr float kBeta = 2.0F;

  static std::uint16_t one() { return C.dtype == DType::bf16 ? 0x3f80 : 0x3c00; }
  static Output encode(float value) {
    if constexpr (C.output == OutputType::fp32) {
      Output bits;
      std::memcpy(&bits, &value, sizeof bits);
      return bits;
    } else {
      constexpr DType kType = C.output == OutputType::fp16 ? DType::fp16 : DType::bf16;
      return static_cast<Output>(ptx::encode<kType>(value));
    }
  }

  std::uint16_t& a(int item, int m, int k) {
    return C.a_along_k() ? a_.at(item, m, k) : a_.at(item, k, m);
  }
  std::uint16_t& b(int item, int k, int n) {
    return C.b_along_k() ? b_.at(item, n, k) : b_.at(item, k, n);
  }
  std::size_t index(int matrix, int m, int n) const {
    return static_cast<std::size_t>((matrix * places_.rows + m) * size_.n + n);
  }
  static GroupPlaces every_item(const Size& size) {
    GroupPlaces places(GemmProblem{.m = size.m, .batch = size.batch});
    places.parts.clear();
    for (int item = 0; item < size.batch; ++item) {
      places.parts.push_back({item, item, 0, size.m});
    }
    return places;
  }
  bool is_padding(int matrix, int m) const {
    return std::ranges::any_of(places_.padding, [&](const GroupPart& part) {
      return matrix == part.matrix && m >= part.first && m < part.first + part.rows;
    });
  }

  /// NaN where nothing is to be written.
  std::vector<float> reference() {
    std::vector<float> result(static_cast<std::size_t>(places_.matrices * places_.rows * size_.n),
                              std::nanf(""));
    for (const auto& [item, matrix, first, rows] : places_.parts) {
      for (int m = first; m < first + rows; ++m) {
        for (int n = 0; n < size_.n; ++n) {
          float sum = 0.0F;
          for (int k = 0; k < size_.k; ++k) {
            sum += a(matrix, m, k) != 0 && b(item, k, n) != 0 ? 1.0F : 0.0F;
          }
          const float old = C.reads_c && c_.at(matrix, m, n) != 0 ? kBeta : 0.0F;
          result[index(matrix, m, n)] = alpha_ * sum + old;
        }
      }
    }
    return result;
  }

  GemmParams make_params(const Launch& launch) {
    GemmParams params;
    constexpr std::uintptr_t kNowhere = 64;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const void* const nowhere = reinterpret_cast<const void*>(kNowhere);
    params.a = alpha_ == 0.0F ? nowhere : a_.address();
    params.b = alpha_ == 0.0F ? nowhere : b_.address();
    params.c = c_.address();
    params.a_strides = a_.strides();
    params.b_strides = b_.strides();
    params.c_strides = c_.strides();
    params.m = places_.rows;
    params.groups = places_.numbers.data();
    params.n = size_.n;
    params.k = size_.k;
    params.batch = size_.batch;
    params.alpha = alpha_;
    params.beta = C.reads_c ? kBeta : 0.0F;
    params.raster = launch.raster;
    params.raster_group = 2;
    params.swizzle_stride = launch.swizzle_stride;
    params.splits = launch.splits;
    return params;
  }

  Size size_;
  GroupPlaces places_;
  Matrix<std::uint16_t> a_;
  Matrix<std::uint16_t> b_;
  Matrix<Output> c_;
  float alpha_ = kAlpha;
};

constexpr Size kRagged{.m = 45, .n = 77, .k = 107, .batch = 2};

template <PortableGemmConfig C>
void expect_exact(const Size& size, const Launch& launch = {},
                  const std::vector<int>& counts = {}) {
  for (const CopyTime copies : {CopyTime::early, CopyTime::late}) {
    Product<C>(size, counts).expect_exact(launch, copies);
  }
}

constexpr PortableGemmConfig with_layout(GemmLayout layout, int alignment_bytes) {
  return with(kBase, &Config::layout, layout, &Config::alignment_bytes, alignment_bytes);
}

TEST(EmulatedPortableGemm, IsExactInEveryLayoutAndAlignment) {
  expect_exact<with_layout(GemmLayout::nt, 16)>(kRagged);
  expect_exact<with_layout(GemmLayout::nn, 16)>(kRagged);
  expect_exact<with_layout(GemmLayout::tn, 16)>(kRagged);
  expect_exact<with_layout(GemmLayout::nt, 8)>(kRagged);
  expect_exact<with_layout(GemmLayout::nn, 4)>(kRagged);
  expect_exact<with_layout(GemmLayout::tn, 2)>(kRagged);
}

template <PortableGemmConfig C>
void expect_no_reads(const Size& size, const Launch& launch = {}) {
  for (const CopyTime copies : {CopyTime::early, CopyTime::late}) {
    Product<C> product(size);
    product.forget_inputs();
    product.expect_exact(launch, copies);
  }
}

TEST(EmulatedPortableGemm, ReadsNeitherANorBWhereAlphaIsZero) {
  constexpr auto kScalesC = [](GemmLayout layout, int alignment_bytes, bool split_k) {
    return with(with_layout(layout, alignment_bytes), &Config::reads_c, true, &Config::split_k,
                split_k, &Config::k_order, Order::sawtooth);
  };
  expect_no_reads<with_layout(GemmLayout::nt, 16)>(kRagged);
  expect_no_reads<with_layout(GemmLayout::tn, 2)>(kRagged);
  expect_no_reads<kScalesC(GemmLayout::nn, 8, false)>(kRagged);
  expect_no_reads<kScalesC(GemmLayout::tn, 16, true)>({64, 64, 128}, {.splits = 3});
}

TEST(EmulatedPortableGemm, IsExactForTinySizes) {
  constexpr PortableGemmConfig kUnaligned = with_layout(GemmLayout::nt, 2);
  for (const Size& size : {Size{1, 1, 1}, Size{17, 33, 65}, Size{1, 70, 5}, Size{40, 1, 200}}) {
    expect_exact<kUnaligned>(size);
    expect_exact<with_layout(GemmLayout::tn, 4)>(size);
  }
}

constexpr PortableGemmConfig with_types(DType dtype, OutputType output, bool reads_c) {
  return with(kBase, &Config::dtype, dtype, &Config::output, output, &Config::reads_c, reads_c);
}

TEST(EmulatedPortableGemm, IsExactInEveryType) {
  expect_exact<with_types(DType::fp16, OutputType::fp16, false)>(kRagged);
  expect_exact<with_types(DType::fp16, OutputType::fp32, true)>(kRagged);
  expect_exact<with_types(DType::bf16, OutputType::fp16, true)>(kRagged);
  expect_exact<with_types(DType::bf16, OutputType::bf16, true)>(kRagged);
  expect_exact<with_types(DType::bf16, OutputType::fp32, false)>(kRagged);
}

constexpr PortableGemmConfig with_tile(int tile_m, int tile_n, int tile_k, int warps_m, int warps_n,
                                       int stages) {
  return with(kBase, &Config::tile_m, tile_m, &Config::tile_n, tile_n, &Config::tile_k, tile_k,
              &Config::warps_m, warps_m, &Config::warps_n, warps_n, &Config::stages, stages);
}

TEST(EmulatedPortableGemm, IsExactForEveryDivisionIntoWarps) {
  expect_exact<with_tile(16, 16, 32, 1, 1, 2)>({.m = 20, .n = 20, .k = 70});
  expect_exact<with_tile(32, 48, 64, 2, 1, 2)>(kRagged);
  expect_exact<with_tile(64, 32, 32, 2, 2, 4)>(kRagged);
  expect_exact<with_tile(32, 96, 32, 1, 2, 5)>(kRagged);
}

constexpr PortableGemmConfig kOneCta = [] {
  return with(with_tile(32, 64, 32, 2, 2, 3), &Config::persistence, Persistence::persistent);
}();

TEST(EmulatedPortableGemm, WarpsWaitForEachOtherBetweenTiles) {
  for (const Pace pace : {Pace::first_warp_ahead, Pace::last_warp_ahead}) {
    expect_exact<kOneCta>({.m = 100, .n = 150, .k = 128}, {.workers = 1, .pace = pace});
  }
}

constexpr PortableGemmConfig kSplit = [] {
  return with(kBase, &Config::split_k, true, &Config::persistence, Persistence::persistent,
              &Config::k_order, Order::sawtooth);
}();

TEST(EmulatedPortableGemm, SumsSplitsOfAnyNumber) {
  for (const int splits : {1, 2, 3, 4}) {
    expect_exact<kSplit>(kRagged, {.splits = splits, .workers = 5});
  }
}

constexpr PortableGemmConfig with_groups(GemmGroups groups, GemmLayout layout, int alignment) {
  return with(with_layout(layout, alignment), &Config::persistence, Persistence::persistent,
              &Config::k_order, Order::sawtooth, &Config::groups, groups);
}

TEST(EmulatedPortableGemm, GroupsTakeTheirOwnMatrixAndLeaveOtherRowsAlone) {
  using Counts = std::vector<int>;
  const Launch banded{.raster = Raster::grouped, .workers = 4};
  for (const Counts& counts : {Counts{0, 1, 31, 33, 96, 0}, Counts{0, 70, 0}, Counts{0, 0}}) {
    const Size size{.m = 1, .n = 45, .k = 70, .batch = static_cast<int>(counts.size())};
    expect_exact<with_groups(GemmGroups::offsets, GemmLayout::nt, 2)>(size, banded, counts);
    expect_exact<with_groups(GemmGroups::contiguous, GemmLayout::nn, 16)>(size, {}, counts);
    expect_exact<with_groups(GemmGroups::masked, GemmLayout::nt, 8)>(size, banded, counts);
  }
  const Counts many(130, 1);  // More than the lanes of a warp count at a time.
  expect_exact<with_groups(GemmGroups::offsets, GemmLayout::nt, 16)>(
      {.m = 1, .n = 20, .k = 32, .batch = 130}, {}, many);
}

TEST(EmulatedPortableGemm, ComputesEveryTileInEveryOrder) {
  for (const Raster raster :
       {Raster::along_n, Raster::along_m, Raster::grouped, Raster::serpentine, Raster::hilbert}) {
    expect_exact<kSplit>(kRagged, {.raster = raster, .swizzle_stride = 64, .workers = 4});
  }
}

}  // namespace
}  // namespace swr
