// SPDX-License-Identifier: MIT
#include "generator/compile_log.h"
#include <swr/error.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <exception>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace swr {
namespace {

#if defined(__x86_64__)
constexpr unsigned kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = AUDIT_ARCH_AARCH64;
#else
#error "name the machine's AUDIT_ARCH_ here"
#endif

/// What computing takes: memory, threads, clocks, signals, and writing to what is open already.
/// Landlock would leave stat(), which tells which files exist, and is missing before Linux 5.13.
constexpr std::array kAllowed{
    SYS_brk,          SYS_mmap,           SYS_munmap,       SYS_mremap,
    SYS_mprotect,     SYS_madvise,        SYS_futex,        SYS_sched_yield,
    SYS_clone,        SYS_clone3,         SYS_rseq,         SYS_set_robust_list,
    SYS_exit,         SYS_exit_group,     SYS_gettid,       SYS_getpid,
    SYS_tgkill,       SYS_clock_gettime,  SYS_clock_getres, SYS_clock_nanosleep,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    SYS_write,        SYS_writev,         SYS_getrandom,    SYS_prlimit64,
    SYS_getrusage,    SYS_restart_syscall};

/// Of this thread and those that it starts, for as long as they live.
bool give_up_files() {
  constexpr auto kTests = static_cast<unsigned char>(kAllowed.size());
  constexpr unsigned kNumber = offsetof(seccomp_data, nr);
  constexpr unsigned kArch = offsetof(seccomp_data, arch);
  std::array<sock_filter, kAllowed.size() + 5> program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kArch),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 0, kTests + 1),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber)};
  for (unsigned char i = 0; i < kTests; ++i) {
    const auto to_the_end = static_cast<unsigned char>(kTests - i);
    program[3U + i] =
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(kAllowed[i]), to_the_end, 0);
  }
  program[3U + kTests] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOENT);
  program[4U + kTests] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{program.size(), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

struct Confined {
  const std::function<void()>& work;
  bool is_done = false;
  std::exception_ptr thrown = nullptr;
};

void* do_confined(void* argument) {
  Confined& confined = *static_cast<Confined*>(argument);
  if (give_up_files()) {
    try {
      confined.work();
    } catch (...) {
      confined.thrown = std::current_exception();
    }
    confined.is_done = true;
  }
  return nullptr;
}

}  // namespace

bool run_confined(const std::function<void()>& work) {
  constexpr std::size_t kStackBytes = std::size_t{64} << 20;  // Compilers recurse.
  Confined confined{work};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const int refused = pthread_create(&thread, &attributes, do_confined, &confined);
  pthread_attr_destroy(&attributes);
  if (refused != 0) {
    throw Error(ErrorCode::compile_failed,
                "cannot start a thread to compile in; free some memory or threads");
  }
  pthread_join(thread, nullptr);
  // The compiler asks for the time of day. Without its zone's file it took UTC, for the process.
  tzset();
  if (confined.thrown) {
    std::rethrow_exception(confined.thrown);
  }
  return confined.is_done;
}

}  // namespace swr
