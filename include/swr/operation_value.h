// SPDX-License-Identifier: MIT
// What Problem and Variant have in common: a value of one operation's own struct, held in place,
// whatever the operation.
#pragma once

#include <swr/error.h>

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace swr {

/// What kernels compute: its problems, its variants and how they become kernels. Registered once
/// and alive for ever, so that its address identifies it. core/operation.h has its members.
class Operation;

class Problem;
class Variant;

/// "attention", "gemm": the spelling on the command line, in JSON and in the database.
std::string_view name_of(const Operation& operation);

/// True for the struct of one operation that Erased, which is Problem or Variant, can hold. The
/// trait comes last: it may not be asked of Operation, which is incomplete here.
template <typename Typed, typename Erased>
concept HeldBy =
    std::same_as<typename Typed::ErasedAs, Erased> && std::is_trivially_copyable_v<Typed>;

/// `Erased` is the class that derives from this one. Copies cost that of kBytes.
template <typename Erased, std::size_t kBytes>
class OperationValue {
 public:
  /// Holds nothing: only for assigning to.
  OperationValue() = default;

  template <HeldBy<Erased> Typed>
  OperationValue(const Typed& typed) : operation_(&Typed::operation()) {  // NOLINT: stands for it
    static_assert(sizeof(Typed) <= kBytes, "raise the size of the class that holds it");
    std::memcpy(members_.data(), &typed, sizeof typed);
  }

  /// Requires: holds something.
  const Operation& operation() const { return *operation_; }
  bool has_operation() const { return operation_ != nullptr; }

  /// The struct that is held; nullptr when it is of another operation.
  template <HeldBy<Erased> Typed>
  const Typed* get_if() const {
    return operation_ == &Typed::operation() ? &held<Typed>() : nullptr;
  }

  /// Throws: Error{invalid_argument} when it is of another operation.
  template <HeldBy<Erased> Typed>
  const Typed& as() const {
    require_operation(Typed::operation());
    return held<Typed>();
  }
  template <HeldBy<Erased> Typed>
  Typed& as() {
    require_operation(Typed::operation());
    return const_cast<Typed&>(held<Typed>());
  }

  /// The members, for Field::read() and Field::write().
  const void* members() const { return members_.data(); }
  void* members() { return members_.data(); }

 protected:
  /// With all members zero. Requires: the operation's struct is written to the members next.
  explicit OperationValue(const Operation& operation) : operation_(&operation) {}

  const Operation* operation_ = nullptr;

 private:
  template <typename Typed>
  const Typed& held() const {
    return *reinterpret_cast<const Typed*>(members_.data());
  }

  void require_operation(const Operation& asked) const {
    if (operation_ != &asked) {
      throw Error(ErrorCode::invalid_argument,
                  "a value of operation " +
                      std::string(operation_ == nullptr ? "none" : name_of(*operation_)) +
                      " is none of " + std::string(name_of(asked)));
    }
  }

  alignas(8) std::array<std::byte, kBytes> members_{};
};

}  // namespace swr
