// SPDX-License-Identifier: MIT
#include "operations/gemm/buffers.h"

#include "templates/reference/comparison.h"
#include <swr/attention_params.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace swr {
namespace {

constexpr unsigned char kPoison = 0xff;
constexpr std::size_t kGuardBytes = 4096;  ///< A multiple of every alignment.
constexpr LaunchShape kElementwise{.grid_x = 1024, .block_x = 256};

Kernel load(const Generator& generator, int sm_arch, const char* path, const char* entry) {
  return Kernel(generator.compile_template(path, entry, sm_arch).cubin, entry);
}

int rows_of_a(const GemmProblem& p, int m) { return p.layout == GemmLayout::tn ? p.k : m; }
int columns_of_a(const GemmProblem& p, int m) { return p.layout == GemmLayout::tn ? m : p.k; }
int rows_of_b(const GemmProblem& p) {
  return p.layout == GemmLayout::nt ? product_columns(p) : p.k;
}
int columns_of_b(const GemmProblem& p) {
  return p.layout == GemmLayout::nt ? p.k : product_columns(p);
}

/// Blocks of 128 that hold so many elements.
int scale_blocks(int elements) { return (elements + kScaleBlock - 1) / kScaleBlock; }
/// Rows of A's and C's block scales are padded to whole 16 bytes.
int padded_rows(const GroupPlaces& places) { return (places.rows + 3) / 4 * 4; }
/// Block scales of a matrix of A, and of an item of B.
long long a_block_scales(const GemmProblem& p, const GroupPlaces& places) {
  return 1LL * scale_blocks(p.k) * padded_rows(places);
}
long long b_block_scales(const GemmProblem& p) {
  return 1LL * scale_blocks(product_columns(p)) * scale_blocks(p.k);
}

/// Bytes of so many scales: one of a tensor, `by_row`, or `by_block`.
std::size_t scale_bytes(Scaling scaling, long long by_row, long long by_block) {
  const long long count = scaling == Scaling::block ? by_block
                          : scaling == Scaling::row ? by_row
                                                    : 1;
  return sizeof(float) * static_cast<std::size_t>(count);
}

MatrixStrides strides_of(int rows, int columns, int element_bytes, int alignment_bytes,
                         RowGap gap) {
  constexpr int kLargestAlignment = 16;
  const int unit = alignment_bytes / element_bytes;
  long long units = (columns + unit - 1) / unit;
  const bool is_aligned_better = alignment_bytes < kLargestAlignment && units % 2 == 0;
  units += gap == RowGap::one_unit || is_aligned_better ? 1 : 0;
  return {.batch = units * unit * rows, .row = units * unit};
}

std::size_t expected_bytes(const GroupPlaces& places, int n, ExpectedC expected) {
  const std::size_t elements = static_cast<std::size_t>(places.matrices) *
                               static_cast<std::size_t>(places.rows) * static_cast<std::size_t>(n);
  return sizeof(float) * (expected == ExpectedC::computed ? elements : 1);
}

GroupPlaces places_of(const GemmProblem& problem, unsigned long long seed) {
  return problem.groups == GemmGroups::none
             ? GroupPlaces(problem)
             : GroupPlaces(problem.groups, drawn_group_rows(problem, seed));
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
    : GemmBuffers(problem, places_of(problem, seed), kernels, stream, inputs, alpha, beta, gap,
                  seed, expected) {}

GemmBuffers::GemmBuffers(const GemmProblem& problem, GroupPlaces places,
                         const GemmReferenceKernels& kernels, const Stream& stream,
                         GemmInputs inputs, float alpha, float beta, RowGap gap,
                         unsigned long long seed, ExpectedC expected)
    : problem_(problem),
      places_(std::move(places)),
      kernels_(kernels),
      inputs_(inputs),
      seed_(seed),
      alpha_(alpha),
      beta_(beta),
      a_(places_.matrices, rows_of_a(problem, places_.rows), columns_of_a(problem, places_.rows),
         element_bytes(problem.dtype), problem.alignment_bytes, gap),
      b_(problem.batch, rows_of_b(problem), columns_of_b(problem), element_bytes(problem.dtype),
         problem.alignment_bytes, gap),
      c_(places_.matrices, places_.rows, problem.n, output_bytes(problem.output),
         problem.alignment_bytes, gap),
      a_scales_(scale_bytes(problem.scaling, 1LL * places_.matrices * places_.rows,
                            places_.matrices * a_block_scales(problem, places_))),
      b_scales_(scale_bytes(problem.scaling, 1LL * problem.batch * product_columns(problem),
                            problem.batch * b_block_scales(problem))),
      c_scales_(scale_bytes(problem.output_scaling, 1,
                            1LL * scale_blocks(problem.n) * padded_rows(places_))),
      bias_(sizeof(float) * static_cast<std::size_t>(product_columns(problem))),
      expected_(expected_bytes(places_, problem.n, expected)),
      group_numbers_(sizeof(int) * std::max<std::size_t>(1, places_.numbers.size())) {
  const int dtype = static_cast<int>(problem.dtype);
  fill(a_, places_.matrices, dtype, inputs, 3 * seed, stream);
  fill(b_, problem.batch, dtype, inputs, 3 * seed + 1, stream);
  fill_scales(a_scales_, 5 * seed);
  fill_scales(b_scales_, 5 * seed + 1);
  fill_scales(c_scales_, 5 * seed + 2);
  fill_bias(stream);
  group_numbers_.upload(std::as_bytes(std::span(places_.numbers)));
  reset_output(stream);
  if (expected == ExpectedC::computed) {
    compute_expected(stream);
  }
  stream.synchronize();
}

void GemmBuffers::compute_expected(const Stream& stream) const {
  const auto tiles = [](int length) { return (length + 15LL) / 16; };
  for (const GroupPart& part : places_.parts) {
    const GemmParams of_part = part_params(part);
    const long long ctas = tiles(of_part.n) * tiles(of_part.m) * of_part.batch;
    const LaunchShape shape{.grid_x = static_cast<unsigned>(ctas), .block_x = 16, .block_y = 16};
    kernels_.reference.launch(shape, stream, of_part, part_extras(part), reference(),
                              expected_address(part));
  }
}

reference::GemmReference GemmBuffers::reference() const {
  return {.dtype = problem_.dtype,
          .output = problem_.output,
          .layout = problem_.layout,
          .scaling = problem_.scaling,
          .activation = problem_.activation,
          .output_scaling = problem_.output_scaling,
          .has_bias = problem_.has_bias,
          .gated = problem_.gated};
}

/// Between 1/4 and 4; powers of two for inputs whose products are exact, each its own so that one
/// of another row or block shows.
void GemmBuffers::fill_scales(const DeviceBuffer& scales, unsigned long long seed) const {
  std::mt19937_64 draw(seed);
  std::uniform_real_distribution<float> exponents(-2.0F, 2.0F);
  std::vector<float> values(scales.size_bytes() / sizeof(float));
  for (float& value : values) {
    const float exponent = exponents(draw);
    value = std::exp2(inputs_ == GemmInputs::binary ? std::round(exponent) : exponent);
  }
  scales.upload(std::as_bytes(std::span(values)));
}

/// Of C's type. Two bf16 patterns side by side are one finite fp32 element, which is not exact.
void GemmBuffers::fill_bias(const Stream& stream) const {
  const int columns = product_columns(problem_);
  const bool is_fp32 = problem_.output == OutputType::fp32;
  if (is_fp32 && inputs_ == GemmInputs::binary) {
    bias_.fill(0, stream);
    return;
  }
  const int dtype =
      static_cast<int>(problem_.output == OutputType::fp16 ? DType::fp16 : DType::bf16);
  const unsigned long long seed = 5 * seed_ + 3;
  if (inputs_ == GemmInputs::binary) {
    kernels_.binary_fill.launch(kElementwise, stream, bias_.address(), MatrixStrides{}, 1, 1,
                                columns, dtype, seed);
  } else {
    kernels_.random_fill.launch(kElementwise, stream, bias_.address(), TensorStrides{}, 1, 1, 1,
                                is_fp32 ? 2 * columns : columns, dtype, seed);
  }
}

GemmParams GemmBuffers::part_params(const GroupPart& part) const {
  GemmParams of_part = params();
  if (problem_.groups == GemmGroups::none) {
    return of_part;
  }
  const auto moved = [](const void* matrix, long long elements, int element_bytes) {
    return static_cast<char*>(const_cast<void*>(matrix)) + elements * element_bytes;
  };
  const auto rows = [&](const MatrixStrides& strides) {
    return part.matrix * strides.batch + part.first * strides.row;
  };
  of_part.a = moved(of_part.a, rows(of_part.a_strides), element_bytes(problem_.dtype));
  of_part.b = moved(of_part.b, part.item * of_part.b_strides.batch, element_bytes(problem_.dtype));
  of_part.c = moved(of_part.c, rows(of_part.c_strides), output_bytes(problem_.output));
  of_part.m = part.rows;
  of_part.batch = 1;
  return of_part;
}

GemmExtras GemmBuffers::part_extras(const GroupPart& part) const {
  GemmExtras of_part = extras();
  if (problem_.groups != GemmGroups::none && problem_.scaling != Scaling::none) {
    const bool by_block = problem_.scaling == Scaling::block;
    of_part.a_scales +=
        part.matrix * (by_block ? a_block_scales(problem_, places_) : places_.rows) + part.first;
    of_part.b_scales +=
        part.item * (by_block ? b_block_scales(problem_) : product_columns(problem_));
  }
  return of_part;
}

CUdeviceptr GemmBuffers::expected_address(const GroupPart& part) const {
  const auto row = static_cast<CUdeviceptr>(part.matrix) * static_cast<CUdeviceptr>(places_.rows) +
                   static_cast<CUdeviceptr>(part.first);
  return expected_.address() + sizeof(float) * row * static_cast<CUdeviceptr>(problem_.n);
}

void GemmBuffers::fill(const GuardedMatrix& matrix, int items, int dtype, GemmInputs inputs,
                       unsigned long long seed, const Stream& stream) const {
  matrix.memory().fill(kPoison, stream);
  if (inputs == GemmInputs::binary) {
    kernels_.binary_fill.launch(kElementwise, stream, matrix.address(), matrix.strides(), items,
                                matrix.rows(), matrix.columns(), dtype, seed);
    return;
  }
  const TensorStrides strides{.batch = matrix.strides().batch, .seq = matrix.strides().row};
  kernels_.random_fill.launch(kElementwise, stream, matrix.address(), strides, items, 1,
                              matrix.rows(), matrix.columns(), dtype, seed);
}

void GemmBuffers::reset_output(const Stream& stream) const {
  c_.memory().fill(kPoison, stream);
  if (problem_.output_scaling == Scaling::block) {
    c_scales_.fill(kPoison, stream);  // The kernel writes them.
  }
  if (problem_.reads_c) {
    fill_c(stream);
  }
}

/// Two bf16 patterns side by side are one finite fp32 element.
void GemmBuffers::fill_c(const Stream& stream) const {
  const unsigned long long seed = 3 * seed_ + 2;
  if (problem_.output != OutputType::fp32) {
    fill(c_, problem_.batch, static_cast<int>(problem_.output), inputs_, seed, stream);
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
  params.m = places_.rows;
  params.n = problem_.n;
  params.k = problem_.k;
  params.batch = problem_.batch;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
  const auto* const numbers = reinterpret_cast<const int*>(group_numbers_.address());
  params.groups = problem_.groups == GemmGroups::none ? nullptr : numbers;
  params.alpha = alpha_;
  params.beta = beta_;
  return params;
}

GemmExtras GemmBuffers::extras() const {
  // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
  const auto floats = [](const DeviceBuffer& memory) {
    return reinterpret_cast<float*>(memory.address());
  };
  return {.a_scales = floats(a_scales_),
          .b_scales = floats(b_scales_),
          .a_scale_stride = padded_rows(places_),
          .b_scale_stride = scale_blocks(problem_.k),
          .bias = problem_.has_bias ? reinterpret_cast<const void*>(bias_.address()) : nullptr,
          .c_scales = floats(c_scales_),
          .c_scale_stride = padded_rows(places_)};
  // NOLINTEND(performance-no-int-to-ptr)
}

reference::GemmComparison GemmBuffers::compare(const Stream& stream) const {
  const DeviceBuffer result(sizeof(reference::GemmComparison));
  result.fill(0, stream);
  const DeviceBuffer unused(sizeof(reference::GemmComparison));
  const auto compare = [&](const GroupPart& part, const DeviceBuffer& into) {
    kernels_.compare.launch(kElementwise, stream, part_params(part), part_extras(part), reference(),
                            expected_address(part), into.address());
  };
  for (const GroupPart& part : places_.parts) {
    compare(part, result);
  }
  for (const GroupPart& part : places_.padding) {
    compare(part, unused);
  }
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
