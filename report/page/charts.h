// SPDX-License-Identifier: MIT
// What the charts of a page draw of one problem.
#pragma once

#include "report/page/problem_story.h"

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
