// SPDX-License-Identifier: MIT
// A kernel of a user's, described so that swr can tune it: parameters, launch, arguments and what
// is right. docs/kernels.md explains every part; the same words are used in spec files.
//
// What is an expression is text (docs/kernel_expressions.md), computed from the parameters, the
// sizes of the problem, and constants. Nothing of a spec is executed on the host.
#pragma once

#include <swr/problem.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr {

/// A size that a problem has, e.g. the length of a vector. Nearest matches differ in these.
struct KernelSize {
  std::string name;
  int usual = 1;  ///< What it is when nobody says.
};

/// How a kernel learns a parameter's value.
enum class ParameterUse {
  define,    ///< As a macro, unless the entry has it as a template argument.
  launch,    ///< Not at all: the launch alone depends on it, and cubins are shared.
  constant,  ///< As a constexpr variable.
};

struct KernelParameter {
  std::string name;
  /// Text of each value: "64", "0.5", "true", "float". Whole numbers that are not negative are
  /// numbers; everything else is text.
  std::vector<std::string> values;
  std::optional<std::string> usual = {};  ///< The first value, when there is none.
  ParameterUse use = ParameterUse::define;
};

/// What an argument is before the kernel runs.
enum class KernelFill { nothing, zeros, value, random, index, file };

/// Where coordinates outside of a texture read.
enum class TextureAddress { clamp, border, wrap, mirror };

/// A texture object over an array that holds the argument's elements, x first.
struct KernelTexture {
  std::vector<std::string> extent;  ///< Width, and height and depth where it has them: expressions.
  TextureAddress address = TextureAddress::clamp;
  bool interpolates = false;     ///< Linearly between elements; else the nearest is read.
  bool is_normalized = false;    ///< Coordinates are in [0, 1); wrap and mirror need it.
  bool reads_fractions = false;  ///< Whole numbers are read as [0, 1] or [-1, 1].
};

/// A parameter of the kernel, or a variable of its source when it has a symbol.
struct KernelArgument {
  std::string name;
  /// "float", "int", "double", "unsigned char", "float2", ...: of a scalar, or of an element.
  std::string type = "float";
  /// Number of elements; no value for a scalar.
  std::optional<std::string> size = {};
  /// The parameter is a cudaTextureObject_t over elements of `type`, as many as its extent says.
  std::optional<KernelTexture> texture = {};
  bool is_output = false;    ///< It is compared with what is right.
  bool is_constant = false;  ///< It is the __constant__ variable of its name.
  KernelFill fill = KernelFill::nothing;
  std::string value = "0";  ///< Of a scalar, or of every element: an expression.
  double low = 0.0;         ///< Of random elements, uniform in [low, high).
  double high = 1.0;
  unsigned long long seed = 0;     ///< Beside the run's.
  std::string file = {};           ///< Of raw elements, below the spec's folder.
  std::string expected_file = {};  ///< Of raw elements that are right.
  /// Largest error of an element, where it is not the spec's.
  std::optional<double> absolute = {};
  std::optional<double> relative = {};
};

/// A launch of one kernel.
struct KernelStep {
  /// The kernel as C++ names it. Parameters are replaced by their values: "add<float,
  /// block_size_x>".
  std::string entry;
  std::vector<std::string> block = {};  ///< Threads: one to three expressions.
  std::vector<std::string> grid = {};   ///< CTAs: one to three expressions.
  std::string shared_bytes = "0";       ///< Dynamic shared memory.
  /// Names of arguments in the order of the kernel's parameters; all of them when it is empty.
  std::vector<std::string> arguments = {};
  std::string when = {};     ///< Launched where this is true; always when it is empty.
  std::string repeat = "1";  ///< Launched so often in a row.
};

/// How expressions are spelled.
enum class SpecDialect { python, c };

struct KernelSpec {
  std::string name;     ///< As an identifier.
  std::string summary;  ///< One line.
  /// Of every file that is named here; nothing outside of it is read.
  std::filesystem::path folder = ".";
  std::string source_file;  ///< As messages name it; read when `source` is empty.
  std::string source;
  SpecDialect dialect = SpecDialect::python;

  std::vector<KernelSize> sizes;  ///< At most five.
  std::vector<KernelParameter> parameters;
  std::vector<std::string> constraints;
  /// Macros with values that are expressions.
  std::vector<std::pair<std::string, std::string>> defines;
  /// Lists that expressions may name, such as T1's ProblemSize: each item is an expression.
  std::vector<std::pair<std::string, std::vector<std::string>>> lists;
  /// Of the compiler, from docs/kernels.md's list.
  std::vector<std::string> options;
  std::vector<std::string> include_folders;  ///< Below the folder.

  std::vector<KernelArgument> arguments;
  std::vector<KernelStep> steps;
  /// What is right: steps of another source, or of the same when that is empty.
  std::string reference_file;
  std::vector<KernelStep> reference;
  /// Values that parameters have in the reference's launches and source.
  std::map<std::string, std::string> reference_parameters;
  double absolute = 1e-6;
  double relative = 1e-4;

  /// Floating-point operations and bytes of one launch, for rates; expressions over sizes.
  std::string flops;
  std::string bytes;
  double deadline_s = 20.0;       ///< Longest time of a variant, with verification.
  double compile_limit_s = 60.0;  ///< Longest time of the compiler for a variant.

  /// What tuning looks for, where its user does not say: "time", "energy", "edp" or an expression
  /// over metrics whose smaller value is better (docs/energy.md). Results do not depend on it.
  /// register_kernel() refuses what --objective would.
  std::string objective;

  /// What a reader chose where the file leaves it open.
  std::vector<std::string> notes;
};

/// Reads a spec: T1 or swr's own JSON, or a .cu file with pragmas.
/// Throws: Error{unreadable}; Error{invalid_argument} naming what cannot be read or is refused.
KernelSpec read_kernel_spec(const std::filesystem::path& file);

/// Makes the kernel an operation of this process, after which problems, the tuner, Lookup and the
/// database know it by its name. Registering an equal spec again returns the same operation.
/// Throws: Error{invalid_argument} naming what cannot be.
const Operation& register_kernel(const KernelSpec& spec, const std::filesystem::path& file = {});

/// SHA-256 over all that a kernel's results depend on: Setting::overlay_digest of its results.
std::string kernel_digest(const Operation& operation);

/// What its spec says that tuning looks for, "time" where it says nothing: LookupOptions::objective
/// for answers by it. Specs that differ in nothing else are one operation and have one objective.
std::string kernel_objective(const Operation& operation);

/// A problem of a registered kernel; sizes that are not named have their usual value.
/// Throws: Error{invalid_argument} naming the size.
Problem kernel_problem(const Operation& operation, const std::map<std::string, int>& sizes);

}  // namespace swr
