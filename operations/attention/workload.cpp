// SPDX-License-Identifier: MIT
#include "operations/attention/workload.h"

#include "operations/attention/config.h"
#include "templates/reference/launch_shape.h"
#include <swr/attention_variant.h>

#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace swr {

AttentionKernel::AttentionKernel(const CompiledKernel& kernel, const AttentionLaunchPlan& plan)
    : AttentionKernel(std::make_shared<const Kernel>(kernel), plan) {}

AttentionKernel::AttentionKernel(std::shared_ptr<const Kernel> kernel,
                                 const AttentionLaunchPlan& plan)
    : kernel_(std::move(kernel)), plan_(plan) {
  require_success(prepare_attention(cuda_driver().launch_calls, kernel_->handle(), plan_),
                  "cuFuncSetAttribute");
}

void AttentionKernel::launch(const AttentionParams& params, CUstream stream,
                             LaunchOverlap overlap) const {
  require_success(launch_attention(cuda_driver().launch_calls, kernel_->handle(), plan_, params,
                                   kernel_->may_overlap() ? overlap : LaunchOverlap::none, stream),
                  "cuLaunchKernelEx");
}

namespace {

/// A template's cubin holds all its kernels, whichever entry it was compiled for.
struct Cubin {
  Cubin(const Generator& generator, int sm_arch, const char* path, const char* entry)
      : code(generator.compile_template(path, entry, sm_arch).cubin) {}

  Kernel kernel(const char* entry) const { return Kernel(code, entry); }

  std::vector<std::byte> code;
};

}  // namespace

ReferenceKernels::ReferenceKernels(const Generator& generator, int sm_arch) {
  attention =
      Cubin(generator, sm_arch, "reference/attention_reference.cu", "swr_attention_reference")
          .kernel("swr_attention_reference");
  attention.allow_dynamic_smem(reference::kSmemBytes);
  random_fill = Cubin(generator, sm_arch, "reference/random_fill.cu", "swr_random_fill")
                    .kernel("swr_random_fill");
  const Cubin comparison(generator, sm_arch, "reference/compare.cu", "swr_compare_output");
  compare_output = comparison.kernel("swr_compare_output");
  compare_lse = comparison.kernel("swr_compare_lse");
  count_disturbed = comparison.kernel("swr_count_disturbed");
}

TensorLayout make_layout(const TensorShape& shape, int alignment_bytes, MemoryOrder order) {
  constexpr int kHalfBytes = 2;
  const int gap = alignment_bytes == 16 ? 0 : alignment_bytes / kHalfBytes;
  const long long row = shape.head_dim + gap;
  TensorLayout layout;
  TensorStrides& strides = layout.strides;
  if (order == MemoryOrder::bhsd) {
    strides = {.batch = row * shape.seq * shape.heads, .head = row * shape.seq, .seq = row};
  } else {
    strides = {.batch = row * shape.heads * shape.seq, .head = row, .seq = row * shape.heads};
  }
  layout.span_elements = (shape.batch - 1) * strides.batch + (shape.heads - 1) * strides.head +
                         (shape.seq - 1) * strides.seq + shape.head_dim;
  return layout;
}

namespace {

constexpr unsigned char kPoison = 0xff;
/// Larger than any tile row, and a multiple of every alignment.
constexpr std::size_t kGuardBytes = 4096;

/// The driver hands out device addresses as integers.
void* device_pointer(CUdeviceptr address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(address);
}

std::size_t lse_bytes(const AttentionProblem& problem) {
  return sizeof(float) * static_cast<std::size_t>(problem.batch) *
         static_cast<std::size_t>(problem.heads_q) * static_cast<std::size_t>(problem.seq_q);
}

void fill_randomly(const GuardedTensor& tensor, DType dtype, const ReferenceKernels& kernels,
                   const Stream& stream, unsigned long long seed) {
  tensor.memory().fill(kPoison, stream);
  const TensorShape& shape = tensor.shape();
  kernels.random_fill.launch({.grid_x = 1024, .block_x = 256}, stream,
                             device_pointer(tensor.address()), tensor.layout().strides, shape.batch,
                             shape.heads, shape.seq, shape.head_dim, static_cast<int>(dtype), seed);
}

}  // namespace

GuardedTensor::GuardedTensor(const TensorShape& shape, int alignment_bytes, MemoryOrder order)
    : shape_(shape),
      layout_(make_layout(shape, alignment_bytes, order)),
      offset_bytes_(kGuardBytes +
                    (alignment_bytes == 16 ? 0U : static_cast<std::size_t>(alignment_bytes))),
      memory_(offset_bytes_ + 2 * static_cast<std::size_t>(layout_.span_elements) + kGuardBytes) {}

ProblemBuffers::ProblemBuffers(const AttentionProblem& problem, const ReferenceKernels& kernels,
                               const Stream& stream, unsigned long long seed, MemoryOrder order)
    : problem_(problem),
      q_({problem.batch, problem.heads_q, problem.seq_q, problem.head_dim}, problem.alignment_bytes,
         order),
      k_({problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim},
         problem.alignment_bytes, order),
      v_({problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim},
         problem.alignment_bytes, order),
      o_({problem.batch, problem.heads_q, problem.seq_q, problem.head_dim}, problem.alignment_bytes,
         order),
      lse_memory_(lse_bytes(problem) + 2 * kGuardBytes),
      tile_counter_(2 * sizeof(unsigned)) {
  tile_counter_.fill(0, stream);
  fill_randomly(q_, problem.dtype, kernels, stream, 3 * seed);
  fill_randomly(k_, problem.dtype, kernels, stream, 3 * seed + 1);
  fill_randomly(v_, problem.dtype, kernels, stream, 3 * seed + 2);
  poison_outputs(stream);
}

CUdeviceptr ProblemBuffers::lse_address() const { return lse_memory_.address() + kGuardBytes; }

long long ProblemBuffers::rows() const {
  return static_cast<long long>(problem_.batch) * problem_.heads_q * problem_.seq_q;
}

AttentionParams ProblemBuffers::params(bool with_lse) const {
  AttentionParams params;
  params.q = device_pointer(q_.address());
  params.k = device_pointer(k_.address());
  params.v = device_pointer(v_.address());
  params.o = device_pointer(o_.address());
  params.lse = with_lse ? static_cast<float*>(device_pointer(lse_address())) : nullptr;
  params.q_strides = q_.layout().strides;
  params.k_strides = k_.layout().strides;
  params.v_strides = v_.layout().strides;
  params.o_strides = o_.layout().strides;
  params.batch = problem_.batch;
  params.heads_q = problem_.heads_q;
  params.heads_kv = problem_.heads_kv;
  params.seq_q = problem_.seq_q;
  params.seq_kv = problem_.seq_kv;
  params.scale_log2 =
      std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(problem_.head_dim));
  params.tile_counter = static_cast<unsigned*>(device_pointer(tile_counter_.address()));
  return params;
}

void ProblemBuffers::poison_outputs(const Stream& stream) const {
  o_.memory().fill(kPoison, stream);
  lse_memory_.fill(kPoison, stream);
}

namespace {

constexpr LaunchShape kComparisonShape{.grid_x = 1024, .block_x = 256};

void compute_reference(const ReferenceKernels& kernels, const ProblemBuffers& buffers,
                       const Stream& stream, CUdeviceptr output, CUdeviceptr lse) {
  const AttentionProblem& problem = buffers.problem();
  AttentionParams params = buffers.params(true);
  // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
  params.o = reinterpret_cast<void*>(output);
  params.lse = reinterpret_cast<float*>(lse);
  // NOLINTEND(performance-no-int-to-ptr)
  const long long ctas = reference::cta_count(problem.batch * problem.heads_q, problem.seq_q);
  const LaunchShape shape{.grid_x = static_cast<unsigned>(ctas),
                          .block_x = reference::kThreads,
                          .dynamic_smem_bytes = reference::kSmemBytes};
  kernels.attention.launch(shape, stream, params, static_cast<int>(problem.dtype),
                           problem.causal ? 1 : 0, problem.head_dim);
  stream.synchronize();
}

}  // namespace

Verifier::Verifier(const ReferenceKernels& kernels, const ProblemBuffers& buffers,
                   const Stream& stream)
    : kernels_(kernels),
      buffers_(buffers),
      stream_(stream),
      output_(sizeof(float) * static_cast<std::size_t>(buffers.rows()) *
              static_cast<std::size_t>(buffers.problem().head_dim)),
      lse_(sizeof(float) * static_cast<std::size_t>(buffers.rows())),
      comparison_(sizeof(reference::Comparison)) {
  compute_reference(kernels, buffers, stream, output_.address(), lse_.address());
}

Verdict Verifier::check(bool with_lse) const {
  const AttentionProblem& problem = buffers_.problem();
  comparison_.fill(0, stream_);
  kernels_.compare_output.launch(kComparisonShape, stream_, buffers_.params(with_lse),
                                 output_.address(), static_cast<int>(problem.dtype),
                                 problem.head_dim, comparison_.address());
  if (with_lse) {
    kernels_.compare_lse.launch(kComparisonShape, stream_, buffers_.lse_address(), lse_.address(),
                                buffers_.rows(), comparison_.address());
  }
  count_disturbed(buffers_.o().memory());
  count_disturbed(buffers_.lse_memory());
  stream_.synchronize();
  reference::Comparison comparison;
  comparison_.download(std::as_writable_bytes(std::span(&comparison, 1)));
  return judge(comparison, problem.dtype);
}

void Verifier::count_disturbed(const DeviceBuffer& memory) const {
  kernels_.count_disturbed.launch(kComparisonShape, stream_, memory.address(),
                                  static_cast<long long>(memory.size_bytes() / 2),
                                  comparison_.address());
}

namespace {

class AttentionTrial final : public Trial {
 public:
  AttentionTrial(std::shared_ptr<const Kernel> kernel, const AttentionLaunchPlan& plan,
                 const ProblemBuffers& buffers, const std::optional<Verifier>& verifier,
                 const Stream& stream)
      : kernel_(std::move(kernel), plan),
        buffers_(buffers),
        verifier_(verifier),
        stream_(stream),
        split_memory_(plan, buffers.params(false), stream) {}

  void launch() override { launch(false); }

  /// With and without lse: the timed launches do not write it.
  Verdict verify() override {
    Verdict verdict = verify(true);
    return verdict.failure.empty() ? verify(false) : verdict;
  }

  Verdict check_after_timing() override { return verifier_.value().check(false); }

 private:
  void launch(bool with_lse) const {
    kernel_.launch(split_memory_.of_launch(buffers_.params(with_lse)), stream_.handle());
  }

  Verdict verify(bool with_lse) const {
    buffers_.poison_outputs(stream_);
    launch(with_lse);
    return verifier_.value().check(with_lse);
  }

  AttentionKernel kernel_;
  const ProblemBuffers& buffers_;
  const std::optional<Verifier>& verifier_;
  const Stream& stream_;
  KvSplitMemory split_memory_;
};

}  // namespace

AttentionWorkload::AttentionWorkload(const AttentionProblem& problem,
                                     const ReferenceKernels& kernels, const Stream& stream,
                                     int sm_count, unsigned long long seed)
    : AttentionWorkload(problem, kernels, stream, sm_count, seed, Reference::computed) {}

AttentionWorkload::AttentionWorkload(const AttentionProblem& problem,
                                     const ReferenceKernels& kernels, const Stream& stream,
                                     int sm_count, unsigned long long seed, Reference reference)
    : problem_(problem),
      kernels_(kernels),
      stream_(stream),
      sm_count_(sm_count),
      seed_(seed),
      buffers_(problem, kernels, stream, seed) {
  if (reference == Reference::computed) {
    verifier_.emplace(kernels, buffers_, stream);
  }
}

std::unique_ptr<Trial> AttentionWorkload::bind(const Variant& variant,
                                               std::shared_ptr<const Kernel> kernel,
                                               int ctas_per_sm) {
  const AttentionLaunchPlan plan =
      launch_plan(buffers_.problem(), variant.as<AttentionVariant>(), sm_count_, ctas_per_sm);
  return std::make_unique<AttentionTrial>(std::move(kernel), plan, buffers_, verifier_, stream_);
}

std::unique_ptr<Workload> AttentionWorkload::copy() {
  return std::unique_ptr<Workload>(new AttentionWorkload(buffers_.problem(), kernels_, stream_,
                                                         sm_count_, seed_, Reference::none));
}

}  // namespace swr
