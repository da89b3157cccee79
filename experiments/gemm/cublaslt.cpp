// SPDX-License-Identifier: MIT
#include "experiments/gemm/cublaslt.h"

#include <swr/gemm_problem.h>

#include <array>
#include <stdexcept>
#include <string>

namespace swr {
namespace {

constexpr std::size_t kWorkspaceBytes = 64U << 20;

void require(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(call) + " failed with status " +
                             std::to_string(static_cast<int>(status)));
  }
}

DynamicLibrary open_library() {
  const std::array<std::string, 4> candidates{"libcublasLt.so.13",
                                              "/usr/local/cuda/lib64/libcublasLt.so.13",
                                              "libcublasLt.so.12", "libcublasLt.so"};
  return {candidates, ErrorCode::no_driver, "cuBLASLt", "install the CUDA toolkit"};
}

cudaDataType_t data_type(DType dtype) { return dtype == DType::fp16 ? CUDA_R_16F : CUDA_R_16BF; }

cudaDataType_t data_type(OutputType output) {
  return output == OutputType::fp32   ? CUDA_R_32F
         : output == OutputType::fp16 ? CUDA_R_16F
                                      : CUDA_R_16BF;
}

}  // namespace

/// The entry points that are used.
struct CublasLtProduct::Library {
  template <typename Function>
  Function* find(const char* name) const {
    return file.function<Function>(name);
  }

  DynamicLibrary file = open_library();
  decltype(cublasLtCreate)* create = find<decltype(cublasLtCreate)>("cublasLtCreate");
  decltype(cublasLtDestroy)* destroy = find<decltype(cublasLtDestroy)>("cublasLtDestroy");
  decltype(cublasLtMatmulDescCreate)* create_operation =
      find<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(cublasLtMatmulDescDestroy)* destroy_operation =
      find<decltype(cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  decltype(cublasLtMatmulDescSetAttribute)* set_operation =
      find<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(cublasLtMatrixLayoutCreate)* create_layout =
      find<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(cublasLtMatrixLayoutDestroy)* destroy_layout =
      find<decltype(cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  decltype(cublasLtMatmulPreferenceCreate)* create_preference =
      find<decltype(cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(cublasLtMatmulPreferenceDestroy)* destroy_preference =
      find<decltype(cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference =
      find<decltype(cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic =
      find<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(cublasLtMatmul)* matmul = find<decltype(cublasLtMatmul)>("cublasLtMatmul");
};

const CublasLtProduct::Library& CublasLtProduct::library() {
  static const Library instance;
  return instance;
}

// cuBLAS is column-major: it computes the transpose of C, [n, m], as B^T A^T.
CublasLtProduct::CublasLtProduct(const GemmProblem& problem, int max_algorithms)
    : workspace_(kWorkspaceBytes) {
  const Library& lt = library();
  require(lt.create(&handle_), "cublasLtCreate");
  require(lt.create_operation(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
  const auto m = static_cast<std::uint64_t>(problem.m);
  const auto n = static_cast<std::uint64_t>(problem.n);
  const auto k = static_cast<std::uint64_t>(problem.k);
  const bool b_along_k = problem.layout == GemmLayout::nt;
  const bool a_along_k = problem.layout != GemmLayout::tn;
  const cublasOperation_t first = b_along_k ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = a_along_k ? CUBLAS_OP_N : CUBLAS_OP_T;
  require(lt.set_operation(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
          "cublasLtMatmulDescSetAttribute");
  require(lt.set_operation(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
          "cublasLtMatmulDescSetAttribute");
  const auto layout = [&](cublasLtMatrixLayout_t* made, cudaDataType_t type, std::uint64_t rows,
                          std::uint64_t columns) {
    require(lt.create_layout(made, type, rows, columns, static_cast<std::int64_t>(rows)),
            "cublasLtMatrixLayoutCreate");
  };
  layout(&first_, data_type(problem.dtype), b_along_k ? k : n, b_along_k ? n : k);
  layout(&second_, data_type(problem.dtype), a_along_k ? k : m, a_along_k ? m : k);
  layout(&result_, data_type(problem.output), n, m);

  cublasLtMatmulPreference_t preference = nullptr;
  require(lt.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
  require(lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                            sizeof kWorkspaceBytes),
          "cublasLtMatmulPreferenceSetAttribute");
  found_.resize(static_cast<std::size_t>(max_algorithms));
  int count = 0;
  const cublasStatus_t status = lt.heuristic(handle_, operation_, first_, second_, result_, result_,
                                             preference, max_algorithms, found_.data(), &count);
  require(lt.destroy_preference(preference), "cublasLtMatmulPreferenceDestroy");
  require(status, "cublasLtMatmulAlgoGetHeuristic");
  found_.resize(static_cast<std::size_t>(count));
}

CublasLtProduct::~CublasLtProduct() {
  const Library& lt = library();
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
    lt.destroy_layout(layout);
  }
  lt.destroy_operation(operation_);
  lt.destroy(handle_);
}

void CublasLtProduct::launch(int algorithm, const GemmParams& params, CUstream stream) const {
  const float alpha = 1.0F;
  const float beta = 0.0F;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
  void* const workspace = reinterpret_cast<void*>(workspace_.address());
  require(library().matmul(handle_, operation_, &alpha, params.b, first_, params.a, second_, &beta,
                           params.c, result_, params.c, result_,
                           &found_.at(static_cast<std::size_t>(algorithm)).algo, workspace,
                           kWorkspaceBytes, stream),
          "cublasLtMatmul");
}

}  // namespace swr
