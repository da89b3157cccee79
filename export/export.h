// SPDX-License-Identifier: MIT
// Writes the best stored kernels as a directory that a program can ship: cubins and a manifest, or
// a C++ package.
#pragma once

#include "export/manifest.h"
#include <swr/generator.h>
#include <swr/store.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swr {

/// Gives the cubin of a variant: the generator, whose cache makes it cheap.
using CubinSource = std::function<CompiledKernel(const Problem&, const Variant&, int sm_arch)>;

struct ExportFilter {
  /// Only winners for exactly this problem.
  std::optional<Problem> problem;
  /// Only winners of this operation.
  const Operation* op = nullptr;
  /// Only winners of these; of all, when it is empty.
  std::vector<const Operation*> ops = {};
  /// Only winners of this device (same_device).
  std::optional<DeviceInfo> device;
  /// Only winners of these; of all, when it is empty.
  std::vector<DeviceInfo> devices = {};
  /// Whose winners.
  Setting setting = {};
  /// The default variant of these as well, where there is no winner of the operation on the device:
  /// its time is 0, because nobody measured or predicted it.
  std::vector<std::pair<Problem, DeviceInfo>> defaults = {};
};

/// Writes each winner of the store to the directory `out`, which appears complete or not at all. An
/// earlier export there is replaced. Equal databases and cubins give equal bytes.
/// Returns what manifest.json says; ExportedKernel::rebuilt marks cubins that differ from the
/// recorded ones.
/// Throws: Error{nothing_stored}; Error{invalid_argument} when `out` holds anything else than an
/// export; Error{not_writable}; what the source and the store throw.
Manifest export_kernels(const Store& store, const CubinSource& cubins,
                        const std::filesystem::path& out, const ExportFilter& filter = {});
/// The same; without a store the defaults alone.
Manifest export_kernels(const Store* store, const CubinSource& cubins,
                        const std::filesystem::path& out, const ExportFilter& filter);

/// The winners as a C++ package called `name`: a CMake project with the cubins embedded, which
/// needs nothing but the CUDA driver (docs/export_format.md). Throws: as export_kernels, and
/// Error{invalid_argument} for a name that cannot be one.
Manifest export_package(const Store& store, const CubinSource& cubins,
                        const std::filesystem::path& out, const std::string& name,
                        const ExportFilter& filter = {});
/// The same; without a store the defaults alone.
Manifest export_package(const Store* store, const CubinSource& cubins,
                        const std::filesystem::path& out, const std::string& name,
                        const ExportFilter& filter);

inline CubinSource cubins_of(const Generator& generator) {
  return [&generator](const Problem& problem, const Variant& variant, int sm_arch) {
    return generator.compile(problem, variant, sm_arch);
  };
}

/// Of a generator with these options; where there is no NVRTC, of the kernels that ship.
/// Throws: Error{no_nvrtc} where none ship either, and the source for those that do not.
CubinSource cubins_with(const GeneratorOptions& options);

inline Manifest export_kernels(const Store& store, const Generator& generator,
                               const std::filesystem::path& out, const ExportFilter& filter = {}) {
  return export_kernels(store, cubins_of(generator), out, filter);
}

// The files of a generated C++ package: tuned kernels as a library that needs nothing but the CUDA
// driver. Dispatch, distance and launch are the very files that swr itself uses.

/// Contents by path below the package's directory.
using PackageFiles = std::map<std::string, std::string>;

inline constexpr const char* kPackageFormat = "swr-package";

/// `kernels` are the cubins of the manifest's kernels, in their order. `name` becomes the name of
/// library and namespace. Equal inputs give equal bytes.
/// Throws: Error{invalid_argument} for a name that is no C++ identifier, or `swr`.
PackageFiles package_files(const Manifest& manifest, const std::vector<CompiledKernel>& kernels,
                           const std::string& name);

}  // namespace swr
