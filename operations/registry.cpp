// SPDX-License-Identifier: MIT
// Every operation that swr knows: the one place where swr's own operations are registered.
#include "core/operation.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>
#include <swr/problem.h>

#include <memory>
#include <vector>

namespace swr {
namespace {

std::vector<const Operation*>& all_operations() {
  static std::vector<const Operation*> all{&attention_operation(), &gemm_operation()};
  return all;
}

}  // namespace

std::span<const Operation* const> operations() { return all_operations(); }

const Operation& register_operation(std::unique_ptr<const Operation> operation) {
  if (find_operation_or_null(operation->name()) != nullptr) {
    throw Error(ErrorCode::invalid_argument, "there is an operation '" +
                                                 std::string(operation->name()) +
                                                 "' already; choose another name");
  }
  static std::vector<std::unique_ptr<const Operation>> owned;
  owned.push_back(std::move(operation));
  all_operations().push_back(owned.back().get());
  return *owned.back();
}

}  // namespace swr
