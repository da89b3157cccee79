// SPDX-License-Identifier: MIT
// NVRTC, CUDA's run-time compiler, opened when it is needed. Works without a GPU or a driver.
#pragma once

#include "generator/template_set.h"
#include <swr/generator.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// Thread-safe: NVRTC compiles different programs at the same time.
class Nvrtc {
 public:
  /// Opens `library`, or searches the usual places when there is none.
  /// Throws: Error{no_nvrtc} naming what was tried.
  explicit Nvrtc(const std::optional<std::filesystem::path>& library);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;
  Nvrtc(Nvrtc&&) = delete;
  Nvrtc& operator=(Nvrtc&&) = delete;

  /// "major.minor".
  std::string version() const;

  /// Throws: Error{invalid_argument} listing the architectures there are.
  void require_arch(int sm_arch) const;

  /// CUDA's own headers that `files` name and do not have. They live as long as this.
  std::vector<TemplateFile> toolkit_headers(std::span<const TemplateFile> files) const;

  /// Comes before what is compiled on a confined thread (generator/compile_log.h). The first call
  /// in a process changes the handlers of SIGINT and SIGTERM for some milliseconds.
  void prepare() const;

  /// Compiles the first file; the others are the headers it includes, by the names they are
  /// included with, so that messages name the real files. `arch_suffix` is "a" for code that
  /// runs on that architecture alone.
  /// Throws: Error{compile_failed} with the log; Error{no_nvrtc} when parts of NVRTC are missing.
  /// `kernels` are kernels as C++ names them, such as instances of templates. Beyond the limit, the
  /// compilation fails, where NVRTC can be stopped.
  CompiledProgram compile(std::span<const TemplateFile> files, int sm_arch,
                          std::string_view arch_suffix, std::span<const std::string_view> options,
                          std::span<const std::string> kernels = {},
                          std::optional<double> limit_s = {}) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace swr
