// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "tuner/cli/options.h"
#include "tuner/cli/options/text.h"
#include <swr/kernel_spec.h>

#include <string>
#include <utility>

namespace swr::cli {
namespace {

/// "NAME=VALUES" as its two parts.
std::pair<std::string, std::string> named_values(const std::string& text, const char* option) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    reject(std::string(option) + " takes NAME=VALUE, not '" + text + "'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string names_of(const auto& described) {
  std::string names;
  for (const Field& field : described) {
    names.append(names.empty() ? "" : ", ").append(field.name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

void take_kernels(Options& options) {
  const Operation* first = nullptr;
  for (const std::filesystem::path& file : options.kernel.specs) {
    const Operation& operation = register_kernel(read_kernel_spec(file), file);
    first = first == nullptr ? &operation : first;
  }
  if (first == nullptr) {
    return;
  }
  options.problem.op = std::string(first->name());
  for (const std::string& text : options.kernel.sizes) {
    const auto [name, values] = named_values(text, "--arg");
    if (find_field(*first, name) == nullptr) {
      reject("--arg: the kernel has no size '" + name + "'; its sizes are " +
             names_of(first->fields()));
    }
    options.problem.given[name] = values;
  }
  for (const std::string& text : options.kernel.axes) {
    const auto [name, values] = named_values(text, "--axis");
    if (find_axis(*first, name) == nullptr) {
      reject("--axis: the kernel has no parameter '" + name + "'; its parameters are " +
             names_of(first->axes().subspan(1)));
    }
    options.axis_values[name] = values;
  }
}

}  // namespace swr::cli
