// SPDX-License-Identifier: MIT
// What every operation of this library has: its errors, and which kernel serves a call.
#pragma once

#include <stdexcept>
#include <string>

// The driver's CUstream and the CUDA runtime's cudaStream_t are pointers to this.
struct CUstream_st;

namespace swr_package {

enum class ErrorCode {
  invalid_argument,  ///< A value that no kernel can serve.
  no_driver,         ///< libcuda cannot be opened, or no context is current.
  no_kernel,         ///< No kernel of the package fits the problem and the device.
  damaged,           ///< A kernel's bytes are not those that were exported.
  driver_failed,     ///< A driver call failed.
};

/// what() says what failed, with which inputs, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// The kernel that serves a call.
struct Choice {
  std::string kernel;     ///< Its name in the manifest of the package.
  double distance = 0.0;  ///< From the shape it was tuned for, in octaves; 0 when it is that shape.
  bool on_same_device = false;  ///< It was tuned for this device.
  bool measured = false;        ///< Rather than predicted.
};

}  // namespace swr_package
