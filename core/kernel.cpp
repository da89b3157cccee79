// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "templates/common/cta_schedule.h"
#include <swr/kernel.h>

#include <algorithm>
#include <array>

namespace swr {
namespace {

constexpr int round_up(int value, int granularity) {
  return ceil_div(value, granularity) * granularity;
}

}  // namespace

const FamilySource& family_source(const Operation& operation, Family family) {
  return *std::ranges::find(operation.families(), family, &FamilySource::family);
}

Variant kernel_of(const Variant& variant) {
  return variant.operation().without_launch_choices(variant);
}

int smem_bytes(const Problem& problem, const Variant& variant) {
  require_same_operation(problem, variant);
  return problem.operation().smem_bytes(problem, variant);
}

int threads_per_cta(const Problem& problem, const Variant& variant) {
  require_same_operation(problem, variant);
  return problem.operation().threads_per_cta(problem, variant);
}

Occupancy occupancy(const KernelResources& resources, const Problem& problem,
                    const Variant& variant, const DeviceInfo& device) {
  constexpr int kRegisterUnitPerWarp = 256;
  constexpr int kSmemUnitBytes = 128;
  constexpr int kSchedulersPerSm = 4;
  const int threads = threads_per_cta(problem, variant);
  const int cta_warps = ceil_div(threads, 32);
  // A file may say that a kernel takes none; a warp has one unit at least.
  const int warp_registers =
      round_up(std::max(resources.registers_per_thread, 1) * 32, kRegisterUnitPerWarp);
  const int cta_smem = round_up(smem_bytes(problem, variant) + resources.static_smem_bytes +
                                    device.smem_reserved_per_cta_bytes,
                                kSmemUnitBytes);
  const int warps = device.registers_per_sm / kSchedulersPerSm / warp_registers * kSchedulersPerSm;
  const std::array<Occupancy, 4> limits{{
      {warps / cta_warps, "registers"},
      {device.smem_per_sm_bytes / cta_smem, "shared memory"},
      {device.max_threads_per_sm / threads, "threads"},
      {device.max_ctas_per_sm, "CTA slots"},
  }};
  return *std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
    return a.ctas_per_sm < b.ctas_per_sm;
  });
}

LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                               int ctas_per_sm) {
  require_same_operation(problem, variant);
  return problem.operation().launch_geometry(problem, variant, sm_count, ctas_per_sm);
}

}  // namespace swr
