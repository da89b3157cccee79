// SPDX-License-Identifier: MIT
// The source that NVRTC compiles for a point of a plan's space.
#include "core/ascii.h"
#include "core/header_names.h"
#include "core/operation.h"
#include "kernel_spec/source/signatures.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "kernel_spec/spec/spec_object.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

namespace swr::kernel_spec {
namespace {

/// Calls `found(begin, end)` for each word of a text that is a name.
void for_each_name(std::string_view text,
                   const std::function<void(std::size_t, std::size_t)>& found) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    while (at < text.size() && is_name_character(text[at])) {
      ++at;
    }
    if (at > begin && !ascii::is_digit(text[begin])) {
      found(begin, at);
    }
    at += at == begin ? 1 : 0;
  }
}

std::string template_arguments(const std::string& entry) {
  const auto open = entry.find('<');
  return open == std::string::npos ? "" : entry.substr(open);
}

/// A directive for what a spec says. A macro is one line, and takes no part of the next.
std::string define_line(const std::string& name, const std::string& text) {
  if (text.find_first_of("\n\r") != text.npos || text.ends_with('\\')) {
    refuse_spec("define " + name, "a macro is one line, and no backslash ends it");
  }
  return "#define " + name + " " + text + "\n";
}

/// `#pragma unroll NAME` goes where the factor is 0, as Kernel Tuner has it.
std::string without_unrolling(std::string text, const std::string& name) {
  constexpr std::string_view kPragma = "#pragma unroll";
  for (std::size_t at = text.find(kPragma); at != std::string::npos;
       at = text.find(kPragma, at + 1)) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (find_word(std::string_view(text).substr(at, end - at), name, 0) != std::string_view::npos) {
      text.replace(at, end - at, end - at, ' ');
    }
  }
  return text;
}

using namespace std::string_view_literals;

/// A header, and the one of libcu++'s that it stands for; nothing for what NVRTC has built in.
struct StandIn {
  std::string_view name;
  std::string_view of;
};
constexpr std::array kStandIns{
    StandIn{"algorithm", "__algorithm_"},
    StandIn{"array", "array"},
    StandIn{"assert.h", ""},
    StandIn{"atomic", "atomic"},
    StandIn{"bit", "bit"},
    StandIn{"bitset", "bitset"},
    StandIn{"cassert", ""},
    StandIn{"cfloat", "cfloat"},
    StandIn{"chrono", "chrono"},
    StandIn{"cinttypes", "cstdint"},
    StandIn{"climits", "climits"},
    StandIn{"cmath", "cmath"},
    StandIn{"complex", "complex"},
    StandIn{"concepts", "concepts"},
    StandIn{"cstdarg", ""},
    StandIn{"cstddef", "cstddef"},
    StandIn{"cstdint", "cstdint"},
    StandIn{"cstdio", ""},
    StandIn{"cstdlib", "cstdlib"},
    StandIn{"cstring", "cstring"},
    StandIn{"ctime", "ctime"},
    StandIn{"expected", "expected"},
    StandIn{"float.h", "cfloat"},
    StandIn{"functional", "functional"},
    StandIn{"initializer_list", "initializer_list"},
    StandIn{"inttypes.h", "cstdint"},
    StandIn{"iterator", "iterator"},
    StandIn{"latch", "latch"},
    StandIn{"limits", "limits"},
    StandIn{"limits.h", "climits"},
    StandIn{"math.h", "cmath"},
    StandIn{"mdspan", "mdspan"},
    StandIn{"memory", "memory"},
    StandIn{"new", ""},
    StandIn{"numbers", "numbers"},
    StandIn{"numeric", "numeric"},
    StandIn{"optional", "optional"},
    StandIn{"ranges", "ranges"},
    StandIn{"ratio", "ratio"},
    StandIn{"span", "span"},
    StandIn{"stdarg.h", ""},
    StandIn{"stdbool.h", ""},
    StandIn{"stddef.h", "cstddef"},
    StandIn{"stdint.h", "cstdint"},
    StandIn{"stdio.h", ""},
    StandIn{"stdlib.h", "cstdlib"},
    StandIn{"string.h", "cstring"},
    StandIn{"thrust/complex.h", "complex"},
    StandIn{"time.h", "ctime"},
    StandIn{"tuple", "tuple"},
    StandIn{"type_traits", "type_traits"},
    StandIn{"utility", "utility"},
    StandIn{"variant", "variant"},
};

/// Macros of C and POSIX that libcu++ leaves out.
constexpr std::string_view kFloatMacros = R"(#ifndef FLT_MAX
#define FLT_DIG 6
#define FLT_EPSILON 1.19209290e-7f
#define FLT_MANT_DIG 24
#define FLT_MAX 3.40282347e+38f
#define FLT_MIN 1.17549435e-38f
#define FLT_RADIX 2
#define FLT_TRUE_MIN 1.40129846e-45f
#define DBL_DIG 15
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MANT_DIG 53
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_TRUE_MIN 4.9406564584124654e-324
#endif
)";
constexpr std::string_view kMathMacros = R"(#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000)
#define HUGE_VALF __int_as_float(0x7f800000)
#endif
)";
constexpr std::string_view kFormatMacros = R"(#ifndef PRId64
#define PRId32 "d"
#define PRIu32 "u"
#define PRIx32 "x"
#define PRId64 "ld"
#define PRIu64 "lu"
#define PRIx64 "lx"
#endif
)";

std::string_view more_of(const StandIn& one) {
  return one.name == "thrust/complex.h" ? "namespace thrust { using namespace cuda::std; }\n"
         : one.of == "cmath"            ? kMathMacros
         : one.of == "cfloat"           ? kFloatMacros
         : one.name == "cinttypes" || one.name == "inttypes.h" ? kFormatMacros
                                                               : "";
}

/// True where a text names such a header, or one of CUDA's that does.
bool needs_standard_headers(std::string_view text) {
  const auto has = [&](const std::string& part) { return text.find(part) != text.npos; };
  constexpr std::array kOfCuda{"<cub/",      "<thrust/",         "<cuda.h>",
                               "\"cuda.h\"", "<cudaTypedefs.h>", "<curand"};
  return std::ranges::any_of(kOfCuda, has) || std::ranges::any_of(kStandIns, [&](const auto& one) {
           const std::string name(one.name);
           return has("<" + name + ">") || has("\"" + name + "\"");
         });
}

/// Adds stand-ins for headers of the standard library, which NVRTC does not have, to a program that
/// needs one. Each is libcu++'s header of the same name, with std:: for cuda::std::. Headers that
/// the program has stay.
void add_standard_headers(KernelProgram& program) {
  const bool is_asked = needs_standard_headers(program.text) ||
                        std::ranges::any_of(program.headers, [](const auto& header) {
                          return needs_standard_headers(header.second);
                        });
  for (const StandIn& one : kStandIns) {
    if (is_asked && !program.headers.contains(std::string(one.name))) {
      std::string text = "#pragma once\n";
      if (!one.of.empty()) {
        // Some of these headers have nothing but macros, and no namespace.
        text += "#include <cuda/std/" + std::string(one.of) +
                ">\nnamespace cuda { namespace std {} }\n"
                "namespace std { using namespace cuda::std; }\n";
      }
      program.headers[std::string(one.name)] = text.append(more_of(one));
    }
  }
}

}  // namespace

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

void KernelPlan::find_macros() {
  std::vector<std::string_view> texts{spec_.source, files_.reference_source};
  for (const auto* const headers : {&files_.headers, &files_.reference_headers}) {
    for (const auto& [name, text] : *headers) {
      texts.emplace_back(text);
    }
  }
  for (const KernelParameter& parameter : spec_.parameters) {
    const auto reads = [&](std::string_view text) {
      return find_word(text, parameter.name, 0) != text.npos;
    };
    const auto declares = [&](std::string_view text) {
      return reads(text) && declares_template_parameter(text, parameter.name);
    };
    const auto is_argument = [&](const KernelStep& step) {
      return find_word(template_arguments(step.entry), parameter.name, 0) != std::string::npos;
    };
    // Where no entry names it, nobody asks.
    const bool is_asked = std::ranges::any_of(spec_.steps, is_argument) ||
                          std::ranges::any_of(spec_.reference, is_argument);
    is_macro_too_.push_back(is_asked && std::ranges::any_of(texts, reads) &&
                            std::ranges::none_of(texts, declares));
  }
}

std::string KernelPlan::macros(const Point& point, std::span<const int> choice,
                               const std::vector<PlannedStep>& steps) const {
  std::string text = "#define swr_tune 1\n";
  for (const auto& [name, expression] : defines_) {
    const Value value = at_place("define " + name, [&, &bound = expression] {
      return bound.evaluate(point.table, point.heap);
    });
    if (value.kind == ValueKind::list) {
      refuse_spec("define " + name, "it is a list");
    }
    const std::string written =
        value.kind == ValueKind::truth ? (value.integer != 0 ? "true" : "false") : to_string(value);
    text += define_line(name, written);
  }
  text += kParametersBegin;
  for (std::size_t i = 0; i < spec_.parameters.size(); ++i) {
    const KernelParameter& parameter = spec_.parameters[i];
    const std::string& value = parameter.values[static_cast<std::size_t>(choice[i])];
    const auto is_template_argument_of = [&](const std::vector<PlannedStep>& some) {
      return std::ranges::any_of(some, [&](const PlannedStep& step) {
        return find_word(template_arguments(step.spec.entry), parameter.name, 0) !=
               std::string_view::npos;
      });
    };
    // A macro would also replace the names of another kernel's template parameters in the same
    // file.
    const bool shares_file = spec_.reference_file.empty();
    const bool is_template_argument =
        is_template_argument_of(steps) ||
        (shares_file && (is_template_argument_of(steps_) || is_template_argument_of(reference_)));
    if ((is_template_argument && !is_macro_too_[i]) || parameter.use == ParameterUse::launch) {
      continue;
    }
    text += parameter.use == ParameterUse::constant
                ? "constexpr auto " + parameter.name + " = " + value + ";\n"
                : define_line(parameter.name, value);
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
  const auto resolved = [&](const std::string& includer, const std::string& including) {
    return with_header_paths(including, [&](const HeaderName& name) {
      const auto places = header_places(name, includer, spec_.include_folders);
      const auto found = std::ranges::find_if(
          places, [&](const std::string& place) { return headers.contains(place); });
      return found == places.end() ? std::string() : *found;
    });
  };
  KernelProgram program{.file = file,
                        .text = resolved(file, macros(point, choice, steps) + "#line 1 " +
                                                   literal(file) + "\n" + source),
                        .headers = {},
                        .options = options(choice),
                        .kernels = {},
                        .compile_limit_s = spec_.compile_limit_s};
  for (const auto& [path, header] : headers) {
    program.headers[path] = resolved(path, header);
  }
  for (const PlannedStep& step : steps) {
    program.kernels.push_back(entry_of(step.spec, choice));
  }
  add_standard_headers(program);
  return program;
}

std::vector<std::string> KernelPlan::options(std::span<const int> choice) const {
  std::vector<std::string> all = spec_.options;
  for (std::string& option : all) {
    for (std::size_t i = 0; i < spec_.parameters.size(); ++i) {
      const KernelParameter& parameter = spec_.parameters[i];
      option = with_option_value(option, parameter.name,
                                 parameter.values[static_cast<std::size_t>(choice[i])]);
    }
  }
  std::erase(all, "");
  return all;
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

}  // namespace swr::kernel_spec
