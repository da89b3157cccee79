// SPDX-License-Identifier: MIT
// What the page of swr-tune report shows, as data and as a page.
#pragma once

#include "core/json.h"
#include "db/history.h"
#include "report/page/problem_story.h"

#include <set>
#include <string>

namespace swr {

/// Where the page comes from, for its last section.
struct PageOrigin {
  std::string database;
  std::string command;
  std::string written_at;  ///< UTC, ISO 8601.
};

/// `winners` holds the ids of the results that answer a query (Store::winners).
Json page_data(const History& history, const std::set<long long>& winners,
               const PageOrigin& origin);

/// Of two documents of page_data(): {"database", "pairs": [{"title", "provenance", "l2_state",
/// "label", "time_us", "before_label", "before_us"}], "only_here", "only_there"}. A pair is one
/// problem on equal devices, of one provenance, state of L2 and set of templates; the one that
/// changed most for the worse comes first.
Json against(const Json& here, const Json& there);

}  // namespace swr

namespace swr::page {

/// Which variant is the best, by how much, whether that is significant, and what limits it.
/// Requires: there is a best.
Json answers_json(const ProblemStory& field);

/// "By energy: ...", a sentence for each objective beside time that has decided.
Json winners_json(const ProblemStory& field);

}  // namespace swr::page

namespace swr::page {

/// The fastest time found by the number of variants tried.
Json progress_json(const ProblemStory& field);

/// The best of each tile, fastest first.
Json tiles_json(const ProblemStory& field);

/// Ranks, from 1, of those that nobody beats in time and energy; null where no energy is known.
Json front_json(const ProblemStory& field);

// Of the best variant. Require: there is one.

/// Modelled miss ratios by size of L2 in both orders; none where the model does not know the
/// operation.
Json curves_json(const ProblemStory& field);
Json unit_use_json(const ProblemStory& field);
Json roofline_json(const ProblemStory& field);

}  // namespace swr::page

namespace swr::page {

/// Names of the columns, in the order of every row's values.
Json columns_json();

/// What the columns that are metrics mean.
Json metrics_json();

/// A list of values for each variant, the best first: lists keep the page small.
Json rows_json(const ProblemStory& field);

}  // namespace swr::page

namespace swr {

/// The page over what page_data() gives. Text of the document cannot leave its place: the page
/// builds every element from it as text.
std::string render_page(const Json& data);

/// The page that shows a run while it goes on: it asks for `state`, beside itself, once a second.
std::string render_live_page();

}  // namespace swr
