// SPDX-License-Identifier: MIT
// Problems for the portable attention kernel, template and all, run on the CPU against fp64, and
// the configurations that its tests have in common. No access to shared memory may conflict with
// another of its instruction.
#pragma once

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

namespace swr::portable_test {

using emulation::Access;
using emulation::CopyTime;
using emulation::CtaOrder;
using emulation::Fault;
using emulation::Pace;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline constexpr PortableAttentionConfig kBase{.head_dim = 64,
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

inline std::string text(const Shape& shape) {
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

constexpr PortableAttentionConfig with_tile(int tile_m, int tile_n, int warps, int stages) {
  PortableAttentionConfig config = kBase;
  config.tile_m = tile_m;
  config.tile_n = tile_n;
  config.warps = warps;
  config.stages = stages;
  return config;
}

constexpr PortableAttentionConfig scheduled(Order order, Persistence persistence) {
  PortableAttentionConfig config = with_tile(16, 16, 1, 2);
  config.order = order;
  config.persistence = persistence;
  return config;
}

constexpr PortableAttentionConfig without_mask(PortableAttentionConfig config) {
  config.causal = false;
  return config;
}

constexpr PortableAttentionConfig with_alignment(int alignment_bytes, int head_dim) {
  PortableAttentionConfig config = kBase;
  config.alignment_bytes = alignment_bytes;
  config.head_dim = head_dim;
  return config;
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
inline constexpr Shape kDecode{.batch = 2, .heads_q = 16, .heads_kv = 2, .seq_q = 1, .seq_kv = 83};

constexpr PortableAttentionConfig in_key_groups(PortableAttentionConfig config) {
  config.tile_m = 16;
  config.tile_n = 64;
  config.warps = 4;
  return config;
}
constexpr PortableAttentionConfig key_groups_scheduled(Order order, Persistence persistence) {
  return in_key_groups(scheduled(order, persistence));
}

constexpr PortableAttentionConfig by_tma(PortableAttentionConfig config) {
  config.kv_copy = KvCopy::tma;
  return config;
}

}  // namespace swr::portable_test
