// SPDX-License-Identifier: MIT
// From a problem and a variant to a cubin: the search space, its constraints, the templates and
// NVRTC. Needs no GPU and no driver.
#pragma once

#include <swr/constraints.h>
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/search_space.h>
#include <swr/variant.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr {

struct KernelProgram;

/// One compilation, as NVRTC takes it.
struct CompileTask {
  /// The first is compiled; the others are the headers it includes, by the names it includes them
  /// by.
  std::vector<std::pair<std::string, std::string>> files;
  int sm_arch = 0;
  std::string arch_suffix;
  std::vector<std::string> options;
  /// Kernels as C++ names them, such as instances of templates.
  std::vector<std::string> kernels = {};
  /// Beyond it the compilation fails, where NVRTC can be stopped.
  std::optional<double> limit_s = {};
  /// Its text may be anybody's: refused where the compiler cannot be kept from opening files.
  bool is_foreign = false;
};

struct CompiledProgram {
  std::vector<std::byte> cubin;
  std::string log;
  /// Names in the cubin of the task's kernels, in their order.
  std::vector<std::string> lowered_names = {};
};

struct GeneratorOptions {
  /// Files here shadow the built-in templates of the same relative path.
  std::optional<std::filesystem::path> template_overlay;
  /// Cubin cache; no value disables it. The directory is created when missing.
  std::optional<std::filesystem::path> cache_dir;
  /// Takes what members of the cache's group have stored as well.
  bool shared_cache = false;
  /// The NVRTC library to use. No value searches the toolkit that swr was built with, the system's
  /// library path and /usr/local/cuda.
  std::optional<std::filesystem::path> nvrtc_library;
  /// Compiles what the cache lacks, in the place of NVRTC in this process; called from any number
  /// of threads. Throws: like Generator::compile().
  std::function<CompiledProgram(const CompileTask&)> compiler = nullptr;
};

/// NVRTC in this process, for those who compile for another's Generator.
/// Throws: Error{no_nvrtc}, here.
std::function<CompiledProgram(const CompileTask&)> nvrtc_compiler(const GeneratorOptions& options);

/// SHA-256 over all templates in effect where an overlay changes them; empty without one, and for
/// one that changes nothing. Needs no NVRTC. Throws: Error{unreadable} for the overlay.
std::string overlay_digest(const GeneratorOptions& options);

/// Compiles variants. Thread-safe: any number of threads may compile at once, and several
/// processes may share one cache directory.
class Generator {
 public:
  /// Throws: Error{no_nvrtc} naming what was searched; Error{not_writable} for the cache;
  /// Error{unreadable} for the overlay.
  explicit Generator(const GeneratorOptions& options);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Throws: Error{compile_failed} with NVRTC's log; Error{invalid_argument} for an architecture
  /// that NVRTC or the family does not support.
  CompiledKernel compile(const Problem& problem, const Variant& variant, int sm_arch) const;

  /// The kernel of an operation's family with a configuration header of the caller's, for
  /// configurations outside the search space. Throws: like the first.
  CompiledKernel compile_configured(const Operation& operation, Family family,
                                    const std::string& config_header, int sm_arch) const;

  /// Kernels of a source of the caller's (core/operation.h); their resources are the most of each.
  /// Throws: like compile().
  CompiledKernel compile_program(const KernelProgram& program, int sm_arch) const;

  /// The generated config header of a variant, as the kernel includes it.
  std::string config_header(const Problem& problem, const Variant& variant) const;

  /// One self-contained .cu file for nvcc, Nsight or a diff.
  std::string flatten(const Problem& problem, const Variant& variant) const;

  /// The text of a template by relative path, for kernels outside the search space such as the
  /// tuner's reference. Throws: Error{not_found}.
  std::string template_text(std::string_view path) const;

  /// Compiles an arbitrary template file that needs no variant. `entry` is its extern "C" name.
  /// Unlike variants it is compiled without fast math, because references are built this way.
  /// Throws: like compile(); Error{not_found} when there is no such template.
  CompiledKernel compile_template(std::string_view path, std::string_view entry, int sm_arch) const;

  /// SHA-256 over all templates in effect; results of different digests are not comparable.
  std::string templates_digest() const;

  /// NVRTC's version as "major.minor".
  std::string nvrtc_version() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
