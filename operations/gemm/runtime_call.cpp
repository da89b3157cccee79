// SPDX-License-Identifier: MIT
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
  launch(problem_of(call), &call, call.params.a, stream);
}

}  // namespace swr
