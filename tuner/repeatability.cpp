// SPDX-License-Identifier: MIT
#include "tuner/repeatability.h"

#include "tuner/number_text.h"
#include "tuner/report.h"

#include <algorithm>
#include <limits>
#include <ostream>

namespace swr {
namespace {

std::string percent(double share) { return significant_text(100.0 * share, 3) + " %"; }

/// How much slower the run found a variant than its own choice. Shared rounds say it best.
double regret(const TuneReport& run, const Variant& variant) {
  for (const Finalist& finalist : run.finalists) {
    if (finalist.result.variant == variant) {
      return std::max(0.0, finalist.ratio - 1.0);
    }
  }
  for (const VariantResult& result : run.results) {
    if (result.variant == variant && result.state == ResultState::ok) {
      return std::max(0.0, result.time_us() / run.best()->time_us() - 1.0);
    }
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

bool Agreement::is_identical() const {
  return std::all_of(choices.begin(), choices.end(),
                     [this](const Variant& choice) { return choice == choices.front(); });
}

Agreement compare_runs(std::span<const TuneReport> runs) {
  Agreement agreement;
  agreement.problem = runs.front().problem;
  for (const TuneReport& run : runs) {
    agreement.choices.push_back(run.best()->variant);
  }
  if (agreement.is_identical()) {
    return agreement;
  }
  for (const TuneReport& judge : runs) {
    for (const Variant& choice : agreement.choices) {
      agreement.worst_regret = std::max(agreement.worst_regret, regret(judge, choice));
    }
  }
  return agreement;
}

double identical_share(std::span<const Agreement> agreements) {
  const auto identical = std::count_if(agreements.begin(), agreements.end(),
                                       [](const Agreement& one) { return one.is_identical(); });
  return agreements.empty()
             ? 1.0
             : static_cast<double>(identical) / static_cast<double>(agreements.size());
}

double worst_regret(std::span<const Agreement> agreements) {
  double worst = 0.0;
  for (const Agreement& agreement : agreements) {
    worst = std::max(worst, agreement.worst_regret);
  }
  return worst;
}

void print_agreements(std::ostream& out, std::span<const Agreement> agreements) {
  for (const Agreement& agreement : agreements) {
    out << to_string(agreement.problem) << ": ";
    if (agreement.is_identical()) {
      out << "same choice " << agreement.choices.size() << " times\n";
      continue;
    }
    out << "regret up to " << percent(agreement.worst_regret) << "\n";
    for (const Variant& choice : agreement.choices) {
      out << "  chose " << describe(choice) << "\n";
    }
  }
  out << "identical choices: " << percent(identical_share(agreements)) << " of "
      << agreements.size() << " problems; worst regret " << percent(worst_regret(agreements))
      << "\n";
}

Json agreements_record(std::span<const Agreement> agreements) {
  Json record = {{"identical_share", identical_share(agreements)},
                 {"worst_regret", worst_regret(agreements)},
                 {"problems", Json::array()}};
  for (const Agreement& agreement : agreements) {
    Json one = {{"problem", agreement.problem},
                {"identical", agreement.is_identical()},
                {"worst_regret", agreement.worst_regret},
                {"choices", Json::array()}};
    for (const Variant& choice : agreement.choices) {
      one["choices"].push_back(to_key(choice));
    }
    record["problems"].push_back(std::move(one));
  }
  return record;
}

}  // namespace swr
