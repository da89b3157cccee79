// SPDX-License-Identifier: MIT
// The manifest of an exported directory: manifest.json lists the cubins beside it with all that a
// program needs to choose and launch them through the CUDA driver alone.
#pragma once

#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace swr {

inline constexpr const char* kManifestFile = "manifest.json";

struct ExportedKernel {
  /// Name of the cubin beside the manifest.
  std::string file;
  /// SHA-256 of the cubin in lower-case hex.
  std::string sha256;
  /// Name of the extern "C" entry function; it takes the parameters of its operation by value,
  /// and tensor maps after it where its family has them.
  std::string entry;
  /// CompiledKernel::further_entries.
  std::vector<std::string> further_entries;
  /// Architecture of the cubin as major * 10 + minor.
  int sm_arch = 0;
  /// What it was tuned for. Other sizes work too, through another grid.
  Problem problem;
  Variant variant;
  DeviceInfo device;
  /// Launch for `problem` on `device`: launch_geometry() of these and `ctas_per_sm`.
  LaunchGeometry launch;
  int ctas_per_sm = 0;
  KernelResources resources;
  /// As CompiledKernel::may_overlap.
  bool may_overlap = false;
  Provenance provenance = Provenance::predicted;
  /// Median or predicted time.
  double time_us = 0.0;
  /// The cubin is not the one the result was recorded with: templates or NVRTC have changed since,
  /// so the time is that of a predecessor.
  bool rebuilt = false;
};

struct Manifest {
  std::string swr_version;
  std::vector<ExportedKernel> kernels;
};

/// The text of manifest.json; equal manifests give equal bytes.
std::string to_text(const Manifest& manifest);

/// Reads DIRECTORY/manifest.json without looking at the cubins. The file is untrusted: every value
/// is checked, names stay inside the directory, variants are legal, launches fit their variants.
/// Throws: Error{not_found}; Error{unreadable} naming the file, the kernel and the field.
Manifest read_manifest_only(const std::filesystem::path& directory);

/// The same, and every cubin is there with its digest.
Manifest read_manifest(const std::filesystem::path& directory);

/// Throws: Error{unreadable} when the file is missing or its digest differs.
std::vector<std::byte> read_cubin(const std::filesystem::path& directory,
                                  const ExportedKernel& kernel);

}  // namespace swr
