// SPDX-License-Identifier: MIT
#include "report/page/page_data.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace swr {
namespace {

struct Best {
  const Json* field = nullptr;
  std::string label;
  double time_us = 0.0;
};

/// What makes two fields comparable, as text.
std::string identity(const Json& document, const Json& field) {
  const Json& device = document["devices"][field["device"].get<std::size_t>()]["device"];
  return Json::array(
             {field["problem"], device, field["provenance"], field["l2_state"], field["overlay"]})
      .dump();
}

std::size_t column(const Json& document, const char* name) {
  const Json& columns = document["columns"];
  const auto found = std::ranges::find_if(columns, [name](const Json& one) { return one == name; });
  return static_cast<std::size_t>(found - columns.begin());
}

/// By identity: the first row of each field that has a best, with its time in finals where it met
/// others there.
std::map<std::string, Best> bests(const Json& document) {
  const std::size_t label = column(document, "label");
  const std::size_t time_us = column(document, "time_us");
  const std::size_t finals_us = column(document, "finals_us");
  std::map<std::string, Best> all;
  for (const Json& field : document["fields"]) {
    if (!field.contains("answers")) {
      continue;
    }
    const Json& row = field["rows"][0];
    const Json& time = row[finals_us].is_null() ? row[time_us] : row[finals_us];
    all[identity(document, field)] = {&field, row[label].get<std::string>(), time.get<double>()};
  }
  return all;
}

double change(const Json& pair) {
  return pair["time_us"].get<double>() / pair["before_us"].get<double>();
}

}  // namespace

Json against(const Json& here, const Json& there) {
  const auto before = bests(there);
  const auto now = bests(here);
  std::vector<Json> pairs;
  for (const auto& [identity, best] : now) {
    const auto other = before.find(identity);
    if (other == before.end()) {
      continue;
    }
    pairs.push_back({{"title", (*best.field)["title"]},
                     {"provenance", (*best.field)["provenance"]},
                     {"l2_state", (*best.field)["l2_state"]},
                     {"label", best.label},
                     {"time_us", best.time_us},
                     {"before_label", other->second.label},
                     {"before_us", other->second.time_us}});
  }
  std::ranges::stable_sort(pairs, std::greater{}, change);
  return {{"database", there["database"]},
          {"pairs", pairs},
          {"only_here", now.size() - pairs.size()},
          {"only_there", before.size() - pairs.size()}};
}

}  // namespace swr
