// SPDX-License-Identifier: MIT
// Kernels that a source defines or declares: names, parameters, and the pragmas before them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {

/// `WORD(BODY)` in a line `#pragma PREFIX ...`.
struct SourceDirective {
  std::string word;
  std::string body;
  std::size_t line = 1;
};

struct SignatureParameter {
  std::string type;        ///< "const float*"; of a template "int" or "typename".
  std::string name;        ///< Empty where it has none.
  std::string usual = {};  ///< What stands behind =.

  bool is_pointer() const { return type.find('*') != std::string::npos; }
};

struct KernelSignature {
  std::string name;            ///< "baz".
  std::string qualified_name;  ///< "foo::bar::baz".
  std::vector<SignatureParameter> template_parameters;
  std::vector<SignatureParameter> parameters;
  /// Every parameter reads as one: no macro hides others.
  bool is_complete = true;
  std::vector<SourceDirective> directives;  ///< Between the kernel before it and this one.
  std::size_t line = 1;
};

struct SourceKernels {
  std::vector<KernelSignature> kernels;
  /// What macros, `using` and `typedef` name, as far as it may be a type or a qualifier.
  std::map<std::string, std::string> aliases;
  /// Behind the last kernel.
  std::vector<SourceDirective> unused;
};

/// Every `__global__` function of a source in its order, with the directives of pragmas that have
/// one of the prefixes kernel, kernel_tuner, kernel_launcher and swr.
/// Throws: Error{invalid_argument} where such a line is no list of directives.
SourceKernels kernels_of(std::string_view source, const std::string& where);

/// True where a list of a template declares a parameter of this name.
bool declares_template_parameter(std::string_view source, std::string_view name);

/// The parts between commas that stand in no bracket and no quotes. With types, < behind a name is
/// a bracket, too.
std::vector<std::string> parts_between_commas(std::string_view text, bool has_types);

}  // namespace swr::kernel_spec
