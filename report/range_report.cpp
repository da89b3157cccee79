// SPDX-License-Identifier: MIT
#include "report/range_report.h"

#include "core/number_text.h"
#include "core/text_table.h"
#include "report/report.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>

namespace swr {
namespace {

std::string percent(double share) { return significant_text(100.0 * share, 2) + " %"; }

std::string loss_text(const std::optional<double>& loss) {
  return loss ? percent(*loss) : "not measured";
}

std::string held_out_text(const RangePart& part) {
  return part.held_out ? percent(*part.held_out_loss) + " at " + std::to_string(*part.held_out)
                       : "none";
}

}  // namespace

void print_range(std::ostream& out, std::span<const RangePart> parts, std::size_t tuned,
                 std::size_t width) {
  if (parts.empty()) {
    return;
  }
  TextTable table({{.title = "from"},
                   {.title = "to"},
                   {.title = "loss at its edges"},
                   {.title = "loss left out"},
                   {.title = "variant", .align = TextTable::Align::left, .wraps = true}});
  for (const RangePart& part : parts) {
    table.add_row({std::to_string(part.from), std::to_string(part.to), loss_text(part.edge_loss),
                   held_out_text(part), describe(part.variant)});
  }
  out << "range: " << tuned << " lengths tuned, the nearest of them answers\n";
  table.print(out, {.width = width});
}

Json range_record(std::span<const RangePart> parts, std::size_t tuned) {
  Json record = {{"tuned_lengths", tuned}, {"parts", Json::array()}};
  for (const RangePart& part : parts) {
    Json one = {{"from", part.from}, {"to", part.to}, {"variant", to_key(part.variant)}};
    one["edge_loss"] = part.edge_loss ? Json(*part.edge_loss) : Json();
    one["held_out"] = part.held_out ? Json(*part.held_out) : Json();
    one["held_out_loss"] = part.held_out_loss ? Json(*part.held_out_loss) : Json();
    record["parts"].push_back(std::move(one));
  }
  return record;
}

}  // namespace swr
