// SPDX-License-Identifier: MIT
#include "core/bounded_json.h"
#include "core/files.h"
#include "kernel_spec/spec/compiler_options.h"
#include "kernel_spec/spec/readers.h"
#include "kernel_spec/spec/spec_folder.h"
#include <swr/error.h>

namespace swr {
namespace {

constexpr std::size_t kMostJsonBytes = std::size_t{1} << 20;

std::filesystem::path folder_of(const std::filesystem::path& file) {
  const std::filesystem::path parent = file.parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

KernelSpec read_kernel_spec(const std::filesystem::path& file) {
  const std::string text = read_regular_file(file, kernel_spec::kMostSourceBytes);
  const std::string where = file.filename().string();
  KernelSpec spec;
  if (file.extension() == ".cu" || file.extension() == ".cuh") {
    spec = kernel_spec::read_pragmas(text, where);
    spec.source_file = where;
    spec.source = text;
  } else {
    const Json json = parse_json(text, where, {.bytes = kMostJsonBytes});
    spec = kernel_spec::is_t1(json) ? kernel_spec::read_t1(json, where)
                                    : kernel_spec::read_swr_json(json, where);
  }
  kernel_spec::read_compiler_options(spec);
  spec.folder = folder_of(file);
  return spec;
}

}  // namespace swr
