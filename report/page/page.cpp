// SPDX-License-Identifier: MIT
#include "report/page/page.h"

#include "core/embedded_file.h"

#include <stdexcept>
#include <string_view>

namespace swr {

std::span<const EmbeddedFile> page_assets();
std::span<const EmbeddedFile> vega_modules();
std::span<const EmbeddedFile> vega_licence();

namespace {

std::string_view asset(std::string_view path) {
  for (const EmbeddedFile& file : page_assets()) {
    if (file.path == path) {
      return file.text;
    }
  }
  throw std::logic_error("no embedded file " + std::string(path));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// JSON in which no byte can end the element that holds it.
std::string inert_json(const Json& data) {
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  replace_all(text, "<", "\\u003c");
  return text;
}

/// Vega's modules as functions of a registry, which the script calls in the order of their needs.
std::string chart_library() {
  std::string text = "\"use strict\";\nconst swrModules = {};\n";
  for (const EmbeddedFile& file : vega_modules()) {
    const std::string_view name = file.path.substr(0, file.path.find(".min.js"));
    text += "swrModules[\"" + std::string(name) + "\"] = function (module, exports, require) {\n" +
            std::string(file.text) + "\n};\n";
  }
  replace_all(text, "</script", "<\\/script");
  return text;
}

std::string licence() {
  std::string text(vega_licence().front().text);
  replace_all(text, "<", "&lt;");
  return text;
}

}  // namespace

std::string render_page(const Json& data) {
  std::string page(asset("page.html"));
  const auto put = [&page](std::string_view placeholder, std::string_view text) {
    const std::size_t at = page.find(placeholder);
    if (at == std::string::npos) {
      throw std::logic_error("page.html lacks " + std::string(placeholder));
    }
    page.replace(at, placeholder.size(), text);
  };
  // The data come last: what they hold is never searched for placeholders.
  put("@STYLE@", asset("page.css"));
  put("@LICENCE@", licence());
  put("@LIBRARY@", chart_library());
  put("@CHARTS@", asset("charts.js"));
  put("@SCRIPT@", asset("page.js"));
  put("@DATA@", inert_json(data));
  return page;
}

}  // namespace swr
