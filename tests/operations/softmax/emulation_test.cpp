// SPDX-License-Identifier: MIT
// The softmax kernel, template and all, run on the CPU: every way to read a row, ragged and tiny
// sizes, strides, alignments and infinities, against fp64, element by element.
#include "softmax/kernel.cuh"
#include "tests/emulation/simt.h"
#include "tests/support/float16.h"
#include "tests/support/test.h"

namespace swr {
namespace {

using emulation::CopyTime;
using emulation::Fault;
using emulation::Pace;

/// A matrix whose rows lie one unit of alignment further apart than they must; 0xffff elsewhere.
class Matrix {
 public:
  Matrix(int rows, int columns, int alignment_bytes) : rows_(rows), columns_(columns) {
    const int unit = alignment_bytes / 2;
    stride_ = ((columns + unit - 1) / unit + 1) * unit;
    offset_ = 64 + (alignment_bytes == 16 ? 0 : unit);
    words_.resize(static_cast<std::size_t>(offset_ + rows * stride_ + 64), 0xffff);
  }

  std::uint16_t& at(int row, int column) {
    return words_[static_cast<std::size_t>(offset_ + row * stride_ + column)];
  }
  void* address() { return words_.data() + offset_; }
  long long stride() const { return stride_; }
  std::size_t written_words() const {
    return words_.size() - static_cast<std::size_t>(std::ranges::count(words_, 0xffff));
  }

 private:
  int rows_;
  int columns_;
  int stride_;
  int offset_;
  std::vector<std::uint16_t> words_;
};

struct Size {
  int rows;
  int columns;
};

/// Finite values of both signs and many magnitudes.
std::uint16_t random_bits(std::mt19937& random, DType dtype) {
  const unsigned bits = random() & 0xffffU;
  const double magnitude = std::abs(value_of(bits, dtype));
  return static_cast<std::uint16_t>(magnitude < 20.0 ? bits : bits & 0xbfffU);
}

template <SoftmaxConfig C>
class Softmax {
 public:
  explicit Softmax(Size size)
      : size_(size),
        x_(size.rows, size.columns, 2 * C.vector),
        y_(size.rows, size.columns, 2 * C.vector) {
    std::mt19937 random(7);
    for (int row = 0; row < size.rows; ++row) {
      for (int column = 0; column < size.columns; ++column) {
        x_.at(row, column) = random_bits(random, C.dtype);
      }
    }
  }

  void set(int row, int column, std::uint16_t bits) { x_.at(row, column) = bits; }
  double result(int row, int column) { return value_of(y_.at(row, column), C.dtype); }
  std::size_t written_words() const { return y_.written_words(); }

  void run(CopyTime copies = CopyTime::late, Pace pace = Pace::together, Fault fault = Fault::none,
           bool in_place = false) {
    const SoftmaxParams params{x_.address(), in_place ? x_.address() : y_.address(),
                               x_.stride(),  in_place ? x_.stride() : y_.stride(),
                               size_.rows,   size_.columns};
    constexpr int kPlaces = 2;
    emulation::run({.grid = static_cast<unsigned>(C.ctas(params, kPlaces)),
                    .threads = C.threads(),
                    .smem_bytes = C.smem_bytes(),
                    .copies = copies,
                    .pace = pace,
                    .fault = fault},
                   [&] { softmax::run<C>(params, 0); });
    if (in_place) {
      std::swap(x_, y_);
    }
  }

  /// Elements further from fp64 than half a unit of the last place, and a little for fp32.
  int wrong(const Softmax& inputs) {
    int count = 0;
    for (int row = 0; row < size_.rows; ++row) {
      const std::vector<double> exact = const_cast<Softmax&>(inputs).exact_row(row);
      for (int column = 0; column < size_.columns; ++column) {
        const double wanted = exact[static_cast<std::size_t>(column)];
        const double allowed = C.dtype == DType::fp16 ? wanted * 0x1.08p-11 + 0x1.08p-25
                                                      : wanted * 0x1.05p-8 + 0x1p-126;
        const double found = result(row, column);
        count += std::abs(found - wanted) <= allowed || (std::isnan(found) && std::isnan(wanted))
                     ? 0
                     : 1;
      }
    }
    return count;
  }

 private:
  std::vector<double> exact_row(int row) {
    std::vector<double> values;
    for (int column = 0; column < size_.columns; ++column) {
      values.push_back(value_of(x_.at(row, column), C.dtype));
    }
    const double max = *std::ranges::max_element(values);
    double sum = 0.0;
    for (double& value : values) {
      value = std::exp(value - max);
      sum += value;
    }
    for (double& value : values) {
      value /= sum;
    }
    return values;
  }

  Size size_;
  Matrix x_;
  Matrix y_;
};

constexpr SoftmaxConfig kTwiceRead{.dtype = DType::fp16,
                                   .tile_rows = 2,
                                   .threads_per_row = 64,
                                   .vector = 8,
                                   .held = 0,
                                   .stages = 1,
                                   .order = Order::cyclic,
                                   .persistence = Persistence::grid};

constexpr SoftmaxConfig with(SoftmaxConfig config, int held, int stages) {
  config.held = held;
  config.stages = stages;
  return config;
}
constexpr SoftmaxConfig with(SoftmaxConfig config, Order order, Persistence persistence) {
  config.order = order;
  config.persistence = persistence;
  return config;
}
constexpr SoftmaxConfig shaped(SoftmaxConfig config, int tile_rows, int threads, int vector) {
  config.tile_rows = tile_rows;
  config.threads_per_row = threads;
  config.vector = vector;
  return config;
}
constexpr SoftmaxConfig of_type(SoftmaxConfig config, DType dtype) {
  config.dtype = dtype;
  return config;
}

/// One, less and more than a vector, a step and a ring, whole and ragged, with and without a rest
/// of rows.
template <SoftmaxConfig C>
void expect_exact() {
  for (const Size size : {Size{1, 1}, Size{3, 7}, Size{2, 8}, Size{5, 65}, Size{2, 512},
                          Size{3, 520}, Size{7, 1531}, Size{4, 2048}, Size{1, 4999}}) {
    if (!C.holds(size.columns)) {
      continue;
    }
    for (const CopyTime copies : {CopyTime::early, CopyTime::late}) {
      const Softmax<C> inputs(size);
      Softmax<C> softmax(size);
      softmax.run(copies,
                  copies == CopyTime::early ? Pace::first_warp_ahead : Pace::last_warp_ahead);
      const std::string where = std::to_string(size.rows) + "x" + std::to_string(size.columns);
      EXPECT_EQ(softmax.wrong(inputs), 0) << where;
      EXPECT_EQ(softmax.written_words(), static_cast<std::size_t>(size.rows * size.columns))
          << where;
    }
  }
}

TEST(SoftmaxEmulation, RowsReadTwiceThroughRegisters) {
  expect_exact<kTwiceRead>();
  expect_exact<of_type(kTwiceRead, DType::bf16)>();
  expect_exact<shaped(kTwiceRead, 4, 32, 8)>();
  expect_exact<shaped(kTwiceRead, 1, 256, 4)>();
  expect_exact<shaped(kTwiceRead, 1, 96, 2)>();
  expect_exact<shaped(kTwiceRead, 2, 64, 1)>();
}

TEST(SoftmaxEmulation, RowsReadTwiceThroughARing) {
  expect_exact<with(kTwiceRead, 0, 2)>();
  expect_exact<with(shaped(kTwiceRead, 2, 32, 8), 0, 3)>();
  expect_exact<with(of_type(kTwiceRead, DType::bf16), 0, 4)>();
  expect_exact<with(with(kTwiceRead, 0, 8), Order::sawtooth, Persistence::persistent)>();
}

TEST(SoftmaxEmulation, RowsReadBackwardTheSecondTime) {
  expect_exact<with(kTwiceRead, Order::sawtooth, Persistence::grid)>();
  expect_exact<with(shaped(kTwiceRead, 2, 32, 2), Order::sawtooth, Persistence::persistent)>();
}

TEST(SoftmaxEmulation, RowsHeldInRegisters) {
  expect_exact<with(kTwiceRead, 1, 1)>();
  expect_exact<with(kTwiceRead, 4, 1)>();
  expect_exact<with(of_type(shaped(kTwiceRead, 4, 32, 4), DType::bf16), 16, 1)>();
  expect_exact<with(shaped(kTwiceRead, 1, 128, 1), 64, 1)>();
  expect_exact<with(with(kTwiceRead, 8, 1), Order::cyclic, Persistence::persistent)>();
}

template <SoftmaxConfig C>
void expect_infinities_served() {
  constexpr std::uint16_t kInfinityBits = C.dtype == DType::fp16 ? 0x7c00 : 0x7f80;
  constexpr std::uint16_t kNan = 0x7fff;
  constexpr int kColumns = 700;
  Softmax<C> softmax({6, kColumns});
  for (int column = 0; column < kColumns; ++column) {
    softmax.set(0, column, kInfinityBits | 0x8000);  // Masked out altogether.
    softmax.set(1, column, kInfinityBits | 0x8000);
    softmax.set(2, column,
                static_cast<std::uint16_t>(column % 3 == 0 ? kInfinityBits | 0x8000 : 0));
  }
  softmax.set(1, kColumns - 1, 0);  // One element is left.
  softmax.set(3, 17, kInfinityBits);
  softmax.set(4, 333, kNan);
  const Softmax<C> inputs = softmax;
  softmax.run();
  EXPECT_EQ(softmax.wrong(inputs), 0);
  EXPECT_TRUE(std::isnan(softmax.result(0, 5)));
  EXPECT_EQ(softmax.result(1, 0), 0.0);
  EXPECT_EQ(softmax.result(1, kColumns - 1), 1.0);
  EXPECT_EQ(softmax.result(2, 3), 0.0);
  EXPECT_TRUE(std::isnan(softmax.result(3, 0)));
  EXPECT_TRUE(std::isnan(softmax.result(4, 0)));
  EXPECT_FALSE(std::isnan(softmax.result(5, 0)));
}

TEST(SoftmaxEmulation, MaskedElementsAreZeroAndRowsWithoutAFiniteMaximumNan) {
  expect_infinities_served<kTwiceRead>();
  expect_infinities_served<with(of_type(kTwiceRead, DType::bf16), 0, 3)>();
  expect_infinities_served<with(kTwiceRead, 2, 1)>();
}

TEST(SoftmaxEmulation, TheResultMayReplaceTheInput) {
  constexpr SoftmaxConfig kRing =
      with(with(kTwiceRead, 0, 4), Order::sawtooth, Persistence::persistent);
  const Softmax<kRing> inputs({5, 3001});
  Softmax<kRing> softmax({5, 3001});
  softmax.run(CopyTime::early, Pace::together, Fault::none, true);
  EXPECT_EQ(softmax.wrong(inputs), 0);
}

TEST(SoftmaxEmulation, FaultsThatArePlantedAreSeen) {
  constexpr SoftmaxConfig kRing = with(kTwiceRead, 0, 4);
  const Softmax<kRing> inputs({4, 2048});
  for (const Fault fault : {Fault::copies_not_awaited, Fault::barriers_ignored}) {
    Softmax<kRing> softmax({4, 2048});
    softmax.run(CopyTime::late, Pace::first_warp_ahead, fault);
    EXPECT_GT(softmax.wrong(inputs), 0);
  }
}

}  // namespace
}  // namespace swr
