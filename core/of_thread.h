// SPDX-License-Identifier: MIT
// Values of threads that destructors may ask for.
#pragma once

namespace swr {

/// The thread's `Value` of a `Tag`. A thread destroys what it has before it runs the destructors of
/// thread-specific data, and the main thread before what atexit() was given: calls from there get
/// another one, which nobody destroys.
template <typename Value, typename Tag>
Value& of_thread() {
  static thread_local bool is_gone = false;
  struct Kept {
    Value value{};
    ~Kept() { is_gone = true; }
  };
  if (is_gone) {
    static thread_local Value* const late = new Value{};
    return *late;
  }
  static thread_local Kept kept;
  return kept.value;
}

}  // namespace swr
