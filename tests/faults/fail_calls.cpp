// SPDX-License-Identifier: MIT
// Loaded before all other libraries (LD_PRELOAD) it lets one system call of a program fail: the
// SWR_FAIL_AT-th of the kind SWR_FAIL_CALL, with the error number SWR_FAIL_ERRNO. How many calls of
// the kind a program made is a line of SWR_FAIL_COUNT when it ends: of the command, and of each
// program that it starts, which counts for itself.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

struct Plan {
  const char* call = std::getenv("SWR_FAIL_CALL");
  long at = number("SWR_FAIL_AT");
  int error = static_cast<int>(number("SWR_FAIL_ERRNO"));
  std::atomic<long> seen{0};
  pid_t process = getpid();

  static long number(const char* name) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  }
  bool is_about(const char* name) const { return call != nullptr && std::strcmp(call, name) == 0; }
};

Plan& plan() {
  static Plan plan;
  return plan;
}

/// Whether this call of the kind is the one that fails; sets errno then.
bool fails(const char* call) {
  Plan& todo = plan();
  if (!todo.is_about(call) || ++todo.seen != todo.at) {
    return false;
  }
  errno = todo.error;
  return true;
}

/// A disk that is nearly full takes a part.
std::size_t taken(std::size_t bytes) {
  Plan& todo = plan();
  const bool is_short = todo.is_about("short_write") && ++todo.seen == todo.at;
  return is_short && bytes > 1 ? bytes / 2 : bytes;
}

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

/// Without the C library's output, whose calls are counted too. A child that was forked is silent.
struct Counter {
  ~Counter() {
    const char* const path = std::getenv("SWR_FAIL_COUNT");
    if (path == nullptr || getpid() != plan().process) {
      return;
    }
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%ld\n", plan().seen.load());
    const auto file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    syscall(SYS_write, file, text.data(), length);
    syscall(SYS_close, file);
  }
};
const Counter counter;

}  // namespace

extern "C" {

#define SWR_OPEN(name)                                                    \
  int name(const char* path, int flags, ...) {                            \
    if (fails("open")) {                                                  \
      return -1;                                                          \
    }                                                                     \
    va_list arguments;                                                    \
    va_start(arguments, flags);                                           \
    const mode_t mode = mode_of(flags, arguments);                        \
    va_end(arguments);                                                    \
    static const auto call = real<int (*)(const char*, int, ...)>(#name); \
    return call(path, flags, mode);                                       \
  }
#define SWR_OPEN_AT(name)                                                      \
  int name(int folder, const char* path, int flags, ...) {                     \
    if (fails("open")) {                                                       \
      return -1;                                                               \
    }                                                                          \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_of(flags, arguments);                             \
    va_end(arguments);                                                         \
    static const auto call = real<int (*)(int, const char*, int, ...)>(#name); \
    return call(folder, path, flags, mode);                                    \
  }
/// A function whose failure is the value `failed`.
#define SWR_CALL(kind, result, failed, name, parameters, ...)   \
  result name parameters {                                      \
    if (fails(kind)) {                                          \
      return failed;                                            \
    }                                                           \
    static const auto call = real<result(*) parameters>(#name); \
    return call(__VA_ARGS__);                                   \
  }

SWR_OPEN(open)
SWR_OPEN(open64)
SWR_OPEN_AT(openat)
SWR_OPEN_AT(openat64)
SWR_CALL("open", int, -1, mkostemp, (char* name, int flags), name, flags)
SWR_CALL("open", FILE*, nullptr, fopen, (const char* path, const char* mode), path, mode)
SWR_CALL("open", FILE*, nullptr, fopen64, (const char* path, const char* mode), path, mode)

ssize_t write(int file, const void* data, size_t bytes) {
  if (fails("write")) {
    return -1;
  }
  static const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  return call(file, data, taken(bytes));
}
SWR_CALL("write", ssize_t, -1, writev, (int file, const iovec* parts, int count), file, parts,
         count)
SWR_CALL("write", ssize_t, -1, pwrite, (int file, const void* data, size_t bytes, off_t at), file,
         data, taken(bytes), at)
SWR_CALL("write", ssize_t, -1, pwrite64, (int file, const void* data, size_t bytes, off64_t at),
         file, data, taken(bytes), at)
SWR_CALL("read", ssize_t, -1, read, (int file, void* data, size_t bytes), file, data, bytes)
SWR_CALL("read", ssize_t, -1, pread, (int file, void* data, size_t bytes, off_t at), file, data,
         bytes, at)
SWR_CALL("read", ssize_t, -1, pread64, (int file, void* data, size_t bytes, off64_t at), file, data,
         bytes, at)
SWR_CALL("fsync", int, -1, fsync, (int file), file)
SWR_CALL("fsync", int, -1, fdatasync, (int file), file)
SWR_CALL("rename", int, -1, rename, (const char* from, const char* to), from, to)
SWR_CALL("unlink", int, -1, unlink, (const char* path), path)
SWR_CALL("mkdir", int, -1, mkdir, (const char* path, mode_t mode), path, mode)
SWR_CALL("truncate", int, -1, ftruncate, (int file, off_t bytes), file, bytes)
SWR_CALL("truncate", int, -1, ftruncate64, (int file, off64_t bytes), file, bytes)
SWR_CALL("fork", pid_t, -1, fork, (), )
SWR_CALL("mmap", void*, MAP_FAILED, mmap,
         (void* at, size_t bytes, int protection, int flags, int file, off_t offset), at, bytes,
         protection, flags, file, offset)
SWR_CALL("mmap", void*, MAP_FAILED, mmap64,
         (void* at, size_t bytes, int protection, int flags, int file, off64_t offset), at, bytes,
         protection, flags, file, offset)

}  // extern "C"
