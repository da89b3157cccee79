// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/standard_headers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace swr::kernel_spec {
namespace {

using namespace std::string_view_literals;

/// A header, and the one of libcu++'s that it stands for; nothing for what NVRTC has built in.
struct StandIn {
  std::string_view name;
  std::string_view of;
};
constexpr std::array kStandIns{
    StandIn{"array", "array"},
    StandIn{"assert.h", ""},
    StandIn{"bit", "bit"},
    StandIn{"cassert", ""},
    StandIn{"cfloat", "cfloat"},
    StandIn{"climits", "climits"},
    StandIn{"cmath", "cmath"},
    StandIn{"complex", "complex"},
    StandIn{"concepts", "concepts"},
    StandIn{"cstddef", "cstddef"},
    StandIn{"cstdint", "cstdint"},
    StandIn{"cstdio", ""},
    StandIn{"cstdlib", "cstdlib"},
    StandIn{"cstring", "cstring"},
    StandIn{"float.h", "cfloat"},
    StandIn{"functional", "functional"},
    StandIn{"initializer_list", "initializer_list"},
    StandIn{"iterator", "iterator"},
    StandIn{"limits", "limits"},
    StandIn{"limits.h", "climits"},
    StandIn{"math.h", "cmath"},
    StandIn{"numeric", "numeric"},
    StandIn{"stddef.h", "cstddef"},
    StandIn{"stdint.h", "cstdint"},
    StandIn{"stdio.h", ""},
    StandIn{"stdlib.h", "cstdlib"},
    StandIn{"string.h", "cstring"},
    StandIn{"tuple", "tuple"},
    StandIn{"type_traits", "type_traits"},
    StandIn{"utility", "utility"},
};

/// Macros of C that libcu++ leaves out.
constexpr std::string_view kFloatMacros = R"(#ifndef FLT_MAX
#define FLT_DIG 6
#define FLT_EPSILON 1.19209290e-7f
#define FLT_MANT_DIG 24
#define FLT_MAX 3.40282347e+38f
#define FLT_MIN 1.17549435e-38f
#define DBL_DIG 15
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MANT_DIG 53
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#endif
)";
/// Of POSIX and C.
constexpr std::string_view kMathMacros = R"(#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_SQRT2 1.41421356237309504880
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
)";

bool names_standard_header(std::string_view text) {
  const auto has = [&](const std::string& part) { return text.find(part) != text.npos; };
  return has("<cub/") || has("<thrust/") || std::ranges::any_of(kStandIns, [&](const StandIn& one) {
           const std::string name(one.name);
           return has("<" + name + ">") || has("\"" + name + "\"");
         });
}

}  // namespace

void add_standard_headers(KernelProgram& program) {
  const bool is_asked = names_standard_header(program.text) ||
                        std::ranges::any_of(program.headers, [](const auto& header) {
                          return names_standard_header(header.second);
                        });
  for (const StandIn& one : kStandIns) {
    if (is_asked && !program.headers.contains(std::string(one.name))) {
      std::string text = "#pragma once\n";
      if (!one.of.empty()) {
        text += "#include <cuda/std/" + std::string(one.of) +
                ">\nnamespace std { using namespace cuda::std; }\n";
      }
      text += one.of == "cmath" ? kMathMacros : one.of == "cfloat" ? kFloatMacros : "";
      program.headers[std::string(one.name)] = std::move(text);
    }
  }
}

}  // namespace swr::kernel_spec
