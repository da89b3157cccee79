// SPDX-License-Identifier: MIT
// What a page says of a problem in sentences, all of which follow from its numbers.
#pragma once

#include "report/page/problem_story.h"

namespace swr::page {

/// Which variant is the best, by how much, whether that is significant, and what limits it.
/// Requires: there is a best.
Json answers_json(const ProblemStory& field);

/// "By energy: ...", a sentence for each objective beside time that has decided.
Json winners_json(const ProblemStory& field);

}  // namespace swr::page
