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
#include <iomanip>
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

std::string source_text(const std::string& path, const std::string& text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (const auto at = text.find('\0'); at != text.npos) {
    throw Error(ErrorCode::unreadable, "'" + path + "' is no source: its byte " +
                                           std::to_string(at) +
                                           " is 0; save it as UTF-8, and not as UTF-16");
  }
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
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
          unread.emplace_back(
              place, headers[place] = source_text(place, folder.read(place, kMostSourceBytes)));
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

bool starts_with_one_of(std::string_view name, std::span<const std::string_view> starts) {
  return std::ranges::any_of(starts, [&](auto start) { return name.starts_with(start); });
}

/// With a value behind = or in the next word.
constexpr std::array kKeptWithValue{"std"sv,
                                    "maxrregcount"sv,
                                    "define-macro"sv,
                                    "undefine-macro"sv,
                                    "fmad"sv,
                                    "ftz"sv,
                                    "prec-div"sv,
                                    "prec-sqrt"sv,

                                    "ptxas-options"sv,
                                    "Xptxas"sv,
                                    "D"sv,
                                    "U"sv,
                                    "I"sv,
                                    "include-path"sv,
                                    "isystem"sv,
                                    "system-include"sv};

/// Of ptxas, as far as they choose code.
bool is_allowed_of_ptxas(std::string_view option) {
  static constexpr std::array kLevels{"O0"sv, "O1"sv, "O2"sv, "O3"sv};
  static constexpr std::array kStarts{"dlcm="sv, "dscm="sv, "allow-expensive-optimizations="sv};
  return is_among(bare(option), kLevels) || (starts_with_one_of(bare(option), kStarts) &&
                                             std::ranges::all_of(bare(option), [](char c) {
                                               return ascii::is_alphanumeric(c) || c == '=' ||
                                                      c == '-';
                                             }));
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
  constexpr std::string_view kOfPtxas = "--ptxas-options=";
  return has_value("-D", is_definition) || has_value("--define-macro=", is_definition) ||
         has_value("-U", is_name_character) || has_value("--undefine-macro=", is_name_character) ||
         has_value("--std=", is_word) || has_value("-std=", is_word) ||
         has_value("--maxrregcount=", ascii::is_digit) ||
         has_value("-maxrregcount=", ascii::is_digit) ||
         (option.starts_with(kOfPtxas) && is_allowed_of_ptxas(option.substr(kOfPtxas.size())));
}

/// What nvcc's users write and what has no meaning, or only one, for a kernel alone: levels of
/// optimisation, the GPU, warnings, the host's compiler, the linker, what is printed or kept, and
/// standards before C++17, which CUDA's headers do not bear.
constexpr std::array kIgnored{"v"sv,
                              "verbose"sv,
                              "m64"sv,
                              "keep"sv,
                              "cubin"sv,
                              "ptx"sv,
                              "c"sv,
                              "g"sv,
                              "debug"sv,
                              "fPIC"sv,
                              "shared"sv,
                              "res-usage"sv,
                              "resource-usage"sv,
                              "std=c++03"sv,
                              "std=c++11"sv,
                              "std=c++0x"sv,
                              "std=c++14"sv,
                              "std=c++98"sv,
                              "extended-lambda"sv,
                              "expt-relaxed-constexpr"sv,
                              "expt-extended-lambda"sv,
                              "allow-unsupported-compiler"sv,
                              "forward-unknown-to-host-compiler"sv,
                              "no-compress"sv,
                              "src-in-ptx"sv,
                              "source-in-ptx"sv,
                              "err-no"sv,
                              "display-error-number"sv,
                              "no-display-error-number"sv,
                              "noeh"sv};
constexpr std::array kIgnoredWithValue{"arch"sv,
                                       "gpu-architecture"sv,
                                       "code"sv,
                                       "gpu-code"sv,
                                       "gencode"sv,
                                       "generate-code"sv,
                                       "Xcompiler"sv,
                                       "compiler-options"sv,
                                       "ccbin"sv,
                                       "compiler-bindir"sv,
                                       "Xlinker"sv,
                                       "linker-options"sv,
                                       "Xnvlink"sv,
                                       "nvlink-options"sv,
                                       "Xcudafe"sv,
                                       "diag-suppress"sv,
                                       "diag-warn"sv,
                                       "diag-error"sv,
                                       "Werror"sv,
                                       "optimize"sv,
                                       "Ofast-compile"sv,
                                       "dopt"sv,
                                       "threads"sv,
                                       "t"sv,
                                       "split-compile"sv,
                                       "default-stream"sv,
                                       "cudart"sv,
                                       "library"sv,
                                       "library-path"sv,
                                       "keep-dir"sv,
                                       "brief-diagnostics"sv,
                                       "m"sv,
                                       "machine"sv,
                                       "x"sv};
constexpr std::array kIgnoredStarts{"O"sv, "W"sv, "j"sv, "l"sv, "L"sv};

bool is_without_effect(std::string_view option) {
  const std::string_view name = bare(option);
  const std::string_view before_value = name.substr(0, name.find('='));
  return option.starts_with('-') &&
         (is_among(name, kIgnored) || is_among(before_value, kIgnoredWithValue) ||
          (!is_allowed_option(option) && starts_with_one_of(name, kIgnoredStarts)));
}

/// Each option in one part: "-I", "inc" and "-I inc" become "-Iinc", "-arch sm_90" "-arch=sm_90".
std::vector<std::string> in_one_part(const std::vector<std::string>& options) {
  std::vector<std::string> parts;
  for (const std::string& option : options) {
    // A definition may have blanks of its own, and so may what belongs to the option before.
    const bool is_definition = option.starts_with("-D") && option.size() > 2 && option[2] != ' ';
    const bool is_whole = is_definition || !option.starts_with('-');
    std::istringstream words(option);
    for (std::string word; !is_whole && words >> std::quoted(word);) {
      parts.push_back(word);
    }
    if (is_whole && option.find_first_not_of(' ') != option.npos) {
      parts.push_back(option);
    }
  }
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view name = bare(parts[i]);
    const bool takes_value = is_among(name, kKeptWithValue) || is_among(name, kIgnoredWithValue);
    // Only what is another tool's has a value that is an option.
    const bool has_next =
        i + 1 < parts.size() &&
        (!parts[i + 1].starts_with('-') || name.starts_with('X') || name.ends_with("options"));
    joined.push_back(parts[i]);
    if (takes_value && parts[i].starts_with('-') && has_next) {
      joined.back() += (name.size() == 1 && ascii::is_upper(name[0]) ? "" : "=") + parts[++i];
    }
  }
  return joined;
}

/// "-Iinc", "--include-path=inc": the folder; empty for others.
std::string include_folder(const std::string& option) {
  for (const std::string_view start : {"-I="sv, "-I"sv, "--include-path="sv, "-isystem="sv}) {
    if (option.starts_with(start)) {
      return option.substr(start.size());
    }
  }
  return "";
}

/// Options for ptxas, each in one of its own, without what it only prints.
std::vector<std::string> of_ptxas(const std::string& option) {
  const bool is_one =
      bare(option).starts_with("Xptxas=") || bare(option).starts_with("ptxas-options=");
  std::vector<std::string> all;
  std::istringstream parts(is_one ? option.substr(option.find('=') + 1) : "");
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string_view name = bare(part);
    if (name != "v" && name != "verbose" && name != "O3" && !name.starts_with("warn-")) {
      all.push_back("--ptxas-options=" + part);
    }
  }
  return is_one ? all : std::vector{option};
}

}  // namespace

void read_compiler_options(KernelSpec& spec) {
  std::string ignored;
  std::vector<std::string> kept;
  for (std::string& option : in_one_part(spec.options)) {
    if (const auto gnu = option.find("std=gnu++"); gnu == 1 || gnu == 2) {
      option.replace(gnu + 4, 3, "c");
    }
    const std::string folder = include_folder(option);
    const std::vector<std::string> parts = of_ptxas(option);
    if (is_without_effect(option) || parts.empty()) {
      ignored += (ignored.empty() ? "" : ", ") + option;
    } else if (folder.empty() || folder.front() == '/' || folder.find("..") != folder.npos) {
      kept.insert(kept.end(), parts.begin(), parts.end());
    } else if (folder != "." && folder != "./") {
      spec.include_folders.push_back(folder);
    }
  }
  spec.options = std::move(kept);
  if (!ignored.empty()) {
    spec.notes.push_back("options without effect here: " + ignored);
  }
}

/// A parameter may also be an option, or none.
std::string with_option_value(const std::string& option, const std::string& parameter,
                              const std::string& value) {
  const auto equals = option.starts_with('-') ? option.find('=') : option.npos;
  if (option == parameter) {
    return is_without_effect(value) ? "" : value;
  }
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
    if (!one.empty() && !is_allowed_option(one)) {
      refuse_spec(spec.name,
                  "the compiler's option '" + one +
                      "' is not allowed in a spec; docs/kernels.md lists those that are");
    }
  }
}

}  // namespace swr::kernel_spec
