// SPDX-License-Identifier: MIT
// The table of a page: a row for each variant of a problem.
#pragma once

#include "report/page/problem_story.h"

namespace swr::page {

/// Names of the columns, in the order of every row's values.
Json columns_json();

/// What the columns that are metrics mean.
Json metrics_json();

/// A list of values for each variant, the best first: lists keep the page small.
Json rows_json(const ProblemStory& field);

}  // namespace swr::page
