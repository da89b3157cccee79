// SPDX-License-Identifier: MIT
#include "generator/emit.h"

#include <set>

namespace swr {
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
