// SPDX-License-Identifier: MIT
// Kernels annotated for kernel_launcher: `#pragma kernel tune(...)` and its like before a kernel.
// What a program would say at run time stands in `#pragma swr size(...)` and `types(...)`.
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/spec/objective_text.h"
#include "kernel_spec/spec/readers.h"
#include "kernel_spec/spec/spec_object.h"
#include "kernel_spec/spec/words.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr int kUsualSize = 1 << 20;
/// Of what a regular expression looks at: its matching recurses by the length of the text.
constexpr std::size_t kLongestMatched = 4096;
/// Of an expression with all that its names stand for.
constexpr std::size_t kLongestText = std::size_t{1} << 16;

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) {
    return "";
  }
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

/// The parts between commas that stand in no bracket.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '(' || c == '[' || c == '<' ? 1 : 0;
    depth -= c == ')' || c == ']' || c == '>' ? 1 : 0;
    if (c == ',' && (depth == 0 || i == text.size())) {
      parts.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts.size() == 1 && parts.front().empty() ? std::vector<std::string>{} : parts;
}

struct Directive {
  std::string word;
  std::string body;
};

class PragmaReader {
 public:
  PragmaReader(const std::string& source, const std::string& where)
      : source_(source), where_(where) {
    spec_.dialect = SpecDialect::c;
  }

  KernelSpec read() {
    const std::size_t behind = read_directives();
    read_signature(behind);
    KernelStep& step = spec_.steps.emplace_back();
    step.entry = entry();
    step.block = replaced(block_.empty() ? std::vector<std::string>{"block_size_x"} : block_);
    step.grid = grid();
    step.shared_bytes = replaced(shared_);
    spec_.constraints = replaced(spec_.constraints);
    read_arguments();
    read_objective();
    return std::move(spec_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { refuse_spec(where_, what); }

  /// Returns where the text behind the last directive begins.
  std::size_t read_directives() {
    std::size_t behind = std::string::npos;
    for (std::size_t begin = 0; begin < source_.size();) {
      const std::size_t end = std::min(source_.find('\n', begin), source_.size());
      if (take_line(std::string_view(source_).substr(begin, end - begin))) {
        behind = end;
      }
      begin = end + 1;
    }
    if (behind == std::string::npos) {
      refuse("it has no line '#pragma kernel tune(NAME = VALUES)'");
    }
    return behind;
  }

  /// Whether the line is a directive, which is taken then.
  bool take_line(std::string_view text) {
    static const std::regex directive(
        R"([ \t]*#[ \t]*pragma[ \t]+(kernel|swr)[ \t]+(\w+)[ \t]*\((.*)\)[ \t\r]*)");
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == text.npos || text[first] != '#' || text.find("pragma") == text.npos) {
      return false;
    }
    if (text.size() > kLongestMatched) {
      refuse("a line with a pragma is longer than " + std::to_string(kLongestMatched) +
             " characters");
    }
    std::match_results<std::string_view::const_iterator> found;
    if (!std::regex_match(text.begin(), text.end(), found, directive)) {
      return false;
    }
    take({found[2], found[3]});
    return true;
  }

  static std::pair<std::string, std::string> assignment(const std::string& body) {
    const auto equals = body.find('=');
    return equals == body.npos ? std::pair{trimmed(body), std::string()}
                               : std::pair{trimmed(std::string_view(body).substr(0, equals)),
                                           trimmed(std::string_view(body).substr(equals + 1))};
  }

  void take(const Directive& directive) {
    const auto& [word, body] = directive;
    if (word == "tune") {
      take_parameter(body);
    } else if (word == "set") {
      set_.push_back(assignment(body));
    } else if (word == "restriction") {
      spec_.constraints.push_back(body);
    } else if (word == "problem_size") {
      problem_ = parts_of(body);
    } else if (word == "block_size") {
      block_ = parts_of(body);
    } else if (word == "grid_divisor" || word == "grid_divisors") {
      divisors_ = parts_of(body);
    } else if (word == "grid_size") {
      grid_ = parts_of(body);
    } else if (word == "shared_memory") {
      shared_ = body;
    } else if (word == "buffers" || word == "output") {
      const std::vector<std::string> buffers = parts_of(body);
      (word == "output" ? outputs_ : buffers_)
          .insert((word == "output" ? outputs_ : buffers_).end(), buffers.begin(), buffers.end());
    } else if (word == "size") {
      sizes_.push_back(assignment(body));
    } else if (word == "types" || word == "type") {
      types_.push_back(assignment(body));
    } else if (word == "objective" || word == "objective_higher_is_better") {
      take_objective(directive);
    } else if (word == "tuning_key") {
      spec_.notes.push_back(
          "tuning_key is kernel_launcher's; swr keys by the kernel and its sizes");
    } else {
      const std::vector<std::string> known{
          "tune",         "set",           "restriction",
          "problem_size", "block_size",    "grid_divisor",
          "grid_size",    "shared_memory", "buffers",
          "output",       "size",          "types",
          "tuning_key",   "objective",     "objective_higher_is_better"};
      refuse("unknown pragma '" + word + "'" + advice_for_unknown(word, known));
    }
  }

  void take_parameter(const std::string& body) {
    const auto [name, values] = assignment(body);
    KernelParameter& parameter = spec_.parameters.emplace_back();
    parameter.name = name;
    for (const std::string& value : parts_of(values)) {
      if (value.starts_with("default(") && value.ends_with(")")) {
        parameter.usual = trimmed(value.substr(8, value.size() - 9));
      } else {
        parameter.values.push_back(value);
      }
    }
  }

  void take_objective(const Directive& directive) {
    std::string& taken = directive.word == "objective" ? objective_ : objective_is_large_;
    if (!taken.empty()) {
      refuse("'#pragma swr " + directive.word + "(...)' is there twice");
    }
    taken = trimmed(directive.body);
    if (taken.empty()) {
      refuse("'#pragma swr " + directive.word + "()' says nothing");
    }
  }

  void read_objective() {
    const bool is_to_be_large = objective_is_large_ == "true";
    if (!is_to_be_large && !objective_is_large_.empty() && objective_is_large_ != "false") {
      refuse("objective_higher_is_better must be true or false, not '" + objective_is_large_ + "'");
    }
    if (objective_.empty()) {
      if (is_to_be_large) {
        refuse("objective_higher_is_better needs '#pragma swr objective(...)'");
      }
      return;
    }
    try {
      spec_.objective = kept_objective(objective_, is_to_be_large);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  /// `set` names stand for their expressions.
  std::string replaced(std::string text) const {
    for (auto at = set_.rbegin(); at != set_.rend(); ++at) {
      text = with_word_replaced(text, at->first, "(" + at->second + ")");
      require_bounded(text);
    }
    return text;
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

  /// What follows the directives: `template <...> __global__ void NAME(...)`.
  void read_signature(std::size_t behind) {
    static const std::regex head(
        R"(^\s*(?:template\s*<([^{};]*)>\s*)?(?:extern\s+"C"\s+)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\))");
    std::smatch found;
    const std::string text = source_.substr(behind, kLongestMatched);
    if (!std::regex_search(text, found, head)) {
      refuse("no kernel '__global__ void NAME(...)' follows the pragmas within " +
             std::to_string(kLongestMatched) + " characters");
    }
    for (const std::string& part : parts_of(found[1].str())) {
      const std::string plain = trimmed(part.substr(0, part.find('=')));
      template_parameters_.push_back(plain.substr(plain.find_last_of(" \t\n.") + 1));
    }
    kernel_ = found[2];
    spec_.name = kernel_;
    parameters_ = parts_of(found[3].str());
  }

  std::string entry() {
    std::string text = kernel_;
    for (std::size_t i = 0; i < template_parameters_.size(); ++i) {
      text += (i == 0 ? "<" : ", ") + template_value(template_parameters_[i]);
    }
    return text + (template_parameters_.empty() ? "" : ">");
  }

  std::string template_value(const std::string& name) {
    const auto is_it = [&](const auto& one) { return one.first == name; };
    if (const auto set = std::ranges::find_if(set_, is_it); set != set_.end()) {
      return "(" + replaced(set->second) + ")";
    }
    if (std::ranges::find(spec_.parameters, name, &KernelParameter::name) !=
        spec_.parameters.end()) {
      return name;
    }
    const auto type = std::ranges::find_if(types_, is_it);
    if (type == types_.end()) {
      types_.emplace_back(name, "float");
      spec_.notes.push_back("template parameter " + name + " is float; '#pragma swr types(" + name +
                            " = TYPE)' says another");
      return "float";
    }
    return type->second;
  }

  std::vector<std::string> grid() const {
    if (!grid_.empty()) {
      return replaced(grid_);
    }
    if (problem_.empty()) {
      refuse("it needs '#pragma kernel problem_size(...)' or grid_size(...)");
    }
    const std::vector<std::string>& divisors = divisors_.empty() ? block_ : divisors_;
    std::vector<std::string> all;
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      all.push_back(replaced(i < divisors.size()
                                 ? "div_ceil(" + problem_[i] + ", " + divisors[i] + ")"
                                 : problem_[i]));
    }
    return all;
  }

  std::string type_of(std::string type) const {
    for (const auto& [name, value] : types_) {
      type = with_word_replaced(type, name, value);
      require_bounded(type);
    }
    return type;
  }

  int usual_size(const std::string& name) {
    for (const auto& [known, text] : sizes_) {
      int value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (known == name && (error != std::errc{} || *end != '\0' || value < 1)) {
        refuse("size " + name + " must be a whole number above 0, not '" + text + "'");
      }
      if (known == name) {
        return value;
      }
    }
    spec_.notes.push_back("size " + name + " is " + std::to_string(kUsualSize) +
                          "; '#pragma swr size(" + name + " = N)' says another");
    return kUsualSize;
  }

  /// Scalars are sizes of the problem; pointers are vectors of the sizes that `buffers` says.
  void read_arguments() {
    for (const std::string& parameter : parameters_) {
      const auto split = parameter.find_last_of(" \t\n*&");
      const std::string name = trimmed(parameter.substr(split + 1));
      const std::string type = type_of(parameter.substr(0, split + 1));
      KernelArgument& argument = spec_.arguments.emplace_back();
      argument.name = name;
      argument.type = type;
      if (parameter.find('*') == parameter.npos) {
        argument.value = name;
        spec_.sizes.push_back({name, usual_size(name)});
      } else {
        argument.size = replaced(length_of(name));
        const bool is_const = type.find("const") != type.npos;
        argument.is_output =
            outputs_.empty() ? !is_const : std::ranges::find(outputs_, name) != outputs_.end();
        argument.fill = argument.is_output ? KernelFill::nothing : KernelFill::random;
      }
    }
  }

  std::string length_of(const std::string& name) const {
    for (const std::string& buffer : buffers_) {
      const auto open = buffer.find('[');
      if (open != buffer.npos && buffer.back() == ']' && trimmed(buffer.substr(0, open)) == name) {
        return buffer.substr(open + 1, buffer.size() - open - 2);
      }
    }
    refuse("'#pragma kernel buffers(" + name + "[SIZE])' is missing");
  }

  const std::string& source_;
  std::string where_;
  KernelSpec spec_;
  std::vector<std::pair<std::string, std::string>> set_;
  std::vector<std::pair<std::string, std::string>> sizes_;
  std::vector<std::pair<std::string, std::string>> types_;
  std::vector<std::string> problem_;
  std::vector<std::string> block_;
  std::vector<std::string> divisors_;
  std::vector<std::string> grid_;
  std::vector<std::string> buffers_;
  std::vector<std::string> outputs_;
  std::string shared_ = "0";
  std::string objective_;
  std::string objective_is_large_;
  std::vector<std::string> template_parameters_;
  std::string kernel_;
  std::vector<std::string> parameters_;
};

}  // namespace

KernelSpec read_pragmas(const std::string& source, const std::string& where) {
  KernelSpec spec = PragmaReader(source, where).read();
  return spec;
}

}  // namespace swr::kernel_spec
