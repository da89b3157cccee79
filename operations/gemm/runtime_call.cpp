// SPDX-License-Identifier: MIT
#include "core/reject.h"
#include "operations/gemm/gemm_fit.h"
#include "runtime/alignment.h"
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/runtime.h>

#include <algorithm>
#include <cstdint>

namespace swr {
namespace {

void add_strides(Alignment& alignment, const MatrixStrides& strides, int batch, int rows,
                 int element_bytes) {
  alignment.add_stride(strides.batch, batch, element_bytes);
  alignment.add_stride(strides.row, rows, element_bytes);
}

/// With alpha = 0, or no column of A, nobody reads A and B, which then need not be there.
GemmCall without_unread_inputs(GemmCall call) {
  GemmParams& p = call.params;
  if (p.k == 0) {
    constexpr long long kPieceElements = 8;  // Of 16 bytes, the largest alignment that counts.
    p.a_strides = p.b_strides = {kPieceElements, kPieceElements};
    p.k = 1;
    p.alpha = 0.0F;
  }
  if (p.alpha == 0.0F) {
    p.a = p.a == nullptr ? p.c : p.a;
    p.b = p.b == nullptr ? p.c : p.b;
  }
  return call;
}

/// Pointers that the problem asks for, and strides of scales that hold a row.
void require_extras(const GemmProblem& p, const GemmCall& call) {
  const GemmExtras& extras = call.extras;
  const auto require = [](bool holds, const char* otherwise) {
    if (!holds) {
      reject(otherwise);
    }
  };
  require(!p.gated || p.batch == 1 ||
              call.params.b_strides.batch == 2LL * p.n * call.params.b_strides.row,
          "the items of a gated B must follow one another");
  require(p.scaling == Scaling::none || (extras.a_scales != nullptr && extras.b_scales != nullptr),
          "the scales of A and B are null");
  require(p.scaling != Scaling::block ||
              (extras.a_scale_stride >= call.params.m &&
               extras.b_scale_stride >= (p.k + kScaleBlock - 1) / kScaleBlock),
          "rows of block scales are closer than they are long: m of A, k / 128 of B");
  require(
      p.scaling != Scaling::block || (extras.a_scale_stride % 4 == 0 &&
                                      reinterpret_cast<std::uintptr_t>(extras.a_scales) % 16 == 0),
      "block scales of A and their rows must lie at multiples of 16 bytes");
  require(p.output != OutputType::fp8 || extras.c_scales != nullptr, "the scales of C are null");
  require(p.output_scaling != Scaling::block || extras.c_scale_stride >= call.params.m,
          "rows of C's scales are closer than their m elements");
  for (const void* const pointer :
       {static_cast<const void*>(extras.a_scales), static_cast<const void*>(extras.b_scales),
        extras.bias, static_cast<const void*>(extras.c_scales)}) {
    require(reinterpret_cast<std::uintptr_t>(pointer) % 8 == 0,
            "scales and bias must lie at multiples of 8 bytes");
  }
}

}  // namespace

GemmProblem problem_of(const GemmCall& call) {
  const GemmParams& p = call.params;
  GemmProblem problem{.m = problem_rows(p, call.grouping),
                      .n = p.n,
                      .k = p.k,
                      .batch = p.batch,
                      .dtype = call.dtype,
                      .output = call.output,
                      .layout = call.layout,
                      .reads_c = p.beta != 0.0F,
                      .scaling = call.scaling,
                      .accuracy = call.accuracy,
                      .has_bias = call.extras.bias != nullptr,
                      .activation = call.activation,
                      .gated = call.gated,
                      .skewed = call.grouping.skewed,
                      .output_scaling = call.output_scaling,
                      .groups = call.grouping.form};
  if (problem.groups != GemmGroups::none && p.groups == nullptr) {
    reject("groups is null; a grouped product reads there where the rows of its items are");
  }
  const int matrices = has_matrix_per_item(problem.groups) ? p.batch : 1;
  const int input_bytes = element_bytes(call.dtype);
  const int c_bytes = output_bytes(call.output);
  Alignment alignment;
  alignment.add_pointer(p.a, "A");
  alignment.add_pointer(p.b, "B");
  alignment.add_pointer(p.c, "C");
  if (call.extras.addend != nullptr) {
    alignment.add_pointer(call.extras.addend, "what is added to C");
  }
  add_strides(alignment, p.a_strides, matrices, call.layout == GemmLayout::tn ? p.k : p.m,
              input_bytes);
  add_strides(alignment, p.b_strides, p.batch,
              call.layout == GemmLayout::nt ? product_columns(problem) : p.k, input_bytes);
  add_strides(alignment, p.c_strides, matrices, p.m, c_bytes);
  problem.alignment_bytes = alignment.bytes(std::max(input_bytes, c_bytes));
  validate(problem);
  require_extras(problem, call);
  return problem;
}

void Runtime::gemm(const GemmCall& call, CUstream_st* stream) {
  const GemmParams& p = call.params;
  if (p.m == 0 || p.n == 0 || p.batch == 0) {
    validate(GemmProblem{.m = at_least_one(p.m),
                         .n = at_least_one(p.n),
                         .k = at_least_one(p.k),
                         .batch = at_least_one(p.batch)});
    return;
  }
  const GemmCall whole = without_unread_inputs(call);
  launch(problem_of(whole), &whole, p.c, stream);
}

}  // namespace swr
