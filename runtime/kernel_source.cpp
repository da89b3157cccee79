// SPDX-License-Identifier: MIT
#include "runtime/kernel_source.h"

#include "core/no_fork.h"
#include "core/operation.h"
#include "db/problem_key.h"
#include "generator/cubin_cache.h"
#include "generator/kernel_recipe.h"
#include "generator/template_set.h"
#include <swr/error.h>
#include <swr/kernel.h>

#include <algorithm>
#include <iostream>
#include <utility>

namespace swr {
namespace {

TemplateSet templates_of(const GeneratorOptions& options) {
  return options.template_overlay ? TemplateSet::overlaid(*options.template_overlay)
                                  : TemplateSet::built_in();
}

/// Index of an equal entry, which is added when missing.
template <typename Entry, typename Same>
std::uint32_t index_of(std::vector<Entry>& entries, const Entry& entry, Same&& same) {
  const auto known =
      std::ranges::find_if(entries, [&](const Entry& candidate) { return same(candidate, entry); });
  const auto index = static_cast<std::uint32_t>(known - entries.begin());
  if (known == entries.end()) {
    entries.push_back(entry);
  }
  return index;
}

std::vector<std::string> further_entries_of(const Variant& variant) {
  const auto entries = family_source(variant).further_entries;
  return {entries.begin(), entries.end()};
}

/// True where a kernel for one problem serves the other: sizes may be compiled into kernels of
/// users.
bool has_equal_program(const Problem& one, const Problem& other, const Variant& variant) {
  if (one == other) {
    return true;
  }
  const auto first = one.operation().program(one, variant);
  const auto second = first ? other.operation().program(other, variant) : std::nullopt;
  return !first || (second && first->text == second->text);
}

}  // namespace

LookupRecords lookup_records_of(const Manifest& manifest) {
  LookupRecords records;
  long long id = 0;
  for (const ExportedKernel& kernel : manifest.kernels) {
    records.rows.push_back(
        {.problem = index_of(records.problems, kernel.problem, std::equal_to<>()),
         .device = index_of(records.devices, kernel.device, same_device),
         .variant = index_of(records.variants, kernel.variant, std::equal_to<>()),
         .provenance = kernel.provenance,
         .is_ok = true,
         .result_id = ++id,
         .merit = {.time_us = kernel.time_us,
                   .registers_per_thread = kernel.resources.registers_per_thread},
         .l2_misses = std::nullopt});
  }
  return records;
}

KernelSource::KernelSource(const RuntimeOptions& options)
    : database_(options.database),
      exported_directory_(options.exported.value_or("")),
      generator_options_(options.generator),
      templates_(templates_of(options.generator)),
      templates_digest_(templates_.digest()),
      may_compile_(options.may_compile) {
  if (!options.kernels) {
    open_installed_archive();
  } else if (!options.kernels->empty()) {
    use_archive(*options.kernels);
  }
  if (options.exported) {
    manifest_ = read_manifest(exported_directory_);
    exported_.emplace(lookup_records_of(manifest_));
  }
}

std::optional<Choice> KernelSource::best_exported(const Problem& problem,
                                                  const DeviceInfo& device) const {
  if (!exported_) {
    return std::nullopt;
  }
  const auto answer = exported_->stored(problem, device, LookupTable::Kinds::own);
  return answer ? std::optional(Choice{*answer, false}) : std::nullopt;
}

std::optional<CompiledKernel> KernelSource::find(const Problem& problem, const Choice& choice,
                                                 int sm_arch) const {
  auto kernel = find_exported(problem, choice.answer.variant, sm_arch);
  if (!kernel && choice.from_database && choice.answer.result_id != 0) {
    kernel = find_cached(choice.answer, sm_arch);
  }
  return kernel ? std::move(kernel) : find_shipped(problem, choice.answer.variant, sm_arch);
}

std::optional<CompiledKernel> KernelSource::find_exported(const Problem& problem,
                                                          const Variant& variant,
                                                          int sm_arch) const {
  const auto fits = [&](const ExportedKernel& kernel) {
    return kernel.sm_arch == sm_arch &&
           problem_key(kernel.problem).kind == problem_key(problem).kind &&
           kernel_of(kernel.variant) == kernel_of(variant) &&
           has_equal_program(kernel.problem, problem, variant);
  };
  const auto found = std::ranges::find_if(manifest_.kernels, fits);
  if (found == manifest_.kernels.end()) {
    return std::nullopt;
  }
  return CompiledKernel{.entry = found->entry,
                        .further_entries = found->further_entries.empty()
                                               ? further_entries_of(variant)
                                               : found->further_entries,
                        .sm_arch = sm_arch,
                        .cubin = read_cubin(exported_directory_, *found),
                        .cubin_digest = found->sha256,
                        .source_digest = "",
                        .resources = found->resources,
                        .may_overlap = found->may_overlap,
                        .from_cache = false};
}

/// The very cubin that was recorded, if it is of the templates in effect: others may take other
/// parameters. Kernels of users are found by their source (Generator::compile), with the names of
/// their functions.
std::optional<CompiledKernel> KernelSource::find_cached(const Answer& answer, int sm_arch) const {
  if (!database_ || !generator_options_.cache_dir ||
      !answer.variant.operation().source_digest().empty()) {
    return std::nullopt;
  }
  const NoFork meanwhile;
  const Store store(*database_, Store::Mode::read_only);
  const StoredResult stored = store.result(answer.result_id);
  if (stored.device.sm_arch != sm_arch ||
      store.run_of(answer.result_id).templates_digest != templates_digest_) {
    return std::nullopt;
  }
  auto cubin = read_cached_cubin(*generator_options_.cache_dir, stored.result.cubin_digest,
                                 sharing(generator_options_.shared_cache));
  if (!cubin) {
    return std::nullopt;
  }
  const FamilySource& source = family_source(answer.variant);
  return CompiledKernel{.entry = std::string(source.entry),
                        .further_entries = further_entries_of(answer.variant),
                        .sm_arch = sm_arch,
                        .cubin = std::move(*cubin),
                        .cubin_digest = stored.result.cubin_digest,
                        .source_digest = "",
                        .resources = stored.result.resources,
                        .may_overlap = source.may_overlap(sm_arch),
                        .from_cache = true};
}

std::shared_ptr<const KernelArchive> KernelSource::archive() const {
  const std::lock_guard lock(archive_mutex_);
  return archive_;
}

void KernelSource::use_archive(const std::filesystem::path& file) {
  auto opened = std::make_shared<const KernelArchive>(file);
  const std::lock_guard lock(archive_mutex_);
  archive_ = std::move(opened);
}

/// What nobody named must not keep a program from running.
void KernelSource::open_installed_archive() {
  const auto file = installed_kernel_archive();
  if (!file) {
    return;
  }
  try {
    use_archive(*file);
  } catch (const Error& error) {
    say_once(std::string(error.what()) + "; until then kernels are compiled");
  }
}

std::optional<CompiledKernel> KernelSource::find_shipped(const Problem& problem,
                                                         const Variant& variant,
                                                         int sm_arch) const {
  const bool is_users = !variant.operation().source_digest().empty();
  return is_users || !archive()
             ? std::nullopt
             : find_shipped(variant_recipe(templates_, problem, variant, sm_arch));
}

std::optional<CompiledKernel> KernelSource::find_shipped(const KernelRecipe& recipe) const {
  const auto shipped = archive();
  if (!shipped) {
    return std::nullopt;
  }
  try {
    return shipped->find(recipe);
  } catch (const Error& error) {
    say_once(error.what());
    return std::nullopt;
  }
}

void KernelSource::say_what_is_compiled(const std::string& what, int sm_arch) const {
  const auto shipped = archive();
  if (!shipped) {
    return;
  }
  const auto of_arch = std::ranges::count(shipped->kernels(), sm_arch, &ArchivedKernel::sm_arch);
  say_once("none of the " + std::to_string(of_arch) + " kernels for sm_" + std::to_string(sm_arch) +
           " in " + shipped->path().string() + " is that of " + what +
           " as this swr would compile it, so it is compiled now, which takes seconds");
}

void KernelSource::say_once(const std::string& line) const {
  const std::lock_guard lock(archive_mutex_);
  if (!std::exchange(has_spoken_, true)) {
    std::cerr << "swr: note: " + line + "\n";
  }
}

CompiledKernel KernelSource::compile(const Problem& problem, const Variant& variant, int sm_arch) {
  if (variant.operation().source_digest().empty()) {
    say_what_is_compiled(to_string(problem), sm_arch);
  }
  const std::lock_guard lock(mutex_);
  return generator().compile(problem, variant, sm_arch);
}

CompiledKernel KernelSource::compile_fixed(const char* file, const char* entry, int sm_arch) {
  if (auto shipped = find_shipped(template_recipe(templates_, file, entry, sm_arch))) {
    return std::move(*shipped);
  }
  if (!may_compile_) {
    throw Error(ErrorCode::not_compiled,
                "the kernel " + std::string(entry) +
                    " would have to be compiled, which is not allowed while serving, and exports "
                    "do not carry it; install swr-kernels, or allow compiling (may_compile) for "
                    "calls that append to a "
                    "cache or merge states");
  }
  say_what_is_compiled(entry, sm_arch);
  const std::lock_guard lock(mutex_);
  return generator().compile_template(file, entry, sm_arch);
}

Generator& KernelSource::generator() {
  if (!generator_) {
    generator_.emplace(generator_options_);
  }
  return *generator_;
}

}  // namespace swr
