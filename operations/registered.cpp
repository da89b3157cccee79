// SPDX-License-Identifier: MIT
// Every operation that this process knows: those that CMakeLists.txt lists, and the kernels of
// users that were added since it began.
#include "core/operation.h"
#include <swr/error.h>
#include <swr/problem.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace swr {
namespace own {
std::span<const Operation* const> operations();
}  // namespace own

namespace {

/// Spans that were handed out stay valid while others add.
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  std::span<const Operation* const> all() const { return std::span(all_).first(count_.load()); }

  const Operation& add(std::unique_ptr<const Operation> operation) {
    const std::lock_guard lock(adding_);
    const std::string name(operation->name());
    if (find_operation_or_null(name) != nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  "there is an operation '" + name + "' already; choose another name");
    }
    const std::size_t place = count_.load();
    if (place == all_.size()) {
      throw Error(ErrorCode::invalid_argument, "there are " + std::to_string(place) +
                                                   " operations already, the most of a process");
    }
    owned_.push_back(std::move(operation));
    all_[place] = owned_.back().get();
    count_.store(place + 1);
    return *owned_.back();
  }

 private:
  Registry() {
    for (const Operation* const operation : own::operations()) {
      all_[count_++] = operation;
    }
  }

  std::array<const Operation*, kMostOperations> all_{};
  std::atomic<std::size_t> count_ = 0;
  std::mutex adding_;
  std::vector<std::unique_ptr<const Operation>> owned_;
};

}  // namespace

std::span<const Operation* const> operations() { return Registry::instance().all(); }

const Operation& register_operation(std::unique_ptr<const Operation> operation) {
  return Registry::instance().add(std::move(operation));
}

}  // namespace swr
