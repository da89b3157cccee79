// SPDX-License-Identifier: MIT
// The exception every part of swr throws for misuse and for a broken environment. Expected
// failures, such as a variant that does not compile, are values (ResultState), not exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace swr {

enum class ErrorCode {
  invalid_argument,  ///< A value the caller chose cannot work.
  not_found,         ///< A file, GPU profile or stored result does not exist.
  unreadable,        ///< A file exists but cannot be read, or is damaged.
  not_writable,      ///< A file or directory cannot be written.
  no_nvrtc,          ///< The run-time compiler cannot be loaded.
  no_driver,         ///< The CUDA driver cannot be loaded, or has no device.
  no_counters,       ///< CUPTI cannot be loaded, or the driver refuses counters.
  compile_failed,    ///< NVRTC rejected a kernel; the message carries its log.
  driver_failed,     ///< A CUDA driver call failed.
  database_locked,   ///< Another process holds the database.
  schema_too_new,    ///< The database was written by a newer swr.
  nothing_stored,    ///< The database holds no usable result for the question.
  not_compiled,      ///< A kernel would have to be compiled, which the caller forbids.
};

/// what() says what failed, with which inputs, and what to do about it, in one line.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace swr
