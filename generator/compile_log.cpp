// SPDX-License-Identifier: MIT
// The lines of interest, with any prefix:
//   Compiling entry function 'NAME' for 'sm_90'
//   Function properties for NAME
//   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   Used 32 registers, used 1 barriers, 256 bytes smem
//   (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
#include "generator/compile_log.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
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

using namespace std::string_view_literals;

constexpr std::string_view kDigits = "0123456789";

/// Removes and returns the first line.
std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

/// The text after `mark`; empty optional when the line does not hold it.
std::optional<std::string_view> after(std::string_view line, std::string_view mark) {
  const auto at = line.find(mark);
  return at == std::string_view::npos ? std::nullopt : std::optional(line.substr(at + mark.size()));
}

/// ptxas marks these messages with codes; they appear whatever its verbosity.
bool tells_of_serialized_wgmma(std::string_view line) {
  constexpr std::array kCodes{"(C7508)"sv, "(C7510)"sv, "(C7511)"sv,
                              "(C7512)"sv, "(C7514)"sv, "(C7515)"sv};
  return std::ranges::any_of(
      kCodes, [&](std::string_view code) { return line.find(code) != std::string_view::npos; });
}

std::optional<int> to_int(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

/// The number directly in front of `unit`, e.g. 256 for " bytes smem"; 0 when there is none.
int number_before(std::string_view line, std::string_view unit) {
  const auto at = line.find(unit);
  if (at == std::string_view::npos) {
    return 0;
  }
  const std::string_view head = line.substr(0, at);
  const auto last_other = head.find_last_not_of(kDigits);
  return to_int(last_other == std::string_view::npos ? head : head.substr(last_other + 1))
      .value_or(0);
}

/// The name that starts `rest`: up to a quote, a space or the end.
std::string_view leading_name(std::string_view rest) {
  return rest.substr(0, rest.find_first_of("' \t"));
}

}  // namespace

std::optional<KernelResources> parse_resources(std::string_view log, std::string_view entry) {
  KernelResources resources;
  bool found = false;
  bool compiling_entry = false;
  bool describing_entry = false;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (const auto name = after(line, "Compiling entry function '")) {
      compiling_entry = leading_name(*name) == entry;
      describing_entry = false;
    } else if (const auto described = after(line, "Function properties for ")) {
      describing_entry = leading_name(*described) == entry;
    } else if (describing_entry && after(line, " bytes stack frame")) {
      resources.stack_bytes = number_before(line, " bytes stack frame");
      resources.spill_store_bytes = number_before(line, " bytes spill stores");
      resources.spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (const auto used = after(line, "Used "); compiling_entry && used) {
      if (const auto registers = to_int(*used)) {
        resources.registers_per_thread = *registers;
        resources.static_smem_bytes = number_before(line, " bytes smem");
        found = true;
      }
    }
    resources.wgmma_warnings += tells_of_serialized_wgmma(line) ? 1 : 0;
  }
  return found ? std::optional(resources) : std::nullopt;
}

namespace {

/// The first line that has the word "error", else the first of all.
std::string_view first_error_line(std::string_view log) {
  for (std::string_view rest = log; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (line.find("error") != std::string_view::npos) {
      return line;
    }
  }
  return take_line(log);
}

/// What people of other tools meet most often: they compile a whole file with nvcc.
std::string advice_on(std::string_view first, std::string_view log) {
  if (first.starts_with("__nv_name_map")) {
    return "; the source has no kernel of this name, or several: the entry is written as C++ does, "
           "with its namespaces and template arguments, and overloads need names of their own";
  }
  constexpr std::array kMarks{
      std::pair{"thrust/system"sv,
                "cub's and thrust's umbrellas have code for the host; include the parts for "
                "threads, such as <cub/block/block_reduce.cuh>"sv},
      std::pair{"thrust/detail"sv,
                "thrust is for the host; include parts for threads, such as "
                "<cub/block/block_reduce.cuh>"sv},
      std::pair{"texture is not a template"sv,
                "CUDA has no texture references any more: take a cudaTextureObject_t, and say "
                "\"texture\" for the argument"sv},
      std::pair{"open source file"sv,
                "there are the headers of CUDA, of libcu++ by their standard names, and for a spec "
                "those below its folder; code for the host belongs between #ifndef swr_tune and "
                "#endif"sv},
      std::pair{"identifier \"cuda"sv,
                "code for the host belongs between #ifndef swr_tune and #endif: swr compiles "
                "kernels alone"sv},
      std::pair{"<<<"sv,
                "launches and other code for the host belong between #ifndef swr_tune and "
                "#endif: swr compiles kernels alone"sv}};
  const auto known = std::ranges::find_if(
      kMarks, [&](const auto& mark) { return log.find(mark.first) != log.npos; });
  return known == kMarks.end() ? "" : "; " + std::string(known->second);
}

}  // namespace

std::string failure_text(std::string_view log) {
  const std::string_view first = first_error_line(log);
  const auto before = static_cast<std::size_t>(first.data() - log.data());
  std::string rest(log.substr(0, before));
  std::string_view behind = log.substr(before);
  take_line(behind);
  rest += behind;
  return std::string(first) + advice_on(first, log) + (rest.empty() ? "" : "\n" + rest);
}

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
