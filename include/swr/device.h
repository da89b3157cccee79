// SPDX-License-Identifier: MIT
// What a GPU is to the tuner: its identity in the database and the limits a kernel must fit.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace swr {

/// A GPU by what matters for a kernel's speed. Two cards with the same numbers share results,
/// whatever their marketing names; the name is kept for people.
struct DeviceInfo {
  std::string name;
  /// Compute capability as major * 10 + minor, e.g. 90 or 121.
  int sm_arch = 0;
  int sm_count = 0;
  long long l2_bytes = 0;
  /// Theoretical DRAM bandwidth in GB/s (1e9 bytes).
  double dram_gb_per_s = 0.0;
  /// True for a slice of a GPU (multi-instance GPU).
  bool mig = false;

  int smem_per_cta_bytes = 0;           ///< Opt-in limit of one CTA.
  int smem_per_sm_bytes = 0;            ///< Shared by the CTAs of an SM.
  int smem_reserved_per_cta_bytes = 0;  ///< Taken by the system for every CTA.
  int registers_per_sm = 0;             ///< 32-bit registers.
  int max_threads_per_sm = 0;
  int max_ctas_per_sm = 0;
};

/// A GPU of this machine. Throws: Error{no_driver}; Error{invalid_argument} when there is none of
/// that ordinal.
DeviceInfo present_device(int ordinal = 0);

/// A GPU by the id of its built-in profile, such as "h200", or by the path of a profile; it need
/// not be present. Throws: Error{not_found} listing the ids; Error{unreadable}.
DeviceInfo profiled_device(std::string_view id);

/// Throws: Error{invalid_argument} naming what is missing of a device whose limits no kernel fits.
void require_described(const DeviceInfo& device);

/// True when results of one device are valid for the other: same architecture, SM count, L2 size
/// and MIG state, and memory bandwidth within 2 percent.
bool same_device(const DeviceInfo& a, const DeviceInfo& b);

}  // namespace swr
