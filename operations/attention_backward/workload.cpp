// SPDX-License-Identifier: MIT
// One backward pass in device memory, verified in fp64 on random data: guards around every tensor
// and the workspace, which holds NaN when a call starts.
#include "operations/workload.h"

#include "operations/attention_backward/launch.h"
#include "operations/attention_backward/parts.h"
#include "operations/guarded_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {
namespace {

constexpr unsigned char kPoisonByte = 0xff;
constexpr std::size_t kGuardBytes = 4096;

struct BackwardReference {
  BackwardReference(const Generator& generator, int sm_arch)
      : cubin(generator.compile_template(kFile, "swr_backward_reference_rows", sm_arch).cubin),
        rows(cubin, "swr_backward_reference_rows"),
        keys(cubin, "swr_backward_reference_keys"),
        sum_of_squares(cubin, "swr_sum_of_squares"),
        compare(cubin, "swr_compare_gradient"),
        digest(cubin, "swr_digest_gradient"),
        count(load_template(generator, sm_arch, "reference/compare.cu", "swr_count_disturbed")) {}

  static constexpr const char* kFile = "reference/attention_backward_reference.cu";
  std::vector<std::byte> cubin;
  Kernel rows;
  Kernel keys;
  Kernel sum_of_squares;
  Kernel compare;
  Kernel digest;
  Kernel count;
};

/// A tensor [batch, heads, seq, columns] in rows that lie as close as the alignment allows.
class BackwardTensor {
 public:
  BackwardTensor(const AttentionBackwardProblem& problem, const WorkloadTools& tools, int heads,
                 int seq, int columns)
      : batch_(problem.batch),
        heads_(heads),
        seq_(seq),
        columns_(columns),
        guarded_(tools, problem.batch * heads * seq, columns, problem.dtype,
                 problem.alignment_bytes) {}

  void* address() const { return guarded_.address(); }
  TensorStrides strides() const {
    const long long row = guarded_.stride();
    return {.batch = row * seq_ * heads_, .head = row * seq_, .seq = row};
  }
  const GuardedRows& guarded() const { return guarded_; }
  long long rows() const { return 1LL * batch_ * heads_ * seq_; }
  long long elements() const { return rows() * columns_; }

  /// What a kernel that begins with (tensor, strides, batch, heads, seq, columns) finds in it.
  template <typename Result, typename... More>
  Result found_by(const Kernel& kernel, const Stream& stream, More... more) const {
    return result_of<Result>(kernel, stream, address(), strides(), batch_, heads_, seq_, columns_,
                             more...);
  }

 private:
  int batch_;
  int heads_;
  int seq_;
  int columns_;
  GuardedRows guarded_;
};

class BackwardTensors {
 public:
  BackwardTensors(const AttentionBackwardProblem& problem, const WorkloadTools& tools,
                  unsigned long long seed)
      : problem_(problem),
        q_(problem, tools, problem.heads_q, problem.seq_q, problem.head_dim),
        k_(problem, tools, problem.heads_kv, problem.seq_kv, problem.head_dim),
        v_(problem, tools, problem.heads_kv, problem.seq_kv, problem.head_dim_v),
        o_(problem, tools, problem.heads_q, problem.seq_q, problem.head_dim_v),
        d_o_(problem, tools, problem.heads_q, problem.seq_q, problem.head_dim_v),
        dq_(problem, tools, problem.heads_q, problem.seq_q, problem.head_dim),
        dk_(problem, tools, problem.heads_kv, problem.seq_kv, problem.head_dim),
        dv_(problem, tools, problem.heads_kv, problem.seq_kv, problem.head_dim_v),
        lse_(sizeof(float) * static_cast<std::size_t>(q_.rows())) {
    q_.guarded().fill_random(seed);
    k_.guarded().fill_random(seed + 1);
    v_.guarded().fill_random(seed + 2);
    d_o_.guarded().fill_random(seed + 3);
    o_.guarded().fill_random(seed + 4);
    tools.stream.synchronize();
    const std::vector<float> lse = likely_lse();
    lse_.upload(std::as_bytes(std::span(lse)));
  }

  const AttentionBackwardProblem& problem() const { return problem_; }
  std::array<const BackwardTensor*, 3> gradients() const { return {&dq_, &dk_, &dv_}; }

  void poison() const {
    for (const BackwardTensor* const gradient : gradients()) {
      gradient->guarded().poison();
    }
  }

  AttentionBackwardParams params() const {
    AttentionBackwardParams params = sizes_of(problem_);
    params.q = q_.address();
    params.k = k_.address();
    params.v = v_.address();
    params.o = o_.address();
    params.d_o = d_o_.address();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
    params.lse = reinterpret_cast<const float*>(lse_.address());
    params.dq = dq_.address();
    params.dk = dk_.address();
    params.dv = dv_.address();
    params.q_strides = q_.strides();
    params.k_strides = k_.strides();
    params.v_strides = v_.strides();
    params.o_strides = o_.strides();
    params.d_o_strides = d_o_.strides();
    params.dq_strides = dq_.strides();
    params.dk_strides = dk_.strides();
    params.dv_strides = dv_.strides();
    return params;
  }

 private:
  /// Of scores that are normally distributed, near enough for times; a verifier computes them.
  std::vector<float> likely_lse() const {
    std::vector<float> lse;
    lse.reserve(static_cast<std::size_t>(q_.rows()));
    for (long long row = 0; row < q_.rows(); ++row) {
      const long long behind = problem_.seq_q - 1 - row % problem_.seq_q;
      const long long keys = problem_.seq_kv - (problem_.causal ? behind : 0);
      lse.push_back(std::log(static_cast<float>(std::max(1LL, keys))) + 0.5F);
    }
    return lse;
  }

  AttentionBackwardProblem problem_;
  BackwardTensor q_;
  BackwardTensor k_;
  BackwardTensor v_;
  BackwardTensor o_;
  BackwardTensor d_o_;
  BackwardTensor dq_;
  BackwardTensor dk_;
  BackwardTensor dv_;
  DeviceBuffer lse_;
};

/// The exact gradients, and what gradients that were found are beside them.
class BackwardVerifier {
 public:
  /// Also makes O and the log-sum-exps of the tensors.
  BackwardVerifier(const BackwardTensors& tensors, const WorkloadTools& tools)
      : tensors_(tensors), kernels_(tools.kernels<BackwardReference>()), stream_(tools.stream) {
    for (const BackwardTensor* const gradient : tensors.gradients()) {
      exact_.emplace_back(sizeof(float) * static_cast<std::size_t>(gradient->elements()));
      left_.emplace_back(sizeof(float) * static_cast<std::size_t>(gradient->rows()));
    }
    compute();
    for (std::size_t i = 0; i < exact_.size(); ++i) {
      const BackwardTensor& gradient = *tensors.gradients()[i];
      squares_.push_back(result_of<double>(kernels_.sum_of_squares, stream_, exact_[i].address(),
                                           gradient.elements()));
    }
  }

  /// Of all gradients the first that is wrong, or the worst.
  Verdict check() const {
    static constexpr std::array kNames{"dQ", "dK", "dV"};
    Verdict worst;
    for (std::size_t i = 0; i < exact_.size(); ++i) {
      const Verdict verdict = judge(*tensors_.gradients()[i], i);
      if (!verdict.failure.empty()) {
        worst.failure.append(kNames[i]).append(": ").append(verdict.failure);
        worst.relative_error = verdict.relative_error;
        return worst;
      }
      worst.relative_error = std::max(worst.relative_error, verdict.relative_error);
    }
    return worst;
  }

  /// Equal for equal bits. Reads nothing else than check() does afterwards.
  std::array<unsigned long long, 3> digests() const {
    std::array<unsigned long long, 3> digests{};
    for (std::size_t i = 0; i < digests.size(); ++i) {
      digests[i] = tensors_.gradients()[i]->found_by<unsigned long long>(kernels_.digest, stream_);
    }
    return digests;
  }

 private:
  void compute() const {
    const AttentionBackwardProblem& problem = tensors_.problem();
    const AttentionBackwardParams params = tensors_.params();
    const int dtype = static_cast<int>(problem.dtype);
    const int causal = problem.causal ? 1 : 0;
    const auto scale = 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
    const auto [dq, dk, dv] = tensors_.gradients();
    const DeviceBuffer lse(sizeof(double) * static_cast<std::size_t>(dq->rows()));
    const DeviceBuffer delta(sizeof(double) * static_cast<std::size_t>(dq->rows()));
    const DeviceBuffer left_by_row(sizeof(float) * static_cast<std::size_t>(dq->rows()));
    left_[2].fill(0, stream_);  // dV is a sum with P, which does not cancel.
    constexpr unsigned kThreads = 128;
    kernels_.rows.launch({.grid_x = static_cast<unsigned>(dq->rows()), .block_x = kThreads},
                         stream_, params, dtype, causal, problem.head_dim, problem.head_dim_v,
                         scale, lse.address(), delta.address(), exact_[0].address(),
                         left_[0].address(), left_by_row.address());
    kernels_.keys.launch({.grid_x = static_cast<unsigned>(dk->rows()), .block_x = kThreads},
                         stream_, params, dtype, causal, problem.head_dim, problem.head_dim_v,
                         scale, lse.address(), delta.address(), left_by_row.address(),
                         exact_[1].address(), exact_[2].address(), left_[1].address());
    stream_.synchronize();
  }

  Verdict judge(const BackwardTensor& g, std::size_t index) const {
    // Below this a value is nothing, however it comes about.
    constexpr double kNothingSquared = 1e-6;
    const double floor = kNothingSquared * static_cast<double>(g.elements());
    const double mean_row = (squares_[index] + floor) / static_cast<double>(g.rows());
    auto found = g.found_by<reference::Comparison>(
        kernels_.compare, stream_, static_cast<int>(tensors_.problem().dtype),
        exact_[index].address(), left_[index].address(), mean_row);
    found.reference_squared += floor;
    found.disturbed_words = g.guarded().disturbed_words();
    return judge_gradient(found, tensors_.problem().dtype);
  }

  const BackwardTensors& tensors_;
  const BackwardReference& kernels_;
  const Stream& stream_;
  std::vector<DeviceBuffer> exact_;  ///< fp32, contiguous.
  std::vector<DeviceBuffer> left_;   ///< Of each row, squared, what a rounded O leaves in it.
  std::vector<double> squares_;      ///< Of exact_, summed.
};

class BackwardTrial final : public Trial {
 public:
  BackwardTrial(std::shared_ptr<const Kernel> kernel, const AttentionBackwardPlan& plan,
                int smem_bytes, const BackwardTensors& tensors,
                const std::optional<BackwardVerifier>& verifier, const WorkloadTools& tools)
      : kernel_(std::move(kernel)),
        tensors_(tensors),
        verifier_(verifier),
        tools_(tools),
        functions_(backward_functions(kernel_->handles())),
        plan_(plan),
        params_(tensors.params()),
        geometry_(attention_backward_geometry(plan, params_)),
        workspace_(2 * kGuardBytes + static_cast<std::size_t>(geometry_.workspace.bytes)) {
    for (std::size_t entry = 0; entry < kernel_->handles().size(); ++entry) {
      kernel_->allow_dynamic_smem(smem_bytes, entry);
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
    auto* const first = reinterpret_cast<void*>(workspace_.address() + kGuardBytes);
    place_workspace(params_, plan, geometry_, first);
    workspace_.fill(kPoisonByte, tools.stream);
  }

  void launch() override {
    require_success(
        launch_attention_backward(cuda_driver().launch_calls, functions_, plan_, geometry_, params_,
                                  overlap_where(kernel_->may_overlap()), tools_.stream.handle()),
        "cuLaunchKernelEx");
  }

  /// Of deterministic problems twice, from another workspace, for the same bits.
  Verdict verify() override {
    launch_on_poison();
    const auto digests = verifier_.value().digests();
    Verdict verdict = check();
    if (!verdict.failure.empty() || !tensors_.problem().deterministic) {
      return verdict;
    }
    launch_on_poison();
    if (verifier_->digests() != digests) {
      return {verdict.relative_error, "the second of two launches gave other bits"};
    }
    return check();
  }

  Verdict check_after_timing() override { return check(); }

 private:
  void launch_on_poison() {
    tensors_.poison();
    workspace_.fill(kPoisonByte, tools_.stream);
    launch();
  }
  Verdict check() const {
    Verdict verdict = verifier_.value().check();
    if (verdict.failure.empty() && disturbed_words() > 0) {
      verdict.failure.append("wrote ")
          .append(std::to_string(disturbed_words()))
          .append(" 16-bit words outside the workspace");
    }
    return verdict;
  }
  unsigned long long disturbed_words() const {
    const CUdeviceptr behind = workspace_.address() + workspace_.size_bytes() - kGuardBytes;
    return disturbed_words(workspace_.address()) + disturbed_words(behind);
  }
  unsigned long long disturbed_words(CUdeviceptr guard) const {
    return result_of<reference::Comparison>(tools_.kernels<BackwardReference>().count,
                                            tools_.stream, guard,
                                            static_cast<long long>(kGuardBytes / 2))
        .disturbed_words;
  }

  std::shared_ptr<const Kernel> kernel_;
  const BackwardTensors& tensors_;
  const std::optional<BackwardVerifier>& verifier_;
  const WorkloadTools& tools_;
  BackwardFunctions functions_;
  AttentionBackwardPlan plan_;
  AttentionBackwardParams params_;
  AttentionBackwardGeometry geometry_;
  DeviceBuffer workspace_;
};

class BackwardWorkload final : public Workload {
 public:
  BackwardWorkload(const AttentionBackwardProblem& problem, const WorkloadTools& tools,
                   unsigned long long seed, bool verifies)
      : problem_(problem), tools_(tools), seed_(seed), tensors_(problem, tools, seed) {
    if (verifies) {
      verifier_.emplace(tensors_, tools);
    }
  }

  const Problem& problem() const override { return problem_; }
  std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                              int ctas_per_sm) override {
    const auto& chosen = variant.as<AttentionBackwardVariant>();
    const AttentionBackwardProblem& problem = tensors_.problem();
    return std::make_unique<BackwardTrial>(
        std::move(kernel), plan_of(problem, chosen, tools_.sm_count, ctas_per_sm),
        smem_bytes_of(problem, chosen), tensors_, verifier_, tools_);
  }
  std::unique_ptr<Workload> copy() override {
    return std::make_unique<BackwardWorkload>(tensors_.problem(), tools_, seed_, false);
  }

 private:
  Problem problem_;
  const WorkloadTools& tools_;
  unsigned long long seed_;
  BackwardTensors tensors_;
  std::optional<BackwardVerifier> verifier_;
};

}  // namespace

std::unique_ptr<Workload> make_attention_backward_workload(const AttentionBackwardProblem& problem,
                                                           const WorkloadTools& tools,
                                                           unsigned long long seed) {
  return std::make_unique<BackwardWorkload>(problem, tools, seed, true);
}

}  // namespace swr
