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

/// A kernel by its operation's name or by what its user calls it; nullptr where none is known. Of
/// several versions the one that was known first, which is a database's newest.
const Operation* kernel_called(const std::string& name) {
  for (const Operation* const operation : operations()) {
    const bool is_called = operation->name() == name || operation->given_name() == name;
    if (is_called && !operation->source_digest().empty()) {
      return operation;
    }
  }
  return nullptr;
}

}  // namespace

bool may_ask_for_stored_kernel(const Options& options) {
  const bool reads_kernels = options.command == Command::query ||
                             options.command == Command::explain ||
                             options.command == Command::export_results;
  const std::string& op =
      options.command == Command::export_results ? options.export_op : options.problem.op;
  return reads_kernels && op != "all" && find_operation_or_null(op) == nullptr;
}

void take_kernels(Options& options) {
  const Operation* first = nullptr;
  for (const std::filesystem::path& file : options.kernel.specs) {
    const Operation* const operation = &register_kernel(read_kernel_spec(file), file);
    first = first == nullptr ? operation : first;
  }
  if (const Operation* const exported = kernel_called(options.export_op)) {
    options.export_op = std::string(exported->name());
  }
  first = first == nullptr ? kernel_called(options.problem.op) : first;
  if (first == nullptr) {
    if (!options.kernel.sizes.empty()) {
      reject("--arg needs --spec FILE, or --op with a kernel that the database has");
    }
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
