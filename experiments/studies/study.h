// SPDX-License-Identifier: MIT
// A published study as a list of points to tune: which problem, with which variants, and where its
// result stands in which figure. The points are known in advance, so a study that was interrupted
// goes on where it stopped, and a report finds its results in any database.
#pragma once

#include <swr/device.h>
#include <swr/generator.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
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

/// A point with what is known of it.
struct StudyRow {
  const StudyPoint* point = nullptr;
  VariantResult result;
};

/// Gives the result of a point, where there is one.
using ResultOf = std::function<std::optional<VariantResult>(const StudyPoint&)>;

/// What stands beside a study's results.
struct StudyContext {
  ResultOf predictions{};  ///< The model's, of points that were measured; may be empty.
};

/// One figure or table.
struct Experiment {
  std::string id;
  std::string title;
  std::string x_title;
  std::vector<StudyPoint> points;
  /// The axis whose values are set against each other: points that differ in it alone are timed in
  /// shared rounds. Empty where every point is timed by itself.
  std::string swept{};
  /// Of hundreds of tiles, whose table says less than the choices that follow from it
  /// (Study::write_choices).
  bool is_grid_of_tiles = false;
  /// Writes what it says as Markdown, in place of the table of its rows.
  std::function<void(std::ostream&, const Experiment&, const ResultOf&, const StudyContext&)>
      write_section{};
};

struct Study {
  std::string name;
  std::string title;
  std::vector<Experiment> experiments;
  /// The model predicts measured points too, so that they judge it.
  bool judges_model = false;
  /// Shared races of points that meet, four rounds each, as far as 30 s of the GPU allow: the five
  /// of source C's 20 samples, or as many as small differences need.
  int races = 5;
  /// What follows from a grid of tiles, as Markdown.
  std::function<void(std::ostream&, const Study&, const ResultOf&)> write_choices{};

  /// Of every point.
  const Operation& operation() const {
    return experiments.front().points.front().problem.operation();
  }
};

/// A study by its name on the command line, for a device.
struct StudyEntry {
  std::string_view name;
  std::string_view summary;  ///< For --help.
  Study (*make)(const DeviceInfo& device);
};

/// Every study; operations/studies.cpp lists them.
std::span<const StudyEntry> studies();

/// Throws: Error{invalid_argument} for an unknown name.
Study make_study(std::string_view name, const DeviceInfo& device);

/// Share of the sectors that the SMs asked for which L2 served: all but those read from memory,
/// counted or predicted. Not hits over lookups: some GPUs merge equal requests of neighbouring SMs
/// before they look them up, and send what misses in one partition to the other; by how much
/// differs between the passes that count. Empty without counters.
std::optional<double> l2_hit_rate(const VariantResult& result);

/// A number of a row.
struct StudyMetric {
  const char* key;    ///< Column of the CSV.
  const char* title;  ///< Column of the tables.
  std::optional<double> (*value)(const StudyRow&);
};
const std::vector<StudyMetric>& study_metrics();

/// Rows of an experiment whose points have a result that is ok.
std::vector<StudyRow> rows_of(const Experiment& experiment, const ResultOf& result_of);

/// The rows as a table in Markdown.
void write_row_table(std::ostream& out, const Experiment& experiment,
                     const std::vector<StudyRow>& rows);

/// One line per row of every experiment, predictions beside measurements in lines of their own.
void write_study_csv(std::ostream& out, const Study& study, const ResultOf& result_of,
                     const StudyContext& context = {});

/// One table per experiment, as Markdown, and what the study concludes.
void write_study_tables(std::ostream& out, const Study& study, const ResultOf& result_of,
                        const StudyContext& context = {});

}  // namespace swr
