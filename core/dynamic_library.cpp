// SPDX-License-Identifier: MIT
#include "core/dynamic_library.h"

#include <dlfcn.h>
#include <utility>

namespace swr {

DynamicLibrary::DynamicLibrary(std::span<const std::string> candidates, ErrorCode code,
                               const std::string& purpose, const std::string& advice)
    : code_(code) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    // Code stays mapped after dlclose: NVRTC and the driver own thread-local state and memory that
    // outlive it, and loading NVRTC again is slow.
    handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle_ != nullptr) {
      name_ = candidate;
      return;
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  throw Error(code, purpose + " cannot be loaded (tried " + tried + "); " + advice);
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) {
    dlclose(handle_);
  }
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      name_(std::move(other.name_)),
      code_(other.code_) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  std::swap(code_, other.code_);
  return *this;
}

void* DynamicLibrary::find_symbol(const char* name) const { return dlsym(handle_, name); }

void* DynamicLibrary::symbol(const char* name) const {
  void* address = find_symbol(name);
  if (address == nullptr) {
    throw Error(code_, name_ + " has no function " + name + "; install a newer release of it");
  }
  return address;
}

}  // namespace swr
