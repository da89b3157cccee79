// SPDX-License-Identifier: MIT
#include "core/metrics.h"
#include "db/problem_key.h"
#include "report/explain/analysis.h"
#include "report/explain/memory_access.h"
#include "report/page/page_data.h"
#include "report/report.h"

#include <utility>
#include <variant>
#include <vector>

namespace swr::page {
namespace {

/// A column that metrics() does not declare; rows are lists in this order, which keeps the page
/// small.
struct Column {
  const char* name;
  Json (*value)(const ProblemStory&, const VariantStory&);
};

template <typename Read>
Json if_ok(const VariantStory& story, Read&& read) {
  return story.ok() ? Json(read(story.result())) : Json();
}

template <typename Read>
Json of_accesses(const VariantStory& story, Read&& read) {
  const bool known = story.ok() && accesses_unknown_because(story.result()).empty();
  return known ? or_null(read(*story.result().measurement()->accesses)) : Json();
}

constexpr Column kColumns[] = {
    {"result_id",
     [](const ProblemStory&, const VariantStory& story) { return Json(story.newest->id); }},
    {"label", [](const ProblemStory&,
                 const VariantStory& story) { return Json(describe(story.result().variant)); }},
    {"key", [](const ProblemStory&,
               const VariantStory& story) { return Json(to_key(story.result().variant)); }},
    {"family",
     [](const ProblemStory&, const VariantStory& story) {
       return Json(std::string(to_string(family_of(story.result().variant))));
     }},
    {"tile", [](const ProblemStory&,
                const VariantStory& story) { return Json(tile_text(story.result().variant)); }},
    {"stages",
     [](const ProblemStory&, const VariantStory& story) {
       return axis_json(story.result().variant, "stages");
     }},
    {"order", [](const ProblemStory&,
                 const VariantStory& story) { return order_json(story.result().variant); }},
    {"persistence",
     [](const ProblemStory&, const VariantStory& story) {
       return axis_json(story.result().variant, "persistence");
     }},
    {"state",
     [](const ProblemStory&, const VariantStory& story) {
       return Json(std::string(to_string(story.result().state)));
     }},
    {"detail",
     [](const ProblemStory&, const VariantStory& story) { return Json(story.result().detail); }},
    {"finals_us",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr && is_final(story.result()) ? Json(story.result().time_us())
                                                                    : Json();
     }},
    {"ratio",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->ratio) : Json();
     }},
    {"ratio_low",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->ratio_low) : Json();
     }},
    {"ratio_high",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->ratio_high) : Json();
     }},
    {"tied",
     [](const ProblemStory&, const VariantStory& story) {
       return story.finalist != nullptr ? Json(story.finalist->tied) : Json();
     }},
    {"l2_miss_sectors",
     [](const ProblemStory&, const VariantStory& story) {
       return story.ok() ? or_null(l2_miss_sectors(story.result())) : Json();
     }},
    {"dram_bytes",
     [](const ProblemStory&, const VariantStory& story) {
       return story.ok() ? or_null(dram_bytes(story.result())) : Json();
     }},
    {"conflicts_per_wavefront",
     [](const ProblemStory&, const VariantStory& story) {
       return of_accesses(story, conflicts_per_wavefront);
     }},
    {"bytes_per_sector",
     [](const ProblemStory&, const VariantStory& story) {
       return of_accesses(story, bytes_per_sector);
     }},
};

/// The metrics that tables show.
std::vector<const Metric*> shown_metrics() {
  std::vector<const Metric*> shown;
  for (const Metric& metric : metrics()) {
    if (!metric.title.empty()) {
      shown.push_back(&metric);
    }
  }
  return shown;
}

/// The newest result with the time that ranks it: all variants were timed alike in the screening.
VariantResult shown_result(const VariantStory& story) {
  VariantResult shown = story.result();
  if (auto* measurement = std::get_if<Measurement>(&shown.outcome); measurement && story.ok()) {
    measurement->median_us = story.time_us();
  }
  return shown;
}

Json metric_json(const Metric& metric, const Problem& problem, const VariantResult& result) {
  const auto value = metric.value(problem, result);
  return value ? std::visit([](auto number) { return Json(number); }, *value) : Json();
}

}  // namespace

Json columns_json() {
  Json names = Json::array();
  for (const Column& column : kColumns) {
    names.push_back(column.name);
  }
  for (const Metric* metric : shown_metrics()) {
    names.push_back(metric->key);
  }
  return names;
}

Json metrics_json() {
  Json declared = Json::array();
  for (const Metric* metric : shown_metrics()) {
    declared.push_back({{"key", metric->key},
                        {"title", metric->title},
                        {"meaning", metric->meaning},
                        {"of_energy", metric->is_of_energy}});
  }
  return declared;
}

Json rows_json(const ProblemStory& field) {
  const std::vector<const Metric*> metrics_of_page = shown_metrics();
  Json rows = Json::array();
  for (const VariantStory& story : field.stories) {
    Json row = Json::array();
    for (const Column& column : kColumns) {
      row.push_back(column.value(field, story));
    }
    const VariantResult shown = shown_result(story);
    for (const Metric* metric : metrics_of_page) {
      row.push_back(metric_json(*metric, field.problem, shown));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace swr::page
