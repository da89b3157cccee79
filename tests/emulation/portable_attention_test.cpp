// SPDX-License-Identifier: MIT
// The portable attention kernel, template and all, run on the CPU against fp64: every axis, ragged
// and tiny lengths, masks, grouped heads, strides, inputs that are not finite. Also: no access to
// shared memory conflicts with another of its instruction.
#include "attention/portable/kernel.cuh"
#include "operations/attention/launch_plan.h"
#include "tests/emulation/simt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace swr {
namespace {

using emulation::Access;
using emulation::CopyTime;
using emulation::CtaOrder;
using emulation::Fault;
using emulation::Pace;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr PortableAttentionConfig kBase{.head_dim = 64,
                                        .dtype = DType::fp16,
                                        .causal = true,
                                        .alignment_bytes = 16,
                                        .tile_m = 32,
                                        .tile_n = 32,
                                        .warps = 2,
                                        .stages = 2,
                                        .order = Order::cyclic,
                                        .persistence = Persistence::grid,
                                        .smem_swizzle = true};

struct Shape {
  int batch = 1;
  int heads_q = 2;
  int heads_kv = 1;
  int seq_q = 45;
  int seq_kv = 83;
};

enum class MemoryOrder { bhsd, bshd };

/// What a launch can choose.
struct Launch {
  MemoryOrder memory = MemoryOrder::bhsd;
  int section_heads = 1;
  int workers = 3;
  int kv_splits = 1;
  bool longest_first = false;
  bool with_lse = true;
  Fault fault = Fault::none;
  CtaOrder ctas = CtaOrder::ascending;
};

/// [batch, heads, seq, head_dim] of 16-bit elements; everything between and around the rows is NaN
/// in both types.
class Tensor {
 public:
  Tensor(int batch, int heads, int seq, int head_dim, MemoryOrder order, int alignment_bytes)
      : head_dim_(head_dim), offset_(64 + (alignment_bytes == 16 ? 0 : alignment_bytes / 2)) {
    const long long row = head_dim + std::max(1, alignment_bytes / 2);
    if (order == MemoryOrder::bhsd) {
      strides_ = {.batch = heads * seq * row, .head = seq * row, .seq = row};
    } else {
      strides_ = {.batch = heads * seq * row, .head = row, .seq = heads * row};
    }
    memory_.resize(static_cast<std::size_t>(offset_ + batch * heads * seq * row + 64), kUntouched);
    is_inside_.resize(memory_.size(), false);
    for (int b = 0; b < batch; ++b) {
      for (int h = 0; h < heads; ++h) {
        for (int s = 0; s < seq; ++s) {
          for (int d = 0; d < head_dim; ++d) {
            is_inside_[index(b, h, s, d)] = true;
          }
        }
      }
    }
  }

  std::uint16_t& at(int b, int h, int s, int d) { return memory_[index(b, h, s, d)]; }
  /// Takes the elements away, so that what is read is NaN, until they are put back.
  std::vector<std::uint16_t> take() {
    std::vector<std::uint16_t> elements = memory_;
    std::fill(memory_.begin(), memory_.end(), kUntouched);
    return elements;
  }
  void put_back(const std::vector<std::uint16_t>& elements) {
    std::copy(elements.begin(), elements.end(), memory_.begin());
  }
  std::uint16_t* address() { return memory_.data() + offset_; }
  const TensorStrides& strides() const { return strides_; }
  int head_dim() const { return head_dim_; }

  template <DType Type>
  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (is_inside_[i]) {
        memory_[i] = static_cast<std::uint16_t>(ptx::encode<Type>(normal(random)));
      }
    }
  }
  /// Elements outside of the rows that have changed.
  int disturbed() const {
    int count = 0;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      count += !is_inside_[i] && memory_[i] != kUntouched ? 1 : 0;
    }
    return count;
  }

 private:
  static constexpr std::uint16_t kUntouched = 0xffff;

  std::size_t index(int b, int h, int s, int d) const {
    return static_cast<std::size_t>(offset_ + b * strides_.batch + h * strides_.head +
                                    s * strides_.seq + d);
  }

  int head_dim_;
  int offset_;
  TensorStrides strides_;
  std::vector<std::uint16_t> memory_;
  std::vector<bool> is_inside_;
};

/// One row of O and its log-sum-exp.
struct Row {
  std::vector<double> o;
  double lse = -kInfinity;
};

/// The softmax of scores over the keys a row sees, times V. Infinite and NaN scores as torch's safe
/// softmax has them: no key with a finite or larger score gives 0, +infinity and NaN give NaN.
template <PortableAttentionConfig C>
class Attention {
 public:
  Attention(const Shape& shape, const Launch& launch)
      : shape_(shape),
        launch_(launch),
        q_(tensor(shape.heads_q, shape.seq_q)),
        k_(tensor(shape.heads_kv, shape.seq_kv)),
        v_(tensor(shape.heads_kv, shape.seq_kv)),
        o_(tensor(shape.heads_q, shape.seq_q)),
        lse_(static_cast<std::size_t>(shape.batch * shape.heads_q * shape.seq_q + 1), kUnwritten) {
    std::mt19937 random(11);
    q_.template fill<C.dtype>(random);
    k_.template fill<C.dtype>(random);
    v_.template fill<C.dtype>(random);
  }

  Tensor& q() { return q_; }
  Tensor& k() { return k_; }
  Tensor& v() { return v_; }
  double o(int b, int h, int row, int d) {
    return static_cast<double>(ptx::decode<C.dtype>(o_.at(b, h, row, d)));
  }
  double lse(int b, int h, int row) const {
    return static_cast<double>(
        lse_[static_cast<std::size_t>((b * shape_.heads_q + h) * shape_.seq_q + row)]);
  }

  emulation::SharedTraffic run(CopyTime copies, Pace pace) {
    const AttentionLaunchPlan plan{.tile_m = C.tile_m,
                                   .persistence = C.persistence,
                                   .workers = launch_.workers,
                                   .kv_splits = launch_.kv_splits,
                                   .pack_gqa = C.pack_gqa,
                                   .head_dim = C.head_dim};
    AttentionParams params = make_params();
    const LaunchGeometry geometry = launch_geometry(plan, params);
    // What is not written reads as NaN. The launch before uses the counters until it ends.
    std::vector<float> partials(static_cast<std::size_t>(geometry.partials_bytes / 4), NAN);
    arrivals_.assign(static_cast<std::size_t>(geometry.arrival_words), 1);
    params.partials = partials.data();
    params.arrivals = arrivals_.data();
    const ptx::MappedTensor mapped_k = mapped(k_, shape_.heads_kv, shape_.seq_kv);
    const ptx::MappedTensor mapped_v = mapped(v_, shape_.heads_kv, shape_.seq_kv);
    const auto arguments = [&] {
      if constexpr (C.uses_tma()) {
        return portable::Arguments<C>{{params, ptx::map_of(mapped_k), ptx::map_of(mapped_v)}};
      } else {
        return portable::Arguments<C>{params};
      }
    }();
    return emulation::run({.grid = static_cast<unsigned>(geometry.grid_x),
                           .threads = C.threads(),
                           .smem_bytes = C.smem_bytes(),
                           .copies = copies,
                           .pace = pace,
                           .fault = launch_.fault,
                           .ctas = launch_.ctas,
                           .end_launch_before = launch_before(),
                           .prefetch =
                               [this](const void* line, bool during_launch_before) {
                                 prefetched_[line] = during_launch_before;
                               }},
                          [&] { portable::run<C>(arguments, 0); });
  }

  /// The lines that L2 was to fetch, and whether the launch before still ran then.
  const std::map<const void*, bool>& prefetched() const { return prefetched_; }

  /// Words that the launch after this one would not find at 0.
  int counters_left() const {
    return static_cast<int>(arrivals_.size()) -
           static_cast<int>(std::count(arrivals_.begin(), arrivals_.end(), 0U));
  }

  /// Values that differ from the reference by more than rounding P and O explains, or that are not
  /// NaN, infinite or zero where the reference is.
  int wrong_values() {
    int wrong = 0;
    for (int b = 0; b < shape_.batch; ++b) {
      for (int h = 0; h < shape_.heads_q; ++h) {
        for (int row = 0; row < shape_.seq_q; ++row) {
          const Row expected = reference(b, h, row);
          for (int d = 0; d < C.head_dim; ++d) {
            wrong += is_near(o(b, h, row, d), expected.o[static_cast<std::size_t>(d)]) ? 0 : 1;
          }
          wrong += !launch_.with_lse || is_near(lse(b, h, row), expected.lse) ? 0 : 1;
        }
      }
    }
    return wrong;
  }
  /// Writes outside of O's rows and of the log-sum-exps that are asked for.
  int disturbed() const {
    const auto untouched = static_cast<int>(std::count(lse_.begin(), lse_.end(), kUnwritten));
    const int expected = launch_.with_lse ? 1 : static_cast<int>(lse_.size());
    return o_.disturbed() + std::abs(untouched - expected);
  }

 private:
  static constexpr float kUnwritten = 12345.0F;
  static constexpr double kScale = 0.3;

  Tensor tensor(int heads, int seq) const {
    return {shape_.batch, heads, seq, C.head_dim, launch_.memory, C.alignment_bytes};
  }

  ptx::MappedTensor mapped(Tensor& tensor, int heads, int seq) const {
    const TensorStrides& strides = tensor.strides();
    return {.base = tensor.address(),
            .sizes = {C.head_dim, seq, heads, shape_.batch},
            .strides = {1, strides.seq, strides.head, strides.batch},
            .box = C.kv_box()};
  }

  /// Writes Q, K and V, and leaves the counters at 0, when it ends.
  std::function<void()> launch_before() {
    return [this, q = q_.take(), k = k_.take(), v = v_.take()] {
      q_.put_back(q);
      k_.put_back(k);
      v_.put_back(v);
      std::fill(arrivals_.begin(), arrivals_.end(), 0);
    };
  }

  static bool is_near(double actual, double expected) {
    if (std::isnan(expected) || std::isinf(expected) || expected == 0.0) {
      return std::isnan(expected) ? std::isnan(actual) : actual == expected;
    }
    const double tolerance = C.dtype == DType::fp16 ? 2e-3 : 1.6e-2;
    return std::abs(actual - expected) <= tolerance * (1.0 + std::abs(expected));
  }

  double score(int b, int h, int row, int key) {
    double sum = 0.0;
    for (int d = 0; d < C.head_dim; ++d) {
      sum += static_cast<double>(ptx::decode<C.dtype>(q_.at(b, h, row, d))) *
             static_cast<double>(ptx::decode<C.dtype>(k_.at(b, kv_head(h), key, d)));
    }
    return kScale * sum;
  }

  Row reference(int b, int h, int row) {
    const int keys = C.causal ? std::clamp(row + shape_.seq_kv - shape_.seq_q + 1, 0, shape_.seq_kv)
                              : shape_.seq_kv;
    std::vector<double> weights;
    double maximum = -kInfinity;
    for (int key = 0; key < keys; ++key) {
      weights.push_back(score(b, h, row, key));
      maximum = std::isnan(weights.back()) ? kNaN : std::max(weights.back(), maximum);
    }
    Row result{.o = std::vector<double>(static_cast<std::size_t>(C.head_dim), 0.0)};
    if (maximum == -kInfinity) {
      return result;
    }
    double sum = 0.0;
    for (double& weight : weights) {
      weight = std::exp(weight - maximum);
      sum += weight;
    }
    result.lse = maximum + std::log(sum);
    for (int d = 0; d < C.head_dim; ++d) {
      double& value = result.o[static_cast<std::size_t>(d)];
      for (int key = 0; key < keys; ++key) {
        value += weights[static_cast<std::size_t>(key)] / sum *
                 static_cast<double>(ptx::decode<C.dtype>(v_.at(b, kv_head(h), key, d)));
      }
    }
    return result;
  }

  int kv_head(int h) const { return h / (shape_.heads_q / shape_.heads_kv); }

  AttentionParams make_params() {
    AttentionParams params;
    params.q = q_.address();
    params.k = k_.address();
    params.v = v_.address();
    params.o = o_.address();
    params.lse = launch_.with_lse ? lse_.data() : nullptr;
    params.q_strides = q_.strides();
    params.k_strides = k_.strides();
    params.v_strides = v_.strides();
    params.o_strides = o_.strides();
    params.batch = shape_.batch;
    params.heads_q = shape_.heads_q;
    params.heads_kv = shape_.heads_kv;
    params.seq_q = shape_.seq_q;
    params.seq_kv = shape_.seq_kv;
    params.scale_log2 = static_cast<float>(kScale / std::log(2.0));
    params.section_heads = launch_.section_heads;
    params.kv_splits = launch_.kv_splits;
    params.longest_first = launch_.longest_first ? 1 : 0;
    return params;
  }

  Shape shape_;
  Launch launch_;
  Tensor q_;
  Tensor k_;
  Tensor v_;
  Tensor o_;
  std::vector<float> lse_;
  std::vector<unsigned> arrivals_;
  std::map<const void*, bool> prefetched_;
};

std::string text(const Shape& shape) {
  return "batch " + std::to_string(shape.batch) + " heads " + std::to_string(shape.heads_q) +
         " on " + std::to_string(shape.heads_kv) + " lengths " + std::to_string(shape.seq_q) +
         " and " + std::to_string(shape.seq_kv);
}

/// True when all threads take every trip of a copy: only then is known which lanes copy together.
template <PortableAttentionConfig C>
constexpr bool copies_in_step() {
  const int chunks = C.head_dim / 8;
  const int rows_per_trip = C.threads() / chunks;
  return C.threads() % chunks == 0 && C.tile_m % rows_per_trip == 0 &&
         C.tile_n % rows_per_trip == 0;
}

/// False when the eight threads that add up key groups side by side may do so in two rows, which
/// then meet in a bank.
template <PortableAttentionConfig C>
constexpr bool reads_whole_rows() {
  return C.key_groups() == 1 || C.head_dim % 64 == 0;
}

template <PortableAttentionConfig C>
void expect_no_conflicts(const emulation::SharedTraffic& traffic) {
  for (const Access kind : {Access::ldmatrix, Access::store, Access::load}) {
    EXPECT_GT(traffic[kind].instructions, 0);
    if (kind != Access::load || reads_whole_rows<C>()) {
      EXPECT_EQ(traffic[kind].conflicts(), 0) << "head_dim " << C.head_dim;
    }
  }
  if (copies_in_step<C>()) {
    EXPECT_EQ(traffic[Access::async_copy].conflicts(), 0) << "head_dim " << C.head_dim;
  }
}

/// Runs with copies as early as may be and as late, with either end's warp ahead.
template <PortableAttentionConfig C>
void expect_right(const Shape& shape = {}, const Launch& launch = {}) {
  for (const auto& [copies, pace] : {std::pair{CopyTime::early, Pace::first_warp_ahead},
                                     std::pair{CopyTime::late, Pace::last_warp_ahead}}) {
    Attention<C> attention(shape, launch);
    const auto traffic = attention.run(copies, pace);
    EXPECT_EQ(attention.wrong_values(), 0) << text(shape) << " head_dim " << C.head_dim;
    EXPECT_EQ(attention.disturbed(), 0) << text(shape) << " head_dim " << C.head_dim;
    EXPECT_EQ(attention.counters_left(), 0) << text(shape) << " head_dim " << C.head_dim;
    if (C.smem_swizzle && C.alignment_bytes == 16) {
      expect_no_conflicts<C>(traffic);
    }
  }
}

constexpr PortableAttentionConfig with_head_dim(int head_dim, DType dtype, bool causal) {
  PortableAttentionConfig config = kBase;
  config.head_dim = head_dim;
  config.dtype = dtype;
  config.causal = causal;
  config.stages = 1;
  return config;
}

TEST(EmulatedPortableAttention, IsRightForEveryHeadDim) {
  expect_right<with_head_dim(16, DType::fp16, true)>();
  expect_right<with_head_dim(32, DType::bf16, false)>();
  expect_right<with_head_dim(48, DType::bf16, true)>();
  expect_right<with_head_dim(64, DType::bf16, false)>();
  expect_right<with_head_dim(80, DType::fp16, true)>();
  expect_right<with_head_dim(96, DType::fp16, false)>();
  expect_right<with_head_dim(112, DType::bf16, true)>();
  constexpr Shape kOneHead{.heads_q = 1};
  expect_right<with_head_dim(128, DType::bf16, true)>(kOneHead);
  expect_right<with_head_dim(160, DType::fp16, true)>(kOneHead);
  expect_right<with_head_dim(192, DType::bf16, false)>(kOneHead);
  expect_right<with_head_dim(256, DType::fp16, true)>(kOneHead);
}

constexpr PortableAttentionConfig with_tile(int tile_m, int tile_n, int warps, int stages) {
  PortableAttentionConfig config = kBase;
  config.tile_m = tile_m;
  config.tile_n = tile_n;
  config.warps = warps;
  config.stages = stages;
  return config;
}

TEST(EmulatedPortableAttention, IsRightForEveryTileAndDepth) {
  expect_right<with_tile(16, 16, 1, 1)>();
  expect_right<with_tile(16, 16, 1, 4)>();
  expect_right<with_tile(32, 16, 1, 2)>();
  expect_right<with_tile(32, 48, 2, 3)>();
  expect_right<with_tile(48, 80, 3, 1)>();
  expect_right<with_tile(64, 32, 2, 4)>();
  expect_right<with_tile(64, 64, 4, 1)>();
  expect_right<with_tile(80, 32, 5, 2)>();
}

/// Rows of an odd number of 16-byte pairs, copied by as many threads as are a multiple of it.
TEST(EmulatedPortableAttention, CopiesRowsOfOddLengthWithoutConflicts) {
  constexpr auto kFiveWarps = [](int head_dim) {
    PortableAttentionConfig config = with_tile(80, 16, 5, 1);
    config.head_dim = head_dim;
    return config;
  };
  static_assert(copies_in_step<kFiveWarps(80)>() && copies_in_step<kFiveWarps(160)>());
  constexpr Shape kShort{.heads_q = 1, .seq_q = 80, .seq_kv = 32};
  expect_right<kFiveWarps(80)>(kShort);
  expect_right<kFiveWarps(160)>(kShort);
}

/// K and V rings whose slots are used several times over.
TEST(EmulatedPortableAttention, IsRightWhenTheRingTurns) {
  constexpr Shape kLong{.heads_q = 1, .seq_q = 32, .seq_kv = 200};
  expect_right<with_tile(32, 16, 2, 1)>(kLong);
  expect_right<with_tile(32, 16, 2, 2)>(kLong);
  expect_right<with_tile(32, 16, 2, 3)>(kLong);
  expect_right<with_tile(32, 16, 2, 4)>(kLong);
}

constexpr PortableAttentionConfig scheduled(Order order, Persistence persistence) {
  PortableAttentionConfig config = with_tile(16, 16, 1, 2);
  config.order = order;
  config.persistence = persistence;
  return config;
}

TEST(EmulatedPortableAttention, IsRightInEveryScheduleAndMapping) {
  for (const int section_heads : {1, 2, 4}) {
    const Shape shape{.heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 40};
    const Launch launch{.section_heads = section_heads};
    expect_right<scheduled(Order::sawtooth, Persistence::persistent)>(shape, launch);
    expect_right<scheduled(Order::sawtooth, Persistence::pairs)>(shape, launch);
  }
  expect_right<scheduled(Order::cyclic, Persistence::persistent)>();
  expect_right<scheduled(Order::right_to_left, Persistence::grid)>();
  expect_right<scheduled(Order::right_to_left, Persistence::snake)>();
  expect_right<scheduled(Order::cyclic, Persistence::pairs)>();
}

constexpr PortableAttentionConfig without_mask(PortableAttentionConfig config) {
  config.causal = false;
  return config;
}

/// Kernels without a mask take no notice.
TEST(EmulatedPortableAttention, IsRightWithLongTilesFirst) {
  constexpr PortableAttentionConfig kGrid = scheduled(Order::cyclic, Persistence::grid);
  constexpr PortableAttentionConfig kPairs = scheduled(Order::sawtooth, Persistence::pairs);
  constexpr PortableAttentionConfig kSnake = scheduled(Order::right_to_left, Persistence::snake);
  for (const int section_heads : {1, 2, 4}) {
    const Shape shape{.heads_q = 4, .heads_kv = 2, .seq_q = 45, .seq_kv = 40};
    const Launch launch{.section_heads = section_heads, .longest_first = true};
    expect_right<kGrid>(shape, launch);
    expect_right<without_mask(kGrid)>(shape, launch);
    expect_right<kPairs>(shape, launch);
    expect_right<kSnake>(shape, launch);
  }
}

/// The next Q tile's copies must not reach shared memory that slower warps still read.
TEST(EmulatedPortableAttention, WarpsWaitForEachOtherBetweenQTiles) {
  constexpr PortableAttentionConfig kOneCta = [] {
    PortableAttentionConfig config = with_tile(32, 16, 2, 2);
    config.persistence = Persistence::persistent;
    config.order = Order::sawtooth;
    return config;
  }();
  expect_right<kOneCta>({.heads_q = 2, .seq_q = 100, .seq_kv = 60}, {.workers = 1});
}

/// Tiles so large that a Q tile's work waits in shared memory.
TEST(EmulatedPortableAttention, IsRightWhenRegistersAreFew) {
  constexpr auto kLarge = [](int stages) {
    PortableAttentionConfig config = with_tile(32, 48, 1, stages);
    config.head_dim = 128;
    config.persistence = Persistence::persistent;
    return config;
  };
  static_assert(kLarge(1).parks_work() && !kBase.parks_work());
  constexpr Shape kShape{.heads_q = 2, .seq_q = 60, .seq_kv = 100};
  expect_right<kLarge(1)>(kShape, {.workers = 2});
  expect_right<kLarge(2)>(kShape, {.workers = 2});
}

TEST(EmulatedPortableAttention, IsRightForEveryLength) {
  constexpr PortableAttentionConfig kCausal = with_tile(32, 16, 2, 2);
  for (const int seq_q : {1, 17, 64}) {
    for (const int seq_kv : {1, 31, 32, 50}) {
      const Shape shape{.heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv};
      expect_right<kCausal>(shape);
      expect_right<without_mask(kCausal)>(shape);
    }
  }
}

constexpr PortableAttentionConfig with_alignment(int alignment_bytes, int head_dim) {
  PortableAttentionConfig config = kBase;
  config.alignment_bytes = alignment_bytes;
  config.head_dim = head_dim;
  return config;
}

TEST(EmulatedPortableAttention, IsRightForEveryLayoutAndAlignment) {
  constexpr Shape kGrouped{.batch = 2, .heads_q = 3, .heads_kv = 1, .seq_q = 20, .seq_kv = 35};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    expect_right<with_alignment(16, 64)>(kGrouped, {.memory = memory});
    expect_right<with_alignment(8, 48)>(kGrouped, {.memory = memory});
    expect_right<with_alignment(4, 64)>(kGrouped, {.memory = memory});
    expect_right<with_alignment(2, 48)>(kGrouped, {.memory = memory, .with_lse = false});
  }
}

/// A NaN in K, or a score that is NaN, makes a row NaN when the row sees the key, and no other.
TEST(EmulatedPortableAttention, NaNInKReachesTheRowsThatSeeIt) {
  constexpr Shape kShape{.heads_q = 1, .seq_q = 60, .seq_kv = 70};
  for (const int key : {0, 37, 69}) {
    Attention<kBase> attention(kShape, {});
    attention.k().at(0, 0, key, 5) = static_cast<std::uint16_t>(ptx::encode<DType::fp16>(NAN));
    attention.run(CopyTime::late, Pace::together);
    EXPECT_EQ(attention.wrong_values(), 0) << "key " << key;
  }
}

/// NaN and infinity in V reach one column of the rows that see the key. Rows that do not, but share
/// a tile with rows that do, multiply by 0 (all rows do in torch's math path); others stay clean.
TEST(EmulatedPortableAttention, NaNInVReachesItsColumn) {
  constexpr Shape kShape{.heads_q = 1, .seq_q = 64, .seq_kv = 64};
  constexpr int kKey = 40;
  constexpr int kColumn = 7;
  for (const float value : {NAN, HUGE_VALF}) {
    Attention<kBase> attention(kShape, {});
    attention.v().at(0, 0, kKey, kColumn) =
        static_cast<std::uint16_t>(ptx::encode<DType::fp16>(value));
    attention.run(CopyTime::late, Pace::together);
    for (int row = 0; row < 64; ++row) {
      EXPECT_TRUE(std::isfinite(attention.o(0, 0, row, kColumn + 1))) << row;
      EXPECT_TRUE(std::isfinite(attention.lse(0, 0, row))) << row;
      if (row < 32) {
        EXPECT_TRUE(std::isfinite(attention.o(0, 0, row, kColumn))) << row;
      } else if (row >= kKey) {
        EXPECT_FALSE(std::isfinite(attention.o(0, 0, row, kColumn))) << row;
      }
    }
  }
}

/// Scores of -infinity count as hidden, alone and in company, in the first tile and in later ones;
/// +infinity gives NaN, as infinity minus infinity does.
TEST(EmulatedPortableAttention, InfiniteScoresAreWhatSoftmaxMakesOfThem) {
  constexpr PortableAttentionConfig kConfig = without_mask(kBase);
  constexpr Shape kShape{.heads_q = 1, .seq_q = 40, .seq_kv = 70};
  constexpr std::uint16_t kMinusInfinity = 0xfc00;
  const auto expect_reference = [&](const std::vector<int>& keys, float q_sign, int rows) {
    Attention<kConfig> attention(kShape, {});
    for (int row = 0; row < kShape.seq_q; ++row) {
      attention.q().at(0, 0, row, 3) =
          static_cast<std::uint16_t>(ptx::encode<DType::fp16>(row < rows ? q_sign : 1.0F));
    }
    for (const int key : keys) {
      attention.k().at(0, 0, key, 3) = kMinusInfinity;
    }
    attention.run(CopyTime::late, Pace::together);
    EXPECT_EQ(attention.wrong_values(), 0) << keys.size() << " keys, q " << q_sign;
  };
  std::vector<int> every_key;
  for (int key = 0; key < kShape.seq_kv; ++key) {
    every_key.push_back(key);
  }
  const std::vector<int> first_tile(every_key.begin(), every_key.begin() + 32);
  expect_reference({40}, 1.0F, 40);
  expect_reference(first_tile, 1.0F, 40);
  expect_reference(every_key, 1.0F, 40);
  expect_reference({40}, -1.0F, 10);
  expect_reference({69}, -1.0F, 40);
}

constexpr PortableAttentionConfig split(PortableAttentionConfig config) {
  config.split_kv = true;
  return config;
}
constexpr PortableAttentionConfig packed(PortableAttentionConfig config) {
  config.pack_gqa = true;
  return config;
}

/// A token of eight query heads on each K and V head.
constexpr Shape kDecode{.batch = 2, .heads_q = 16, .heads_kv = 2, .seq_q = 1, .seq_kv = 83};

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightForEveryHeadDim) {
  const Launch splits{.kv_splits = 2};
  expect_right<split(packed(with_head_dim(16, DType::fp16, true)))>(kDecode, splits);
  expect_right<split(packed(with_head_dim(48, DType::bf16, false)))>(kDecode, splits);
  expect_right<split(packed(with_head_dim(80, DType::fp16, true)))>(kDecode, splits);
  constexpr Shape kOneGroup{.heads_q = 8, .heads_kv = 1, .seq_q = 1, .seq_kv = 83};
  expect_right<split(packed(with_head_dim(64, DType::bf16, true)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(96, DType::bf16, true)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(128, DType::bf16, true)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(192, DType::fp16, false)))>(kOneGroup, splits);
  expect_right<split(packed(with_head_dim(256, DType::fp16, true)))>(kOneGroup, splits);
}

TEST(EmulatedPortableAttention, PackedHeadsAreRightForEveryLengthAndMask) {
  constexpr PortableAttentionConfig kCausal = packed(with_tile(32, 16, 2, 2));
  for (const int group : {2, 3, 8}) {
    for (const int seq_q : {1, 3, 5, 16}) {
      for (const int seq_kv : {1, 4, 37}) {
        const Shape shape{.heads_q = group, .heads_kv = 1, .seq_q = seq_q, .seq_kv = seq_kv};
        expect_right<kCausal>(shape);
        expect_right<without_mask(kCausal)>(shape);
      }
    }
  }
}

/// Also more splits than K and V tiles, and tiles that the mask hides from all rows.
TEST(EmulatedPortableAttention, SplitsAreRightForEveryLengthAndMask) {
  constexpr PortableAttentionConfig kCausal = split(with_tile(32, 16, 2, 2));
  for (const int kv_splits : {2, 3, 7}) {
    for (const int seq_q : {1, 17, 70}) {
      for (const int seq_kv : {1, 32, 50}) {
        const Shape shape{.heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv};
        expect_right<kCausal>(shape, {.kv_splits = kv_splits});
        expect_right<without_mask(kCausal)>(shape, {.kv_splits = kv_splits});
      }
    }
  }
}

/// Results of more splits than are fetched at once.
TEST(EmulatedPortableAttention, IsRightForTheMostSplits) {
  constexpr Shape kLong{.heads_q = 8, .heads_kv = 1, .seq_q = 1, .seq_kv = 16 * 70 + 5};
  expect_right<split(packed(with_tile(16, 16, 1, 3)))>(kLong, {.kv_splits = 64});
  expect_right<split(packed(with_tile(16, 16, 1, 1)))>(kLong, {.kv_splits = 9});
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightForEveryTileAndDepth) {
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 2, .seq_q = 9, .seq_kv = 100};
  const Launch splits{.kv_splits = 3};
  expect_right<split(packed(with_tile(16, 16, 1, 4)))>(kShape, splits);
  expect_right<split(packed(with_tile(32, 32, 1, 2)))>(kShape, splits);
  expect_right<split(packed(with_tile(64, 32, 4, 1)))>(kShape, splits);
  expect_right<split(packed(with_tile(64, 32, 4, 3)))>(kShape, splits);
  expect_right<split(packed(with_tile(80, 32, 5, 2)))>(kShape, splits);
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightInEveryScheduleAndMapping) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 75};
  for (const int section_heads : {1, 2, 4}) {
    const Launch launch{.section_heads = section_heads, .kv_splits = 3};
    expect_right<split(scheduled(Order::sawtooth, Persistence::persistent))>(kShape, launch);
    expect_right<split(packed(scheduled(Order::sawtooth, Persistence::pairs)))>(kShape, launch);
  }
  const Launch launch{.kv_splits = 2};
  expect_right<split(packed(scheduled(Order::right_to_left, Persistence::grid)))>(kShape, launch);
  expect_right<split(packed(scheduled(Order::right_to_left, Persistence::snake)))>(kShape, launch);
  expect_right<packed(scheduled(Order::sawtooth, Persistence::persistent))>(kShape);
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightWithLongTilesFirst) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 75};
  const Launch launch{.section_heads = 2, .kv_splits = 3, .longest_first = true};
  expect_right<split(packed(scheduled(Order::sawtooth, Persistence::persistent)))>(kShape, launch);
  expect_right<split(packed(scheduled(Order::cyclic, Persistence::grid)))>(kShape, launch);
}

TEST(EmulatedPortableAttention, SplitsAndPackedHeadsAreRightForEveryLayoutAndAlignment) {
  constexpr Shape kGrouped{.batch = 2, .heads_q = 6, .heads_kv = 2, .seq_q = 3, .seq_kv = 70};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    const Launch launch{.memory = memory, .kv_splits = 2, .with_lse = false};
    expect_right<split(packed(with_alignment(16, 64)))>(kGrouped, launch);
    expect_right<split(packed(with_alignment(2, 48)))>(kGrouped, launch);
    expect_right<packed(with_alignment(4, 64))>(kGrouped, {.memory = memory});
  }
}

constexpr PortableAttentionConfig in_key_groups(PortableAttentionConfig config) {
  config.tile_m = 16;
  config.tile_n = 64;
  config.warps = 4;
  return config;
}
constexpr PortableAttentionConfig key_groups_scheduled(Order order, Persistence persistence) {
  return in_key_groups(scheduled(order, persistence));
}

/// Warps that share a block of rows divide the keys of every tile.
TEST(EmulatedPortableAttention, KeyGroupsAreRightForEveryHeadDim) {
  constexpr Shape kOneGroup{.heads_q = 8, .heads_kv = 1, .seq_q = 1, .seq_kv = 150};
  const Launch splits{.kv_splits = 2};
  expect_right<split(packed(in_key_groups(with_head_dim(16, DType::fp16, true))))>(kOneGroup,
                                                                                   splits);
  expect_right<split(packed(in_key_groups(with_head_dim(48, DType::bf16, false))))>(kOneGroup,
                                                                                    splits);
  expect_right<split(packed(in_key_groups(with_head_dim(80, DType::fp16, true))))>(kOneGroup,
                                                                                   splits);
  expect_right<packed(in_key_groups(with_head_dim(128, DType::bf16, true)))>(kOneGroup);
  expect_right<split(packed(in_key_groups(with_head_dim(256, DType::fp16, true))))>(kOneGroup,
                                                                                    splits);
}

/// Groups of one warp and of two, of one block of rows and of two, with every depth.
TEST(EmulatedPortableAttention, KeyGroupsAreRightForEveryTileAndDepth) {
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 2, .seq_q = 9, .seq_kv = 200};
  const Launch splits{.kv_splits = 3};
  expect_right<split(packed(with_tile(16, 32, 2, 1)))>(kShape, splits);
  expect_right<split(packed(with_tile(16, 64, 4, 2)))>(kShape, splits);
  expect_right<split(packed(with_tile(16, 128, 8, 1)))>(kShape, splits);
  expect_right<split(packed(with_tile(32, 32, 4, 3)))>(kShape, splits);
  expect_right<split(with_tile(32, 64, 4, 1))>(kShape, splits);
  expect_right<packed(with_tile(16, 64, 4, 4))>(kShape);
  expect_right<with_tile(16, 64, 2, 1)>(kShape);
}

TEST(EmulatedPortableAttention, KeyGroupsAreRightForEveryLengthAndMask) {
  constexpr PortableAttentionConfig kCausal = packed(with_tile(16, 64, 4, 2));
  for (const int group : {1, 8}) {
    for (const int seq_q : {1, 5, 30}) {
      for (const int seq_kv : {1, 17, 100}) {
        const Shape shape{.heads_q = group, .heads_kv = 1, .seq_q = seq_q, .seq_kv = seq_kv};
        expect_right<kCausal>(shape);
        expect_right<without_mask(kCausal)>(shape);
        expect_right<split(kCausal)>(shape, {.kv_splits = 2});
      }
    }
  }
}

TEST(EmulatedPortableAttention, KeyGroupsAreRightInEverySchedule) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 140};
  const Launch launch{.section_heads = 2, .kv_splits = 2};
  for (const MemoryOrder memory : {MemoryOrder::bhsd, MemoryOrder::bshd}) {
    expect_right<packed(key_groups_scheduled(Order::sawtooth, Persistence::persistent))>(
        kShape, {.memory = memory});
    expect_right<key_groups_scheduled(Order::sawtooth, Persistence::pairs)>(
        kShape, {.memory = memory, .with_lse = false});
  }
  expect_right<split(packed(key_groups_scheduled(Order::cyclic, Persistence::persistent)))>(kShape,
                                                                                            launch);
}

/// L2 fetches the rows of K and V that each CTA takes first, all their lines and no others, and
/// before the launch before has ended.
TEST(EmulatedPortableAttention, SplitsHaveTheirFirstTilesFetched) {
  constexpr PortableAttentionConfig kConfig =
      split(packed(in_key_groups(with_head_dim(128, DType::fp16, false))));
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 2, .seq_q = 1, .seq_kv = 3 * kConfig.tile_n + 5};
  Attention<kConfig> attention(kShape, {.kv_splits = 4});
  attention.run(CopyTime::late, Pace::together);
  std::map<const void*, bool> expected;
  for (int head = 0; head < kShape.heads_kv; ++head) {
    for (int key = 0; key < kShape.seq_kv; ++key) {  // Each split has one tile.
      for (Tensor* const tensor : {&attention.k(), &attention.v()}) {
        expected[&tensor->at(0, head, key, 0)] = true;
        expected[&tensor->at(0, head, key, 64)] = true;
      }
    }
  }
  EXPECT_EQ(attention.prefetched(), expected);
  EXPECT_EQ(attention.wrong_values(), 0);

  Attention<without_mask(kBase)> prefill({}, {});
  prefill.run(CopyTime::late, Pace::together);
  EXPECT_TRUE(prefill.prefetched().empty());
}

/// Whichever CTA combines the splits, every bit is the same.
TEST(EmulatedPortableAttention, SplitsAreCombinedInTheirOrder) {
  constexpr PortableAttentionConfig kConfig = split(packed(with_tile(32, 16, 2, 2)));
  constexpr Shape kShape{.heads_q = 6, .heads_kv = 2, .seq_q = 4, .seq_kv = 150};
  Attention<kConfig> first(kShape, {.kv_splits = 5});
  Attention<kConfig> second(kShape, {.kv_splits = 5, .ctas = CtaOrder::descending});
  first.run(CopyTime::late, Pace::together);
  second.run(CopyTime::late, Pace::together);
  EXPECT_EQ(second.wrong_values(), 0);
  for (int head = 0; head < kShape.heads_q; ++head) {
    for (int row = 0; row < kShape.seq_q; ++row) {
      EXPECT_EQ(first.lse(0, head, row), second.lse(0, head, row));
      for (int d = 0; d < kConfig.head_dim; ++d) {
        EXPECT_EQ(first.o(0, head, row, d), second.o(0, head, row, d));
      }
    }
  }
}

/// In one split of several: NaN and infinity reach the rows that see the key, and no others.
TEST(EmulatedPortableAttention, NonFiniteScoresOfOneSplitAreWhatSoftmaxMakesOfThem) {
  constexpr PortableAttentionConfig kConfig = split(packed(with_tile(32, 16, 2, 2)));
  constexpr Shape kShape{.heads_q = 4, .heads_kv = 1, .seq_q = 20, .seq_kv = 70};
  const auto expect_reference = [&](float in_q, float in_k, int key) {
    Attention<kConfig> attention(kShape, {.kv_splits = 3});
    for (int head = 0; head < kShape.heads_q; ++head) {
      for (int row = 0; row < kShape.seq_q; ++row) {
        attention.q().at(0, head, row, 5) =
            static_cast<std::uint16_t>(ptx::encode<DType::fp16>(in_q));
      }
    }
    attention.k().at(0, 0, key, 5) = static_cast<std::uint16_t>(ptx::encode<DType::fp16>(in_k));
    attention.run(CopyTime::late, Pace::together);
    EXPECT_EQ(attention.wrong_values(), 0) << in_q << " " << in_k << " key " << key;
  };
  for (const int key : {0, 40, 60, 69}) {
    expect_reference(1.0F, NAN, key);
    expect_reference(1.0F, HUGE_VALF, key);
    expect_reference(1.0F, -HUGE_VALF, key);
  }
  constexpr Shape kOneKey{.heads_q = 4, .heads_kv = 1, .seq_q = 2, .seq_kv = 1};
  Attention<without_mask(kConfig)> hidden(kOneKey, {.kv_splits = 2});
  hidden.q().at(0, 0, 0, 5) = static_cast<std::uint16_t>(ptx::encode<DType::fp16>(1.0F));
  hidden.k().at(0, 0, 0, 5) = static_cast<std::uint16_t>(ptx::encode<DType::fp16>(-HUGE_VALF));
  hidden.run(CopyTime::late, Pace::together);
  EXPECT_EQ(hidden.wrong_values(), 0);
}

constexpr PortableAttentionConfig by_tma(PortableAttentionConfig config) {
  config.kv_copy = KvCopy::tma;
  return config;
}

TEST(EmulatedPortableAttention, KeyGroupsTakeKAndVByTensorMaps) {
  constexpr Shape kShape{.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 30, .seq_kv = 140};
  constexpr PortableAttentionConfig kPersistent =
      key_groups_scheduled(Order::sawtooth, Persistence::persistent);
  expect_right<by_tma(split(packed(kPersistent)))>(kShape, {.section_heads = 2, .kv_splits = 2});
  expect_right<by_tma(packed(kPersistent))>(kShape);
}

/// Panels of 64 columns and of 32, full and not.
TEST(EmulatedPortableAttention, KAndVMayComeByTensorMapsForEveryHeadDim) {
  expect_right<by_tma(with_head_dim(16, DType::fp16, true))>();
  expect_right<by_tma(with_head_dim(48, DType::bf16, true))>();
  expect_right<by_tma(with_head_dim(64, DType::bf16, false))>();
  expect_right<by_tma(with_head_dim(80, DType::fp16, true))>();
  expect_right<by_tma(with_head_dim(96, DType::fp16, false))>();
  constexpr Shape kOneHead{.heads_q = 1};
  expect_right<by_tma(with_head_dim(112, DType::bf16, true))>(kOneHead);
  expect_right<by_tma(with_head_dim(128, DType::bf16, true))>(kOneHead);
  expect_right<by_tma(with_head_dim(160, DType::fp16, true))>(kOneHead);
  expect_right<by_tma(with_head_dim(192, DType::bf16, false))>(kOneHead);
  expect_right<by_tma(with_head_dim(256, DType::fp16, true))>(kOneHead);
}

TEST(EmulatedPortableAttention, KAndVMayComeByTensorMapsForEveryTileAndDepth) {
  expect_right<by_tma(with_tile(16, 16, 1, 1))>();
  expect_right<by_tma(with_tile(16, 16, 1, 4))>();
  expect_right<by_tma(with_tile(32, 48, 2, 3))>();
  expect_right<by_tma(with_tile(48, 80, 3, 1))>();
  expect_right<by_tma(with_tile(64, 32, 4, 2))>();
  expect_right<by_tma(with_tile(80, 32, 5, 2))>();
}

/// Rings that turn several times, over several Q tiles of one CTA; tiles that the mask leaves out.
TEST(EmulatedPortableAttention, TensorMapsKeepTheRingInOrderFromQTileToQTile) {
  constexpr auto kOneCta = [](int stages) {
    PortableAttentionConfig config = by_tma(with_tile(32, 16, 2, stages));
    config.persistence = Persistence::persistent;
    config.order = Order::sawtooth;
    return config;
  };
  constexpr Shape kLong{.heads_q = 2, .seq_q = 100, .seq_kv = 120};
  expect_right<kOneCta(1)>(kLong, {.workers = 1});
  expect_right<kOneCta(2)>(kLong, {.workers = 1});
  expect_right<kOneCta(3)>(kLong, {.workers = 1, .longest_first = true});
  expect_right<without_mask(kOneCta(4))>(kLong, {.workers = 3});
  constexpr Shape kHidden{.heads_q = 2, .seq_q = 100, .seq_kv = 40};
  expect_right<kOneCta(2)>(kHidden, {.workers = 1});
}

TEST(EmulatedPortableAttention, TensorMapsServeEveryLengthLayoutAndSchedule) {
  constexpr PortableAttentionConfig kCausal = by_tma(with_tile(32, 16, 2, 2));
  for (const int seq_q : {1, 17, 64}) {
    for (const int seq_kv : {1, 31, 50}) {
      const Shape shape{.heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv};
      expect_right<kCausal>(shape);
      expect_right<without_mask(kCausal)>(shape);
    }
  }
  constexpr Shape kGrouped{.batch = 2, .heads_q = 3, .heads_kv = 1, .seq_q = 20, .seq_kv = 35};
  expect_right<kCausal>(kGrouped, {.memory = MemoryOrder::bhsd});
  expect_right<kCausal>(kGrouped, {.memory = MemoryOrder::bshd});
  expect_right<by_tma(scheduled(Order::right_to_left, Persistence::grid))>();
  expect_right<by_tma(scheduled(Order::sawtooth, Persistence::pairs))>();
  expect_right<by_tma(scheduled(Order::cyclic, Persistence::snake))>();
}

TEST(EmulatedPortableAttention, TensorMapsServeWorkThatIsParked) {
  constexpr auto kLarge = [](int stages) {
    PortableAttentionConfig config = by_tma(with_tile(32, 48, 1, stages));
    config.head_dim = 128;
    config.persistence = Persistence::persistent;
    return config;
  };
  static_assert(kLarge(1).parks_work());
  constexpr Shape kShape{.heads_q = 2, .seq_q = 60, .seq_kv = 100};
  expect_right<kLarge(1)>(kShape, {.workers = 2});
  expect_right<kLarge(2)>(kShape, {.workers = 2});
}

TEST(EmulatedPortableAttention, TensorMapsServeSplitsAndPackedHeads) {
  constexpr Shape kShape{.batch = 2, .heads_q = 8, .heads_kv = 2, .seq_q = 9, .seq_kv = 100};
  for (const int kv_splits : {2, 3, 16}) {
    const Launch launch{.kv_splits = kv_splits};
    expect_right<by_tma(split(packed(with_tile(16, 16, 1, 4))))>(kShape, launch);
    expect_right<by_tma(split(packed(with_tile(64, 32, 4, 1))))>(kShape, launch);
    expect_right<by_tma(split(packed(with_tile(64, 32, 4, 3))))>(kDecode, launch);
    expect_right<by_tma(split(packed(scheduled(Order::sawtooth, Persistence::persistent))))>(
        kShape, launch);
  }
}

/// The same scores without XOR-swizzled rows conflict, so conflicts are seen.
TEST(EmulatedPortableAttention, RowsThatAreNotSwizzledConflict) {
  constexpr PortableAttentionConfig kConflicts = [] {
    PortableAttentionConfig config = kBase;
    config.smem_swizzle = false;
    return config;
  }();
  Attention<kConflicts> attention({}, {});
  const auto traffic = attention.run(CopyTime::late, Pace::together);
  EXPECT_EQ(attention.wrong_values(), 0);
  // Rows of 128 bytes: all eight rows of a matrix lie in the same banks.
  EXPECT_EQ(traffic[Access::ldmatrix].taken, 8 * traffic[Access::ldmatrix].needed);
  EXPECT_GT(traffic[Access::store].conflicts(), 0);
}

/// What the tests above rest on: a copy read too early and a barrier left out give wrong values.
TEST(EmulatedPortableAttention, PlantedFaultsShow) {
  for (const Fault fault : {Fault::copies_not_awaited, Fault::barriers_ignored}) {
    Attention<with_tile(32, 16, 2, 2)> attention({}, {.fault = fault});
    attention.run(CopyTime::late, Pace::first_warp_ahead);
    EXPECT_GT(attention.wrong_values(), 100);
  }
}

/// Every test above has the launch before write Q, K and V at the last moment.
TEST(EmulatedPortableAttention, AnAccessAheadOfTheLaunchBeforeShows) {
  Attention<with_tile(32, 16, 2, 2)> attention({}, {.fault = Fault::launch_not_awaited});
  attention.run(CopyTime::early, Pace::first_warp_ahead);
  EXPECT_GT(attention.wrong_values(), 100);
  Attention<by_tma(with_tile(32, 16, 2, 2))> mapped({}, {.fault = Fault::launch_not_awaited});
  mapped.run(CopyTime::early, Pace::first_warp_ahead);
  EXPECT_GT(mapped.wrong_values(), 100);
}

TEST(EmulatedPortableAttention, PlantedFaultsOfTensorMapsShow) {
  constexpr Shape kLong{.heads_q = 1, .seq_q = 32, .seq_kv = 200};
  for (const auto& [fault, copies] : {std::pair{Fault::copies_not_awaited, CopyTime::late},
                                      std::pair{Fault::slots_not_awaited, CopyTime::early}}) {
    Attention<by_tma(with_tile(32, 16, 2, 2))> attention(kLong, {.fault = fault});
    attention.run(copies, Pace::first_warp_ahead);
    EXPECT_GT(attention.wrong_values(), 100);
  }
}

}  // namespace
}  // namespace swr
