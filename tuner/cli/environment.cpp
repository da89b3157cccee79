// SPDX-License-Identifier: MIT
#include "tuner/cli/environment.h"

#include <swr/error.h>

#include <charconv>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace swr::cli {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

std::map<std::string, std::string> launcher_variables() {
  std::map<std::string, std::string> variables;
  for (const char* name :
       {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
        "SLURM_ARRAY_TASK_STEP", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"}) {
    if (auto value = variable(name)) {
      variables.emplace(name, std::move(*value));
    }
  }
  return variables;
}

std::filesystem::path user_dir(const std::optional<std::string>& xdg,
                               const std::optional<std::string>& home, const char* below_home,
                               const char* advice) {
  if (xdg) {
    return *xdg;
  }
  if (home) {
    return std::filesystem::path(*home) / below_home;
  }
  throw Error(ErrorCode::invalid_argument,
              std::string("HOME is not set, so there is no default place; ") + advice);
}

/// Characters of a line; 0 for what is no terminal.
std::size_t width_of(int file) {
  if (isatty(file) != 1) {
    return 0;
  }
  winsize size{};
  const bool is_known = ioctl(file, TIOCGWINSZ, &size) == 0;
  return terminal_width(variable("COLUMNS"), is_known ? size.ws_col : 0U);
}

}  // namespace

std::size_t terminal_width(const std::optional<std::string>& columns, std::size_t own) {
  constexpr std::size_t kUsual = 80;
  constexpr std::size_t kLeast = 20;
  const std::string text = columns.value_or("");
  std::size_t asked = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), asked);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (is_number && asked >= kLeast) {
    return asked;
  }
  return own >= kLeast ? own : kUsual;
}

Environment read_environment() {
  return {.database = variable("SWR_DB"),
          .cache_dir = variable("SWR_CACHE_DIR"),
          .templates = variable("SWR_TEMPLATE_DIR"),
          .nvrtc = variable("SWR_NVRTC"),
          .python = variable("SWR_PYTHON"),
          .xdg_data_home = variable("XDG_DATA_HOME"),
          .xdg_cache_home = variable("XDG_CACHE_HOME"),
          .xdg_state_home = variable("XDG_STATE_HOME"),
          .home = variable("HOME"),
          .visible_gpus = variable("CUDA_VISIBLE_DEVICES"),
          .launcher = launcher_variables(),
          .no_color = variable("NO_COLOR").has_value(),
          .stdout_is_terminal = isatty(STDOUT_FILENO) == 1,
          .stderr_is_terminal = isatty(STDERR_FILENO) == 1,
          .stdout_width = width_of(STDOUT_FILENO),
          .stderr_width = width_of(STDERR_FILENO)};
}

std::filesystem::path default_database(const Environment& environment) {
  if (environment.database) {
    return *environment.database;
  }
  return user_dir(environment.xdg_data_home, environment.home, ".local/share",
                  "pass --db FILE or set SWR_DB") /
         "swr" / "tuned.db";
}

std::filesystem::path default_cache_dir(const Environment& environment) {
  if (environment.cache_dir) {
    return *environment.cache_dir;
  }
  return user_dir(environment.xdg_cache_home, environment.home, ".cache",
                  "pass --cache-dir DIR or set SWR_CACHE_DIR") /
         "swr";
}

}  // namespace swr::cli
