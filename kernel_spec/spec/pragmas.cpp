// SPDX-License-Identifier: MIT
// Pragmas as kernel_launcher has them (github.com/KernelTuner/kernel_launcher), and swr's own for
// what its callers say at run time.
#include "core/trimmed.h"
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/source/signatures.h"
#include "kernel_spec/spec/element_type.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr int kUsualSize = 1 << 20;
constexpr const char* kUsualValue = "1.5";
/// Of an expression with all that its names stand for.
constexpr std::size_t kLongestText = std::size_t{1} << 16;

/// What C makes of a constant, such as `1 << 4` or "a text"; a type and other text stays.
std::string constant_text(const std::string& text) {
  try {
    ValueHeap heap;
    const BoundExpression bound(Expression(text, Dialect::c), {});
    const Value value = bound.evaluate({}, heap);
    // A real one may say its type, as 0.5f does.
    const bool stays = value.kind == ValueKind::truth || value.kind == ValueKind::real;
    return stays ? text : to_string(value);
  } catch (const Error&) {
    return text;
  }
}

using Named = std::pair<std::string, std::string>;

/// What the pragmas of one kernel say, before anything is made of it.
struct PragmaTexts {
  std::vector<KernelParameter> parameters;
  std::vector<std::string> constraints;
  std::vector<Named> set;
  std::vector<Named> sizes;
  std::vector<Named> values;
  std::vector<Named> types;
  std::vector<Named> buffers;
  std::vector<std::string> outputs;
  std::vector<std::string> problem;
  std::vector<std::string> block;
  std::vector<std::string> divisors;
  std::vector<std::string> grid;
  std::string shared;
  std::string objective;
  std::string objective_is_large;
  std::vector<std::string> notes;
};

const Named* find_named(const std::vector<Named>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named::first);
  return found == all.end() ? nullptr : &*found;
}

class DirectiveReader {
 public:
  explicit DirectiveReader(const std::string& where) : where_(where) {}

  PragmaTexts read(const std::vector<SourceDirective>& directives) {
    for (const SourceDirective& directive : directives) {
      directive_ = &directive;
      take();
    }
    return std::move(texts_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_spec(where_, "line " + std::to_string(directive_->line) + ": " + what);
  }

  void take() {
    constexpr std::size_t kLongestBody = 4096;
    const std::string& word = directive_->word;
    if (directive_->body.size() > kLongestBody) {
      refuse(word + "(...) is longer than " + std::to_string(kLongestBody) + " characters");
    }
    if (word == "tune") {
      take_parameter();
    } else if (word == "default") {
      take_default();
    } else if (word == "restriction" || word == "restrictions") {
      const std::vector<std::string> all = parts();
      texts_.constraints.insert(texts_.constraints.end(), all.begin(), all.end());
    } else if (word == "buffers" || word == "buffer") {
      take_buffers();
    } else if (word == "output") {
      const std::vector<std::string> all = parts();
      texts_.outputs.insert(texts_.outputs.end(), all.begin(), all.end());
    } else if (word == "tuning_key") {
      texts_.notes.emplace_back(
          "tuning_key is kernel_launcher's; swr keys by the kernel and its sizes");
    } else if (!take_named() && !take_list() && !take_text()) {
      refuse_unknown();
    }
  }

  [[noreturn]] void refuse_unknown() const {
    const std::vector<std::string> known{"tune",
                                         "set",
                                         "restriction",
                                         "problem_size",
                                         "block_size",
                                         "grid_size",
                                         "grid_divisor",
                                         "shared_memory",
                                         "buffers",
                                         "output",
                                         "size",
                                         "value",
                                         "types",
                                         "default",
                                         "tuning_key",
                                         "objective",
                                         "objective_higher_is_better"};
    refuse("unknown pragma '" + directive_->word + "'" +
           advice_for_unknown(directive_->word, known));
  }

  std::vector<std::string> parts(bool has_types = false) const {
    std::vector<std::string> all = parts_between_commas(directive_->body, has_types);
    if (all.empty()) {
      refuse(directive_->word + "() says nothing");
    }
    return all;
  }

  /// NAME = TEXT.
  Named assignment(const std::string& body) const {
    const auto equals = body.find('=');
    const std::string_view text = body;
    Named named{trimmed(text.substr(0, equals)),
                equals == body.npos ? "" : trimmed(text.substr(equals + 1))};
    if (named.first.empty() || named.second.empty()) {
      refuse("write " + directive_->word + "(NAME = ...), not " + directive_->word + "(" + body +
             ")");
    }
    return named;
  }

  void take_parameter() {
    const auto [name, values] = assignment(directive_->body);
    KernelParameter& parameter = texts_.parameters.emplace_back();
    parameter.name = name;
    for (const std::string& part : parts_between_commas(values, true)) {
      const bool is_usual = part.starts_with("default(") && part.ends_with(")");
      const std::string value = constant_text(is_usual ? part.substr(8, part.size() - 9) : part);
      if (is_usual) {
        parameter.usual = value;
      } else {
        parameter.values.push_back(value);
      }
    }
    if (parameter.usual && std::ranges::count(parameter.values, *parameter.usual) == 0) {
      parameter.values.push_back(*parameter.usual);
    }
  }

  void take_default() {
    if (texts_.parameters.empty() || texts_.parameters.back().usual) {
      refuse("default(...) belongs to the one tune(...) before it");
    }
    texts_.parameters.back().usual = constant_text(directive_->body);
  }

  void take_buffers() {
    for (const std::string& buffer : parts()) {
      const auto open = buffer.find('[');
      if (open == buffer.npos || open == 0 || buffer.back() != ']') {
        refuse("write buffers(NAME[SIZE]), not buffers(" + buffer + ")");
      }
      const std::string name = buffer.substr(0, buffer.find_last_not_of(' ', open - 1) + 1);
      require_first(find_named(texts_.buffers, name) == nullptr, name);
      texts_.buffers.emplace_back(name, buffer.substr(open + 1, buffer.size() - open - 2));
    }
  }

  void require_first(bool is_first, const std::string& name) const {
    if (!is_first) {
      refuse("'" + name + "' is there twice");
    }
  }

  bool take_named() {
    const std::string& word = directive_->word;
    std::vector<Named>* const taken = word == "set"                       ? &texts_.set
                                      : word == "size"                    ? &texts_.sizes
                                      : word == "value"                   ? &texts_.values
                                      : word == "types" || word == "type" ? &texts_.types
                                                                          : nullptr;
    if (taken == nullptr) {
      return false;
    }
    // kernel_launcher has several names in one set(...).
    for (const std::string& one :
         word == "set" ? parts(true) : std::vector<std::string>{directive_->body}) {
      Named named = assignment(one);
      require_first(find_named(*taken, named.first) == nullptr, named.first);
      taken->push_back(std::move(named));
    }
    return true;
  }

  bool take_list() {
    const std::string& word = directive_->word;
    std::vector<std::string>* const taken =
        word == "problem_size" || word == "problem_dim"     ? &texts_.problem
        : word == "block_size" || word == "block_dim"       ? &texts_.block
        : word == "grid_size" || word == "grid_dim"         ? &texts_.grid
        : word == "grid_divisor" || word == "grid_divisors" ? &texts_.divisors
                                                            : nullptr;
    if (taken != nullptr) {
      require_first(taken->empty(), word);
      *taken = parts();
      if (constexpr std::size_t kAxes = 3; taken->size() > kAxes) {
        refuse(word + " has more than three expressions");
      }
    }
    return taken != nullptr;
  }

  bool take_text() {
    const std::string& word = directive_->word;
    std::string* const taken = word == "shared_memory"                ? &texts_.shared
                               : word == "objective"                  ? &texts_.objective
                               : word == "objective_higher_is_better" ? &texts_.objective_is_large
                                                                      : nullptr;
    if (taken != nullptr) {
      require_first(taken->empty(), word);
      static_cast<void>(parts());
      *taken = directive_->body;
    }
    return taken != nullptr;
  }

  const std::string& where_;
  const SourceDirective* directive_ = nullptr;
  PragmaTexts texts_;
};

class PragmaReader {
 public:
  PragmaReader(const KernelSignature& kernel, const std::map<std::string, std::string>& aliases,
               const std::string& where)
      : where_(where),
        kernel_(kernel),
        aliases_(aliases),
        texts_(DirectiveReader(where).read(kernel.directives)) {}

  KernelSpec read() {
    spec_.dialect = SpecDialect::c;
    spec_.name = kernel_.name;
    spec_.parameters = texts_.parameters;
    spec_.notes = texts_.notes;
    KernelStep& step = spec_.steps.emplace_back();
    step.entry = entry();  // It says what types there are.
    spec_.constraints = replaced(texts_.constraints);
    step.block =
        replaced(texts_.block.empty() ? std::vector<std::string>{"block_size_x"} : texts_.block);
    step.grid = grid();
    step.shared_bytes = texts_.shared.empty() ? "0" : replaced(texts_.shared);
    read_arguments();
    require_names_of_the_kernel();
    read_objective();
    return std::move(spec_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { refuse_spec(where_, what); }

  void read_objective() {
    const std::string& is_large = texts_.objective_is_large;
    const bool is_to_be_large = is_large == "true";
    if (!is_to_be_large && !is_large.empty() && is_large != "false") {
      refuse("objective_higher_is_better must be true or false, not '" + is_large + "'");
    }
    if (texts_.objective.empty()) {
      if (is_to_be_large) {
        refuse("objective_higher_is_better needs '#pragma swr objective(...)'");
      }
      return;
    }
    try {
      spec_.objective = kept_objective(texts_.objective, is_to_be_large);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  /// `set` names stand for their expressions, `sizeof(TYPE)` for its bytes.
  std::string replaced(std::string text) const {
    text = with_sizes_of_types(text);
    for (auto at = texts_.set.rbegin(); at != texts_.set.rend(); ++at) {
      text = with_word_replaced(text, at->first, "(" + with_sizes_of_types(at->second) + ")");
      require_bounded(text);
    }
    return text;
  }

  std::string with_sizes_of_types(const std::string& text) const {
    constexpr std::string_view kWord = "sizeof";
    std::string made;
    std::size_t kept = 0;
    for (auto at = find_word(text, kWord, 0); at != text.npos; at = find_word(text, kWord, kept)) {
      const auto open = text.find('(', at);
      const auto close = text.find(')', at);
      if (open == text.npos || open > close || close == text.npos) {
        refuse("write sizeof(TYPE)");
      }
      const std::string type(trimmed(std::string_view(text).substr(open + 1, close - open - 1)));
      made += text.substr(kept, at - kept) + bytes_of_any(type);
      kept = close + 1;
    }
    return made + text.substr(kept);
  }

  std::string bytes_of(const std::string& type) const {
    const Named* const set = find_named(texts_.set, type);
    const std::string found = type_of(set != nullptr ? set->second : type);
    try {
      return std::to_string(found.ends_with('*') ? sizeof(void*) : element_type(found).bytes());
    } catch (const Error& error) {
      refuse("sizeof(" + type + "): " + error.what());
    }
  }

  /// Of a type that is tuned, a choice by its name.
  std::string bytes_of_any(const std::string& type) const {
    const auto tuned = std::ranges::find(spec_.parameters, type, &KernelParameter::name);
    if (tuned == spec_.parameters.end()) {
      return bytes_of(type);
    }
    std::string choice = "(";
    for (const std::string& value : tuned->values) {
      choice.append(type).append(" == '").append(value).append("' ? ");
      choice.append(bytes_of(value)).append(" : ");
    }
    return choice + "0)";
  }

  /// Names that stand for others twice, and these for others twice, grow without end.
  void require_bounded(const std::string& text) const {
    if (text.size() > kLongestText) {
      refuse("an expression is longer than " + std::to_string(kLongestText) +
             " characters when its names are replaced by what they stand for");
    }
  }
  std::vector<std::string> replaced(std::vector<std::string> texts) const {
    for (std::string& text : texts) {
      text = replaced(text);
    }
    return texts;
  }

  std::string entry() {
    std::string text = kernel_.qualified_name;
    for (std::size_t i = 0; i < kernel_.template_parameters.size(); ++i) {
      text += (i == 0 ? "<" : ", ") + template_value(kernel_.template_parameters[i]);
    }
    return text + (kernel_.template_parameters.empty() ? "" : ">");
  }

  std::string template_value(const SignatureParameter& parameter) {
    const std::string& name = parameter.name;
    const bool is_type = parameter.type == "typename" || parameter.type == "class";
    if (const Named* const set = find_named(texts_.set, name)) {
      return is_type ? set->second : "(" + replaced(set->second) + ")";
    }
    if (is_parameter(name)) {
      return name;
    }
    if (const Named* const type = find_named(texts_.types, name)) {
      return type->second;
    }
    if (!is_type && parameter.usual.empty()) {
      refuse("template parameter '" + name + "' has no value; '#pragma kernel tune(" + name +
             " = VALUES)' or set(" + name + " = VALUE) says one");
    }
    const std::string value = parameter.usual.empty() ? "float" : type_of(parameter.usual);
    if (name.empty()) {  // As of std::enable_if_t: a condition.
      return value;
    }
    texts_.types.emplace_back(name, value);
    spec_.notes.push_back("template parameter " + name + " is " + value + "; '#pragma swr types(" +
                          name + " = TYPE)' says another");
    return value;
  }

  std::vector<std::string> grid() const {
    if (!texts_.grid.empty()) {
      return replaced(texts_.grid);
    }
    if (texts_.problem.empty()) {
      refuse("it needs '#pragma kernel problem_size(...)' or grid_size(...)");
    }
    const std::vector<std::string>& divisors =
        texts_.divisors.empty() ? texts_.block : texts_.divisors;
    std::vector<std::string> all;
    for (std::size_t i = 0; i < texts_.problem.size(); ++i) {
      all.push_back(replaced(i < divisors.size()
                                 ? "div_ceil(" + texts_.problem[i] + ", " + divisors[i] + ")"
                                 : texts_.problem[i]));
    }
    return all;
  }

  std::string type_of(std::string type) const {
    for (const auto& [name, value] : texts_.types) {
      type = with_word_replaced(type, name, value);
      require_bounded(type);
    }
    constexpr int kDeepest = 8;  // Names that stand for names.
    for (int depth = 0; depth < kDeepest; ++depth) {
      type = with_aliases(type);
      require_bounded(type);
    }
    return type;
  }

  std::string with_aliases(const std::string& type) const {
    std::string replaced;
    for (std::size_t at = 0, end = 0; at < type.size(); at = end) {
      end = at + 1;
      while (is_name_character(type[at]) && end < type.size() && is_name_character(type[end])) {
        ++end;
      }
      const std::string word = type.substr(at, end - at);
      const auto alias = aliases_.find(word);
      replaced += alias == aliases_.end() || is_parameter(word) ? word : alias->second;
    }
    return replaced;
  }

  bool is_parameter(const std::string& name) const {
    return std::ranges::count(spec_.parameters, name, &KernelParameter::name) > 0;
  }

  /// Whole scalars are sizes of the problem unless they have a value, others have one; pointers are
  /// vectors of the sizes that `buffers` says.
  void read_arguments() {
    for (const SignatureParameter& parameter : kernel_.parameters) {
      if (parameter.name.empty()) {
        refuse("parameter '" + parameter.type.substr(0, 60) + "' of " + kernel_.name +
               " has no name or no type that can be read");
      }
      KernelArgument& argument = spec_.arguments.emplace_back();
      argument.name = parameter.name;
      argument.type = type_of(parameter.type);
      if (parameter.is_pointer()) {
        read_vector(argument);
      } else {
        argument.value = scalar(argument);
      }
    }
  }

  void read_vector(KernelArgument& argument) const {
    const Named* const buffer = find_named(texts_.buffers, argument.name);
    if (buffer == nullptr) {
      refuse("'#pragma kernel buffers(" + argument.name + "[SIZE])' is missing");
    }
    argument.size = replaced(buffer->second);
    const std::string_view element(argument.type.data(), argument.type.find('*'));
    const bool is_const = find_word(element, "const", 0) != element.npos;
    argument.is_output =
        texts_.outputs.empty() ? !is_const : std::ranges::count(texts_.outputs, argument.name) > 0;
    argument.fill = argument.is_output ? KernelFill::nothing : KernelFill::random;
  }

  static bool may_be_size(const std::string& type) {
    try {
      const ElementType element = element_type(type);
      return !element.is_real() && element.lanes == 1 && element.bytes() >= sizeof(int);
    } catch (const Error&) {
      return false;
    }
  }

  std::string scalar(const KernelArgument& argument) {
    const std::string& name = argument.name;
    const Named* const size = find_named(texts_.sizes, name);
    const Named* const value = find_named(texts_.values, name);
    if (value != nullptr && size != nullptr) {
      refuse("'" + name + "' has a size and a value; one of them says what it is");
    }
    if (value != nullptr) {
      return replaced(value->second);
    }
    if (may_be_size(argument.type)) {
      if (size == nullptr) {
        spec_.notes.push_back("size " + name + " is " + std::to_string(kUsualSize) +
                              "; '#pragma swr size(" + name + " = N)' says another");
      }
      add_size(spec_, name, size == nullptr ? std::to_string(kUsualSize) : size->second, where_);
      return name;
    }
    if (size != nullptr) {
      refuse("'" + name + "' is " + argument.type + " and no size; write '#pragma swr value(" +
             name + " = " + size->second + ")'");
    }
    spec_.notes.push_back("scalar " + name + " is " + kUsualValue + "; '#pragma swr value(" + name +
                          " = VALUE)' says another");
    return kUsualValue;
  }

  /// A name that the kernel does not have would be a setting without effect.
  void require_names_of_the_kernel() const {
    std::vector<std::string> known;
    std::string types;
    for (const SignatureParameter& parameter : kernel_.parameters) {
      known.push_back(parameter.name);
      types += parameter.type + " ";
    }
    const auto require_known = [&](const char* word, const std::string& name) {
      if (std::ranges::count(known, name) == 0) {
        refuse(std::string(word) + "(" + name + " ...): " + kernel_.name + " has no parameter '" +
               name + "'" + advice_for_unknown(name, known));
      }
    };
    for (const auto& [word, all] :
         {std::pair("buffers", &texts_.buffers), std::pair("size", &texts_.sizes),
          std::pair("value", &texts_.values)}) {
      for (const auto& [name, text] : *all) {
        require_known(word, name);
      }
    }
    for (const std::string& name : texts_.outputs) {
      require_known("output", name);
    }
    for (const auto& [name, text] : texts_.types) {
      const bool is_template_parameter =
          std::ranges::count(kernel_.template_parameters, name, &SignatureParameter::name) > 0;
      if (!is_template_parameter && find_word(types, name, 0) == std::string::npos) {
        refuse("types(" + name + " = " + text + "): " + kernel_.name + " has no type '" + name +
               "'");
      }
    }
  }

  const std::string& where_;
  const KernelSignature& kernel_;
  const std::map<std::string, std::string>& aliases_;
  PragmaTexts texts_;
  KernelSpec spec_;
};

}  // namespace

KernelSpec read_pragmas(const std::string& source, const std::string& where) {
  const SourceKernels found = kernels_of(source, where);
  const KernelSignature* annotated = nullptr;
  for (const KernelSignature& kernel : found.kernels) {
    if (annotated != nullptr && !kernel.directives.empty()) {
      refuse_spec(where, "line " + std::to_string(kernel.line) +
                             ": it has pragmas of two kernels, " + annotated->name + " and " +
                             kernel.name +
                             "; give each a file of its own, as a file with pragmas is one spec");
    }
    annotated = kernel.directives.empty() ? annotated : &kernel;
  }
  if (!found.unused.empty()) {
    refuse_spec(where, "line " + std::to_string(found.unused.front().line) +
                           ": no kernel '__global__ void NAME(...)' follows the pragmas");
  }
  if (annotated == nullptr) {
    refuse_spec(where, "it has no line '#pragma kernel tune(NAME = VALUES)'");
  }
  return PragmaReader(*annotated, found.aliases, where).read();
}

}  // namespace swr::kernel_spec
