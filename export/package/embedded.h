// SPDX-License-Identifier: MIT
// What the tables of embedded kernels say of a kernel of any operation, and which one serves a
// problem. An operation's problem has sizes(), kind(), describe() and an order; its kernel has
// `embedded`, `problem` and fits().
#pragma once

#include "core/shape_distance.h"
#include "export/package/driver.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

namespace swr_package {

struct EmbeddedKernel {
  const char* name;
  const char* entry;
  const char* sha256;
  const std::uint64_t* cubin;
  std::size_t cubin_bytes;
  bool may_overlap;         ///< Its launch may start while the one before it ends.
  swr::DevicePoint device;  ///< That it was tuned for.
  bool measured;
};

using Sizes = std::array<int, swr::ShapePoint::kDimensions>;

inline double squared_distance(const Sizes& from, const Sizes& to) {
  const auto point = [](const Sizes& s) { return swr::shape_point(s[0], s[1], s[2], s[3], s[4]); };
  return swr::squared_distance(point(from), point(to));
}

/// Smaller is better: this device's kernels first, measured before predicted, then the nearest
/// shape, then the most similar device.
template <typename Kernel, typename Problem>
auto rank(const Kernel& kernel, const Problem& problem, const Device& device) {
  const swr::DevicePoint& tuned_for = kernel.embedded.device;
  const bool same = swr::is_same_device(tuned_for, device.point);
  return std::tuple(
      !same, !kernel.embedded.measured, squared_distance(kernel.problem.sizes(), problem.sizes()),
      same ? 0.0 : swr::device_distance(tuned_for, device.point), kernel.problem.sizes());
}

/// The kernel that serves a problem. Throws: Error{no_kernel}.
template <typename Kernel, typename Problem>
const Kernel& choose(std::span<const Kernel> kernels, const Problem& problem,
                     const Device& device) {
  const Kernel* best = nullptr;
  for (const Kernel& kernel : kernels) {
    if (kernel.problem.kind() == problem.kind() &&
        kernel.embedded.device.sm_arch == device.point.sm_arch &&
        kernel.fits(problem, device.smem_per_cta_bytes) &&
        (best == nullptr || rank(kernel, problem, device) < rank(*best, problem, device))) {
      best = &kernel;
    }
  }
  if (best == nullptr) {
    throw Error(ErrorCode::no_kernel, "no kernel of this package fits " + problem.describe() +
                                          " on " + device.name + " (sm_" +
                                          text(device.point.sm_arch) +
                                          "); tune this kind of problem there and export again");
  }
  return *best;
}

template <typename Kernel, typename Problem>
Choice choice_of(const Kernel& kernel, const Problem& problem, const Device& device) {
  return {kernel.embedded.name,
          std::sqrt(squared_distance(kernel.problem.sizes(), problem.sizes())),
          swr::is_same_device(kernel.embedded.device, device.point), kernel.embedded.measured};
}

/// Collects the address bits in which an access may lie.
class Alignment {
 public:
  /// Throws: Error{invalid_argument} for no memory.
  void add_pointer(const void* pointer) {
    require_argument(pointer != nullptr, "a tensor has no memory");
    bits_ |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  /// The stride of a dimension in elements. One that no step takes does not matter.
  void add_stride(long long stride, int extent, int element_bytes) {
    bits_ |= extent > 1 ? static_cast<std::uintptr_t>(stride * element_bytes) : 0;
  }
  /// The largest power of two, at most 16, that divides all.
  int bytes() const { return static_cast<int>(bits_ & ~(bits_ - 1)); }

 private:
  std::uintptr_t bits_ = 16;
};

}  // namespace swr_package
