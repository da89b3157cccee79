// SPDX-License-Identifier: MIT
// A function that can be paused and resumed, with a stack of its own. setcontext() brings it onto
// that stack; each switch after that would be two system calls of swapcontext(), which is most of
// an emulation's time, so switches are jumps of the compiler's.
#pragma once

#include <functional>
#include <memory>
#include <ucontext.h>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace emulation {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body)
      : body_(std::move(body)), stack_(std::make_unique_for_overwrite<char[]>(kStackBytes)) {
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_.get();
    own_.uc_stack.ss_size = kStackBytes;
    own_.uc_link = nullptr;
    makecontext(&own_, &Fiber::start, 0);
  }
  ~Fiber() {
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(tsan_own_);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool is_finished() const { return is_finished_; }
  /// Whether an address is one of its stack.
  bool has_on_stack(const void* address) const {
    const auto* const byte = static_cast<const char*>(address);
    return stack_.get() <= byte && byte < stack_.get() + kStackBytes;
  }

  /// Runs the body until it pauses or ends. Call from outside of any fiber.
  void resume() {
    starting() = this;
#if defined(__SANITIZE_THREAD__)
    tsan_outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_own_, 0);
#endif
    switch_to_own();
  }

  /// Call from inside the body.
  void pause() {
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
    if (__builtin_setjmp(paused_at_) == 0) {
      jump(resumed_at_);
    }
  }

 private:
  static constexpr std::size_t kStackBytes = 256 * 1024;
  using Place = void* [5];

  void switch_to_own() {
    if (__builtin_setjmp(resumed_at_) == 0) {
      if (std::exchange(is_started_, true)) {
        jump(paused_at_);
      }
      setcontext(&own_);
    }
  }
  /// Not inlined: compilers see that a place is returned to only where it is set and a call
  /// follows. Nor known to end here, after which AddressSanitizer takes the caller's frames for
  /// left: so it asks whether there is a place to go on at, which there always is.
  [[gnu::noinline, gnu::no_sanitize_address]] static void jump(Place& place) {
    if (place[1] != nullptr) {
      __builtin_longjmp(place, 1);
    }
  }

  static Fiber*& starting() {
    static Fiber* fiber = nullptr;
    return fiber;
  }
  static void start() {
    Fiber* const self = starting();
    self->body_();
    self->is_finished_ = true;
    self->pause();
  }

  std::function<void()> body_;
  std::unique_ptr<char[]> stack_;
  ucontext_t own_;
  Place paused_at_;
  Place resumed_at_;
  bool is_started_ = false;
  bool is_finished_ = false;
#if defined(__SANITIZE_THREAD__)
  void* tsan_own_ = __tsan_create_fiber(0);
  void* tsan_outside_ = nullptr;
#endif
};

}  // namespace emulation
