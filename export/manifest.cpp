// SPDX-License-Identifier: MIT
#include "export/manifest.h"

#include "core/bounded_json.h"
#include "core/fields.h"
#include "core/files.h"
#include "core/json.h"
#include "core/operation.h"
#include "core/reject.h"
#include "core/sha256.h"
#include <swr/constraints.h>
#include <swr/error.h>

#include <algorithm>

namespace swr {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "swr-export";
/// 2: kernels of some families wait for the launch before them.
constexpr int kFormatVersion = 2;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A file name and nothing that leads out of the directory or hides in it.
void require_plain_name(const std::string& name) {
  const bool plain = std::ranges::all_of(
      name, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '.'; });
  if (!plain || !name.ends_with(".cubin") || name.starts_with(".")) {
    reject("field 'file' must be the plain name of a .cubin file, not '" + name + "'");
  }
}

void require_identifier(const std::string& entry) {
  const bool valid = !entry.empty() && !is_digit(entry.front()) &&
                     std::ranges::all_of(entry, [](char c) { return is_letter(c) || is_digit(c); });
  if (!valid) {
    reject("field 'entry' must be the name of a function, not '" + entry + "'");
  }
}

void require_consistent(const ExportedKernel& kernel) {
  if (const auto dropped = check_constraints(kernel.problem, kernel.variant, kernel.device)) {
    reject("the variant breaks the constraint " + dropped->constraint + ": " + dropped->reason);
  }
  const LaunchGeometry expected =
      launch_geometry(kernel.problem, kernel.variant, kernel.device.sm_count, kernel.ctas_per_sm);
  if (Json(kernel.launch) != Json(expected)) {
    reject("field 'launch' is not the launch of this variant, which is " + Json(expected).dump());
  }
}

Json kernel_json(const ExportedKernel& kernel) {
  Json json = {{"file", kernel.file},
               {"sha256", kernel.sha256},
               {"entry", kernel.entry},
               {"sm_arch", kernel.sm_arch},
               {"problem", kernel.problem},
               {"variant", kernel.variant},
               {"launch", kernel.launch},
               {"ctas_per_sm", kernel.ctas_per_sm},
               {"resources", kernel.resources},
               {"may_overlap", kernel.may_overlap},
               {"provenance", std::string(to_string(kernel.provenance))},
               {"time_us", kernel.time_us},
               {"rebuilt", kernel.rebuilt},
               {"device", kernel.device}};
  if (!kernel.further_entries.empty()) {
    json["further_entries"] = kernel.further_entries;
  }
  return json;
}

std::vector<std::string> parse_further_entries(const Json& json) {
  std::vector<std::string> entries;
  if (!json.contains("further_entries")) {
    return entries;
  }
  const Json& list = json.at("further_entries");
  if (!list.is_array()) {
    reject("field 'further_entries' must be a list");
  }
  for (const Json& entry : list) {
    if (!entry.is_string()) {
      reject("field 'further_entries' must hold names of functions");
    }
    require_identifier(entries.emplace_back(entry.get<std::string>()));
  }
  return entries;
}

/// In files from before the field only those kernels wait whose family always did.
bool parse_may_overlap(const Json& json, const Variant& variant) {
  return json.contains("may_overlap") ? json_flag(json, "may_overlap")
                                      : family_source(variant).always_waited;
}

/// Of swr's own operations all are known.
void require_known_kernel(const Json& problem) {
  const std::string op =
      problem.is_object() && problem.contains("op") ? json_text(problem, "op") : std::string();
  if (!op.empty() && find_operation_or_null(op) == nullptr) {
    reject("this program knows no kernel '" + op +
           "'; register its spec first, or leave it out with --op");
  }
}

ExportedKernel parse_kernel(const Json& json) {
  ExportedKernel kernel;
  kernel.file = json_text(json, "file");
  kernel.sha256 = json_text(json, "sha256");
  kernel.entry = json_text(json, "entry");
  kernel.further_entries = parse_further_entries(json);
  kernel.sm_arch = static_cast<int>(json_integer(json, "sm_arch", 1, 999));
  require_known_kernel(json_field(json, "problem"));
  json_field(json, "problem").get_to(kernel.problem);
  kernel.variant = variant_from_json(kernel.problem.operation(), json_field(json, "variant"));
  json_field(json, "launch").get_to(kernel.launch);
  kernel.ctas_per_sm = static_cast<int>(json_integer(json, "ctas_per_sm", 1, kMaxCtasPerSm));
  json_field(json, "resources").get_to(kernel.resources);
  kernel.may_overlap = parse_may_overlap(json, kernel.variant);
  kernel.provenance = parse_provenance(json_text(json, "provenance"));
  kernel.time_us = json_number(json, "time_us");
  kernel.rebuilt = json_flag(json, "rebuilt");
  json_field(json, "device").get_to(kernel.device);
  require_plain_name(kernel.file);
  require_identifier(kernel.entry);
  require_consistent(kernel);
  return kernel;
}

std::vector<ExportedKernel> parse_kernels(const Json& list) {
  if (!list.is_array()) {
    reject("field 'kernels' must be a list");
  }
  std::vector<ExportedKernel> kernels;
  for (const Json& json : list) {
    try {
      kernels.push_back(parse_kernel(json));
    } catch (const Error& failure) {
      reject("kernel " + std::to_string(kernels.size()) + ": " + failure.what());
    }
  }
  return kernels;
}

Manifest parse_manifest(const Json& json) {
  if (json_text(json, "format") != kFormat) {
    reject("field 'format' must be '" + std::string(kFormat) + "'");
  }
  json_integer(json, "format_version", kFormatVersion, kFormatVersion);
  return {json_text(json, "swr_version"), parse_kernels(json_field(json, "kernels"))};
}

/// Empty when the file cannot be read, which neither a manifest nor a cubin is.
std::string read_file(const fs::path& path) try {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  return read_regular_file(path, kMostBytes);
} catch (const Error&) {
  return {};
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  Json kernels = Json::array();
  for (const ExportedKernel& kernel : manifest.kernels) {
    kernels.push_back(kernel_json(kernel));
  }
  return json_document({{"format", kFormat},
                        {"format_version", kFormatVersion},
                        {"swr_version", manifest.swr_version},
                        {"kernels", std::move(kernels)}});
}

Manifest read_manifest_only(const fs::path& directory) {
  const fs::path path = directory / kManifestFile;
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) {
    throw Error(ErrorCode::not_found, directory.string() + " holds no " + kManifestFile +
                                          "; name a directory that "
                                          "`swr-tune export` wrote");
  }
  try {
    return parse_manifest(read_json_file(path));
  } catch (const Error& error) {
    throw Error(ErrorCode::unreadable, path.string() + " is no manifest that swr can use: " +
                                           error.what() + "; export again");
  }
}

Manifest read_manifest(const fs::path& directory) {
  Manifest manifest = read_manifest_only(directory);
  for (const ExportedKernel& kernel : manifest.kernels) {
    read_cubin(directory, kernel);
  }
  return manifest;
}

std::vector<std::byte> read_cubin(const fs::path& directory, const ExportedKernel& kernel) {
  const fs::path path = directory / kernel.file;
  std::error_code failure;
  const std::string text = fs::is_regular_file(path, failure) ? read_file(path) : std::string();
  if (sha256_hex(text) != kernel.sha256) {
    throw Error(ErrorCode::unreadable,
                path.string() + " is missing or is not the cubin of its manifest; export again");
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

}  // namespace swr
