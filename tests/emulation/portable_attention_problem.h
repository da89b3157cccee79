// SPDX-License-Identifier: MIT
// Problems for the portable attention kernel, template and all, run on the CPU against fp64, and
// the configurations that its tests have in common. No access to shared memory may conflict with
// another of its instruction.
#pragma once

#include "attention/portable/kernel.cuh"
#include "operations/attention/launch_plan.h"
#include "tests/emulation/attention_memory.h"
#include "tests/emulation/simt.h"
#include "tests/support/test.h"
#include "tests/support/with.h"

namespace swr::portable_test {

using Config = PortableAttentionConfig;
using emulation::Access;
using emulation::CopyTime;
using emulation::CtaOrder;
using emulation::Fault;
using emulation::MemoryOrder;
using emulation::Pace;

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

/// What a thread runs. Maps are of K and V.
using Kernel = void (*)(const AttentionParams& params, const ptx::MappedTensor& k,
                        const ptx::MappedTensor& v);

template <PortableAttentionConfig C>
void run_kernel(const AttentionParams& params, const ptx::MappedTensor& k,
                const ptx::MappedTensor& v) {
  if constexpr (C.uses_tma()) {
    portable::run<C>({{params, ptx::map_of(k), ptx::map_of(v)}}, 0);
  } else {
    portable::run<C>({params}, 0);
  }
}

/// Of any configuration: the kernel alone is compiled for each.
class AnyAttention : public emulation::AttentionMemory {
 public:
  AnyAttention(const PortableAttentionConfig& config, Kernel kernel, const Shape& shape,
               const Launch& launch)
      : AttentionMemory({.batch = shape.batch,
                         .heads_q = shape.heads_q,
                         .heads_kv = shape.heads_kv,
                         .seq_q = shape.seq_q,
                         .seq_kv = shape.seq_kv,
                         .head_dim = config.head_dim,
                         .value_dim = config.head_dim,
                         .causal = config.causal},
                        config.dtype, launch.memory, config.alignment_bytes),
        config_(config),
        kernel_(kernel),
        launch_(launch),
        o_(of_queries(config.head_dim)),
        lse_(rows() + 1, kUnwritten) {
    std::mt19937 random(11);
    draw(random, {&q_, &k_, &v_});
  }

  double o(int b, int h, int row, int d) { return value_of(o_.at(b, h, row, d), dtype_); }
  double lse(int b, int h, int row) const {
    return static_cast<double>(
        lse_[static_cast<std::size_t>((b * problem_.heads_q + h) * problem_.seq_q + row)]);
  }

  emulation::SharedTraffic run(CopyTime copies, Pace pace) {
    const AttentionLaunchPlan plan{.tile_m = config_.tile_m,
                                   .persistence = config_.persistence,
                                   .workers = launch_.workers,
                                   .kv_splits = launch_.kv_splits,
                                   .pack_gqa = config_.pack_gqa,
                                   .head_dim = config_.head_dim};
    AttentionParams params = make_params();
    const LaunchGeometry geometry = launch_geometry(plan, params);
    // What is not written reads as NaN.
    std::vector<float> partials(static_cast<std::size_t>(geometry.partials_bytes / 4), NAN);
    arrivals_.assign(static_cast<std::size_t>(geometry.arrival_words), 0);
    params.partials = partials.data();
    params.arrivals = arrivals_.data();
    const ptx::MappedTensor mapped_k = mapped(k_);
    const ptx::MappedTensor mapped_v = mapped(v_);
    emulation::LaunchBefore before;
    for (emulation::StridedTensor* const one : {&q_, &k_, &v_}) {
      before.writes(one->memory(), emulation::StridedTensor::kNaN);
    }
    before.writes(arrivals_, 1U);  // It uses the counters until it ends.
    return emulation::run({.grid = static_cast<unsigned>(geometry.grid_x),
                           .threads = config_.threads(),
                           .smem_bytes = config_.smem_bytes(),
                           .copies = copies,
                           .pace = pace,
                           .fault = launch_.fault,
                           .ctas = launch_.ctas,
                           .end_launch_before = before,
                           .prefetch =
                               [this](const void* line, bool during_launch_before) {
                                 prefetched_[line] = during_launch_before;
                               }},
                          [&] { kernel_(params, mapped_k, mapped_v); });
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
    const emulation::AttentionOutputs expected = exact();
    const emulation::Values found = values(o_);
    const double tolerance = dtype_ == DType::fp16 ? 2e-3 : 1.6e-2;
    int wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      wrong += is_near(found[i], expected.o[i], tolerance) ? 0 : 1;
    }
    for (std::size_t row = 0; launch_.with_lse && row < rows(); ++row) {
      wrong += is_near(static_cast<double>(lse_[row]), expected.lse[row], tolerance) ? 0 : 1;
    }
    return wrong;
  }
  /// Writes outside of O's rows and of the log-sum-exps that are asked for.
  int disturbed() {
    const auto untouched = static_cast<int>(std::count(lse_.begin(), lse_.end(), kUnwritten));
    const int expected = launch_.with_lse ? 1 : static_cast<int>(lse_.size());
    return o_.disturbed() + std::abs(untouched - expected);
  }

 private:
  ptx::MappedTensor mapped(emulation::StridedTensor& tensor) const {
    const auto& [batch, heads, seq, columns] = tensor.sizes();
    const TensorStrides& strides = tensor.strides();
    return {.base = tensor.address(),
            .sizes = {columns, seq, heads, batch},
            .strides = {1, strides.seq, strides.head, strides.batch},
            .box = config_.kv_box()};
  }

  AttentionParams make_params() {
    auto p = params<AttentionParams>();
    p.o = o_.address();
    p.o_strides = o_.strides();
    p.lse = launch_.with_lse ? lse_.data() : nullptr;
    p.section_heads = launch_.section_heads;
    p.kv_splits = launch_.kv_splits;
    p.longest_first = launch_.longest_first ? 1 : 0;
    return p;
  }

  PortableAttentionConfig config_;
  Kernel kernel_;
  Launch launch_;
  emulation::StridedTensor o_;
  std::vector<float> lse_;
  std::vector<unsigned> arrivals_;
  std::map<const void*, bool> prefetched_;
};

template <PortableAttentionConfig C>
class Attention : public AnyAttention {
 public:
  Attention(const Shape& shape, const Launch& launch)
      : AnyAttention(C, run_kernel<C>, shape, launch) {}
};

inline std::string text(const Shape& shape) {
  return "batch " + std::to_string(shape.batch) + " heads " + std::to_string(shape.heads_q) +
         " on " + std::to_string(shape.heads_kv) + " lengths " + std::to_string(shape.seq_q) +
         " and " + std::to_string(shape.seq_kv);
}

/// True when all threads take every trip of a copy: only then is known which lanes copy together.
constexpr bool copies_in_step(const PortableAttentionConfig& config) {
  const int chunks = config.head_dim / 8;
  const int rows_per_trip = config.threads() / chunks;
  return config.threads() % chunks == 0 && config.tile_m % rows_per_trip == 0 &&
         config.tile_n % rows_per_trip == 0;
}

/// False when the eight threads that add up key groups side by side may do so in two rows, which
/// then meet in a bank.
constexpr bool reads_whole_rows(const PortableAttentionConfig& config) {
  return config.key_groups() == 1 || config.head_dim % 64 == 0;
}

inline void expect_no_conflicts(const PortableAttentionConfig& config,
                                const emulation::SharedTraffic& traffic) {
  for (const Access kind : {Access::ldmatrix, Access::store, Access::load}) {
    EXPECT_GT(traffic[kind].instructions, 0);
    if (kind != Access::load || reads_whole_rows(config)) {
      EXPECT_EQ(traffic[kind].conflicts(), 0) << "head_dim " << config.head_dim;
    }
  }
  if (copies_in_step(config)) {
    EXPECT_EQ(traffic[Access::async_copy].conflicts(), 0) << "head_dim " << config.head_dim;
  }
}

/// Runs with copies as early as may be and as late, with either end's warp ahead.
inline void expect_right(const PortableAttentionConfig& config, Kernel kernel, const Shape& shape,
                         const Launch& launch) {
  for (const auto& [copies, pace] : {std::pair{CopyTime::early, Pace::first_warp_ahead},
                                     std::pair{CopyTime::late, Pace::last_warp_ahead}}) {
    AnyAttention attention(config, kernel, shape, launch);
    const auto traffic = attention.run(copies, pace);
    EXPECT_EQ(attention.wrong_values(), 0) << text(shape) << " head_dim " << config.head_dim;
    EXPECT_EQ(attention.disturbed(), 0) << text(shape) << " head_dim " << config.head_dim;
    EXPECT_EQ(attention.counters_left(), 0) << text(shape) << " head_dim " << config.head_dim;
    if (config.smem_swizzle && config.alignment_bytes == 16) {
      expect_no_conflicts(config, traffic);
    }
  }
}
template <PortableAttentionConfig C>
void expect_right(const Shape& shape = {}, const Launch& launch = {}) {
  expect_right(C, run_kernel<C>, shape, launch);
}

constexpr PortableAttentionConfig with_head_dim(int head_dim, DType dtype, bool causal) {
  return with(kBase, &Config::head_dim, head_dim, &Config::dtype, dtype, &Config::causal, causal,
              &Config::stages, 1);
}

constexpr PortableAttentionConfig with_tile(int tile_m, int tile_n, int warps, int stages) {
  return with(kBase, &Config::tile_m, tile_m, &Config::tile_n, tile_n, &Config::warps, warps,
              &Config::stages, stages);
}

constexpr PortableAttentionConfig scheduled(Order order, Persistence persistence) {
  return with(with_tile(16, 16, 1, 2), &Config::order, order, &Config::persistence, persistence);
}

constexpr PortableAttentionConfig without_mask(PortableAttentionConfig config) {
  config.causal = false;
  return config;
}

constexpr PortableAttentionConfig with_alignment(int alignment_bytes, int head_dim) {
  return with(kBase, &Config::alignment_bytes, alignment_bytes, &Config::head_dim, head_dim);
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
