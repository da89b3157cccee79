// SPDX-License-Identifier: MIT
// What the database works out of an operation's fields and axes, once for each registered one.
#pragma once

#include "core/operation.h"
#include <swr/error.h>

#include <string>
#include <vector>

namespace swr {

/// Throws: Error{invalid_argument}; what the constructor of any operation's `Derived` throws.
[[noreturn]] inline void reject_unregistered(const Operation& operation) {
  throw Error(ErrorCode::invalid_argument,
              "operation " + std::string(operation.name()) +
                  " is not registered; add it to operations/registry.cpp");
}

/// The `Derived(operation)` of a registered operation; it has a member `operation`. Safe from any
/// thread.
template <typename Derived>
const Derived& derived_of(const Operation& operation) {
  static const std::vector<Derived> all = [] {
    std::vector<Derived> each;
    for (const Operation* const registered : operations()) {
      each.emplace_back(*registered);
    }
    return each;
  }();
  for (const Derived& one : all) {
    if (one.operation == &operation) {
      return one;
    }
  }
  reject_unregistered(operation);
}

}  // namespace swr
