// SPDX-License-Identifier: MIT
// Where the runtime gets cubins: an exported directory, the cubin cache, an archive of kernels that
// ship, or the compiler.
#pragma once

#include "db/lookup_table.h"
#include "export/manifest.h"
#include "generator/kernel_archive.h"
#include <swr/runtime.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace swr {

/// What to run and what it was chosen from.
struct Choice {
  Answer answer;
  /// False when the exported directory answered; result_id then counts its kernels from 1.
  bool from_database = true;
};

/// Thread-safe.
class KernelSource {
 public:
  /// Throws: as Runtime's constructor.
  explicit KernelSource(const RuntimeOptions& options);

  /// The best exported kernel; empty when there is no exported directory or nothing in it fits.
  std::optional<Choice> best_exported(const Problem& problem, const DeviceInfo& device) const;

  /// From now on these ship in place of those before. Throws: as KernelArchive.
  void use_archive(const std::filesystem::path& file);

  /// A kernel that exists: exported, cached as it was recorded, or shipped. Empty when there is
  /// none.
  std::optional<CompiledKernel> find(const Problem& problem, const Choice& choice,
                                     int sm_arch) const;

  /// Throws: as Generator's constructor and Generator::compile.
  CompiledKernel compile(const Problem& problem, const Variant& variant, int sm_arch);

  /// A kernel that is neither looked up nor tuned: shipped, or compiled now. Throws:
  /// Error{not_compiled} when nothing may be compiled; as Generator's constructor and
  /// Generator::compile_template.
  CompiledKernel compile_fixed(const char* file, const char* entry, int sm_arch);

 private:
  std::optional<CompiledKernel> find_exported(const Problem& problem, const Variant& variant,
                                              int sm_arch) const;
  /// Requires: mutex_.
  Generator& generator();
  std::optional<CompiledKernel> find_cached(const Answer& answer, int sm_arch) const;
  std::optional<CompiledKernel> find_shipped(const Problem& problem, const Variant& variant,
                                             int sm_arch) const;
  std::optional<CompiledKernel> find_shipped(const KernelRecipe& recipe) const;
  std::shared_ptr<const KernelArchive> archive() const;
  void open_installed_archive();
  /// That the archive lacks a kernel.
  void say_what_is_compiled(const std::string& what, int sm_arch) const;
  /// Writes a line to stderr, the first time.
  void say_once(const std::string& line) const;

  std::optional<std::filesystem::path> database_;
  std::filesystem::path exported_directory_;
  GeneratorOptions generator_options_;
  TemplateSet templates_;
  std::string templates_digest_;
  bool may_compile_;
  Manifest manifest_;
  std::optional<LookupTable> exported_;
  std::mutex mutex_;
  std::optional<Generator> generator_;
  mutable std::mutex archive_mutex_;
  std::shared_ptr<const KernelArchive> archive_;
  mutable bool has_spoken_ = false;
};

/// The records of an exported directory; result ids count its kernels from 1.
LookupRecords lookup_records_of(const Manifest& manifest);

}  // namespace swr
