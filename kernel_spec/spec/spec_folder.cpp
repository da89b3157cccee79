// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/spec_folder.h"

#include "core/ascii.h"
#include "core/header_names.h"
#include "kernel_spec/spec/spec_object.h"
#include "kernel_spec/spec/stored_spec.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <span>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace swr::kernel_spec {
namespace {

std::string link_to(const FileDescriptor& file) {
  return "/proc/self/fd/" + std::to_string(file.get());
}

/// The system is asked where the open file lies, links and all, so that nobody can put a link
/// between the check and the reading. openat2 would do it in one call, but Linux before 5.6 and
/// some sandboxes do not have it.
bool is_beneath(const FileDescriptor& file, const FileDescriptor& folder) {
  std::error_code no_file;
  std::error_code no_folder;
  const std::string of_file = std::filesystem::read_symlink(link_to(file), no_file);
  const std::string of_folder = std::filesystem::read_symlink(link_to(folder), no_folder);
  return !no_file && !no_folder && of_file.starts_with(of_folder == "/" ? "/" : of_folder + "/");
}

/// What is outside is refused whether it is there or not.
bool names_what_is_outside(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return normal.is_absolute() || (!normal.empty() && *normal.begin() == "..");
}

}  // namespace

SpecFolder::SpecFolder(const std::filesystem::path& folder)
    : folder_(folder.empty() ? "." : folder),
      descriptor_(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_.get() < 0) {
    throw Error(ErrorCode::not_found, "there is no folder " + folder_.string());
  }
}

/// No data is read and no device is touched before it is known where the file lies.
FileDescriptor SpecFolder::find(const std::string& path) const {
  return FileDescriptor(openat(descriptor_.get(), path.c_str(), O_PATH | O_CLOEXEC));
}

bool SpecFolder::is_left_by(const std::string& path, const FileDescriptor& found) const {
  return names_what_is_outside(path) || (found.get() >= 0 && !is_beneath(found, descriptor_));
}

bool SpecFolder::has(const std::string& path) const {
  const FileDescriptor file = find(path);
  struct stat status {};
  return file.get() >= 0 && !is_left_by(path, file) && fstat(file.get(), &status) == 0 &&
         S_ISREG(status.st_mode) && access(link_to(file).c_str(), R_OK) == 0;
}

std::string SpecFolder::read(const std::string& path, std::size_t most_bytes) const {
  const FileDescriptor file = find(path);
  if (is_left_by(path, file)) {
    throw Error(ErrorCode::invalid_argument, "'" + path + "' leaves the folder of its spec, " +
                                                 folder_.string() +
                                                 "; a spec reads nothing outside of it");
  }
  if (file.get() < 0) {
    throw Error(ErrorCode::not_found,
                "there is no file '" + path + "' in the spec's folder " + folder_.string());
  }
  try {
    return read_regular_file(link_to(file), most_bytes);
  } catch (const Error&) {
    throw Error(ErrorCode::unreadable, "'" + path + "' of the spec is no regular file of at most " +
                                           std::to_string(most_bytes) + " bytes");
  }
}

std::map<std::string, std::string> headers_below(const SpecFolder& folder, const std::string& file,
                                                 const std::string& text,
                                                 const std::vector<std::string>& include_folders) {
  constexpr std::size_t kMostHeaders = 4096;
  std::map<std::string, std::string> headers;
  std::vector<std::pair<std::string, std::string_view>> unread{{file, text}};
  while (!unread.empty()) {
    const auto [includer, including] = unread.back();
    unread.pop_back();
    with_header_paths(including, [&, &includer = includer](const HeaderName& name) {
      for (const std::string& place : header_places(name, includer, include_folders)) {
        if (headers.contains(place)) {
          break;
        }
        if (folder.has(place)) {
          if (headers.size() == kMostHeaders) {
            refuse_spec(file, "it names more than " + std::to_string(kMostHeaders) + " headers");
          }
          unread.emplace_back(place, headers[place] = folder.read(place, kMostSourceBytes));
          break;
        }
      }
      return std::string();
    });
  }
  return headers;
}

namespace {

using namespace std::string_view_literals;

/// Without its dashes: one or two mean the same.
std::string_view bare(std::string_view option) {
  return option.substr(std::min(option.find_first_not_of('-'), option.size()));
}

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// What a compiler's option may be: nothing that names a file or another tool's options.
bool is_allowed_option(std::string_view option) {
  static constexpr std::array kWhole{"use_fast_math"sv,
                                     "default-device"sv,
                                     "lineinfo"sv,
                                     "device-as-default-execution-space"sv,
                                     "restrict"sv,
                                     "extra-device-vectorization"sv,
                                     "w"sv,
                                     "generate-line-info"sv,
                                     "fmad=true"sv,
                                     "disable-warnings"sv,
                                     "fmad=false"sv,
                                     "ftz=true"sv,
                                     "ftz=false"sv,
                                     "prec-div=true"sv,
                                     "prec-div=false"sv,
                                     "prec-sqrt=true"sv,
                                     "prec-sqrt=false"sv};
  if (option.starts_with('-') && is_among(bare(option), kWhole)) {
    return true;
  }
  const auto has_value = [&](std::string_view start, auto&& is_fine) {
    return option.starts_with(start) && option.size() > start.size() &&
           std::ranges::all_of(option.substr(start.size()), is_fine);
  };
  const auto is_word = [](char c) { return is_name_character(c) || c == '+'; };
  const auto is_definition = [](char c) {
    return is_name_character(c) ||
           std::string_view("=.+-*/()<>, ").find(c) != std::string_view::npos;
  };
  return has_value("-D", is_definition) || has_value("--define-macro=", is_definition) ||
         has_value("--std=", is_word) || has_value("-std=", is_word) ||
         has_value("--maxrregcount=", ascii::is_digit) ||
         has_value("-maxrregcount=", ascii::is_digit);
}

/// What nvcc's users write and what has no meaning, or only one, for a kernel alone: levels of
/// optimisation, the GPU, warnings, what is printed, and standards before C++17, which CUDA's
/// headers do not bear.
bool is_without_effect(std::string_view option) {
  static constexpr std::array kWhole{
      "O"sv,         "O0"sv,        "O1"sv,        "O2"sv,        "O3"sv,        "v"sv,
      "verbose"sv,   "m64"sv,       "keep"sv,      "cubin"sv,     "ptx"sv,       "c"sv,
      "g"sv,         "fPIC"sv,      "shared"sv,    "res-usage"sv, "std=c++03"sv, "std=c++11"sv,
      "std=c++0x"sv, "std=c++14"sv, "std=c++98"sv, "Xptxas=-v"sv, "Xptxas=-O3"sv};
  static constexpr std::array kStarts{"arch="sv,
                                      "gpu-architecture="sv,
                                      "code="sv,
                                      "gencode="sv,
                                      "generate-code="sv,
                                      "gpu-code="sv,
                                      "Xcompiler="sv,
                                      "ccbin="sv,
                                      "optimize="sv,
                                      "threads="sv,
                                      "j"sv,
                                      "W"sv,
                                      "Xcudafe="sv,
                                      "diag-suppress="sv,
                                      "extended-lambda"sv,
                                      "expt-relaxed-constexpr"sv,
                                      "expt-extended-lambda"sv,
                                      "allow-unsupported-compiler"sv,
                                      "resource-usage"sv,
                                      "compiler-options=-W"sv,
                                      "ptxas-options=-v"sv,
                                      "Xptxas=--warn-on-spills"sv,
                                      "Xptxas=-v,-O3"sv};
  const std::string_view name = bare(option);
  return option.starts_with('-') &&
         (is_among(name, kWhole) ||
          std::ranges::any_of(kStarts, [&](auto start) { return name.starts_with(start); }));
}

/// Each option in one part: "-I", "inc" and "-I inc" become "-Iinc", "-arch sm_90" "-arch=sm_90".
std::vector<std::string> in_one_part(const std::vector<std::string>& options) {
  static constexpr std::array kTakeNext{
      "arch"sv,         "gpu-architecture"sv, "gencode"sv,       "generate-code"sv, "code"sv,
      "gpu-code"sv,     "Xptxas"sv,           "ptxas-options"sv, "Xcompiler"sv,     "std"sv,
      "maxrregcount"sv, "define-macro"sv,     "Xcudafe"sv,       "diag-suppress"sv, "ccbin"sv};
  std::vector<std::string> parts;
  for (const std::string& option : options) {
    // A definition may have blanks of its own.
    const bool is_definition = option.starts_with("-D") && option.size() > 2 && option[2] != ' ';
    std::istringstream words(option);
    for (std::string word; !is_definition && words >> word;) {
      parts.push_back(word);
    }
    if (is_definition) {
      parts.push_back(option);
    }
  }
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool has_next = i + 1 < parts.size();
    joined.push_back(parts[i]);
    if (has_next && is_among(bare(parts[i]), kTakeNext)) {
      joined.back() += "=" + parts[++i];
    } else if (has_next && (parts[i] == "-I" || parts[i] == "-D")) {
      joined.back() += parts[++i];
    }
  }
  return joined;
}

}  // namespace

void read_compiler_options(KernelSpec& spec) {
  std::string ignored;
  std::vector<std::string> kept;
  for (std::string& option : in_one_part(spec.options)) {
    if (const auto gnu = option.find("std=gnu++"); gnu == 1 || gnu == 2) {
      option.replace(gnu + 4, 3, "c");
    }
    const std::string folder = option.starts_with("-I") ? option.substr(2) : "";
    if (is_without_effect(option)) {
      ignored += (ignored.empty() ? "" : ", ") + option;
    } else if (folder.empty() || folder.front() == '/' || folder.find("..") != folder.npos) {
      kept.push_back(option);
    } else if (folder != "." && folder != "./") {
      spec.include_folders.push_back(folder);
    }
  }
  spec.options = std::move(kept);
  if (!ignored.empty()) {
    spec.notes.push_back("options without effect here: " + ignored);
  }
}

std::string with_option_value(const std::string& option, const std::string& parameter,
                              const std::string& value) {
  const auto equals = option.find('=');
  if (equals == option.npos || option.starts_with("-D") || option.starts_with("--define")) {
    return option;
  }
  const std::string_view behind = std::string_view(option).substr(equals + 1);
  return option.substr(0, equals + 1) + with_word_replaced(behind, parameter, value);
}

void require_option(const std::string& option, const KernelSpec& spec) {
  std::vector<std::string> all{option};
  for (const KernelParameter& parameter : spec.parameters) {
    std::vector<std::string> with_values;
    for (const std::string& value : parameter.values) {
      const std::string replaced = with_option_value(all.front(), parameter.name, value);
      if (replaced != all.front()) {
        with_values.push_back(replaced);
      }
    }
    all = with_values.empty() ? all : with_values;
  }
  for (const std::string& one : all) {
    if (!is_allowed_option(one)) {
      refuse_spec(spec.name,
                  "the compiler's option '" + one +
                      "' is not allowed in a spec; docs/kernels.md lists those that are");
    }
  }
}

}  // namespace swr::kernel_spec
