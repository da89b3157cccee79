// SPDX-License-Identifier: MIT
// cuBLASLt, opened at run time: the library that GEMM kernels are measured against.
#pragma once

#include "core/dynamic_library.h"
#include "driver/cuda_driver.h"
#include <swr/gemm_params.h>
#include <swr/gemm_problem.h>

#include <cublasLt.h>
#include <vector>

namespace swr {

/// Every algorithm that cuBLASLt's heuristic returns for one problem of contiguous matrices, in the
/// heuristic's order.
class CublasLtProduct {
 public:
  /// Throws: Error{no_driver} when the library is missing; std::runtime_error naming the call.
  CublasLtProduct(const GemmProblem& problem, int max_algorithms);
  ~CublasLtProduct();
  CublasLtProduct(const CublasLtProduct&) = delete;
  CublasLtProduct& operator=(const CublasLtProduct&) = delete;

  int algorithms() const { return static_cast<int>(found_.size()); }

  /// Enqueues C = A * B with one of the algorithms.
  void launch(int algorithm, const GemmParams& params, CUstream stream) const;

 private:
  struct Library;
  static const Library& library();

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;   ///< B, as cuBLAS' first operand.
  cublasLtMatrixLayout_t second_ = nullptr;  ///< A.
  cublasLtMatrixLayout_t result_ = nullptr;
  DeviceBuffer workspace_;
  std::vector<cublasLtMatmulHeuristicResult_t> found_;
};

}  // namespace swr
