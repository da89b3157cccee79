// SPDX-License-Identifier: MIT
// Device memory back on the host, as float64.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/workload.h"
#include <swr/axes.h>

#include <vector>

namespace swr {

/// A strided tensor as contiguous [batch, heads, seq, head_dim].
std::vector<double> download(const GuardedTensor& tensor, DType dtype);

/// A buffer of fp32.
std::vector<double> download_fp32(const DeviceBuffer& buffer);

/// ||a - b|| / ||b||; 0 when both are zero.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace swr
