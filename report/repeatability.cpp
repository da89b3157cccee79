// SPDX-License-Identifier: MIT
#include "report/repeatability.h"

#include "core/number_text.h"
#include "report/report.h"

#include <algorithm>
#include <limits>
#include <ostream>

namespace swr {
namespace {

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

double regret_by_own_times(std::span<const TuneReport> runs, const std::vector<Variant>& choices) {
  double worst = 0.0;
  for (const TuneReport& judge : runs) {
    for (const Variant& choice : choices) {
      worst = std::max(worst, regret(judge, choice));
    }
  }
  return worst;
}

/// Share of the problems that `holds` for; 1 without problems.
template <typename Holds>
double share(std::span<const Agreement> agreements, Holds&& holds) {
  const auto count = std::ranges::count_if(agreements, holds);
  return agreements.empty() ? 1.0
                            : static_cast<double>(count) / static_cast<double>(agreements.size());
}

}  // namespace

bool Agreement::is_identical() const {
  return std::all_of(choices.begin(), choices.end(),
                     [this](const Variant& choice) { return choice == choices.front(); });
}

Agreement compare_runs(std::span<const TuneReport> runs, const MeetAgain& meet_again) {
  Agreement agreement;
  agreement.problem = runs.front().problem;
  for (const TuneReport& run : runs) {
    agreement.choices.push_back(run.best()->variant);
  }
  if (agreement.is_identical()) {
    return agreement;
  }
  std::vector<Variant> distinct = agreement.choices;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const std::vector<double> slowdowns = meet_again(distinct);
  agreement.met = !slowdowns.empty();
  agreement.worst_regret =
      agreement.met ? std::ranges::max(slowdowns) : regret_by_own_times(runs, agreement.choices);
  return agreement;
}

double identical_share(std::span<const Agreement> agreements) {
  return share(agreements, &Agreement::is_identical);
}

double tied_share(std::span<const Agreement> agreements, double tie_threshold) {
  return share(agreements, [tie_threshold](const Agreement& one) {
    return one.is_identical() || one.worst_regret < tie_threshold;
  });
}

double worst_regret(std::span<const Agreement> agreements) {
  double worst = 0.0;
  for (const Agreement& agreement : agreements) {
    worst = std::max(worst, agreement.worst_regret);
  }
  return worst;
}

void print_agreements(std::ostream& out, std::span<const Agreement> agreements,
                      double tie_threshold) {
  for (const Agreement& agreement : agreements) {
    out << to_string(agreement.problem) << ": ";
    if (agreement.is_identical()) {
      out << "same choice " << agreement.choices.size() << " times\n";
      continue;
    }
    out << "regret up to " << percent_text(agreement.worst_regret, 3)
        << (agreement.met ? " in shared rounds\n" : " by the runs' own times\n");
    for (const Variant& choice : agreement.choices) {
      out << "  chose " << describe(choice) << "\n";
    }
  }
  out << "identical choices: " << percent_text(identical_share(agreements), 3) << " of "
      << agreements.size() << " problems ("
      << percent_text(tied_share(agreements, tie_threshold), 3)
      << " identical or apart by less than " << percent_text(tie_threshold, 3) << "); worst regret "
      << percent_text(worst_regret(agreements), 3) << "\n";
}

Json agreements_record(std::span<const Agreement> agreements, double tie_threshold) {
  Json record = {{"identical_share", identical_share(agreements)},
                 {"tied_share", tied_share(agreements, tie_threshold)},
                 {"tie_threshold", tie_threshold},
                 {"worst_regret", worst_regret(agreements)},
                 {"problems", Json::array()}};
  for (const Agreement& agreement : agreements) {
    Json one = {{"problem", agreement.problem},
                {"identical", agreement.is_identical()},
                {"worst_regret", agreement.worst_regret},
                {"met_in_shared_rounds", agreement.met},
                {"choices", Json::array()}};
    for (const Variant& choice : agreement.choices) {
      one["choices"].push_back(to_key(choice));
    }
    record["problems"].push_back(std::move(one));
  }
  return record;
}

}  // namespace swr
