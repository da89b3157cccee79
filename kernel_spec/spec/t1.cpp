// SPDX-License-Identifier: MIT
// T1, the autotuning community's form, as published files have it. Where its readers differ, what
// is chosen here is noted for people.
#include "core/ascii.h"
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <iterator>

namespace swr::kernel_spec {
namespace {

constexpr const char* kAxisNames[] = {"x", "y", "z"};

std::string product(const std::vector<std::string>& factors) {
  std::string text;
  for (const std::string& factor : factors) {
    text += (text.empty() ? "(" : " * (") + factor + ")";
  }
  return text;
}

class T1Reader {
 public:
  T1Reader(const Json& json, const std::string& where)
      : file_(json, where,
              {"$schema", "General", "ConfigurationSpace", "KernelSpecification", "Search",
               "SearchSettings", "Budget", "SimulationInput", "Metadata", "BenchmarkConfig",
               "verification", "objective", "objective_higher_is_better"}),
        space_(required("ConfigurationSpace"), file_.place("ConfigurationSpace"),
               {"TuningParameters", "Conditions", "Constraints"}),
        kernel_(required("KernelSpecification"), file_.place("KernelSpecification"),
                {"Language", "BenchmarkName", "KernelName", "KernelFile", "KernelTypeNames",
                 "CompilerOptions", "GlobalSizeType", "LocalSize", "GlobalSize", "GridDivX",
                 "GridDivY", "GridDivZ", "ProblemSize", "SharedMemory", "Stream", "Arguments",
                 "ReferenceArguments", "BenchmarkConfig", "SimulationInput", "Device", "Platform",
                 "Profiling", "TimeUnit", "Misc",
                 // Of early files; they say nothing that swr needs.
                 "BenchmarkPath", "SharedMemoryOriginal"}) {}

  KernelSpec read() {
    read_general();
    read_parameters();
    read_conditions();
    read_problem();
    KernelStep& step = spec_.steps.emplace_back();
    step.entry = entry();
    step.block = block();
    step.grid = grid(step.block);
    step.shared_bytes = kernel_.expression_or("SharedMemory", "0");
    read_options();
    read_arguments();
    read_references();
    if (std::ranges::none_of(spec_.arguments, &KernelArgument::is_output)) {
      refuse_spec(kernel_.place("Arguments"),
                  "no argument is an output, so no result could be checked");
    }
    return std::move(spec_);
  }

 private:
  const Json& required(const char* key) const {
    if (!file_.has(key)) {
      refuse_spec(file_.where(), "it needs '" + std::string(key) + "'");
    }
    return file_.at(key);
  }

  void note(const std::string& text) { spec_.notes.push_back(text); }

  void read_general() {
    const std::string language = kernel_.text_or("Language", "CUDA");
    // Kernel Tuner's names of what runs CUDA.
    const std::string known = "|cuda|cupy|nvcuda|";
    std::string lower = language;
    std::ranges::transform(lower, lower.begin(), ascii::lower);
    if (known.find("|" + lower + "|") == known.npos) {
      refuse_spec(kernel_.place("Language"), "swr tunes CUDA, not " + language);
    }
    spec_.source_file = kernel_.text("KernelFile");
    std::string name = kernel_.text_or("BenchmarkName", kernel_.text("KernelName"));
    std::ranges::replace_if(
        name, [](char c) { return !ascii::is_alphanumeric(c); }, '_');
    spec_.name = name;
    if (file_.has("verification")) {
      note("verification names a program of the host, and a spec executes nothing there");
    }
    read_objective(file_, spec_);
    read_general_objective();
    for (const char* const key : {"Search", "SearchSettings", "Budget"}) {
      if (file_.has(key)) {
        note(std::string(key) + " is left to swr's options --strategy, --budget and --time");
      }
    }
    for (const char* const key : {"SimulationInput", "Device", "Platform", "Profiling", "Stream"}) {
      if (kernel_.has(key)) {
        note("KernelSpecification." + std::string(key) + " has no effect");
      }
    }
  }

  /// General.Objective is taken where it is one of swr's; others are named, with what is done.
  void read_general_objective() {
    if (!file_.has("General") || !file_.at("General").is_object()) {
      return;
    }
    const Json& general = file_.at("General");
    const auto objective = general.find("Objective");
    if (objective == general.end() || !spec_.objective.empty()) {
      return;
    }
    const std::string place = file_.place("General") + ".Objective";
    const std::string text = value_text(*objective, place);
    const auto minimizes = general.find("Minimize");
    const bool is_to_be_large = minimizes != general.end() && *minimizes == false;
    try {
      spec_.objective = kept_objective(text, is_to_be_large);
    } catch (const Error&) {
      std::string word = text;
      std::ranges::transform(word, word.begin(), ascii::lower);
      if (is_to_be_large || (word != "time" && word != "runtime")) {
        note("General.Objective " + text +
             " is none of swr's, and the shortest time is looked for; "
             "--objective says another");
      }
    }
  }

  static const Json& list(const SpecObject& object, const char* key) {
    static const Json kNone = Json::array();
    if (!object.has(key)) {
      return kNone;
    }
    if (!object.at(key).is_array()) {
      refuse_spec(object.place(key), "it must be a list");
    }
    return object.at(key);
  }

  void read_parameters() {
    for (const Json& json : list(space_, "TuningParameters")) {
      const SpecObject object(json, space_.place("TuningParameters"),
                              {"Name", "Type", "Values", "Default"});
      KernelParameter& parameter = spec_.parameters.emplace_back();
      parameter.name = object.text("Name");
      if (!object.has("Values")) {
        refuse_spec(object.where(), parameter.name + " needs 'Values'");
      }
      parameter.values = parameter_values(object.at("Values"),
                                          space_.place("TuningParameters") + "." + parameter.name);
      if (object.has("Default")) {
        const std::string usual = value_text(object.at("Default"), object.place("Default"));
        if (std::ranges::find(parameter.values, usual) != parameter.values.end()) {
          parameter.usual = usual;
        } else {
          note("Default " + usual + " of " + parameter.name +
               " is none of its Values; the first is taken");
        }
      }
      if (parameter.name.starts_with("loop_unroll_factor")) {
        parameter.use = ParameterUse::constant;
      }
    }
  }

  /// Parameters of a condition can be incomplete in published files: its expression says them.
  void read_conditions() {
    for (const char* const key : {"Conditions", "Constraints"}) {
      for (const Json& json : list(space_, key)) {
        const SpecObject object(json, space_.place(key), {"Expression", "Parameters"});
        spec_.constraints.push_back(object.text("Expression"));
      }
    }
  }

  void read_problem() {
    if (!kernel_.has("ProblemSize")) {
      return;
    }
    std::vector<std::string> items;
    const Json& sizes = kernel_.at("ProblemSize");
    const auto add = [&](const Json& item) {
      if (items.size() >= std::size(kAxisNames)) {
        refuse_spec(kernel_.place("ProblemSize"), "it has more than three sizes");
      }
      const std::string name = std::string("problem_size_") + kAxisNames[items.size()];
      if (item.is_number_integer() && item.get<long long>() >= 1 &&
          item.get<long long>() <= 2147483647) {
        spec_.sizes.push_back({name, item.get<int>()});
        items.push_back(name);
      } else {
        items.push_back(expression_text(item, kernel_.place("ProblemSize")));
      }
    };
    if (sizes.is_array()) {
      std::ranges::for_each(sizes, add);
    } else {
      add(sizes);
    }
    spec_.lists.emplace_back("ProblemSize", items);
    problem_ = items;
  }

  std::string entry() const {
    std::string text = kernel_.text("KernelName");
    const std::vector<std::string> types = kernel_.texts("KernelTypeNames");
    for (std::size_t i = 0; i < types.size(); ++i) {
      text += (i == 0 ? "<" : ", ") + types[i];
    }
    return text + (types.empty() ? "" : ">");
  }

  std::vector<std::string> sides(const char* key) const {
    std::vector<std::string> all;
    const SpecObject object(kernel_.at(key), kernel_.place(key), {"X", "Y", "Z"});
    for (const char* const side : {"X", "Y", "Z"}) {
      all.push_back(object.expression_or(side, "1"));
    }
    return all;
  }

  bool has_parameter(const std::string& name) const {
    return std::ranges::find(spec_.parameters, name, &KernelParameter::name) !=
           spec_.parameters.end();
  }

  std::vector<std::string> block() const {
    if (kernel_.has("LocalSize")) {
      return sides("LocalSize");
    }
    std::vector<std::string> all;
    for (const char* const axis : kAxisNames) {
      const std::string name = std::string("block_size_") + axis;
      all.push_back(has_parameter(name) ? name : "1");
    }
    return all;
  }

  /// Rounded up, as Kernel Tuner has it: its divisors may be real.
  std::vector<std::string> grid(const std::vector<std::string>& block) {
    const bool divides = kernel_.has("GridDivX") || kernel_.has("GridDivY") ||
                         kernel_.has("GridDivZ") || !kernel_.has("GlobalSize");
    if (divides && problem_.empty()) {
      refuse_spec(kernel_.where(), "it needs 'ProblemSize' or 'GlobalSize'");
    }
    if (divides) {
      if (kernel_.has("GlobalSize")) {
        note(
            "the grid is ProblemSize by GridDiv, as Kernel Tuner reads it; GlobalSize, which KTT "
            "and BAT read, is ignored");
      }
      return divided_grid();
    }
    const std::string type = kernel_.text_or("GlobalSizeType", "CUDA");
    if (type != "CUDA" && type != "OpenCL") {
      refuse_spec(kernel_.place("GlobalSizeType"), "it must be CUDA or OpenCL, not " + type);
    }
    std::vector<std::string> sizes = sides("GlobalSize");
    note(type == "CUDA" ? "GlobalSize counts CTAs" : "GlobalSize counts threads");
    if (type == "OpenCL") {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        sizes[i] = "ceil((" + sizes[i] + ") / (" + block[i] + "))";
      }
    }
    return sizes;
  }

  std::vector<std::string> divided_grid() const {
    std::vector<std::string> all;
    const char* const keys[] = {"GridDivX", "GridDivY", "GridDivZ"};
    for (std::size_t i = 0; i < std::size(keys); ++i) {
      std::vector<std::string> divisors = kernel_.expressions(keys[i]);
      const std::string block = std::string("block_size_") + kAxisNames[i];
      if (!kernel_.has(keys[i]) && i == 0 && has_parameter(block)) {
        divisors = {block};
      }
      const std::string size = i < problem_.size() ? problem_[i] : "1";
      all.push_back(divisors.empty() ? size : "ceil((" + size + ") / (" + product(divisors) + "))");
    }
    return all;
  }

  void read_options() {
    for (const std::string& option : kernel_.texts("CompilerOptions")) {
      if (!option.empty()) {  // As KTT's files say that there is none.
        spec_.options.push_back(option);
      }
    }
    for (const SpecObject* const object : {&file_, &kernel_}) {
      if (object->has("BenchmarkConfig")) {
        read_macros(object->at("BenchmarkConfig"), object->place("BenchmarkConfig"));
      }
    }
  }

  void read_macros(const Json& json, const std::string& where) {
    if (!json.is_object()) {
      refuse_spec(where, "it must be an object");
    }
    for (const auto& [name, value] : json.items()) {
      spec_.defines.emplace_back(name, expression_text(value, where));
    }
  }

  /// The text with `by` in place of the parameter where it is all that max() or min() has.
  static std::string with_operand_replaced(std::string text, const std::string& parameter,
                                           const std::string& by) {
    constexpr const char* kBlanks = " \t\n\r";
    for (auto at = find_word(text, parameter, 0); at != text.npos;
         at = find_word(text, parameter, at + 1)) {
      const auto opens = at == 0 ? text.npos : text.find_last_not_of(kBlanks, at - 1);
      const auto closes = text.find_first_not_of(kBlanks, at + parameter.size());
      const bool is_operand = opens != text.npos && opens >= 3 && text[opens] == '(' &&
                              closes != text.npos && text[closes] == ')';
      const std::size_t call = is_operand ? opens - 3 : text.npos;
      if (is_operand &&
          (find_word(text, "max", call) == call || find_word(text, "min", call) == call)) {
        text.replace(at, parameter.size(), by);
      }
    }
    return text;
  }

  /// `max(parameter)` is over all values of the parameter: it becomes a list of them.
  std::string over_values(std::string text) {
    for (const KernelParameter& parameter : spec_.parameters) {
      const std::string list = "values_of_" + parameter.name;
      const std::string replaced = with_operand_replaced(text, parameter.name, list);
      if (replaced == text) {
        continue;
      }
      text = replaced;
      const bool is_known =
          std::ranges::any_of(spec_.lists, [&](const auto& known) { return known.first == list; });
      if (!is_known) {
        spec_.lists.emplace_back(list, parameter.values);
      }
    }
    return text;
  }

  void read_arguments() {
    bool says_outputs = kernel_.has("ReferenceArguments");
    for (const Json& json : list(kernel_, "Arguments")) {
      says_outputs = says_outputs || (json.is_object() && json.contains("Output"));
    }
    for (const Json& json : list(kernel_, "Arguments")) {
      read_argument(json, says_outputs);
    }
    if (!says_outputs) {
      note("no argument is marked as output: those that are not ReadOnly are taken");
    }
    if (is_random_) {
      note(
          "Random is uniform in [0, FillValue), as KTT has it; whole numbers without one in "
          "[0, 100)");
    }
  }

  void read_argument(const Json& json, bool says_outputs) {
    const SpecObject object(json, kernel_.place("Arguments"),
                            {"Name", "Type", "Size", "MemoryType", "MemType", "AccessType",
                             "FillType", "FillValue", "DataSource", "RandomSeed", "Output",
                             // In bytes; only a custom type does not say it.
                             "TypeSize"});
    KernelArgument& argument = spec_.arguments.emplace_back();
    argument.name =
        object.text_or("Name", "argument_" + std::to_string(spec_.arguments.size() - 1));
    argument.type = object.text("Type");
    if (argument.type == "custom" && object.has("TypeSize")) {
      argument.type = "struct<" + object.expression_or("TypeSize", "") + ">";
    }
    const std::string memory = object.text_or("MemoryType", "Vector");
    if (memory != "Scalar" && memory != "Vector" && memory != "Symbol") {
      refuse_spec(object.place("MemoryType"), "it must be Scalar, Vector or Symbol, not " + memory);
    }
    const std::string type = object.text_or("MemType", "");
    argument.is_constant = memory == "Symbol" || type == "Constant";
    if (memory != "Scalar") {
      if (!object.has("Size")) {
        refuse_spec(object.where(), argument.name + " needs 'Size', as all vectors do");
      }
      argument.size = over_values(object.expression_or("Size", ""));
    }
    const std::string access = object.text_or("AccessType", "ReadOnly");
    argument.is_output =
        says_outputs ? is_marked(object) : memory == "Vector" && access != "ReadOnly";
    argument.seed = static_cast<unsigned long long>(object.integer_or("RandomSeed", 0));
    read_fill(object, argument, memory == "Scalar");
  }

  static bool is_marked(const SpecObject& object) {
    if (!object.has("Output")) {
      return false;
    }
    const Json& output = object.at("Output");
    return output.is_boolean() ? output.get<bool>() : output.is_number() && output != 0;
  }

  void read_fill(const SpecObject& object, KernelArgument& argument, bool is_scalar) {
    const std::string fill = object.text_or("FillType", "Constant");
    if (fill == "Constant" || (is_scalar && fill == "Random")) {
      argument.fill = KernelFill::value;
      if (is_scalar && (!object.has("FillValue") || fill == "Random")) {
        note("scalar " + argument.name + " is its FillValue, and 0 without one");
      }
      argument.value = object.expression_or("FillValue", "0");
    } else if (fill == "Random") {
      argument.fill = KernelFill::random;
      const bool has_span = object.has("FillValue") && object.at("FillValue").is_number();
      const double high = has_span ? object.at("FillValue").get<double>() : 0.0;
      argument.high = high > 0.0 ? high : 1.0;
      is_random_ = true;
    } else if (fill == "Generator") {
      argument.fill = KernelFill::index;
      argument.value = object.has("DataSource") ? object.expression_or("DataSource", "0")
                                                : object.expression_or("FillValue", "0");
    } else if (fill == "BinaryRaw") {
      argument.fill = KernelFill::file;
      argument.file = object.text("DataSource");
    } else {
      refuse_spec(object.place("FillType"),
                  "it must be Constant, Random, Generator or BinaryRaw, not " + fill +
                      (fill == "Script" ? ": a spec executes nothing on the host" : ""));
    }
  }

  void read_references() {
    for (const Json& json : list(kernel_, "ReferenceArguments")) {
      const SpecObject object(json, kernel_.place("ReferenceArguments"),
                              {"Name", "TargetName", "ValidationMethod", "ValidationThreshold",
                               "FillType", "FillValue", "DataSource", "RandomSeed"});
      const std::string target = object.text("TargetName");
      const auto argument = std::ranges::find(spec_.arguments, target, &KernelArgument::name);
      if (argument == spec_.arguments.end()) {
        refuse_spec(object.where(), "there is no argument '" + target + "'");
      }
      argument->is_output = true;
      const double threshold = object.number_or("ValidationThreshold", 0.0);
      const std::string method = object.text_or("ValidationMethod", "SideBySideComparison");
      (method == "SideBySideRelativeComparison" ? argument->relative : argument->absolute) =
          threshold;
      if (method == "AbsoluteDifference") {
        note("AbsoluteDifference of " + target + " bounds each element, not their sum");
      }
      if (object.text_or("FillType", "") == "BinaryRaw") {
        argument->expected_file = object.text("DataSource");
      } else if (object.has("FillType")) {
        note("the expected " + target + " is not read from FillType " + object.text("FillType") +
             "; variants are compared with each other");
      }
    }
  }

  SpecObject file_;
  SpecObject space_;
  SpecObject kernel_;
  KernelSpec spec_;
  std::vector<std::string> problem_;
  bool is_random_ = false;
};

}  // namespace

namespace {

bool has_any(const Json& json, std::initializer_list<const char*> keys) {
  return json.is_object() &&
         std::ranges::any_of(keys, [&](const char* key) { return json.contains(key); });
}

bool is_before_t1(const Json& json) {
  return has_any(json, {"kernelSpecification", "configurationSpace", "configuration_space"});
}

}  // namespace

bool is_t1(const Json& json) {
  return has_any(json, {"ConfigurationSpace", "KernelSpecification"}) || is_before_t1(json);
}

KernelSpec read_t1(const Json& json, const std::string& where) {
  if (is_before_t1(json)) {
    refuse_spec(where,
                "it is of the form before T1 (FormatVersion 0.0.1, 'kernelSpecification'), "
                "and swr reads T1 1.0");
  }
  return T1Reader(json, where).read();
}

}  // namespace swr::kernel_spec
