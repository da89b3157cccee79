// SPDX-License-Identifier: MIT
// Texts that specs hold, each by its own reader, which the first character names: expressions of
// both dialects (p, c), sources with pragmas (k), what sources include (h), compiler's options (o).
#include "fuzz/harness.h"
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/source/signatures.h"
#include "kernel_spec/spec/spec_folder.h"
#include "kernel_spec/spec/spec_object.h"
#include "kernel_spec/spec/stored_spec.h"
#include <swr/error.h>

#include <sstream>

namespace swr::fuzz {
namespace {

using namespace kernel_spec;

void compute(const std::string& text, Dialect dialect) {
  static const std::vector<std::string> kNames{"n", "bx", "real", "text", "list"};
  static ValueHeap constants;
  static const std::vector<Value> kTable{
      Value::of(4096LL), Value::of(64LL), Value::of(0.5), constants.keep(std::string("a, b")),
      constants.keep(std::vector{Value::of(1LL), Value::of(2LL)})};
  const BoundExpression bound(Expression(text, dialect), kNames);
  ValueHeap heap;
  heap.draw_on(std::make_shared<StepBudget>());
  const Value value = bound.evaluate(kTable, heap);
  static_cast<void>(to_string(value));
  if (value.is_integral()) {
    require(bound.evaluate_number(kTable, heap).integer == value.integer, "both ways are equal");
  }
}

void read_source(const std::string& text) {
  for (const KernelSignature& kernel : kernels_of(text, "k.cu").kernels) {
    require(kernel.qualified_name.ends_with(kernel.name), "a kernel has a name");
  }
  static_cast<void>(parts_between_commas(text, true));
  static_cast<void>(read_pragmas(text, "k.cu"));
}

constexpr std::string_view kOutside = "what is outside of the folder";

const SpecFolder& folder() {
  static const SpecFolder folder = [] {
    std::filesystem::create_directories(directory() / "spec/sub");
    write_input("spec/a.h", "#include \"sub/b.h\"\n#include <sub/../a.h>\n");
    write_input("spec/sub/b.h", "#include \"../a.h\"\n#include \"../../outside.h\"\n");
    std::filesystem::create_symlink(write_input("outside.h", kOutside), directory() / "spec/l.h");
    return SpecFolder(directory() / "spec");
  }();
  return folder;
}

void follow_includes(const std::string& text) {
  for (const auto& [path, header] : headers_below(folder(), "k.cu", text, {"sub"})) {
    require(header.find(kOutside) == header.npos, "nothing outside of the folder is read");
  }
}

void read_options(const std::string& text) {
  KernelSpec spec;
  spec.parameters = {{"REGS", {"32", "64"}}};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    spec.options.push_back(line);
  }
  read_compiler_options(spec);
  for (const std::string& folder : spec.include_folders) {
    require(!folder.starts_with('/') && folder.find("..") == folder.npos, "it stays below");
  }
  for (const std::string& option : spec.options) {
    require_option(option, spec);
    require(!option.starts_with("-I"), "an option that is let through names no folder");
  }
}

}  // namespace

void run_one(std::string_view input) {
  const std::string text(input.substr(input.empty() ? 0 : 1));
  switch (input.empty() ? 'p' : input.front()) {
    case 'p':
      return compute(text, Dialect::python);
    case 'c':
      return compute(text, Dialect::c);
    case 'k':
      return read_source(text);
    case 'h':
      return follow_includes(text);
    case 'o':
      return read_options(text);
    default:
      return;
  }
}

}  // namespace swr::fuzz
