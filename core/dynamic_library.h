// SPDX-License-Identifier: MIT
// A shared library opened at run time: NVRTC, the CUDA driver and CUPTI may all be absent.
#pragma once

#include <swr/error.h>

#include <span>
#include <string>
#include <vector>

namespace swr {

class DynamicLibrary {
 public:
  /// Opens the first candidate (a file name or a path) that loads.
  /// Throws: Error{code} whose message is `purpose`, what was tried and `advice`.
  DynamicLibrary(std::span<const std::string> candidates, ErrorCode code,
                 const std::string& purpose, const std::string& advice);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  /// Resolves a function. Throws: Error{code} naming the library and the missing symbol.
  template <typename Function>
  Function* function(const char* name) const {
    // POSIX guarantees that a symbol's address converts to a function pointer.
    return reinterpret_cast<Function*>(symbol(name));
  }

  /// The same; nullptr where the library lacks it.
  template <typename Function>
  Function* find_function(const char* name) const {
    return reinterpret_cast<Function*>(find_symbol(name));
  }

  /// The candidate that was opened.
  const std::string& name() const { return name_; }

 private:
  void* symbol(const char* name) const;
  void* find_symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string name_;
  ErrorCode code_;
};

}  // namespace swr
