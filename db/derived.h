// SPDX-License-Identifier: MIT
// What the database works out of an operation's fields and axes, once for each registered one.
#pragma once

#include "core/operation.h"
#include <swr/error.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace swr {

/// Throws: Error{invalid_argument}; what the constructor of any operation's `Derived` throws.
[[noreturn]] inline void reject_unregistered(const Operation& operation) {
  throw Error(ErrorCode::invalid_argument,
              "operation " + std::string(operation.name()) +
                  " is not registered; add it to operations/CMakeLists.txt");
}

/// Of operations that were registered after the first question.
template <typename Derived>
const Derived& derived_of_later(const Operation& operation) {
  static std::mutex mutex;
  static std::map<const Operation*, const Derived> later;
  const std::lock_guard lock(mutex);
  if (const auto known = later.find(&operation); known != later.end()) {
    return known->second;
  }
  if (std::ranges::find(operations(), &operation) == operations().end()) {
    reject_unregistered(operation);
  }
  return later.try_emplace(&operation, operation).first->second;
}

/// The `Derived(operation)` of a registered operation; it has a member `operation`. Safe from any
/// thread. Costs no lock for operations that come with swr.
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
  return derived_of_later<Derived>(operation);
}

}  // namespace swr
