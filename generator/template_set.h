// SPDX-License-Identifier: MIT
// The files kernels are built from: those compiled into the library, shadowed by an overlay
// directory, plus headers generated for one compilation.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// Views into the TemplateSet it was taken from.
struct TemplateFile {
  std::string_view path;  ///< Relative to the template root, as it is included.
  std::string_view text;
};

/// An `#include` line.
struct IncludeDirective {
  std::string_view path;
  bool quoted = false;  ///< "path" rather than <path>.
};
std::optional<IncludeDirective> parse_include(std::string_view line);

/// Immutable once built, so any number of threads may read it.
class TemplateSet {
 public:
  static TemplateSet built_in();

  /// The built-in files; a .h, .cuh or .cu file below `directory` shadows the one of the same
  /// relative path or is added. The directory is read once, here.
  /// Throws: Error{unreadable} when it is no directory or a file in it cannot be read.
  static TemplateSet overlaid(const std::filesystem::path& directory);

  /// A copy with one more (or one replaced) file.
  TemplateSet with(std::string path, std::string text) const;

  /// Throws: Error{not_found} listing the templates there are.
  std::string text(std::string_view path) const;

  /// Sorted.
  std::vector<std::string> paths() const;

  /// `entry` and every template it includes, directly or not, each once and in the order of first
  /// inclusion. Includes are written from the template root; <...> names that are no template are
  /// left to the compiler.
  /// Throws: Error{not_found} for a quoted include that is no template.
  std::vector<TemplateFile> closure(std::string_view entry) const;

  /// SHA-256 over the paths and texts of the closure of `entry`.
  std::string closure_digest(std::string_view entry) const;

  /// SHA-256 over the paths and texts of all files.
  std::string digest() const;

  /// The file an include refers to, if it is a template.
  std::optional<TemplateFile> find(std::string_view path) const;

 private:
  [[noreturn]] void reject_missing(std::string_view path) const;

  std::map<std::string, std::string, std::less<>> files_;
};

/// SHA-256 over the fields, each preceded by its length, so that text moved from one field to the
/// next changes the digest.
std::string digest_of_fields(std::span<const std::string_view> fields);

/// A kernel with all its includes in one file: `entry` with every template it includes in place of
/// its first #include line; later ones are dropped, as #pragma once would. The result needs no
/// include path.
std::string flatten_template(const TemplateSet& templates, std::string_view entry);

}  // namespace swr
