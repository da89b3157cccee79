// SPDX-License-Identifier: MIT
#include "operations/strided_memset.h"

#include "driver/cuda_driver.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

namespace swr {
namespace {

constexpr long long kElementBytes = 2;

struct Dimension {
  long long extent;
  long long stride_bytes;
};

/// Those with more than one element, the innermost first; neighbours that one stride walks are one.
std::vector<Dimension> dimensions_of(const StridedTensor& tensor) {
  const TensorStrides& strides = tensor.strides;
  std::array<Dimension, 4> all{Dimension{tensor.columns, kElementBytes},
                               {tensor.seq, strides.seq * kElementBytes},
                               {tensor.heads, strides.head * kElementBytes},
                               {tensor.batch, strides.batch * kElementBytes}};
  std::ranges::stable_sort(all, {}, &Dimension::stride_bytes);
  std::vector<Dimension> merged{{kElementBytes, 1}};  // The bytes of an element.
  for (const Dimension& one : all) {
    Dimension& below = merged.back();
    if (one.extent > 1 && one.stride_bytes == below.extent * below.stride_bytes) {
      below.extent *= one.extent;
    } else if (one.extent > 1) {
      merged.push_back(one);
    }
  }
  return merged;
}

/// `outer` beyond runs of so many bytes, the innermost first.
void zero_runs(CUdeviceptr address, long long run_bytes, std::span<const Dimension> outer,
               CUstream stream) {
  const CudaDriver& driver = cuda_driver();
  constexpr auto kMostPitch = std::numeric_limits<int>::max();
  const auto run = static_cast<std::size_t>(run_bytes);
  if (outer.empty()) {
    driver.memset_async(address, 0, run, stream);
  } else if (outer.size() == 1 && outer.front().stride_bytes <= kMostPitch) {
    driver.memset_rows_async(address, static_cast<std::size_t>(outer.front().stride_bytes), 0, run,
                             static_cast<std::size_t>(outer.front().extent), stream);
  } else {
    for (long long i = 0; i < outer.back().extent; ++i) {
      zero_runs(address + static_cast<CUdeviceptr>(i * outer.back().stride_bytes), run_bytes,
                outer.first(outer.size() - 1), stream);
    }
  }
}

}  // namespace

void zero(const StridedTensor& tensor, CUstream stream) {
  if (std::min({tensor.batch, tensor.heads, tensor.seq, tensor.columns}) < 1) {
    return;
  }
  if (tensor.address == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "a result of the call has no memory; pass its address");
  }
  const std::vector<Dimension> dimensions = dimensions_of(tensor);
  zero_runs(reinterpret_cast<CUdeviceptr>(tensor.address), dimensions.front().extent,
            std::span(dimensions).subspan(1), stream);
}

}  // namespace swr
