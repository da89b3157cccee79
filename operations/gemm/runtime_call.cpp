// SPDX-License-Identifier: MIT
#include "core/reject.h"
#include "runtime/alignment.h"
#include <swr/gemm_problem.h>
#include <swr/runtime.h>

#include <algorithm>

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

}  // namespace

GemmProblem problem_of(const GemmCall& call) {
  const GemmParams& p = call.params;
  GemmProblem problem{.m = p.m,
                      .n = p.n,
                      .k = p.k,
                      .batch = p.batch,
                      .dtype = call.dtype,
                      .output = call.output,
                      .layout = call.layout,
                      .reads_c = p.beta != 0.0F};
  const int input_bytes = element_bytes(call.dtype);
  const int c_bytes = output_bytes(call.output);
  Alignment alignment;
  alignment.add_pointer(p.a, "A");
  alignment.add_pointer(p.b, "B");
  alignment.add_pointer(p.c, "C");
  add_strides(alignment, p.a_strides, p.batch, call.layout == GemmLayout::tn ? p.k : p.m,
              input_bytes);
  add_strides(alignment, p.b_strides, p.batch, call.layout == GemmLayout::nt ? p.n : p.k,
              input_bytes);
  add_strides(alignment, p.c_strides, p.batch, p.m, c_bytes);
  problem.alignment_bytes = alignment.bytes(std::max(input_bytes, c_bytes));
  validate(problem);
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
