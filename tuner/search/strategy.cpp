// SPDX-License-Identifier: MIT
#include "tuner/search/strategy.h"

#include "core/enum_text.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kStrategies{"exhaustive"sv, "random"sv, "model"sv, "learned"sv};

/// Goes through a list.
class ListStrategy final : public Strategy {
 public:
  ListStrategy(std::vector<Variant> list, std::size_t max_variants)
      : list_(std::move(list)), max_variants_(max_variants) {}

  std::vector<Variant> propose() override {
    const std::size_t wanted = std::min(max_variants_ - evaluated_, list_.size() - proposed_);
    const auto begin = list_.begin() + static_cast<std::ptrdiff_t>(proposed_);
    proposed_ += wanted;
    return {begin, begin + static_cast<std::ptrdiff_t>(wanted)};
  }

  void tell(const VariantResult& result) override { evaluated_ += reached_device(result) ? 1 : 0; }

  std::size_t planned() const override { return std::min(list_.size(), max_variants_); }

 private:
  std::vector<Variant> list_;
  std::size_t max_variants_;
  std::size_t proposed_ = 0;
  std::size_t evaluated_ = 0;
};

/// The standard library's shuffle and distributions differ between implementations.
void shuffle(std::vector<Variant>& variants, unsigned long long seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = variants.size(); i > 1; --i) {
    std::swap(variants[i - 1], variants[random() % i]);
  }
}

}  // namespace

std::string_view to_string(StrategyKind value) { return enum_text(kStrategies, value); }

StrategyKind parse_strategy(std::string_view text) {
  return parse_enum<StrategyKind>(kStrategies, text, "strategy");
}

bool reached_device(const VariantResult& result) {
  return result.state != ResultState::compile && result.state != ResultState::constraint;
}

std::unique_ptr<Strategy> make_strategy(const SearchOptions& options, std::vector<Variant> space,
                                        const PredictTimes& predict) {
  if (options.strategy == StrategyKind::model) {
    return make_model_strategy(options, std::move(space), predict);
  }
  if (options.strategy == StrategyKind::learned) {
    return make_learning_strategy(options, std::move(space));
  }
  if (options.strategy == StrategyKind::random) {
    shuffle(space, options.seed);
  }
  const std::size_t all = space.size();
  return std::make_unique<ListStrategy>(std::move(space), options.max_variants.value_or(all));
}

}  // namespace swr
