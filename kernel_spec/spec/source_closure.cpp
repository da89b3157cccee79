// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/source_closure.h"

#include "core/header_names.h"
#include "kernel_spec/spec/spec_object.h"

#include <string_view>

namespace swr::kernel_spec {

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

}  // namespace swr::kernel_spec
