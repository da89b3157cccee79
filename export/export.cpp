// SPDX-License-Identifier: MIT
#include "export/export.h"

#include "core/bounded_json.h"
#include "core/json.h"
#include "core/operation.h"
#include "core/sha256.h"
#include "export/staging_directory.h"
#include "generator/kernel_archive.h"
#include "generator/kernel_recipe.h"
#include <swr/error.h>
#include <swr/version.h>

#include <algorithm>
#include <fcntl.h>
#include <memory>
#include <set>
#include <span>
#include <unistd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

bool is_asked_for(const StoredResult& stored, const ExportFilter& filter) {
  const Operation* const op = &stored.problem.operation();
  const bool is_one = filter.ops.empty() || std::ranges::find(filter.ops, op) != filter.ops.end();
  const bool is_there =
      filter.devices.empty() || std::ranges::any_of(filter.devices, [&](const DeviceInfo& device) {
        return same_device(stored.device, device);
      });
  return is_one && is_there && (!filter.problem || stored.problem == *filter.problem) &&
         (filter.op == nullptr || op == filter.op) &&
         (!filter.device || same_device(stored.device, *filter.device));
}

/// Default variants where nothing is known of the operation on the device.
void add_defaults(std::vector<StoredResult>& winners, const ExportFilter& filter) {
  const std::size_t known = winners.size();
  for (const auto& [problem, device] : filter.defaults) {
    const bool is_known =
        std::any_of(winners.begin(), winners.begin() + static_cast<std::ptrdiff_t>(known),
                    [&, &asked = problem, &on = device](const StoredResult& winner) {
                      return &winner.problem.operation() == &asked.operation() &&
                             same_device(winner.device, on);
                    });
    if (is_known) {
      continue;
    }
    StoredResult& added = winners.emplace_back();
    added.problem = problem;
    added.device = device;
    added.result.variant = default_variant(problem, device);
    added.result.outcome = Prediction{};
  }
}

std::vector<StoredResult> select_winners(const Store* store, const ExportFilter& filter) {
  std::vector<StoredResult> winners =
      store == nullptr ? std::vector<StoredResult>{} : store->winners(filter.setting);
  std::erase_if(winners, [&](const StoredResult& stored) { return !is_asked_for(stored, filter); });
  add_defaults(winners, filter);
  if (winners.empty()) {
    const bool filtered = filter.problem || filter.device || !filter.devices.empty();
    throw Error(ErrorCode::nothing_stored,
                "the database holds no usable result" +
                    (filter.op ? " for " + std::string(name_of(*filter.op)) : std::string()) +
                    (filtered ? " for this problem and device" : "") +
                    ", so there is nothing to export; tune first");
  }
  return winners;
}

/// Words of lower-case letters and digits joined by underscores.
std::string slug(const std::string& text) {
  std::string words;
  for (const char c : text) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (kept) {
      words += c;
    } else if (!words.empty() && words.back() != '_') {
      words += '_';
    }
  }
  return words;
}

/// Readable, and unique by a digest over all that distinguishes two winners.
std::string file_name(const StoredResult& stored) {
  constexpr std::size_t kDigestLetters = 10;
  const Json identity = {stored.problem, stored.result.variant, stored.device};
  return slug(to_string(stored.problem)) + "_sm" + std::to_string(stored.device.sm_arch) + "_" +
         sha256_hex(json_document(identity)).substr(0, kDigestLetters) + ".cubin";
}

bool is_rebuilt(const StoredResult& stored, const CompiledKernel& kernel) {
  const std::string& recorded = stored.result.cubin_digest;
  return !recorded.empty() && recorded != kernel.cubin_digest;
}

/// As recorded, unless that was of another cubin.
int resident_ctas(const StoredResult& stored, const CompiledKernel& kernel) {
  if (stored.result.ctas_per_sm > 0 && !is_rebuilt(stored, kernel)) {
    return stored.result.ctas_per_sm;
  }
  const Variant& variant = stored.result.variant;
  if (const auto dropped =
          check_compiled(stored.problem, variant, stored.device, kernel.resources)) {
    throw Error(ErrorCode::invalid_argument,
                "the winner " + to_key(variant) + " for " + to_string(stored.problem) +
                    " does not work any more as compiled now: " + dropped->reason +
                    "; tune this problem again");
  }
  return occupancy(kernel.resources, stored.problem, variant, stored.device).ctas_per_sm;
}

ExportedKernel describe(const StoredResult& stored, const CompiledKernel& kernel) {
  const int ctas_per_sm = resident_ctas(stored, kernel);
  return {.file = file_name(stored),
          .sha256 = sha256_hex(kernel.cubin),
          .entry = kernel.entry,
          .further_entries = kernel.further_entries,
          .sm_arch = kernel.sm_arch,
          .problem = stored.problem,
          .variant = stored.result.variant,
          .device = stored.device,
          .launch = launch_geometry(stored.problem, stored.result.variant, stored.device.sm_count,
                                    ctas_per_sm),
          .ctas_per_sm = ctas_per_sm,
          .resources = kernel.resources,
          .may_overlap = kernel.may_overlap,
          .provenance = stored.result.provenance(),
          .time_us = stored.result.time_us(),
          .rebuilt = is_rebuilt(stored, kernel)};
}

/// Files of a package, by its own list; empty when it is none.
std::set<std::string> files_of_package(const fs::path& directory) {
  const Json json = read_json_file(directory / kManifestFile);
  std::set<std::string> names;
  if (json.is_object() && json.value("format", Json()) == kPackageFormat) {
    for (const Json& name : json.value("files", Json::array())) {
      names.insert(name.is_string() ? name.get<std::string>() : "");
    }
    names.insert(kManifestFile);
  }
  return names;
}

/// Names of an export's files; the manifest's own first.
std::set<std::string> files_of_export(const fs::path& directory) {
  std::set<std::string> names = files_of_package(directory);
  if (!names.empty()) {
    return names;
  }
  names.insert(kManifestFile);
  for (const ExportedKernel& kernel : read_manifest_only(directory).kernels) {
    names.insert(kernel.file);
  }
  return names;
}

/// Replacing a directory deletes what is in it, so it must be an earlier export and nothing else.
void require_replaceable(const fs::path& out) {
  std::error_code failure;
  if (!fs::exists(out, failure) || (fs::is_directory(out, failure) && fs::is_empty(out, failure))) {
    return;
  }
  const auto refuse = [&](const std::string& cause) {
    throw Error(ErrorCode::invalid_argument, out.string() + " " + cause +
                                                 "; name a new directory, or an earlier export to "
                                                 "replace");
  };
  if (!fs::is_directory(out, failure)) {
    refuse("is not a directory");
  }
  std::set<std::string> own;
  try {
    own = files_of_export(out);
  } catch (const Error&) {
    refuse("is not empty and no export of swr");
  }
  for (const auto& entry : fs::recursive_directory_iterator(out, failure)) {
    const std::string name = entry.path().lexically_relative(out).generic_string();
    if ((entry.is_symlink() || !entry.is_directory()) && !own.contains(name)) {
      refuse("also holds '" + name + "', which no export wrote");
    }
  }
  require(failure, out);
}

/// Moves the staged directory to `out`; what was there stays until the new one is in place.
void put_in_place(StagingDirectory& staging, const fs::path& out) {
  const fs::path& staged = staging.path();
  std::error_code failure;
  staging.unlock();
  if (!fs::exists(out, failure) || fs::is_empty(out, failure)) {
    fs::rename(staged, out, failure);
    require(failure, out);
    return;
  }
  // Where the file system can, there is always one of the two; `staged` is removed with its owner.
  if (renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, out.c_str(), RENAME_EXCHANGE) == 0) {
    staging.lock();
    return;
  }
  const fs::path former = out.string() + ".old-" + std::to_string(getpid());
  fs::rename(out, former, failure);
  require(failure, out);
  fs::rename(staged, out, failure);
  if (failure) {
    const std::string cause = failure.message();
    fs::rename(former, out, failure);
    fail_to_write(out, cause);
  }
  fs::remove_all(former, failure);
}

/// Absolute, without links and without a trailing slash.
fs::path resolve(const fs::path& out) {
  if (out.empty()) {
    throw Error(ErrorCode::invalid_argument, "the export needs the name of a directory");
  }
  std::error_code failure;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(out), failure);
  require(failure, out);
  return resolved.has_filename() ? resolved : resolved.parent_path();
}

/// What is exported, before it has a form.
struct Winners {
  Manifest manifest;
  std::vector<CompiledKernel> kernels;  ///< In the manifest's order.
};

Winners collect(const Store* store, const CubinSource& cubins, const ExportFilter& filter) {
  Winners winners{.manifest = {.swr_version = SWR_VERSION, .kernels = {}}, .kernels = {}};
  for (const StoredResult& stored : select_winners(store, filter)) {
    winners.kernels.push_back(cubins(stored.problem, stored.result.variant, stored.device.sm_arch));
    winners.manifest.kernels.push_back(describe(stored, winners.kernels.back()));
  }
  return winners;
}

std::span<const char> characters(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `no_compiler` says why there is none.
CubinSource shipped_cubins(const fs::path& file, const std::string& no_compiler) {
  return
      [archive = std::make_shared<const KernelArchive>(file), templates = TemplateSet::built_in(),
       no_compiler](const Problem& problem, const Variant& variant, int sm_arch) {
        const bool is_swrs = variant.operation().source_digest().empty();
        auto kernel = is_swrs ? archive->find(variant_recipe(templates, problem, variant, sm_arch))
                              : std::nullopt;
        if (!kernel) {
          throw Error(ErrorCode::no_nvrtc, no_compiler + "; and " + archive->path().string() +
                                               " has no kernel for " + to_string(problem) + " as " +
                                               to_key(variant));
        }
        return std::move(*kernel);
      };
}

}  // namespace

CubinSource cubins_with(const GeneratorOptions& options) {
  try {
    return [generator = std::make_shared<const Generator>(options)](
               const Problem& problem, const Variant& variant, int sm_arch) {
      return generator->compile(problem, variant, sm_arch);
    };
  } catch (const Error& error) {
    const auto file = installed_kernel_archive();
    if (error.code() != ErrorCode::no_nvrtc || !file || options.template_overlay) {
      throw;
    }
    return shipped_cubins(*file, error.what());
  }
}

Manifest export_kernels(const Store& store, const CubinSource& cubins, const fs::path& out,
                        const ExportFilter& filter) {
  return export_kernels(&store, cubins, out, filter);
}

Manifest export_package(const Store& store, const CubinSource& cubins, const fs::path& out,
                        const std::string& name, const ExportFilter& filter) {
  return export_package(&store, cubins, out, name, filter);
}

Manifest export_kernels(const Store* store, const CubinSource& cubins, const fs::path& out,
                        const ExportFilter& filter) {
  const fs::path target = resolve(out);
  require_replaceable(target);
  const Winners winners = collect(store, cubins, filter);
  StagingDirectory staging(target);
  for (std::size_t i = 0; i < winners.kernels.size(); ++i) {
    staging.write(winners.manifest.kernels[i].file, characters(winners.kernels[i].cubin));
  }
  staging.write(kManifestFile, to_text(winners.manifest));
  put_in_place(staging, target);
  return winners.manifest;
}

Manifest export_package(const Store* store, const CubinSource& cubins, const fs::path& out,
                        const std::string& name, const ExportFilter& filter) {
  const fs::path target = resolve(out);
  require_replaceable(target);
  const Winners winners = collect(store, cubins, filter);
  const PackageFiles files = package_files(winners.manifest, winners.kernels, name);
  StagingDirectory staging(target);
  for (const auto& [path, text] : files) {
    staging.write(path, text);
  }
  put_in_place(staging, target);
  return winners.manifest;
}

}  // namespace swr
