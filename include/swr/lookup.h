// SPDX-License-Identifier: MIT
// Fast answers for programs that serve: the database as a table in memory. Asking needs neither
// NVRTC nor a CUDA driver and takes well under a microsecond (experiments/runtime).
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/store.h>
#include <swr/variant.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace swr {

/// Which variant to run and what to expect of it.
struct Answer {
  Variant variant;
  MatchLevel level = MatchLevel::default_only;
  /// True when what answers was stored for the device asked for.
  bool on_same_device = false;
  /// Between the problem asked and the one that answers; 0 when they are equal.
  double distance = 0.0;
  /// Expected time of one launch: the stored time, times the ratio of the floating-point operations
  /// when the shapes differ; by the closed form where that chose. Empty for the default.
  std::optional<double> time_us;
  /// Expected L2 misses in sectors; empty when unknown and where shape or device differ from the
  /// stored ones: misses do not scale.
  std::optional<long long> l2_misses;
  /// What answers: a problem of the same or a near kind, and Store's id of the result; 0 for what
  /// no result of the file says.
  Problem stored_problem;
  long long result_id = 0;
  /// True when what answers was measured where swr was made and came with it.
  bool shipped = false;
};

struct LookupOptions {
  /// Which of the stored results answer.
  Setting setting;
  /// Whether measured results that come with swr answer where the file has no nearer ones. They are
  /// of a warm L2 and the built-in templates, and answer in that setting alone.
  bool shipped = true;
  /// Whose results the file holds.
  Store::Content content = Store::Content::tuned;
  /// By what the answers are the best. Beside time only what tuning runs of this very objective
  /// decided answers, and what comes with swr does not.
  std::string objective = std::string(kTimeObjective);
  /// When set, a thread looks this often whether the file has changed.
  std::optional<std::chrono::milliseconds> watch_every;
};

/// The best stored variants of a database file. Any number of threads may ask at once, also while
/// another one refreshes: each question is answered from one state of the file.
class Lookup {
 public:
  /// Reads the file.
  /// Throws: as Store, and Error{unreadable} naming a row whose values cannot be believed.
  explicit Lookup(const std::filesystem::path& path, const LookupOptions& options = {});
  /// Without a file: what comes with swr answers, and where that has nothing near the closed form.
  explicit Lookup(const LookupOptions& options);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  /// By the rules of docs/db_schema.md. Always answers: with what is modelled where nothing stored
  /// fits. Throws: Error{invalid_argument} as validate(), and as require_described().
  Answer best(const Problem& problem, const DeviceInfo& device) const;

  /// What the results of the file alone say, of problems of the very kind: the kernels that answer
  /// were compiled for it. Empty where none fits. Throws: as best().
  std::optional<Answer> stored(const Problem& problem, const DeviceInfo& device) const;

  /// Reads the file again when it has changed since; true when it had. Questions meanwhile are
  /// answered from the former state, which also stays when reading fails.
  /// Throws: as the constructor.
  bool refresh();

  /// Differs after the answers may have changed; costs one atomic load.
  unsigned long long version() const;

  /// Why the watching thread could not read the file last time; empty when it could.
  std::string watch_error() const;

  /// (Problem, device, provenance) combinations that have an answer.
  std::size_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
