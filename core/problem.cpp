// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include <swr/problem.h>

#include <array>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kOps{"attention"sv, "gemm"sv};
constexpr std::array kDTypes{"fp16"sv, "bf16"sv};

}  // namespace

std::string_view to_string(Op value) { return enum_text(kOps, value); }
Op parse_op(std::string_view text) { return parse_enum<Op>(kOps, text, "op"); }

std::string_view to_string(DType value) { return enum_text(kDTypes, value); }
DType parse_dtype(std::string_view text) { return parse_enum<DType>(kDTypes, text, "dtype"); }

int element_bytes(DType /*dtype*/) { return 2; }

Op op_of(const Problem& problem) { return static_cast<Op>(problem.index()); }

DType dtype_of(const Problem& problem) {
  return std::visit([](const auto& one) { return one.dtype; }, problem);
}

void validate(const Problem& problem) {
  std::visit([](const auto& one) { validate(one); }, problem);
}

double flop_count(const Problem& problem) {
  return std::visit([](const auto& one) { return flop_count(one); }, problem);
}

CompulsoryBytes compulsory_bytes(const Problem& problem) {
  return std::visit([](const auto& one) { return compulsory_bytes(one); }, problem);
}

std::string to_string(const Problem& problem) {
  return std::visit([](const auto& one) { return to_string(one); }, problem);
}

}  // namespace swr
