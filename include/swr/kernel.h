// SPDX-License-Identifier: MIT
// A compiled variant: the cubin, the resources the compiler gave it and how it is launched.
#pragma once

#include <swr/device.h>
#include <swr/launch_geometry.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <cstddef>
#include <string>
#include <vector>

namespace swr {

/// What the compiler's log says a kernel uses; known without a GPU.
/// Of several kernels the most of each.
struct KernelResources {
  int registers_per_thread = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_smem_bytes = 0;
  /// Messages of ptxas that it makes wgmma wait for every product (C7510 to C7515) or ignores
  /// setmaxnreg (C7508): such a kernel is right but far from the speed of its form.
  int wgmma_warnings = 0;

  bool operator==(const KernelResources&) const = default;
};

struct CompiledKernel {
  /// Name of the entry function in the cubin.
  std::string entry;
  /// Of the kernels that are launched after it, where one program has several.
  std::vector<std::string> further_entries;
  /// Architecture of the cubin as major * 10 + minor.
  int sm_arch = 0;
  std::vector<std::byte> cubin;
  /// SHA-256 of the cubin in lower-case hex.
  std::string cubin_digest;
  /// SHA-256 over every input of the compilation; names the cubin in the cache.
  std::string source_digest;
  KernelResources resources;
  /// It waits for the launch before it ahead of every access to global memory
  /// (griddepcontrol.wait), so its launch may start while that one ends.
  bool may_overlap = false;
  bool from_cache = false;
};

/// CTAs of one SM that fit at the same time and what stops the next one.
struct Occupancy {
  int ctas_per_sm = 0;
  /// "registers", "shared memory", "threads" or "CTA slots".
  std::string limited_by;
};

// Throw, all of them: Error{invalid_argument} when problem and variant are of different operations.

/// Dynamic shared memory of a variant in bytes.
int smem_bytes(const Problem& problem, const Variant& variant);

/// The variant without the choices made at launch: variants of one problem that are equal then
/// share a cubin.
Variant kernel_of(const Variant& variant);

/// Threads of a CTA.
int threads_per_cta(const Problem& problem, const Variant& variant);

/// Resident CTAs from registers, shared memory, threads and slots, with the hardware's allocation
/// granularity (registers in units of 256 per warp, from the quarter of the SM's registers that the
/// warp's scheduler owns; shared memory in units of 128 bytes: CUDA occupancy calculator).
Occupancy occupancy(const KernelResources& resources, const Problem& problem,
                    const Variant& variant, const DeviceInfo& device);

/// Requires: ctas_per_sm >= 1.
LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                               int ctas_per_sm);

}  // namespace swr
