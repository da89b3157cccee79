// SPDX-License-Identifier: MIT
// What a kernel of swr's templates is compiled from, known without a compiler.
#pragma once

#include "core/operation.h"
#include "generator/template_set.h"
#include <swr/generator.h>

#include <span>
#include <string>
#include <string_view>

namespace swr {

struct KernelRecipe {
  TemplateSet templates;  ///< With the kernel's configuration.
  std::string_view file;
  std::string_view entry;
  int sm_arch = 0;
  std::string_view arch_suffix;
  std::span<const std::string_view> options;
  std::span<const std::string_view> further_entries = {};
  bool may_overlap = false;

  CompileTask task() const;

  /// Digest of everything that a compiler makes the cubin from: the files that the kernel includes,
  /// its functions, architecture and options. `nvrtc_version` is empty for cubins that any compiler
  /// may have made (generator/kernel_archive.h).
  std::string digest(std::string_view nvrtc_version = {}) const;
};

/// Throws: Error{invalid_argument} for an architecture that the family does not support.
KernelRecipe family_recipe(const TemplateSet& templates, const FamilySource& source,
                           const std::string& config_header, int sm_arch);

/// Of a kernel that is swr's own. Throws: the same; as validate().
KernelRecipe variant_recipe(const TemplateSet& templates, const Problem& problem,
                            const Variant& variant, int sm_arch);

/// Of a template without a configuration, compiled as references are.
KernelRecipe template_recipe(const TemplateSet& templates, std::string_view file,
                             std::string_view entry, int sm_arch);

}  // namespace swr
