// SPDX-License-Identifier: MIT
#include "generator/kernel_recipe.h"

#include <swr/error.h>

#include <array>
#include <vector>

namespace swr {
namespace {

using namespace std::string_view_literals;

/// Line information lets profilers show the templates; ptxas reports resources in the log.
constexpr std::array kReferenceOptions{"--std=c++20"sv, "--generate-line-info"sv,
                                       "--ptxas-options=-v"sv};
constexpr std::array kVariantOptions{"--std=c++20"sv, "--generate-line-info"sv,
                                     "--ptxas-options=-v"sv, "--use_fast_math"sv};

void require_family_arch(const FamilySource& source, int sm_arch) {
  if (sm_arch < source.first_arch || sm_arch > source.last_arch) {
    throw Error(ErrorCode::invalid_argument,
                "family " + std::string(to_string(source.family)) + " needs sm_" +
                    std::to_string(source.first_arch) +
                    (source.last_arch == source.first_arch ? "" : " or later") + ", not sm_" +
                    std::to_string(sm_arch));
  }
}

}  // namespace

CompileTask KernelRecipe::task() const {
  CompileTask task{.files = {},
                   .sm_arch = sm_arch,
                   .arch_suffix = std::string(arch_suffix),
                   .options = {options.begin(), options.end()}};
  for (const TemplateFile& included : templates.closure(file)) {
    task.files.emplace_back(included.path, included.text);
  }
  return task;
}

std::string KernelRecipe::digest(std::string_view nvrtc_version) const {
  const std::string closure = templates.closure_digest(file);
  const std::string arch = std::to_string(sm_arch) + std::string(arch_suffix);
  std::vector<std::string_view> fields{closure, entry, arch, nvrtc_version};
  fields.insert(fields.end(), options.begin(), options.end());
  fields.insert(fields.end(), further_entries.begin(), further_entries.end());
  return digest_of_fields(fields);
}

KernelRecipe family_recipe(const TemplateSet& templates, const FamilySource& source,
                           const std::string& config_header, int sm_arch) {
  require_family_arch(source, sm_arch);
  return {.templates = templates.with(std::string(source.config_header), config_header),
          .file = source.file,
          .entry = source.entry,
          .sm_arch = sm_arch,
          .arch_suffix = source.arch_suffix,
          .options = kVariantOptions,
          .further_entries = source.further_entries,
          .may_overlap = source.may_overlap(sm_arch)};
}

KernelRecipe variant_recipe(const TemplateSet& templates, const Problem& problem,
                            const Variant& variant, int sm_arch) {
  const FamilySource& source = family_source(variant);
  require_family_arch(source, sm_arch);
  validate(problem);
  require_same_operation(problem, variant);
  return family_recipe(templates, source, problem.operation().config_header(problem, variant),
                       sm_arch);
}

KernelRecipe template_recipe(const TemplateSet& templates, std::string_view file,
                             std::string_view entry, int sm_arch) {
  return {.templates = templates,
          .file = file,
          .entry = entry,
          .sm_arch = sm_arch,
          .arch_suffix = "",
          .options = kReferenceOptions};
}

}  // namespace swr
