// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/kernel_plan.h"

#include "core/sha256.h"
#include "kernel_spec/spec/objective_text.h"
#include "kernel_spec/spec/source_closure.h"
#include "kernel_spec/spec/spec_folder.h"
#include "kernel_spec/spec/spec_object.h"
#include "kernel_spec/spec/texture.h"
#include "kernel_spec/spec/words.h"
#include <swr/error.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr std::size_t kMostSourceBytes = std::size_t{1} << 20;
constexpr std::size_t kMostDataBytes = std::size_t{1} << 30;
constexpr long long kMostElements = 1LL << 33;
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
                       std::isdigit(static_cast<unsigned char>(name.front())) == 0;
  if (!is_word) {
    refuse_spec(where, "'" + name + "' is no name: letters, digits and _, at most 64");
  }
  if (kKeywords.contains(name)) {
    refuse_spec(where, "'" + name + "' is a word of CUDA or of swr; choose another name");
  }
}

/// What a compiler's option may be: nothing that names a file or another tool's options.
bool is_allowed_option(std::string_view option) {
  static constexpr std::array<std::string_view, 20> kWhole{"--use_fast_math",
                                                           "-use_fast_math",
                                                           "--fmad=true",
                                                           "--fmad=false",
                                                           "-fmad=true",
                                                           "-fmad=false",
                                                           "--ftz=true",
                                                           "--ftz=false",
                                                           "--prec-div=true",
                                                           "--prec-div=false",
                                                           "--prec-sqrt=true",
                                                           "--prec-sqrt=false",
                                                           "-lineinfo",
                                                           "--generate-line-info",
                                                           "--restrict",
                                                           "-restrict",
                                                           "--extra-device-vectorization",
                                                           "-extra-device-vectorization",
                                                           "-w",
                                                           "--disable-warnings"};
  if (std::ranges::find(kWhole, option) != kWhole.end()) {
    return true;
  }
  const auto has_value = [&](std::string_view start, auto&& is_fine) {
    return option.starts_with(start) && option.size() > start.size() &&
           std::ranges::all_of(option.substr(start.size()), is_fine);
  };
  const auto is_word = [](char c) { return is_name_character(c) || c == '+'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_definition = [](char c) {
    return is_name_character(c) ||
           std::string_view("=.+-*/()<>, ").find(c) != std::string_view::npos;
  };
  return has_value("-D", is_definition) || has_value("--define-macro=", is_definition) ||
         has_value("--std=", is_word) || has_value("-std=", is_word) ||
         has_value("--maxrregcount=", is_digit) || has_value("-maxrregcount=", is_digit);
}

/// Calls `found(begin, end)` for each word of a text that is a name.
void for_each_name(std::string_view text,
                   const std::function<void(std::size_t, std::size_t)>& found) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    while (at < text.size() && is_name_character(text[at])) {
      ++at;
    }
    if (at > begin && std::isdigit(static_cast<unsigned char>(text[begin])) == 0) {
      found(begin, at);
    }
    at += at == begin ? 1 : 0;
  }
}

bool names(std::string_view text, std::string_view name) {
  bool is_named = false;
  for_each_name(text, [&](std::size_t begin, std::size_t end) {
    is_named = is_named || text.substr(begin, end - begin) == name;
  });
  return is_named;
}

std::string template_arguments(const std::string& entry) {
  const auto open = entry.find('<');
  return open == std::string::npos ? "" : entry.substr(open);
}

/// Where an expression stands, put together for messages alone: spaces compute millions.
struct Place {
  std::string_view kind;
  std::string_view name;
  std::string_view part = {};

  operator std::string() const {
    return std::string(kind).append(name).append(part.empty() ? "" : ", ").append(part);
  }
};

/// Rethrows with the place before the message.
template <typename Where, typename Work>
auto at_place(const Where& where, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(where) + ": " + error.what());
  }
}

long long whole(const BoundExpression& expression, const Point& point, const Place& where) {
  const Value value =
      at_place(where, [&] { return expression.evaluate_number(point.table, point.heap); });
  if (value.is_integral()) {
    return value.integer;
  }
  constexpr double kLargest = 9e15;
  if (value.kind == ValueKind::real && std::floor(value.real) == value.real &&
      std::abs(value.real) < kLargest) {
    return static_cast<long long>(value.real);
  }
  refuse_spec(where, "it is " + to_string(value) + ", and must be a whole number");
}

double real(const std::optional<BoundExpression>& expression, const Point& point,
            const std::string& where) {
  if (!expression) {
    return 0.0;
  }
  const Value value =
      at_place(where, [&] { return expression->evaluate(point.table, point.heap); });
  const double number = value.is_integral() ? static_cast<double>(value.integer) : value.real;
  if (!value.is_number() || !std::isfinite(number) || number < 0) {
    refuse_spec(where, "it is " + to_string(value) + ", and must be a number that is not negative");
  }
  return number;
}

/// `#pragma unroll NAME` goes where the factor is 0, as Kernel Tuner has it.
std::string without_unrolling(std::string text, const std::string& name) {
  constexpr std::string_view kPragma = "#pragma unroll";
  for (std::size_t at = text.find(kPragma); at != std::string::npos;
       at = text.find(kPragma, at + 1)) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (names(std::string_view(text).substr(at, end - at), name)) {
      text.replace(at, end - at, end - at, ' ');
    }
  }
  return text;
}

}  // namespace

bool is_axis_number(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0 &&
         std::to_string(number) == text;
}

KernelPlan::KernelPlan(KernelSpec spec) : spec_(std::move(spec)) {
  plan();
  read_sources();
  digest_ = digest_of_all();
}

KernelPlan::KernelPlan(StoredSpec stored)
    : spec_(std::move(stored.spec)),
      files_(std::move(stored.files)),
      has_data_(files_.data_digests.empty()) {
  plan();
  digest_ = digest_of_all();
}

void KernelPlan::plan() {
  check_names();
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
    if (!is_allowed_option(option)) {
      refuse_spec(spec_.name,
                  "the compiler's option '" + option +
                      "' is not allowed in a spec; docs/kernels.md lists those that are");
    }
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
      // What would read as another value in a variant's key, or as more than a value in a source.
      if (text.empty() || text.find_first_of(",=\n\r\\\"'#;{}") != std::string::npos) {
        refuse_spec(where, "the value '" + text + "' is empty or has one of , = ; # \" ' \\ { }");
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
    planned.type = at_place(where, [&] { return element_type(argument.type); });
    planned.absolute = argument.absolute.value_or(spec_.absolute);
    planned.relative = argument.relative.value_or(spec_.relative);
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
  const auto read = [&](const std::string& file, std::string text,
                        std::map<std::string, std::string>& headers) {
    if (text.empty()) {
      text = folder.read(file, kMostSourceBytes);
    }
    SourceClosure closure = source_closure(folder, file, std::move(text), spec_.include_folders);
    headers = std::move(closure.headers);
    return std::move(closure.text);
  };
  spec_.source = read(spec_.source_file, spec_.source, files_.headers);
  if (!spec_.reference_file.empty()) {
    files_.reference_source = read(spec_.reference_file, "", files_.reference_headers);
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

void KernelPlan::fill(Point& point, std::span<const int> sizes, std::span<const int> choice) const {
  point.heap.clear();
  point.table.assign(names_.size(), Value::of(0LL));
  std::size_t at = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    point.table[at++] = values_[i][static_cast<std::size_t>(choice[i])];
  }
  for (const int size : sizes) {
    point.table[at++] = Value::of(static_cast<long long>(size));
  }
  for (const auto& [name, items] : lists_) {
    std::vector<Value> values;
    for (const BoundExpression& item : items) {
      values.push_back(
          at_place("list " + name, [&] { return item.evaluate(point.table, point.heap); }));
    }
    point.table[at++] = point.heap.keep(std::move(values));
  }
}

std::vector<int> KernelPlan::usual_choice() const {
  std::vector<int> choice;
  for (const KernelParameter& parameter : spec_.parameters) {
    const auto found = parameter.usual ? std::ranges::find(parameter.values, *parameter.usual)
                                       : parameter.values.begin();
    choice.push_back(
        found == parameter.values.end() ? 0 : static_cast<int>(found - parameter.values.begin()));
  }
  return choice;
}

std::vector<int> KernelPlan::reference_choice() const {
  std::vector<int> choice = usual_choice();
  for (const auto& [name, value] : spec_.reference_parameters) {
    const auto parameter = std::ranges::find(spec_.parameters, name, &KernelParameter::name);
    if (parameter == spec_.parameters.end()) {
      refuse_spec("reference",
                  "there is no parameter '" + name + "'" + advice_for_unknown(name, names_));
    }
    const auto found = std::ranges::find(parameter->values, value);
    if (found == parameter->values.end()) {
      refuse_spec("reference", "parameter " + name + " has no value " + value);
    }
    choice[static_cast<std::size_t>(parameter - spec_.parameters.begin())] =
        static_cast<int>(found - parameter->values.begin());
  }
  return choice;
}

std::optional<KernelPlan::Broken> KernelPlan::broken(const Point& point) const {
  for (std::size_t i = 0; i < constraints_.size(); ++i) {
    try {
      if (!is_true(constraints_[i].evaluate_number(point.table, point.heap))) {
        return Broken{i, "it does not hold"};
      }
    } catch (const Error& error) {
      return Broken{i, error.what()};
    }
  }
  return std::nullopt;
}

Space KernelPlan::space(std::span<const int> sizes,
                        const std::map<std::size_t, std::vector<int>>& places) const {
  Point point;
  fill(point, sizes, usual_choice());
  std::vector<SpaceAxis> axes;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    SpaceAxis& axis = axes.emplace_back(SpaceAxis{spec_.parameters[i].name, {}});
    const auto wanted = places.find(i);
    if (wanted == places.end()) {
      axis.values = values_[i];
      continue;
    }
    for (const int place : wanted->second) {
      axis.values.push_back(values_[i][static_cast<std::size_t>(place)]);
    }
  }
  std::vector<NamedValue> constants;
  for (std::size_t i = values_.size(); i < names_.size(); ++i) {
    constants.push_back({names_[i], point.table[i]});
  }
  const Dialect dialect = spec_.dialect == SpecDialect::c ? Dialect::c : Dialect::python;
  std::vector<SpaceCondition> conditions;
  for (const std::string& text : spec_.constraints) {
    conditions.push_back({text, Expression(text, dialect)});
  }
  return Space(std::move(axes), std::move(conditions), constants);
}

PlannedLaunch KernelPlan::launch(const PlannedStep& step, const Point& point) const {
  PlannedLaunch launch;
  const auto place = [&step](std::string_view part) {
    return Place{"kernel ", step.spec.entry, part};
  };
  constexpr long long kMostTimes = 1'000'000;
  if (step.when) {
    const Value when = at_place(
        place("when"), [&] { return step.when->evaluate_number(point.table, point.heap); });
    if (!is_true(when)) {
      launch.times = 0;
      return launch;
    }
  }
  const auto take = [&](const std::vector<BoundExpression>& from, std::array<unsigned, 3>& to,
                        std::string_view what) {
    constexpr long long kMost = 2147483647;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const long long count = whole(from[i], point, place(what));
      if (count < 1 || count > kMost) {
        refuse_spec(place(what),
                    "it is " + std::to_string(count) + ", and must be 1 to 2147483647");
      }
      to[i] = static_cast<unsigned>(count);
    }
  };
  take(step.block, launch.block, "block");
  take(step.grid, launch.grid, "grid");
  const long long shared = whole(step.shared_bytes, point, place("shared_bytes"));
  const long long times = whole(step.repeat, point, place("repeat"));
  if (shared < 0 || shared > std::numeric_limits<int>::max()) {
    refuse_spec(place("shared_bytes"), "it is " + std::to_string(shared));
  }
  if (times < 0 || times > kMostTimes) {
    refuse_spec(place("repeat"), "it is " + std::to_string(times) + ", and must be 0 to 1000000");
  }
  launch.shared_bytes = static_cast<int>(shared);
  launch.times = static_cast<int>(times);
  return launch;
}

std::array<std::size_t, 3> KernelPlan::extent(const PlannedArgument& argument,
                                              const Point& point) const {
  // Of arrays of one, two and three sides on every chip since sm_60.
  static constexpr long long kMost[3][3] = {
      {131072, 0, 0}, {131072, 65536, 0}, {16384, 16384, 16384}};
  std::array<std::size_t, 3> sides{};
  for (std::size_t i = 0; i < argument.extent.size(); ++i) {
    const Place where{"argument ", argument.spec.name, "extent"};
    const long long side = whole(argument.extent[i], point, where);
    const long long most = kMost[argument.extent.size() - 1][i];
    if (side < 1 || side > most) {
      refuse_spec(where, "a side is " + std::to_string(side) + ", and must be 1 to " +
                             std::to_string(most));
    }
    sides[i] = static_cast<std::size_t>(side);
  }
  return sides;
}

long long KernelPlan::elements(const PlannedArgument& argument, const Point& point) const {
  if (!argument.extent.empty()) {
    long long count = 1;
    for (const std::size_t side : extent(argument, point)) {
      count *= side == 0 ? 1 : static_cast<long long>(side);
    }
    return count;
  }
  const Place where{"argument ", argument.spec.name, "size"};
  const long long count = whole(*argument.size, point, where);
  if (count < 1 || count > kMostElements) {
    refuse_spec(where, "it is " + std::to_string(count) + ", and must be 1 to 2^33");
  }
  return count;
}

double KernelPlan::flops(const Point& point) const { return real(flops_, point, "flops"); }
double KernelPlan::bytes(const Point& point) const { return real(bytes_, point, "bytes"); }

std::string KernelPlan::entry_of(const KernelStep& step, std::span<const int> choice) const {
  const std::string arguments = template_arguments(step.entry);
  std::string entry = step.entry.substr(0, step.entry.size() - arguments.size());
  std::size_t written = 0;
  for_each_name(arguments, [&](std::size_t begin, std::size_t end) {
    const std::string name = arguments.substr(begin, end - begin);
    const auto parameter = std::ranges::find(spec_.parameters, name, &KernelParameter::name);
    if (parameter == spec_.parameters.end()) {
      return;
    }
    const auto place = static_cast<std::size_t>(parameter - spec_.parameters.begin());
    entry += arguments.substr(written, begin - written) +
             parameter->values[static_cast<std::size_t>(choice[place])];
    written = end;
  });
  return entry + arguments.substr(written);
}

std::string KernelPlan::macros(const Point& point, std::span<const int> choice,
                               const std::vector<PlannedStep>& steps) const {
  std::string text = "#define swr_tune 1\n#define kernel_tuner 1\n";
  for (std::size_t i = 0; i < spec_.parameters.size(); ++i) {
    const KernelParameter& parameter = spec_.parameters[i];
    const std::string& value = parameter.values[static_cast<std::size_t>(choice[i])];
    const auto is_template_argument_of = [&](const std::vector<PlannedStep>& some) {
      return std::ranges::any_of(some, [&](const PlannedStep& step) {
        return names(template_arguments(step.spec.entry), parameter.name);
      });
    };
    // A macro would also replace the names of another kernel's template parameters in the same
    // file.
    const bool shares_file = spec_.reference_file.empty();
    if (is_template_argument_of(steps) ||
        (shares_file && (is_template_argument_of(steps_) || is_template_argument_of(reference_))) ||
        parameter.use == ParameterUse::launch) {
      continue;
    }
    text += parameter.use == ParameterUse::constant
                ? "constexpr auto " + parameter.name + " = " + value + ";\n"
                : "#define " + parameter.name + " " + value + "\n";
  }
  for (const auto& [name, expression] : defines_) {
    const Value value = at_place("define " + name, [&, &bound = expression] {
      return bound.evaluate(point.table, point.heap);
    });
    if (value.kind == ValueKind::list) {
      refuse_spec("define " + name, "it is a list");
    }
    const std::string written =
        value.kind == ValueKind::truth ? (value.integer != 0 ? "true" : "false") : to_string(value);
    text += "#define " + name + " " + written + "\n";
  }
  return text;
}

KernelProgram KernelPlan::program_of(const Point& point, std::span<const int> choice,
                                     const std::vector<PlannedStep>& steps, const std::string& file,
                                     const std::string& text,
                                     const std::map<std::string, std::string>& headers) const {
  std::string source = text;
  for (std::size_t i = 0; i < spec_.parameters.size(); ++i) {
    const KernelParameter& parameter = spec_.parameters[i];
    if (parameter.use == ParameterUse::constant &&
        parameter.values[static_cast<std::size_t>(choice[i])] == "0") {
      source = without_unrolling(std::move(source), parameter.name);
    }
  }
  KernelProgram program{
      .file = file,
      .text = macros(point, choice, steps) + "#line 1 \"" + file + "\"\n" + source,
      .headers = headers,
      .options = spec_.options,
      .kernels = {},
      .compile_limit_s = spec_.compile_limit_s};
  for (const PlannedStep& step : steps) {
    program.kernels.push_back(entry_of(step.spec, choice));
  }
  return program;
}

bool KernelPlan::has_sizes_compiled_in() const {
  return std::ranges::any_of(defines_, [this](const auto& define) {
    return std::ranges::any_of(define.second.places(),
                               [this](std::size_t place) { return place >= values_.size(); });
  });
}

KernelProgram KernelPlan::program(const Point& point, std::span<const int> choice) const {
  return program_of(point, choice, steps_, spec_.source_file, spec_.source, files_.headers);
}

KernelProgram KernelPlan::reference_program(const Point& point) const {
  const std::vector<int> choice = reference_choice();
  return spec_.reference_file.empty()
             ? program_of(point, choice, reference_, spec_.source_file, spec_.source,
                          files_.headers)
             : program_of(point, choice, reference_, spec_.reference_file, files_.reference_source,
                          files_.reference_headers);
}

/// Everything but what changes no result: words for people, usual sizes, the deadline. Databases
/// hold it beside the spec, so what comes later is added where a spec has it alone.
std::string KernelPlan::digest_of_all() const {
  std::string all;
  const auto add = [&all](const std::string& field) {
    all += std::to_string(field.size()) + ":" + field;
  };
  const auto add_all = [&](const std::vector<std::string>& fields) {
    add(std::to_string(fields.size()));
    std::ranges::for_each(fields, add);
  };
  const auto add_headers = [&](const std::map<std::string, std::string>& headers) {
    for (const auto& [name, text] : headers) {
      add_all({name, text});
    }
  };
  const auto digest_of = [this](const std::string& data_file) {
    const auto known = files_.data_digests.find(data_file);
    return known == files_.data_digests.end() ? std::string() : known->second;
  };
  const auto add_steps = [&](const std::vector<KernelStep>& steps) {
    for (const KernelStep& step : steps) {
      add_all({step.entry, step.shared_bytes, step.when, step.repeat});
      add_all(step.block);
      add_all(step.grid);
      add_all(step.arguments);
    }
  };
  add_all({spec_.name, spec_.source, files_.reference_source,
           spec_.dialect == SpecDialect::c ? "c" : "python", spec_.flops, spec_.bytes});
  add_headers(files_.headers);
  add_headers(files_.reference_headers);
  for (const KernelSize& size : spec_.sizes) {
    add(size.name);
  }
  for (const KernelParameter& parameter : spec_.parameters) {
    add_all({parameter.name, std::to_string(static_cast<int>(parameter.use)),
             parameter.usual.value_or("")});
    add_all(parameter.values);
  }
  add_all(spec_.constraints);
  for (const auto& [name, text] : spec_.defines) {
    add_all({name, text});
  }
  for (const auto& [name, items] : spec_.lists) {
    add(name);
    add_all(items);
  }
  add_all(spec_.options);
  for (const PlannedArgument& argument : arguments_) {
    const KernelArgument& one = argument.spec;
    add_all({one.name, one.type, one.size.value_or(""), one.is_output ? "output" : "",
             one.is_constant ? "constant" : "", std::to_string(static_cast<int>(one.fill)),
             one.value, std::to_string(one.low), std::to_string(one.high), std::to_string(one.seed),
             digest_of(one.file), digest_of(one.expected_file),
             std::to_string(argument.absolute * 1e12), std::to_string(argument.relative * 1e12)});
    if (one.texture) {
      add_all(one.texture->extent);
      add_all({"texture", std::to_string(static_cast<int>(one.texture->address)),
               one.texture->interpolates ? "linear" : "", one.texture->is_normalized ? "unit" : "",
               one.texture->reads_fractions ? "fractions" : ""});
    }
  }
  add_steps(spec_.steps);
  add_steps(spec_.reference);
  for (const auto& [name, value] : spec_.reference_parameters) {
    add_all({name, value});
  }
  return sha256_hex(all);
}

}  // namespace swr::kernel_spec
