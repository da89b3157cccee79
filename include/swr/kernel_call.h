// SPDX-License-Identifier: MIT
// Launches of registered kernels (swr/kernel_spec.h) by swr::Runtime:
//
//   const swr::Operation& blur = swr::register_kernel(swr::read_kernel_spec("blur.json"));
//   swr::Runtime runtime({.database = "tuned.db"});
//   const swr::Problem problem = swr::kernel_problem(blur, {{"n", n}});  // once for each size
//   swr::launch(runtime, problem, swr::KernelCall(out, in, n), stream);
#pragma once

#include <swr/runtime.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace swr {

/// The arguments of one launch in the order of the spec: a pointer to device memory for a vector,
/// and for a `__constant__` one as well, from where it is copied in stream order; a value of the
/// kernel's own type for a scalar.
class KernelCall {
 public:
  static constexpr std::size_t kMostArguments = 64;
  static constexpr std::size_t kMostBytes = 32;  ///< Of one argument.

  KernelCall() = default;
  template <typename... Arguments>
  explicit KernelCall(const Arguments&... arguments) {
    static_assert(sizeof...(Arguments) <= kMostArguments);
    (add(arguments), ...);
  }

  template <typename Argument>
  void add(const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument> && sizeof(Argument) <= kMostBytes);
    if constexpr (std::is_pointer_v<Argument>) {
      memory_ = memory_ == nullptr ? argument : memory_;
    }
    add_bytes(static_cast<const void*>(&argument), sizeof argument);
  }
  /// For callers that know the types at run time alone. One argument more than there may be, or a
  /// longer one, counts and is not kept: the launch refuses it.
  void add_bytes(const void* bytes, std::size_t size) {
    if (count_ < kMostArguments && size <= kMostBytes) {
      std::memcpy(slots_[count_].bytes, bytes, size);
      slots_[count_].size = size;
    }
    ++count_;
  }
  /// Device memory of the call, for add_bytes(): where no context is current, its own is taken.
  void set_memory(const void* memory) { memory_ = memory; }

  std::size_t count() const { return count_; }
  std::size_t size_of(std::size_t place) const { return slots_[place].size; }
  const void* bytes_of(std::size_t place) const {
    return static_cast<const void*>(slots_[place].bytes);
  }
  /// The first pointer; nullptr without one.
  const void* memory() const { return memory_; }

 private:
  struct Slot {
    alignas(16) unsigned char bytes[kMostBytes];
    std::size_t size;
  };

  std::array<Slot, kMostArguments> slots_;  // NOLINT: what counts is written by add_bytes().
  std::size_t count_ = 0;
  const void* memory_ = nullptr;
};

/// Enqueues all launches of a kernel on `stream`, with what the runtime finds best for the problem.
/// Kernels with `__constant__` arguments write these on every call: calls of one such kernel on
/// several streams at once are the caller's to order.
/// Throws: as Runtime::attention(), and Error{invalid_argument} naming an argument that is missing
/// or has another size than the spec says.
inline void launch(Runtime& runtime, const Problem& problem, const KernelCall& call,
                   CUstream_st* stream) {
  runtime.launch(problem, static_cast<const void*>(&call), call.memory(), stream);
}

}  // namespace swr
