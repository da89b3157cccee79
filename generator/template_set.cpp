// SPDX-License-Identifier: MIT
#include "generator/template_set.h"

#include "core/embedded_file.h"
#include "core/files.h"
#include "core/sha256.h"
#include <swr/error.h>

#include <algorithm>
#include <set>
#include <span>
#include <system_error>

namespace swr {

// Defined by files that the build generates (generator/CMakeLists.txt).
std::span<const EmbeddedFile> embedded_templates();
std::span<const EmbeddedFile> embedded_public_headers();

namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kKeyword = "include";

std::string_view skip_blanks(std::string_view text) {
  const auto at = text.find_first_not_of(kBlanks);
  return at == std::string_view::npos ? std::string_view{} : text.substr(at);
}

bool is_template(const std::filesystem::directory_entry& entry) {
  const auto extension = entry.path().extension();
  return entry.is_regular_file() &&
         (extension == ".h" || extension == ".cuh" || extension == ".cu");
}

[[noreturn]] void reject_overlay(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::unreadable, "template directory '" + path.string() + "' " + problem +
                                         "; name a readable directory laid out like templates/");
}

/// Relative paths of the template files below a directory.
std::vector<std::filesystem::path> list_overlay(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    reject_overlay(directory,
                   std::filesystem::exists(directory) ? "is no directory" : "does not exist");
  }
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (is_template(entry)) {
      found.push_back(entry.path().lexically_relative(directory));
    }
  }
  return found;
}

std::string digest_files(std::span<const TemplateFile> files) {
  std::vector<std::string_view> fields;
  for (const TemplateFile& file : files) {
    fields.push_back(file.path);
    fields.push_back(file.text);
  }
  return digest_of_fields(fields);
}

/// Appends what `file` includes to `files`, depth first, skipping files that are there already.
void append_includes(const TemplateSet& set, TemplateFile file, std::vector<TemplateFile>& files) {
  std::string_view rest = file.text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto include = parse_include(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (!include) {
      continue;
    }
    const auto target = set.find(include->path);
    if (!target && include->quoted) {
      throw Error(ErrorCode::not_found, "template '" + std::string(file.path) + "' includes \"" +
                                            std::string(include->path) +
                                            "\", which is no template; write includes from the "
                                            "template root, e.g. \"common/ptx.cuh\"");
    }
    if (target && std::ranges::find(files, target->path, &TemplateFile::path) == files.end()) {
      files.push_back(*target);
      append_includes(set, *target, files);
    }
  }
}

}  // namespace

std::optional<IncludeDirective> parse_include(std::string_view line) {
  line = skip_blanks(line);
  if (!line.starts_with('#')) {
    return std::nullopt;
  }
  line = skip_blanks(line.substr(1));
  if (!line.starts_with(kKeyword)) {
    return std::nullopt;
  }
  line = skip_blanks(line.substr(kKeyword.size()));
  if (line.empty() || (line.front() != '"' && line.front() != '<')) {
    return std::nullopt;
  }
  const bool quoted = line.front() == '"';
  const auto close = line.find(quoted ? '"' : '>', 1);
  if (close == std::string_view::npos) {
    return std::nullopt;
  }
  return IncludeDirective{.path = line.substr(1, close - 1), .quoted = quoted};
}

namespace {

std::string read_overlay_file(const std::filesystem::path& directory,
                              const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  try {
    return read_regular_file(directory / path, kMostBytes);
  } catch (const Error&) {
    reject_overlay(directory, "holds '" + path.string() + "', which cannot be read");
  }
}

}  // namespace

TemplateSet TemplateSet::built_in() {
  TemplateSet set;
  for (const auto files : {embedded_templates(), embedded_public_headers()}) {
    for (const EmbeddedFile& file : files) {
      set.files_.insert_or_assign(std::string(file.path), std::string(file.text));
    }
  }
  return set;
}

TemplateSet TemplateSet::overlaid(const std::filesystem::path& directory) {
  TemplateSet set = built_in();
  try {
    for (const auto& path : list_overlay(directory)) {
      set.files_.insert_or_assign(path.generic_string(), read_overlay_file(directory, path));
    }
  } catch (const std::filesystem::filesystem_error& error) {
    reject_overlay(directory, "cannot be read (" + error.code().message() + ")");
  }
  return set;
}

TemplateSet TemplateSet::with(std::string path, std::string text) const {
  TemplateSet copy = *this;
  copy.files_.insert_or_assign(std::move(path), std::move(text));
  return copy;
}

std::optional<TemplateFile> TemplateSet::find(std::string_view path) const {
  const auto at = files_.find(path);
  return at == files_.end() ? std::nullopt
                            : std::optional(TemplateFile{.path = at->first, .text = at->second});
}

std::string TemplateSet::text(std::string_view path) const {
  const auto file = find(path);
  if (!file) {
    reject_missing(path);
  }
  return std::string(file->text);
}

void TemplateSet::reject_missing(std::string_view path) const {
  std::string known;
  for (const std::string& name : paths()) {
    known += (known.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorCode::not_found,
              "there is no template '" + std::string(path) + "'; there are " + known);
}

std::vector<std::string> TemplateSet::paths() const {
  std::vector<std::string> names;
  for (const auto& [name, text] : files_) {
    names.push_back(name);
  }
  return names;
}

std::vector<TemplateFile> TemplateSet::closure(std::string_view entry) const {
  const auto file = find(entry);
  if (!file) {
    reject_missing(entry);
  }
  std::vector<TemplateFile> files{*file};
  append_includes(*this, files.front(), files);
  return files;
}

std::string TemplateSet::closure_digest(std::string_view entry) const {
  return digest_files(closure(entry));
}

std::string TemplateSet::digest() const {
  std::vector<TemplateFile> files;
  for (const auto& [name, text] : files_) {
    files.push_back({.path = name, .text = text});
  }
  return digest_files(files);
}

std::string digest_of_fields(std::span<const std::string_view> fields) {
  std::string joined;
  for (const std::string_view field : fields) {
    joined += std::to_string(field.size()) + ":";
    joined += field;
  }
  return sha256_hex(joined);
}

namespace {

bool is_pragma_once(std::string_view line) {
  const auto end = line.find_last_not_of(" \t\r");
  return end != std::string_view::npos && line.substr(0, end + 1) == "#pragma once";
}

class Flattener {
 public:
  explicit Flattener(const TemplateSet& templates) : templates_(templates) {}

  void append(TemplateFile file) {
    inlined_.insert(file.path);
    while (!file.text.empty()) {
      const auto end = file.text.find('\n');
      const std::string_view line = file.text.substr(0, end);
      append_line(line);
      file.text = end == std::string_view::npos ? std::string_view{} : file.text.substr(end + 1);
    }
  }

  const std::string& result() const { return result_; }

 private:
  void append_line(std::string_view line) {
    if (is_pragma_once(line)) {
      return;
    }
    const auto include = parse_include(line);
    const auto target = include ? templates_.find(include->path) : std::nullopt;
    if (!target) {
      result_ += std::string(line) + "\n";
    } else if (!inlined_.contains(target->path)) {
      result_ += "// ---- " + std::string(target->path) + "\n";
      append(*target);
      result_ += "// ---- end of " + std::string(target->path) + "\n";
    }
  }

  const TemplateSet& templates_;
  std::set<std::string_view> inlined_;
  std::string result_;
};

}  // namespace

std::string flatten_template(const TemplateSet& templates, std::string_view entry) {
  const std::vector<TemplateFile> files = templates.closure(entry);  // Reports missing includes.
  Flattener flattener(templates);
  flattener.append(files.front());
  return flattener.result();
}

}  // namespace swr
