// SPDX-License-Identifier: MIT
// Where the kernel of each family lies among the templates.
#pragma once

#include <swr/variant.h>

#include <span>
#include <string_view>

namespace swr {

struct FamilySource {
  Op op;
  Family family;
  std::string_view file;   ///< Path of the .cu file below the template root.
  std::string_view entry;  ///< Its extern "C" function.
  int first_arch;          ///< Lowest architecture its instructions exist on.
  int last_arch;           ///< Highest one.
  /// Lowest architecture on which kernels wait for the launch before them ahead of every access to
  /// global memory.
  int first_waiting_arch;
  /// "a" when the instructions exist on one architecture alone (sm_90a), else empty.
  std::string_view arch_suffix;
  std::string_view config_header;  ///< Name by which the kernel includes its configuration.

  /// CompiledKernel::may_overlap.
  bool may_overlap(int sm_arch) const { return sm_arch >= first_waiting_arch; }
};

std::span<const FamilySource> family_sources();

const FamilySource& family_source(Op op, Family family);

}  // namespace swr
