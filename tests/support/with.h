// SPDX-License-Identifier: MIT
// Copies of problems, variants and configurations that differ in a member or two.
#pragma once

#include <concepts>
#include <utility>

namespace swr {

/// What `change` makes of a copy.
template <typename T, std::invocable<T&> Change>
constexpr T with(T of, Change change) {
  change(of);
  return of;
}

/// A copy whose members have these values: with(problem, &P::seq_q, 16, &P::causal, true).
template <typename T, typename Class, typename Member, typename Value, typename... Others>
constexpr T with(T of, Member Class::*member, Value value, Others... others) {
  of.*member = value;
  if constexpr (sizeof...(others) > 0) {
    return with(std::move(of), others...);
  }
  return of;
}

}  // namespace swr
