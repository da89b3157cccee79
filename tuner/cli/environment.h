// SPDX-License-Identifier: MIT
// Everything the program takes from outside its command line, read once.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace swr::cli {

struct Environment {
  std::optional<std::string> database;        ///< SWR_DB
  std::optional<std::string> cache_dir;       ///< SWR_CACHE_DIR
  std::optional<std::string> templates;       ///< SWR_TEMPLATE_DIR
  std::optional<std::string> nvrtc;           ///< SWR_NVRTC
  std::optional<std::string> python;          ///< SWR_PYTHON
  std::optional<std::string> xdg_data_home;   ///< XDG_DATA_HOME
  std::optional<std::string> xdg_cache_home;  ///< XDG_CACHE_HOME
  std::optional<std::string> xdg_state_home;  ///< XDG_STATE_HOME
  std::optional<std::string> home;            ///< HOME
  std::optional<std::string> visible_gpus;    ///< CUDA_VISIBLE_DEVICES
  /// The variables by which Slurm, Open MPI and PMI tell a process which of several it is.
  std::map<std::string, std::string> launcher;
  bool no_color = false;  ///< NO_COLOR is set and not empty.
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  /// Characters of a line of the terminal: COLUMNS, else what the terminal says; 0 for any number,
  /// which is so for files and pipes whatever COLUMNS says.
  std::size_t stdout_width = 0;
  std::size_t stderr_width = 0;
};

/// Width of a terminal from the value of COLUMNS and from the terminal's own size in characters (0:
/// not known). Values of no sense count as absent; without both 80.
std::size_t terminal_width(const std::optional<std::string>& columns, std::size_t own);

/// An empty variable counts as one that is not set.
Environment read_environment();

/// $XDG_DATA_HOME/swr/tuned.db, else ~/.local/share/swr/tuned.db; SWR_DB wins over both.
/// Throws: Error{invalid_argument} when none of the variables is set.
std::filesystem::path default_database(const Environment& environment);

/// $XDG_CACHE_HOME/swr, else ~/.cache/swr; SWR_CACHE_DIR wins over both.
/// Throws: Error{invalid_argument} when none of the variables is set.
std::filesystem::path default_cache_dir(const Environment& environment);

}  // namespace swr::cli
