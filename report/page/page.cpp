// SPDX-License-Identifier: MIT
#include "core/embedded_file.h"
#include "report/page/page_data.h"

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

void put(std::string& page, std::string_view placeholder, std::string_view text) {
  const std::size_t at = page.find(placeholder);
  if (at == std::string::npos) {
    throw std::logic_error("a page lacks " + std::string(placeholder));
  }
  page.replace(at, placeholder.size(), text);
}

std::string licence() {
  std::string text(vega_licence().front().text);
  replace_all(text, "<", "&lt;");
  return text;
}

/// A page with everything that it needs, but for data.
std::string with_assets(std::string_view html, std::string_view script) {
  std::string page(asset(html));
  put(page, "@STYLE@", asset("page.css"));
  put(page, "@LICENCE@", licence());
  put(page, "@LIBRARY@", chart_library());
  put(page, "@CHARTS@", asset("charts.js"));
  put(page, "@COMMON@", asset("common.js"));
  put(page, "@SCRIPT@", asset(script));
  return page;
}

}  // namespace

std::string render_page(const Json& data) {
  std::string page = with_assets("page.html", "page.js");
  // The data come last: what they hold is never searched for placeholders.
  put(page, "@DATA@", inert_json(data));
  return page;
}

std::string render_live_page() { return with_assets("live.html", "live.js"); }

}  // namespace swr
