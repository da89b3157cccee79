// SPDX-License-Identifier: MIT
// The one JSON document that a report's page shows: per problem, device, provenance and L2 state
// the variants, the decision, the model's miss curves and sentences that follow from the numbers.
// Measured and predicted results never share a field.
#pragma once

#include "core/json.h"
#include "db/history.h"

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

}  // namespace swr
