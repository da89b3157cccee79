// SPDX-License-Identifier: MIT
// A user's kernel in exported C++ packages: a class of its own, and the spec as data.
#include "core/ascii.h"
#include "core/embedded_file.h"
#include "core/printable.h"
#include "core/reject.h"
#include "core/source_words.h"
#include "kernel_spec/operation/user_kernel.h"
#include "kernel_spec/spec/spec_object.h"

#include <algorithm>
#include <set>

namespace swr {

/// Made by swr_embed_files.
std::span<const EmbeddedFile> user_kernel_package_templates();

namespace {

using kernel_spec::KernelPlan;
using kernel_spec::literal;
using kernel_spec::NumberKind;
using kernel_spec::PlannedArgument;
using kernel_spec::PlannedStep;

/// True for types of the files that every package has and of the driver, and for what may be a
/// macro.
bool is_taken(const std::string& name) {
  static constexpr std::array<std::string_view, 10> kTaken{
      "Sizes", "LoadedKernels", "Embedded", "EmbeddedKernel", "Choice",
      "Impl",  "Device",        "Driver",   "NoMemory",       "Sha256"};
  const bool is_upper = name.size() > 1 && std::ranges::none_of(name, ascii::is_lower);
  const auto declares = [&](const EmbeddedFile& file) {
    return std::ranges::any_of(std::array{"class ", "struct ", "using "}, [&](const char* kind) {
      return find_word(file.text, kind + name, 0) != std::string_view::npos;
    });
  };
  return is_upper || name.starts_with("CU") || std::ranges::find(kTaken, name) != kTaken.end() ||
         std::ranges::any_of(user_kernel_package_templates(), declares);
}

/// Words that a spec may have and C++20, C's headers or the code around them do not leave to
/// others.
bool is_reserved(std::string_view name) {
  constexpr std::string_view kWords =
      "alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t co_await "
      "co_return co_yield compl concept const_cast consteval constinit decltype dynamic_cast "
      "explicit export friend mutable noexcept not not_eq nullptr or or_eq protected register "
      "reinterpret_cast requires static_assert static_cast thread_local throw try typeid virtual "
      "wchar_t xor xor_eq NULL EOF NAN INFINITY errno assert stdin stdout stderr unix linux i386 "
      "math_errhandling sizes stream arguments pointer_to problem_of impl_ std Sizes CUstream_st";
  const bool is_of_compilers =
      name.starts_with("__") || (name.size() > 1 && name[0] == '_' && ascii::is_upper(name[1]));
  return is_of_compilers || find_word(kWords, name, 0) != std::string_view::npos;
}

/// Names of arguments and sizes that headers of a program may have as macros, such as INT_MAX or N.
std::set<std::string> possible_macros(const KernelPlan& plan) {
  std::set<std::string> names;
  for (const PlannedArgument& argument : plan.arguments()) {
    names.insert(argument.spec.name);
  }
  for (const KernelSize& size : plan.spec().sizes) {
    names.insert(size.name);
  }
  std::erase_if(
      names, [](const std::string& name) { return std::ranges::none_of(name, ascii::is_upper); });
  return names;
}

std::string for_each(const std::set<std::string>& names, const char* before, const char* after) {
  std::string text;
  for (const std::string& name : names) {
    text.append(before).append(name).append(after);
  }
  return text;
}

/// "vector_add" as "VectorAdd".
std::string class_name(const std::string& name) {
  std::string text;
  bool is_first = true;
  for (const char c : name) {
    if (c == '_') {
      is_first = true;
    } else {
      text += is_first ? ascii::upper(c) : c;
      is_first = false;
    }
  }
  return is_taken(text) ? text + "Of" : text;
}

template <typename Items, typename Text>
std::string braces(const Items& items, Text text) {
  std::string all;
  for (const auto& item : items) {
    all += (all.empty() ? "" : ", ") + text(item);
  }
  return "{" + all + "}";
}
std::string literals(const std::vector<std::string>& texts) { return braces(texts, literal); }

std::string number_name(NumberKind kind) {
  // Of 16 and 8 bits of CUDA's own the bits.
  static constexpr std::array<const char*, 14> kNames{
      "signed char",   "unsigned char", "short",          "unsigned short",
      "int",           "unsigned int",  "long long",      "unsigned long long",
      "float",         "double",        "unsigned short", "unsigned short",
      "unsigned char", "unsigned char"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// As C++ without CUDA's headers: vectors of float4, half and the like are void*.
std::string parameter_text(const PlannedArgument& argument) {
  const std::string name = argument.spec.name;
  if (argument.spec.texture) {
    return "unsigned long long " + name;
  }
  const bool is_small = argument.type.kind > NumberKind::f64;
  const bool is_plain =
      argument.type.lanes == 1 && argument.types.empty() && !(argument.size && is_small);
  if (!argument.size) {
    return (is_plain ? number_name(argument.type.kind)
                     : "std::array<" + number_name(argument.type.kind) + ", " +
                           std::to_string(argument.type.lanes) + ">") +
           " " + name;
  }
  const bool is_const =
      argument.spec.is_constant || argument.spec.type.find("const") != std::string::npos;
  return std::string(is_const ? "const " : "") +
         (is_plain ? number_name(argument.type.kind) : "void") + "* " + name;
}

struct Names {
  std::string name;   ///< Of header, sources and table.
  std::string type;   ///< Of the class.
  std::string table;  ///< Of a kernel in the table.
};
Names names_of(const KernelPlan& plan) {
  const std::string type = class_name(plan.spec().name);
  return {plan.spec().name, type, type + "Kernel"};
}

/// Text of a spec in a comment. Behind a line's end it would be code of the program.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return printable_line(text);
}

std::string header(const KernelPlan& plan) {
  const auto& [name, type, table] = names_of(plan);
  const std::set<std::string> macros = possible_macros(plan);
  std::string sizes;
  for (const KernelSize& size : plan.spec().sizes) {
    sizes += "    int " + size.name + " = " + std::to_string(size.usual) + ";\n";
  }
  std::string parameters;
  std::string documented;
  for (const PlannedArgument& argument : plan.arguments()) {
    parameters += ", " + parameter_text(argument);
    if (argument.size) {
      documented += "  /// " + argument.spec.name + ": device memory of " +
                    on_one_line(*argument.spec.size) + " elements, " +
                    on_one_line(argument.spec.type) +
                    (argument.spec.is_constant ? ", copied to constant memory" : "") + ".\n";
    } else if (argument.spec.texture) {
      documented += "  /// " + argument.spec.name + ": a texture object over elements of " +
                    on_one_line(argument.spec.type) + ".\n";
    }
  }
  return "// Generated by swr-tune export.\n#pragma once\n\n#include <swr_package/common.h>\n\n"
         "#include <array>\n#include <memory>\n" +
         for_each(macros, "#pragma push_macro(\"", "\")\n") + for_each(macros, "#undef ", "\n") +
         "\nnamespace swr_package {\n\n/// " +
         on_one_line(plan.spec().summary.empty() ? name : plan.spec().summary) +
         ". Any number of threads may use it at once. Kernels are\n/// loaded once per context, on "
         "first use. Must be destroyed before the contexts that it was used\n/// in.\nclass " +
         type + " {\n public:\n  /// What kernels are chosen by.\n  struct Sizes {\n" + sizes +
         "  };\n\n  /// Throws: Error{no_driver}.\n  " + type + "();\n  ~" + type +
         "();\n\n  /// Enqueues all launches on `stream` of the current context. Does not "
         "synchronise, and may be\n  /// captured in a graph. Throws: Error.\n" +
         documented + "  void run(const Sizes& sizes" + parameters +
         ", CUstream_st* stream);\n  /// Loads the kernels for these sizes and says which they "
         "are. Throws: Error.\n  Choice prepare(const Sizes& sizes);\n\n private:\n  struct Impl;\n"
         "  std::unique_ptr<Impl> impl_;\n};\n\n}  // namespace swr_package\n" +
         for_each(macros, "#pragma pop_macro(\"", "\")\n");
}

std::string table_header(const KernelPlan& plan) {
  const auto& [name, type, table] = names_of(plan);
  return "// Generated by swr-tune export.\n#pragma once\n\n#include \"user_kernels.h\"\n\n"
         "namespace swr_package {\n\nusing " +
         table + " = UserKernel;\nconst UserSpec& spec_of_" + name + "();\nextern const " + table +
         " k" + table + "s[];\nextern const std::size_t k" + table +
         "Count;\n\n}  // namespace swr_package\n";
}

std::string step_text(const PlannedStep& step) {
  return "      {" + literals(step.spec.block) + ", " + literals(step.spec.grid) + ", " +
         literal(step.spec.shared_bytes) + ", " + literal(step.spec.when) + ", " +
         literal(step.spec.repeat) + ", " +
         braces(step.arguments, [](std::size_t place) { return std::to_string(place); }) + "},\n";
}

std::string spec_text(const KernelPlan& plan) {
  const KernelSpec& spec = plan.spec();
  std::string steps;
  for (const PlannedStep& step : plan.steps()) {
    steps += step_text(step);
  }
  return "const UserSpec& spec_of_" + spec.name + "() {\n  static const UserSpec spec{\n      " +
         literal(spec.name) + ", " + (spec.dialect == SpecDialect::c ? "true" : "false") +
         ",\n      " +
         braces(spec.sizes, [](const KernelSize& size) { return literal(size.name); }) +
         ",\n      " +
         braces(spec.parameters,
                [](const KernelParameter& parameter) { return literal(parameter.name); }) +
         ",\n      " +
         braces(spec.lists,
                [](const auto& list) {
                  return "{" + literal(list.first) + ", " + literals(list.second) + "}";
                }) +
         ",\n      " + literals(spec.constraints) + ",\n      {\n" + steps + "      },\n      " +
         braces(plan.arguments(),
                [](const PlannedArgument& argument) {
                  return literal(argument.spec.is_constant ? argument.spec.name : "");
                }) +
         ",\n      " + (plan.has_sizes_compiled_in() ? "true" : "false") +
         "};\n  return spec;\n}\n";
}

std::string source(const KernelPlan& plan) {
  const auto& [name, type, table] = names_of(plan);
  std::string sizes;
  for (std::size_t i = 0; i < KernelPlan::kMostSizes; ++i) {
    sizes += (i == 0 ? "" : ", ") +
             (i < plan.spec().sizes.size() ? "sizes." + plan.spec().sizes[i].name : "1");
  }
  std::string parameters;
  std::string pointers;
  for (const PlannedArgument& argument : plan.arguments()) {
    parameters += ", " + parameter_text(argument);
    pointers += (pointers.empty() ? "" : ", ") + ("pointer_to(" + argument.spec.name + ")");
  }
  return "// Generated by swr-tune export.\n#include <swr_package/" + name + ".h>\n\n#include \"" +
         name + "_kernels.h\"\n" + for_each(possible_macros(plan), "#undef ", "\n") +
         "\nnamespace swr_package {\n\n" + spec_text(plan) +
         "\nnamespace {\n\ntemplate <typename Argument>\nvoid* pointer_to(Argument& argument) {\n"
         "  return const_cast<void*>(static_cast<const void*>(&argument));\n}\n\nPlainProblem "
         "problem_of(const " +
         type + "::Sizes& sizes) {\n  static_cast<void>(sizes);\n  return {{" + sizes +
         "}, {}};\n}\n\n}  // namespace\n\nstruct " + type +
         "::Impl : UserKernels {\n  Impl() : "
         "UserKernels(std::span(k" +
         table + "s, k" + table + "Count)) {}\n};\n\n" + type + "::" + type +
         "() : impl_(std::make_unique<Impl>()) {}\n" + type + "::~" + type +
         "() = default;\n\nvoid " + type + "::run(const Sizes& sizes" + parameters +
         ", CUstream_st* stream) {\n  void* arguments[] = {" + pointers +
         "};\n  impl_->run(problem_of(sizes), arguments, stream);\n}\n\nChoice " + type +
         "::prepare(const Sizes& sizes) { return impl_->prepare(problem_of(sizes)); }\n\n}  // "
         "namespace swr_package\n";
}

}  // namespace

PackageTexts user_package_files(const Operation& operation) {
  const KernelPlan& plan = dynamic_cast<const UserKernel&>(operation).plan();
  const auto require_free = [&](const char* what, const std::string& name) {
    if (is_reserved(name)) {
      reject(what + (" " + name) + " of " + plan.spec().name +
             " has a name that packages cannot use; give it another name");
    }
  };
  for (const PlannedArgument& argument : plan.arguments()) {
    require_free("argument", argument.spec.name);
    if (!argument.size && !argument.types.empty()) {
      reject("argument " + argument.spec.name + " of " + plan.spec().name +
             " is a scalar whose type a parameter names; a package has one type for it");
    }
  }
  for (const KernelSize& size : plan.spec().sizes) {
    require_free("size", size.name);
  }
  const std::string name = plan.spec().name;
  return {{"include/swr_package/" + name + ".h", header(plan)},
          {"src/" + name + "_kernels.h", table_header(plan)},
          {"src/" + name + ".cpp", source(plan)}};
}

void UserKernel::make_package_part() {
  package_type_ = names_of(plan_).type;
  package_part_ = {plan_.spec().name, package_type_, user_kernel_package_templates,
                   user_package_files};
}

/// The rest of a UserKernel: problem, values, entries, spec.
std::string UserKernel::package_row(const PackagedKernel& kernel) const {
  std::string sizes;
  for (std::size_t i = 0; i < KernelPlan::kMostSizes; ++i) {
    sizes += (i == 0 ? "" : ", ") +
             (i < fields_.size() ? field_text(kernel.problem, fields_[i]) : std::string("1"));
  }
  std::vector<std::string> values;
  const std::vector<int> choice = choice_of(kernel.variant);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    values.push_back(plan_.spec().parameters[i].values[static_cast<std::size_t>(choice[i])]);
  }
  std::vector<std::string> entries{kernel.entry};
  entries.insert(entries.end(), kernel.further_entries.begin(), kernel.further_entries.end());
  const auto array_of = [](const std::vector<std::string>& texts) {
    return "std::span<const char* const>([]() -> const auto& {\n       static constexpr const "
           "char* kTexts[] = " +
           literals(texts) + ";\n       return kTexts;\n     }())";
  };
  return "{{" + sizes + "}, {}},\n     " + array_of(values) + ",\n     " + array_of(entries) +
         ",\n     spec_of_" + plan_.spec().name;
}

}  // namespace swr
