// SPDX-License-Identifier: MIT
// What a program does that ships an exported cubin: nothing but the CUDA driver's C interface and
// the parameter block.
#pragma once

#include <swr/attention_params.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// The launch as the manifest states it.
struct ShippedKernel {
  std::vector<std::byte> cubin;
  std::string entry;
  unsigned grid_x = 0;
  unsigned block_x = 0;
  unsigned dynamic_smem_bytes = 0;
};

/// Runs the kernel on device 0 with contiguous Q, K and V of 16-bit elements and returns O, which
/// has as many elements as Q. The pointers of `params` are filled in here.
/// Throws: std::runtime_error naming the driver call that failed.
std::vector<std::uint16_t> run_shipped_kernel(const ShippedKernel& shipped,
                                              swr::AttentionParams params,
                                              const std::vector<std::uint16_t>& q,
                                              const std::vector<std::uint16_t>& k,
                                              const std::vector<std::uint16_t>& v);
