// SPDX-License-Identifier: MIT
// What tests of attention look at in values that may be of any operation.
#pragma once

#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <string_view>
#include <variant>

namespace swr {

inline const AttentionVariant& attention(const AttentionVariant& variant) { return variant; }
inline AttentionVariant& attention(AttentionVariant& variant) { return variant; }
inline const AttentionVariant& attention(const Variant& variant) {
  return variant.as<AttentionVariant>();
}
/// A variant that holds nothing yet becomes the default one.
inline AttentionVariant& attention(Variant& variant) {
  if (!variant.has_operation()) {
    variant = AttentionVariant{};
  }
  return variant.as<AttentionVariant>();
}

inline const AttentionProblem& attention(const AttentionProblem& problem) { return problem; }
inline AttentionProblem& attention(AttentionProblem& problem) { return problem; }
inline const AttentionProblem& attention(const Problem& problem) {
  return problem.as<AttentionProblem>();
}
inline AttentionProblem& attention(Problem& problem) {
  if (!problem.has_operation()) {
    problem = AttentionProblem{};
  }
  return problem.as<AttentionProblem>();
}

inline AttentionVariant parse_attention(std::string_view key) {
  return attention(parse_variant(attention_operation(), key));
}

}  // namespace swr
