// SPDX-License-Identifier: MIT
// From a spec to a plan: names, limits and expressions are checked once.
#include "kernel_spec/spec/kernel_plan.h"

#include "core/ascii.h"
#include "core/sha256.h"
#include "kernel_spec/spec/spec_folder.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr std::size_t kMostDataBytes = std::size_t{1} << 30;
constexpr double kLongestLimitS = 86'400;
constexpr std::size_t kMostValues = 65535;
constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kMostSteps = 64;

void require_name(const std::string& name, const std::string& where) {
  constexpr std::size_t kLongest = 64;
  static const std::set<std::string, std::less<>> kKeywords{
      "auto",       "bool",       "break",        "case",      "char",     "class",
      "const",      "constexpr",  "continue",     "default",   "delete",   "do",
      "double",     "else",       "enum",         "extern",    "false",    "float",
      "for",        "goto",       "if",           "inline",    "int",      "long",
      "namespace",  "new",        "operator",     "private",   "public",   "return",
      "short",      "signed",     "sizeof",       "static",    "struct",   "switch",
      "template",   "this",       "true",         "typedef",   "typename", "union",
      "unsigned",   "using",      "void",         "volatile",  "while",    "__global__",
      "__device__", "__shared__", "__constant__", "threadIdx", "blockIdx", "blockDim",
      "gridDim",    "warpSize",   "family"};
  const bool is_word = !name.empty() && name.size() <= kLongest &&
                       std::ranges::all_of(name, is_name_character) &&
                       !ascii::is_digit(name.front());
  if (!is_word) {
    refuse_spec(where, "'" + name + "' is no name: letters, digits and _, at most 64");
  }
  if (kKeywords.contains(name)) {
    refuse_spec(where, "'" + name + "' is a word of CUDA or of swr; choose another name");
  }
}

}  // namespace

bool is_axis_number(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0 &&
         std::to_string(number) == text;
}

std::string key_text(const std::string& value) {
  constexpr std::string_view kTaken = ",=\"'{}%";
  constexpr const char* kDigits = "0123456789ABCDEF";
  if (!value.empty() && value.front() != '%' &&
      value.find_first_of(kTaken.substr(0, kTaken.size() - 1)) == value.npos) {
    return value;
  }
  std::string text = "%";
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    text += kTaken.find(c) == kTaken.npos
                ? std::string(1, c)
                : std::string("%") + kDigits[code / 16] + kDigits[code % 16];
  }
  return text;
}

KernelPlan::KernelPlan(KernelSpec spec) : spec_(std::move(spec)) {
  plan();
  require_settings_with_effect(spec_);
  read_sources();
  require_arguments_of_kernels(spec_);
  find_macros();
  digest_ = digest_of_all();
}

KernelPlan::KernelPlan(StoredSpec stored)
    : spec_(std::move(stored.spec)),
      files_(std::move(stored.files)),
      has_data_(files_.data_digests.empty()) {
  plan();
  find_macros();
  digest_ = digest_of_all();
}

void KernelPlan::plan() {
  check_names();
  for (const double limit_s : {spec_.deadline_s, spec_.compile_limit_s}) {
    if (!(limit_s > 0 && limit_s <= kLongestLimitS)) {
      refuse_spec(spec_.name, "deadline_s and compile_limit_s must be above 0 and at most 86400");
    }
  }
  read_parameters();
  for (const auto& [name, items] : spec_.lists) {
    auto& list = lists_.emplace_back(name, std::vector<BoundExpression>{});
    for (const std::string& item : items) {
      list.second.push_back(bound(item, "list " + name));
    }
  }
  for (const std::string& constraint : spec_.constraints) {
    constraints_.push_back(bound(constraint, "constraint"));
  }
  for (const auto& [name, text] : spec_.defines) {
    defines_.emplace_back(name, bound(text, "define " + name));
  }
  plan_arguments();
  if (spec_.steps.empty()) {
    refuse_spec(spec_.name, "it launches no kernel");
  }
  steps_ = planned(spec_.steps, "step");
  reference_ = planned(spec_.reference, "reference");
  for (const std::string& option : spec_.options) {
    require_option(option, spec_);
  }
  if (!spec_.flops.empty()) {
    flops_ = bound(spec_.flops, "flops");
  }
  if (!spec_.bytes.empty()) {
    bytes_ = bound(spec_.bytes, "bytes");
  }
  check_objective();
}

void KernelPlan::check_objective() const {
  if (spec_.objective.empty()) {
    return;
  }
  try {
    static_cast<void>(bound_objective(spec_.objective));
  } catch (const Error& error) {
    refuse_spec(spec_.name, error.what());
  }
}

void KernelPlan::check_names() {
  require_name(spec_.name, "name");
  if (spec_.parameters.empty() || spec_.parameters.size() > kMostParameters) {
    refuse_spec(spec_.name, "it has " + std::to_string(spec_.parameters.size()) +
                                " parameters, and there must be 1 to " +
                                std::to_string(kMostParameters));
  }
  if (spec_.sizes.size() > kMostSizes) {
    refuse_spec(spec_.name, "it has " + std::to_string(spec_.sizes.size()) +
                                " sizes, and a problem has room for " + std::to_string(kMostSizes));
  }
  for (const KernelParameter& parameter : spec_.parameters) {
    constexpr std::size_t kMostBytes = 256;
    if (spec_.parameters.size() > kMostLarge && parameter.values.size() > kMostBytes) {
      refuse_spec("parameter " + parameter.name,
                  "of more than 31 parameters each has at most 256 values");
    }
    require_name(parameter.name, "parameter");
    names_.push_back(parameter.name);
  }
  for (const KernelSize& size : spec_.sizes) {
    require_name(size.name, "size");
    names_.push_back(size.name);
  }
  for (const auto& [name, items] : spec_.lists) {
    require_name(name, "list");
    names_.push_back(name);
  }
  for (const auto& [name, text] : spec_.defines) {
    require_name(name, "define");
  }
  std::vector<std::string> sorted = names_;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    refuse_spec(spec_.name, "the name '" + *twice + "' is there twice");
  }
}

void KernelPlan::read_parameters() {
  for (const KernelParameter& parameter : spec_.parameters) {
    const std::string where = "parameter " + parameter.name;
    if (parameter.values.empty() || parameter.values.size() > kMostValues) {
      refuse_spec(where, "it has " + std::to_string(parameter.values.size()) +
                             " values, and there must be 1 to " + std::to_string(kMostValues));
    }
    std::set<std::string> seen;
    std::vector<Value>& values = values_.emplace_back();
    for (const std::string& text : parameter.values) {
      // What would read as more than a value in a source.
      if (text.find_first_of("\n\r\\#;") != std::string::npos) {
        refuse_spec(where, "the value '" + text + "' has one of ; # \\ or a line's end");
      }
      if (!seen.insert(text).second) {
        refuse_spec(where, "the value " + text + " is there twice");
      }
      values.push_back(parameter_value(text, *heap_));
    }
  }
}

BoundExpression KernelPlan::bound(const std::string& text, const std::string& where,
                                  bool has_index) const {
  const Dialect dialect = spec_.dialect == SpecDialect::c ? Dialect::c : Dialect::python;
  return at_place(where, [&] {
    std::vector<std::string> known = names_;
    if (has_index) {
      known.emplace_back("i");
    }
    return BoundExpression(Expression(text, dialect), known);
  });
}

void KernelPlan::plan_arguments() {
  if (spec_.arguments.size() > kMostArguments) {
    refuse_spec(spec_.name, "it has more than " + std::to_string(kMostArguments) + " arguments");
  }
  std::set<std::string> seen;
  for (const KernelArgument& argument : spec_.arguments) {
    const std::string where = "argument " + argument.name;
    require_name(argument.name, "argument");
    if (!seen.insert(argument.name).second) {
      refuse_spec(where, "it is there twice");
    }
    PlannedArgument& planned = arguments_.emplace_back();
    planned.spec = argument;
    plan_type(planned, where);
    if (argument.texture) {
      require_texture(argument, planned.type, where);
      for (const std::string& side : argument.texture->extent) {
        planned.extent.push_back(bound(side, where + ", extent"));
      }
    } else if (argument.size) {
      planned.size = bound(*argument.size, where + ", size");
    } else if (argument.is_output || argument.is_constant) {
      refuse_spec(where, "an output, or a variable of the source, needs a size");
    }
    const bool is_scalar = !argument.size && !argument.texture;
    if (is_scalar || argument.fill == KernelFill::value || argument.fill == KernelFill::index) {
      planned.value = bound(argument.value, where + ", value", argument.fill == KernelFill::index);
    }
    if (!(argument.low <= argument.high) || !std::isfinite(argument.high - argument.low)) {
      refuse_spec(where, "low and high must be numbers, and low not above high");
    }
    if (argument.fill == KernelFill::file && argument.file.empty()) {
      refuse_spec(where, "it needs a file");
    }
    if (argument.is_output && argument.is_constant) {
      refuse_spec(where, "a __constant__ variable cannot be an output");
    }
  }
  const bool has_output = std::ranges::any_of(spec_.arguments, &KernelArgument::is_output);
  if (!has_output) {
    refuse_spec(spec_.name, "no argument is an output, so no result could be checked");
  }
}

/// The type, or one for each value of the parameter that it names, and the tolerance that fits.
void KernelPlan::plan_type(PlannedArgument& planned, const std::string& where) const {
  const KernelArgument& argument = planned.spec;
  const auto named = std::ranges::find_if(spec_.parameters, [&](const KernelParameter& one) {
    return find_word(argument.type, one.name, 0) != std::string::npos;
  });
  planned.absolute = argument.absolute.value_or(spec_.absolute);
  planned.relative = argument.relative.value_or(spec_.relative);
  const auto take = [&](const std::string& type) {
    planned.type = at_place(where, [&] { return element_type(type); });
    const TypeTolerance tolerance = tolerance_of(planned.type.kind);
    if (!argument.absolute && spec_.absolute == KernelSpec().absolute) {
      planned.absolute = std::max(planned.absolute, tolerance.absolute);
    }
    if (!argument.relative && spec_.relative == KernelSpec().relative) {
      planned.relative = std::max(planned.relative, tolerance.relative);
    }
  };
  if (named == spec_.parameters.end()) {
    return take(argument.type);
  }
  if (argument.texture || argument.is_constant) {
    refuse_spec(where, "a parameter names the types of vectors and scalars alone");
  }
  planned.type_place = static_cast<std::size_t>(named - spec_.parameters.begin());
  for (const std::string& value : named->values) {
    take(with_word_replaced(argument.type, named->name, value));
    planned.types[to_string(values_[planned.type_place][planned.types.size()])] = planned.type;
  }
  const auto usual = static_cast<std::size_t>(usual_choice()[planned.type_place]);
  planned.type = planned.types.at(to_string(values_[planned.type_place][usual]));
}

std::vector<PlannedStep> KernelPlan::planned(const std::vector<KernelStep>& steps,
                                             const std::string& where) const {
  if (steps.size() > kMostSteps) {
    refuse_spec(spec_.name, "it launches more than " + std::to_string(kMostSteps) + " kernels");
  }
  std::vector<PlannedStep> all;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    all.push_back(planned(steps[i], steps.size() == 1 ? where : where + " " + std::to_string(i)));
  }
  return all;
}

PlannedStep KernelPlan::planned(const KernelStep& step, const std::string& where) const {
  const auto bound_all = [&](const std::vector<std::string>& texts, const std::string& what) {
    std::vector<BoundExpression> all;
    if (texts.empty() || texts.size() > 3) {
      refuse_spec(where, what + " must have one to three expressions");
    }
    for (const std::string& text : texts) {
      all.push_back(bound(text, where + ", " + what));
    }
    return all;
  };
  if (step.entry.empty() || step.entry.find_first_of("\n\r;{}\"'\\#") != std::string::npos) {
    refuse_spec(where, "'" + step.entry + "' does not name a kernel");
  }
  PlannedStep planned{.spec = step,
                      .block = bound_all(step.block, "block"),
                      .grid = bound_all(step.grid, "grid"),
                      .shared_bytes = bound(step.shared_bytes, where + ", shared_bytes"),
                      .when = {},
                      .repeat = bound(step.repeat, where + ", repeat"),
                      .arguments = {}};
  if (!step.when.empty()) {
    planned.when = bound(step.when, where + ", when");
  }
  std::vector<std::string> known;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    known.push_back(arguments_[i].spec.name);
    if (step.arguments.empty() && !arguments_[i].spec.is_constant) {
      planned.arguments.push_back(i);
    }
  }
  for (const std::string& name : step.arguments) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      refuse_spec(where, "there is no argument '" + name + "'" + advice_for_unknown(name, known));
    }
    planned.arguments.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  return planned;
}

void KernelPlan::read_sources() {
  const SpecFolder folder(spec_.folder);
  std::string defined;  // A macro may name a header.
  const auto define = [&](const std::string& name, const std::string& text) {
    defined.append("#define ").append(name).append(" ").append(text).append("\n");
  };
  for (const auto& [name, text] : spec_.defines) {
    define(name, text);
  }
  for (const KernelParameter& parameter : spec_.parameters) {
    for (const std::string& value : parameter.values) {
      define(parameter.name, value);
    }
  }
  const auto headers_of = [&](const std::string& file, const std::string& text) {
    return headers_below(folder, file, defined + text, spec_.include_folders);
  };
  if (spec_.source.empty()) {
    spec_.source = folder.read(spec_.source_file, kMostSourceBytes);
  }
  spec_.source = source_text(spec_.source_file, spec_.source);
  files_.headers = headers_of(spec_.source_file, spec_.source);
  if (!spec_.reference_file.empty()) {
    files_.reference_source =
        source_text(spec_.reference_file, folder.read(spec_.reference_file, kMostSourceBytes));
    files_.reference_headers = headers_of(spec_.reference_file, files_.reference_source);
  }
  for (PlannedArgument& argument : arguments_) {
    if (!argument.spec.file.empty()) {
      argument.file = folder.read(argument.spec.file, kMostDataBytes);
      files_.data_digests[argument.spec.file] = sha256_hex(argument.file);
    }
    if (!argument.spec.expected_file.empty()) {
      argument.expected = folder.read(argument.spec.expected_file, kMostDataBytes);
      files_.data_digests[argument.spec.expected_file] = sha256_hex(argument.expected);
    }
  }
}

}  // namespace swr::kernel_spec
