// SPDX-License-Identifier: MIT
#include "operations/gemm/buffers.h"

#include "templates/reference/comparison.h"
#include <swr/attention_params.h>
#include <swr/gemm_problem.h>

#include <span>

namespace swr {
namespace {

constexpr unsigned char kPoison = 0xff;
constexpr std::size_t kGuardBytes = 4096;  ///< A multiple of every alignment.
constexpr LaunchShape kElementwise{.grid_x = 1024, .block_x = 256};

Kernel load(const Generator& generator, int sm_arch, const char* path, const char* entry) {
  return Kernel(generator.compile_template(path, entry, sm_arch).cubin, entry);
}

int rows_of_a(const GemmProblem& p) { return p.layout == GemmLayout::tn ? p.k : p.m; }
int columns_of_a(const GemmProblem& p) { return p.layout == GemmLayout::tn ? p.m : p.k; }
int rows_of_b(const GemmProblem& p) { return p.layout == GemmLayout::nt ? p.n : p.k; }
int columns_of_b(const GemmProblem& p) { return p.layout == GemmLayout::nt ? p.k : p.n; }

MatrixStrides strides_of(int rows, int columns, int element_bytes, int alignment_bytes,
                         RowGap gap) {
  constexpr int kLargestAlignment = 16;
  const int unit = alignment_bytes / element_bytes;
  long long units = (columns + unit - 1) / unit;
  const bool is_aligned_better = alignment_bytes < kLargestAlignment && units % 2 == 0;
  units += gap == RowGap::one_unit || is_aligned_better ? 1 : 0;
  return {.batch = units * unit * rows, .row = units * unit};
}

std::size_t expected_bytes(const GemmProblem& problem, ExpectedC expected) {
  const std::size_t elements = static_cast<std::size_t>(problem.batch) *
                               static_cast<std::size_t>(problem.m) *
                               static_cast<std::size_t>(problem.n);
  return sizeof(float) * (expected == ExpectedC::computed ? elements : 1);
}

}  // namespace

GemmReferenceKernels::GemmReferenceKernels(const Generator& generator, int sm_arch)
    : reference(load(generator, sm_arch, "reference/gemm_reference.cu", "swr_gemm_reference")),
      binary_fill(load(generator, sm_arch, "reference/gemm_reference.cu", "swr_binary_fill")),
      random_fill(load(generator, sm_arch, "reference/random_fill.cu", "swr_random_fill")),
      compare(load(generator, sm_arch, "reference/gemm_reference.cu", "swr_gemm_compare")),
      count_disturbed(load(generator, sm_arch, "reference/compare.cu", "swr_count_disturbed")) {}

GuardedMatrix::GuardedMatrix(int batch, int rows, int columns, int element_bytes,
                             int alignment_bytes, RowGap gap)
    : rows_(rows),
      columns_(columns),
      strides_(strides_of(rows, columns, element_bytes, alignment_bytes, gap)),
      offset_bytes_(kGuardBytes +
                    (alignment_bytes == 16 ? 0U : static_cast<std::size_t>(alignment_bytes))),
      memory_(offset_bytes_ + kGuardBytes +
              static_cast<std::size_t>(element_bytes) * static_cast<std::size_t>(batch) *
                  static_cast<std::size_t>(strides_.batch)) {}

void* GuardedMatrix::address() const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
  return reinterpret_cast<void*>(memory_.address() + offset_bytes_);
}

GemmBuffers::GemmBuffers(const GemmProblem& problem, const GemmReferenceKernels& kernels,
                         const Stream& stream, GemmInputs inputs, float alpha, float beta,
                         RowGap gap, unsigned long long seed, ExpectedC expected)
    : problem_(problem),
      kernels_(kernels),
      inputs_(inputs),
      seed_(seed),
      alpha_(alpha),
      beta_(beta),
      a_(problem.batch, rows_of_a(problem), columns_of_a(problem), 2, problem.alignment_bytes, gap),
      b_(problem.batch, rows_of_b(problem), columns_of_b(problem), 2, problem.alignment_bytes, gap),
      c_(problem.batch, problem.m, problem.n, output_bytes(problem.output), problem.alignment_bytes,
         gap),
      expected_(expected_bytes(problem, expected)) {
  const int dtype = static_cast<int>(problem.dtype);
  fill(a_, dtype, inputs, 3 * seed, stream);
  fill(b_, dtype, inputs, 3 * seed + 1, stream);
  reset_output(stream);
  if (expected == ExpectedC::computed) {
    compute_expected(stream);
  }
  stream.synchronize();
}

void GemmBuffers::compute_expected(const Stream& stream) const {
  const auto tiles = [](int length) { return (length + 15LL) / 16; };
  const long long ctas = tiles(problem_.n) * tiles(problem_.m) * problem_.batch;
  const LaunchShape shape{.grid_x = static_cast<unsigned>(ctas), .block_x = 16, .block_y = 16};
  kernels_.reference.launch(shape, stream, params(), static_cast<int>(problem_.dtype),
                            static_cast<int>(problem_.output), static_cast<int>(problem_.layout),
                            expected_.address());
}

void GemmBuffers::fill(const GuardedMatrix& matrix, int dtype, GemmInputs inputs,
                       unsigned long long seed, const Stream& stream) const {
  matrix.memory().fill(kPoison, stream);
  if (inputs == GemmInputs::binary) {
    kernels_.binary_fill.launch(kElementwise, stream, matrix.address(), matrix.strides(),
                                problem_.batch, matrix.rows(), matrix.columns(), dtype, seed);
    return;
  }
  const TensorStrides strides{.batch = matrix.strides().batch, .seq = matrix.strides().row};
  kernels_.random_fill.launch(kElementwise, stream, matrix.address(), strides, problem_.batch, 1,
                              matrix.rows(), matrix.columns(), dtype, seed);
}

void GemmBuffers::reset_output(const Stream& stream) const {
  c_.memory().fill(kPoison, stream);
  if (problem_.reads_c) {
    fill_c(stream);
  }
}

/// Two bf16 patterns side by side are one finite fp32 element.
void GemmBuffers::fill_c(const Stream& stream) const {
  const unsigned long long seed = 3 * seed_ + 2;
  if (problem_.output != OutputType::fp32) {
    fill(c_, static_cast<int>(problem_.output), inputs_, seed, stream);
    return;
  }
  const TensorStrides strides{.batch = 2 * c_.strides().batch, .seq = 2 * c_.strides().row};
  kernels_.random_fill.launch(kElementwise, stream, c_.address(), strides, problem_.batch, 1,
                              c_.rows(), 2 * c_.columns(), static_cast<int>(DType::bf16), seed);
}

GemmParams GemmBuffers::params() const {
  GemmParams params;
  params.a = a_.address();
  params.b = b_.address();
  params.c = c_.address();
  params.a_strides = a_.strides();
  params.b_strides = b_.strides();
  params.c_strides = c_.strides();
  params.m = problem_.m;
  params.n = problem_.n;
  params.k = problem_.k;
  params.batch = problem_.batch;
  params.alpha = alpha_;
  params.beta = beta_;
  return params;
}

reference::GemmComparison GemmBuffers::compare(const Stream& stream) const {
  const DeviceBuffer result(sizeof(reference::GemmComparison));
  result.fill(0, stream);
  kernels_.compare.launch(kElementwise, stream, params(), expected_.address(),
                          static_cast<int>(problem_.output), result.address());
  stream.synchronize();
  reference::GemmComparison comparison;
  result.download(std::as_writable_bytes(std::span(&comparison, 1)));
  return comparison;
}

unsigned long long GemmBuffers::disturbed_words(const Stream& stream) const {
  const DeviceBuffer result(sizeof(reference::Comparison));
  result.fill(0, stream);
  kernels_.count_disturbed.launch(kElementwise, stream, c_.memory().address(),
                                  static_cast<long long>(c_.memory().size_bytes() / 2),
                                  result.address());
  stream.synchronize();
  reference::Comparison comparison;
  result.download(std::as_writable_bytes(std::span(&comparison, 1)));
  return comparison.disturbed_words;
}

}  // namespace swr
