// SPDX-License-Identifier: MIT
// A batch in device memory, verified in fp64 on random data: pages in random order, NaN in every
// row that is no key, guards around what is written.
#include "operations/workload.h"

#include "operations/attention_serving/lengths.h"
#include "operations/attention_serving/parts.h"
#include "operations/attention_serving/serving_launch.h"
#include "operations/guarded_rows.h"
#include "operations/plain_operation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

namespace swr {
namespace {

constexpr double kCap = 30.0;
constexpr unsigned char kPoisonByte = 0xff;
constexpr unsigned kPoisonWord = 0xffffffffU;
constexpr int kGuardWords = 64;  ///< Around the log-sum-exps.

struct ServingReference {
  ServingReference(const Generator& generator, int sm_arch)
      : attention(load_template(generator, sm_arch, "reference/serving_attention_reference.cu",
                                "swr_serving_attention_reference")),
        compare(load_template(generator, sm_arch, "reference/compare.cu", "swr_compare_output")) {}
  Kernel attention;
  Kernel compare;
};

template <typename Value>
DeviceBuffer uploaded(const std::vector<Value>& values) {
  DeviceBuffer memory(std::max<std::size_t>(values.size(), 1) * sizeof(Value));
  memory.upload(std::as_bytes(std::span(values)));
  return memory;
}

template <typename Value>
Value* pointer_to(CUdeviceptr address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
  return reinterpret_cast<Value*>(address);
}

std::vector<float> drawn_sinks(int heads) {
  std::vector<float> sinks;
  for (int head = 0; head < heads; ++head) {
    sinks.push_back(static_cast<float>(head % 9) - 4.0F);
  }
  return sinks;
}

/// Keys with the rows before them.
std::vector<int> rows_of(const ServingAttentionProblem& problem, const DrawnLengths& lengths) {
  std::vector<int> rows;
  for (const int keys : lengths.keys) {
    rows.push_back(keys + padding_of(problem, keys));
  }
  return rows;
}
std::vector<int> padding_of_all(const ServingAttentionProblem& problem,
                                const DrawnLengths& lengths) {
  std::vector<int> padding;
  for (const int keys : lengths.keys) {
    padding.push_back(padding_of(problem, keys));
  }
  return padding;
}

class ServingTensors {
 public:
  ServingTensors(const ServingAttentionProblem& problem, const WorkloadTools& tools,
                 unsigned long long seed)
      : problem_(problem),
        stream_(tools.stream),
        lengths_(draw_lengths(problem)),
        pages_(problem.page_size > 0 ? draw_pages(problem, lengths_, seed) : DrawnPages{}),
        rows_(rows_of(problem, lengths_)),
        o_rows_(static_cast<int>(lengths_.total_queries()) * problem.heads_q),
        kv_rows_(problem.page_size > 0 ? pages_.pool * problem.page_size
                                       : cumulative(rows_).back()),
        q_(tools, std::max(1, o_rows_), problem.head_dim, problem.dtype, kAlignment),
        o_(tools, std::max(1, o_rows_), problem.head_dim_v, problem.dtype, kAlignment),
        k_(tools, std::max(1, kv_rows_) * problem.heads_kv, problem.head_dim, problem.dtype,
           kAlignment),
        v_(tools, std::max(1, kv_rows_) * problem.heads_kv, problem.head_dim_v, problem.dtype,
           kAlignment),
        cu_q_(uploaded(cumulative(lengths_.queries))),
        cu_k_(uploaded(cumulative(rows_))),
        used_k_(uploaded(rows_)),
        padding_(uploaded(padding_of_all(problem, lengths_))),
        table_(uploaded(pages_.table)),
        sinks_(uploaded(drawn_sinks(problem.heads_q))),
        lse_(sizeof(float) * static_cast<std::size_t>(o_rows_ + 2 * kGuardWords)) {
    q_.fill_random(seed);
    k_.fill_random(seed + 1);
    v_.fill_random(seed + 2);
    spoil_rows_without_keys();
    stream_.synchronize();
  }

  const ServingAttentionProblem& problem() const { return problem_; }
  const DrawnLengths& lengths() const { return lengths_; }
  const GuardedRows& o() const { return o_; }
  int o_rows() const { return o_rows_; }

  void poison() const {
    o_.poison();
    lse_.fill(kPoisonByte, stream_);
  }

  ServingAttentionParams params(bool with_lse) const {
    ServingAttentionParams params = bounds_of(problem_);
    const int heads_q = problem_.heads_q;
    params.q = q_.address();
    params.k = k_.address();
    params.v = v_.address();
    params.o = o_.address();
    params.q_strides = {.batch = 0, .head = problem_.head_dim, .seq = heads_q * problem_.head_dim};
    params.o_strides = {
        .batch = 0, .head = problem_.head_dim_v, .seq = heads_q * problem_.head_dim_v};
    params.k_strides = kv_strides(problem_.head_dim);
    params.v_strides = kv_strides(problem_.head_dim_v);
    if (with_lse) {
      params.lse = pointer_to<float>(lse_.address()) + kGuardWords;
      params.lse_strides = {.batch = 0, .head = 1, .seq = heads_q};
    }
    params.lengths.cu_seqlens_q = pointer_to<int>(cu_q_.address());
    if (problem_.page_size > 0) {
      params.lengths.seqused_k = pointer_to<int>(used_k_.address());
      params.pages = {.table = pointer_to<int>(table_.address()),
                      .table_stride = pages_.width,
                      .pages_per_sequence = pages_.width,
                      .page_size = problem_.page_size};
    } else {
      params.lengths.cu_seqlens_k = pointer_to<int>(cu_k_.address());
    }
    if (problem_.leftpad) {
      params.lengths.leftpad_k = pointer_to<int>(padding_.address());
    }
    if (problem_.sinks) {
      params.sinks = pointer_to<void>(sinks_.address());
    }
    const auto scale = static_cast<float>(scale_of());
    const bool caps = problem_.softcap != Softcap::none;
    params.scale_log2 = std::numbers::log2e_v<float> * (caps ? static_cast<float>(kCap) : scale);
    params.softcap_scale = caps ? scale / static_cast<float>(kCap) : 0.0F;
    return params;
  }
  double scale_of() const { return 1.0 / std::sqrt(static_cast<double>(problem_.head_dim)); }
  double cap_of() const { return problem_.softcap == Softcap::none ? 0.0 : kCap; }

  /// What was written around O and the log-sum-exps.
  std::vector<float> found_lse() const {
    std::vector<float> words(static_cast<std::size_t>(o_rows_ + 2 * kGuardWords));
    lse_.download(std::as_writable_bytes(std::span(words)));
    return words;
  }

 private:
  static constexpr int kAlignment = 16;
  static constexpr int kElementBytes = 2;

  TensorStrides kv_strides(int columns) const {
    const long long row = 1LL * problem_.heads_kv * columns;
    return {.batch = row * problem_.page_size, .head = columns, .seq = row};
  }

  /// Rows before the first key, behind the last one, and of pages that are nobody's.
  void spoil_rows_without_keys() const {
    std::vector<char> is_key(static_cast<std::size_t>(kv_rows_), 0);
    const std::vector<int> first_rows = cumulative(rows_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const int padding = padding_of(problem_, lengths_.keys[i]);
      for (int row = padding; row < rows_[i]; ++row) {
        is_key[place_of(i, row, first_rows)] = 1;
      }
    }
    for (std::size_t first = 0; first < is_key.size();) {
      const auto begin = is_key.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = std::find(begin, is_key.end(), is_key[first] == 0 ? 1 : 0);
      const auto count = static_cast<std::size_t>(end - begin);
      if (is_key[first] == 0) {
        spoil(k_, first, count, problem_.head_dim);
        spoil(v_, first, count, problem_.head_dim_v);
      }
      first += count;
    }
  }
  std::size_t place_of(std::size_t sequence, int row, const std::vector<int>& first_rows) const {
    if (problem_.page_size == 0) {
      return static_cast<std::size_t>(first_rows[sequence] + row);
    }
    const std::size_t entry = sequence * static_cast<std::size_t>(pages_.width) +
                              static_cast<std::size_t>(row / problem_.page_size);
    return static_cast<std::size_t>(pages_.table[entry]) *
               static_cast<std::size_t>(problem_.page_size) +
           static_cast<std::size_t>(row % problem_.page_size);
  }
  void spoil(const GuardedRows& rows, std::size_t first, std::size_t count, int columns) const {
    const std::size_t row_bytes = static_cast<std::size_t>(problem_.heads_kv) *
                                  static_cast<std::size_t>(columns) * kElementBytes;
    const auto address = reinterpret_cast<CUdeviceptr>(rows.address()) + first * row_bytes;
    cuda_driver().memset_async(address, kPoisonByte, count * row_bytes, stream_.handle());
  }

  ServingAttentionProblem problem_;
  const Stream& stream_;
  DrawnLengths lengths_;
  DrawnPages pages_;
  std::vector<int> rows_;  ///< Of each sequence, before its first key included.
  int o_rows_;
  int kv_rows_;
  GuardedRows q_;
  GuardedRows o_;
  GuardedRows k_;
  GuardedRows v_;
  DeviceBuffer cu_q_;
  DeviceBuffer cu_k_;
  DeviceBuffer used_k_;
  DeviceBuffer padding_;
  DeviceBuffer table_;
  DeviceBuffer sinks_;
  DeviceBuffer lse_;
};

/// What fp64 says of a batch.
class ServingVerifier {
 public:
  ServingVerifier(const ServingTensors& tensors, const WorkloadTools& tools)
      : tensors_(tensors),
        kernels_(tools.kernels<ServingReference>()),
        stream_(tools.stream),
        o_(sizeof(float) * size_of_o()),
        lse_(static_cast<std::size_t>(std::max(1, tensors.o_rows()))) {
    const ServingAttentionProblem& problem = tensors.problem();
    const DeviceBuffer lse(sizeof(double) * lse_.size());
    const LaunchShape shape{
        .grid_x = static_cast<unsigned>(problem.batch) * static_cast<unsigned>(problem.seq_q),
        .grid_y = static_cast<unsigned>(problem.heads_q),
        .block_x = 128};
    kernels_.attention.launch(shape, stream_, tensors.params(true), static_cast<int>(problem.dtype),
                              static_cast<int>(problem.mask), problem.head_dim, problem.head_dim_v,
                              tensors.scale_of(), tensors.cap_of(), o_.address(), lse.address());
    stream_.synchronize();
    lse.download(std::as_writable_bytes(std::span(lse_)));
  }

  Verdict check(bool with_lse) const {
    const ServingAttentionProblem& problem = tensors_.problem();
    AttentionParams rows;  // Those of all tokens and heads, one after another.
    rows.o = tensors_.o().address();
    rows.o_strides = {.batch = 0, .head = 0, .seq = problem.head_dim_v};
    rows.batch = rows.heads_q = 1;
    rows.seq_q = tensors_.o_rows();
    const DeviceBuffer memory(sizeof(reference::Comparison));
    memory.fill(0, stream_);
    kernels_.compare.launch(kElementwise, stream_, rows, o_.address(),
                            static_cast<int>(problem.dtype), problem.head_dim_v, memory.address());
    stream_.synchronize();
    reference::Comparison comparison;
    memory.download(std::as_writable_bytes(std::span(&comparison, 1)));
    comparison.disturbed_words = tensors_.o().disturbed_words();
    compare_lse(comparison, with_lse);
    return judge(comparison, problem.dtype);
  }

 private:
  std::size_t size_of_o() const {
    return static_cast<std::size_t>(std::max(1, tensors_.o_rows())) *
           static_cast<std::size_t>(tensors_.problem().head_dim_v);
  }
  /// Guards, and all of it where none was wanted, must be as they were.
  void compare_lse(reference::Comparison& comparison, bool with_lse) const {
    const std::vector<float> found = tensors_.found_lse();
    const auto rows = static_cast<std::size_t>(tensors_.o_rows());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!with_lse || i < kGuardWords || i >= kGuardWords + rows) {
        comparison.disturbed_words += std::bit_cast<unsigned>(found[i]) == kPoisonWord ? 0 : 2;
        continue;
      }
      const double expected = lse_[i - kGuardWords];
      const auto value = static_cast<double>(found[i]);
      if (value == expected) {
        continue;  // Equal infinities would give NaN.
      }
      const double scale = std::isinf(expected) ? 1.0 : std::max(1.0, std::abs(expected));
      const double error = std::abs(value - expected) / scale;
      comparison.worst_lse_error = error <= comparison.worst_lse_error
                                       ? comparison.worst_lse_error
                                       : error;  // NaN is the worst, and stays.
      if (std::isnan(error)) {
        comparison.worst_lse_error = std::numeric_limits<double>::infinity();
      }
    }
  }

  const ServingTensors& tensors_;
  const ServingReference& kernels_;
  const Stream& stream_;
  DeviceBuffer o_;
  std::vector<double> lse_;
};

class ServingTrial final : public Trial {
 public:
  ServingTrial(std::shared_ptr<const Kernel> kernel, const LaunchGeometry& geometry,
               const ServingMapPlan& maps, const ServingAttentionVariant& variant,
               const ServingTensors& tensors, const std::optional<ServingVerifier>& verifier,
               const Stream& stream)
      : kernel_(std::move(kernel)),
        geometry_(geometry),
        maps_(maps),
        variant_(variant),
        tensors_(tensors),
        verifier_(verifier),
        stream_(stream),
        partials_(static_cast<std::size_t>(std::max(16LL, geometry.partials_bytes))),
        arrivals_(sizeof(unsigned) *
                  static_cast<std::size_t>(std::max(1LL, geometry.arrival_words))) {
    kernel_->allow_dynamic_smem(geometry.dynamic_smem_bytes);
    partials_.fill(kPoisonByte, stream);
    arrivals_.fill(0, stream);
  }

  void launch() override { launch(false); }
  /// With and without log-sum-exps.
  Verdict verify() override {
    Verdict verdict = verify(true);
    return verdict.failure.empty() ? verify(false) : verdict;
  }
  /// Timed launches have not written log-sum-exps since they were poisoned.
  Verdict check_after_timing() override { return verifier_.value().check(false); }

 private:
  void launch(bool with_lse) const {
    ServingAttentionParams params = tensors_.params(with_lse);
    set_choices(params, variant_);
    params.partials = pointer_to<float>(partials_.address());
    params.arrivals = pointer_to<unsigned>(arrivals_.address());
    launch_serving_attention({cuda_driver().launch_calls, kernel_->handles(),
                              overlap_where(kernel_->may_overlap()), stream_.handle()},
                             maps_, grid_of(geometry_), params);
  }
  Verdict verify(bool with_lse) const {
    tensors_.poison();
    launch(with_lse);
    return verifier_.value().check(with_lse);
  }

  std::shared_ptr<const Kernel> kernel_;
  LaunchGeometry geometry_;
  ServingMapPlan maps_;
  ServingAttentionVariant variant_;
  const ServingTensors& tensors_;
  const std::optional<ServingVerifier>& verifier_;
  const Stream& stream_;
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
};

class ServingAttentionWorkload final : public Workload {
 public:
  ServingAttentionWorkload(const ServingAttentionProblem& problem, const WorkloadTools& tools,
                           unsigned long long seed, bool verifies)
      : problem_(problem), tools_(tools), seed_(seed), tensors_(problem, tools, seed) {
    if (verifies) {
      verifier_.emplace(tensors_, tools);
    }
  }

  const Problem& problem() const override { return problem_; }
  std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                              int ctas_per_sm) override {
    const auto& chosen = variant.as<ServingAttentionVariant>();
    return std::make_unique<ServingTrial>(
        std::move(kernel), geometry_of(tensors_.problem(), chosen, tools_.sm_count, ctas_per_sm),
        plan_of(tensors_.problem(), chosen, tools_.sm_count, ctas_per_sm).maps, chosen, tensors_,
        verifier_, tools_.stream);
  }
  std::unique_ptr<Workload> copy() override {
    return std::make_unique<ServingAttentionWorkload>(tensors_.problem(), tools_, seed_, false);
  }

 private:
  Problem problem_;
  const WorkloadTools& tools_;
  unsigned long long seed_;
  ServingTensors tensors_;
  std::optional<ServingVerifier> verifier_;
};

}  // namespace

std::unique_ptr<Workload> make_serving_attention_workload(const ServingAttentionProblem& problem,
                                                          const WorkloadTools& tools,
                                                          unsigned long long seed) {
  return std::make_unique<ServingAttentionWorkload>(problem, tools, seed, true);
}

}  // namespace swr
