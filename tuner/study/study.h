// SPDX-License-Identifier: MIT
// A published study as a list of points to tune: which problem, with which variants, and where its
// result stands in which figure. The points are known in advance, so a study that was interrupted
// goes on where it stopped, and a report finds its results in any database.
#pragma once

#include "core/json.h"
#include "tuner/study/peer_times.h"
#include <swr/device.h>
#include <swr/generator.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// One variant of one problem, in one figure.
struct StudyPoint {
  Problem problem;
  Variant variant;
  std::string series;  ///< The line it belongs to.
  double x = 0.0;
  std::string x_text{};  ///< Shown in place of x, where x is a place in a list.
};

/// One figure or table.
struct Experiment {
  std::string id;
  std::string title;
  std::string x_title;
  std::string metric;  ///< The column of study_metrics() that it is about.
  std::vector<StudyPoint> points;
  /// The axis whose values are set against each other: points that differ in it alone are timed in
  /// shared rounds. Empty where every point is timed by itself.
  std::string swept{};
};

struct Study {
  std::string name;
  std::string title;
  std::vector<Experiment> experiments;
  Op op = attention_operation();
  /// The model predicts measured points too, so that they judge it.
  bool judges_model = false;
  /// Shared races of points that meet, four rounds each, as far as 30 s of the GPU allow: the five
  /// of source C's 20 samples, or as many as small differences need.
  int races = 5;
};

/// Names of the studies, as on the command line.
std::vector<std::string> study_names();

/// Throws: Error{invalid_argument} for an unknown name.
Study make_study(std::string_view name, const DeviceInfo& device);

/// A point with what is known of it.
struct StudyRow {
  const StudyPoint* point = nullptr;
  VariantResult result;
};

/// A number of a row.
struct StudyMetric {
  const char* key;    ///< Column of the CSV.
  const char* title;  ///< Column of the tables.
  std::optional<double> (*value)(const StudyRow&);
};
const std::vector<StudyMetric>& study_metrics();

/// Gives the result of a point, where there is one.
using ResultOf = std::function<std::optional<VariantResult>(const StudyPoint&)>;

/// What stands beside a study's results.
struct StudyContext {
  ResultOf predictions{};  ///< The model's, of points that were measured; may be empty.
  PeerTimes peers{};
};

/// True for a table of hundreds of tiles, which says less than the choices that follow from it.
bool is_grid_of_tiles(const Experiment& experiment);

/// Rows of an experiment whose points have a result that is ok.
std::vector<StudyRow> rows_of(const Experiment& experiment, const ResultOf& result_of);

/// One line per row of every experiment, predictions beside measurements in lines of their own.
void write_study_csv(std::ostream& out, const Study& study, const ResultOf& result_of,
                     const StudyContext& context = {});

/// One table per experiment, as Markdown, and what the study concludes.
void write_study_tables(std::ostream& out, const Study& study, const ResultOf& result_of,
                        const StudyContext& context = {});

/// The study for a page: its experiments of which half of the points have a result;
/// null when there is none.
Json study_json(const Study& study, const ResultOf& result_of, const StudyContext& context = {});

}  // namespace swr
