// SPDX-License-Identifier: MIT
// Which variants to evaluate next, given the results so far. A strategy knows neither a GPU nor a
// database, so that it searches a recorded space exactly as it searches on a device.
#pragma once

#include <swr/result.h>
#include <swr/variant.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace swr {

// Predicted times of a space, of which those that take long are made only where they are asked for.

/// Times in microseconds by place in the space; infinity for a variant that cannot run.
class PredictedTimes {
 public:
  /// Times that are known.
  explicit PredictedTimes(std::vector<double> times_us)
      : at_least_us_(std::move(times_us)), is_known_(at_least_us_.size(), true) {}
  virtual ~PredictedTimes() = default;
  PredictedTimes(const PredictedTimes&) = delete;
  PredictedTimes& operator=(const PredictedTimes&) = delete;

  /// The times, or where they are not known what they do not go below.
  const std::vector<double>& at_least_us() const { return at_least_us_; }
  bool is_known(std::size_t place) const { return is_known_[place]; }

  /// Raises what the times at these places do not go below. A few calls make them known.
  void refine(const std::vector<std::size_t>& places);
  void make_known(const std::vector<std::size_t>& places);
  /// All of them, known.
  const std::vector<double>& all_us();

 protected:
  PredictedTimes() = default;
  /// Requires: the times at these places are not known.
  virtual void refine_unknown(const std::vector<std::size_t>& /*places*/) {}

  std::vector<double> at_least_us_;
  std::vector<bool> is_known_;
};

/// Predicts the times of variants, which it copies.
using PredictTimes = std::function<std::shared_ptr<PredictedTimes>(const std::vector<Variant>&)>;

/// Append-only: the spellings are stored.
enum class StrategyKind {
  exhaustive,  ///< Every variant, in the order enumerated.
  random,      ///< Without replacement, in an order that follows from the seed.
  model,       ///< Best predicted first, corrected by what was measured (docs/search.md).
  learned,     ///< By what was measured alone: where nothing predicts times (docs/search.md).
};

std::string_view to_string(StrategyKind value);
/// Throws: Error{invalid_argument} listing the spellings.
StrategyKind parse_strategy(std::string_view text);

struct SearchOptions {
  StrategyKind strategy = StrategyKind::exhaustive;
  /// Variants to evaluate at most. Those that never reach the device, because they do not compile
  /// or a constraint drops them afterwards, are not counted.
  std::optional<std::size_t> max_variants;
  /// Wall-clock limit in seconds; the one who evaluates keeps it. A search without max_variants
  /// then goes on until it is stopped.
  std::optional<double> max_s;
  unsigned long long seed = 1;
  /// Go on to the limit, also when hardly anything is expected of what is left.
  bool spends_all = false;
};

/// One search, for one thread. Call propose() and tell() each of its variants, in any order,
/// before the next propose().
class Strategy {
 public:
  Strategy() = default;
  virtual ~Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// The variants to evaluate next, none twice; empty when the search has ended.
  virtual std::vector<Variant> propose() = 0;
  virtual void tell(const VariantResult& result) = 0;

  /// What propose() will probably return after the batch in hand, so that it can be prepared.
  virtual std::vector<Variant> likely_next() { return {}; }

  /// How many variants the search will evaluate as far as is known.
  virtual std::size_t planned() const = 0;

  /// By how much, as a share, the best may be expected to be beaten by all that was not tried,
  /// where the search ended because that is less than a tie.
  virtual std::optional<double> expected_gain() const { return std::nullopt; }
};

/// A search of the space. `predict` is called for StrategyKind::model alone.
/// Requires: no variant twice.
std::unique_ptr<Strategy> make_strategy(const SearchOptions& options, std::vector<Variant> space,
                                        const PredictTimes& predict);

/// True when the result cost a place in the budget.
bool reached_device(const VariantResult& result);

/// See docs/search.md. Without SearchOptions::max_variants a tenth of the space is planned.
std::unique_ptr<Strategy> make_learning_strategy(const SearchOptions& options,
                                                 std::vector<Variant> space);

/// See docs/search.md. Without SearchOptions::max_variants a tenth of the space is planned.
std::unique_ptr<Strategy> make_model_strategy(const SearchOptions& options,
                                              std::vector<Variant> space,
                                              const PredictTimes& predict);

}  // namespace swr
