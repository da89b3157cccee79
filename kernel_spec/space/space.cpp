// SPDX-License-Identifier: MIT
#include "kernel_spec/space/space.h"

#include "core/reject.h"
#include <swr/error.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace swr::kernel_spec {
namespace {

constexpr long long kMostPoints = 1LL << 62;

/// Of counts, the largest of which stands for more.
long long bounded_product(long long a, long long b) {
  long long product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<long long>::max() : product;
}
long long bounded_sum(long long a, long long b) {
  long long sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<long long>::max() : sum;
}
constexpr std::size_t kMostValues = std::numeric_limits<std::uint16_t>::max();

void require_axis(const SpaceAxis& axis) {
  if (axis.values.empty() || axis.values.size() > kMostValues) {
    reject("parameter " + axis.name + " has " + std::to_string(axis.values.size()) +
           " values; give it 1 to " + std::to_string(kMostValues));
  }
}

std::vector<std::string> all_names(const std::vector<SpaceAxis>& axes,
                                   std::span<const NamedValue> constants) {
  std::vector<std::string> names;
  for (const SpaceAxis& axis : axes) {
    names.push_back(axis.name);
  }
  for (const NamedValue& constant : constants) {
    names.push_back(constant.name);
  }
  return names;
}

}  // namespace

/// Lists the points of one part.
class Space::Walk {
 public:
  Walk(Space& space, Part& part, const SpaceLimits& limits)
      : space_(space), part_(part), limits_(limits), table_(space.table_) {
    heap_.draw_on(limits.budget);
    part_.axes = walking_order();
    part_.dropped.assign(space_.conditions_.size(), 0);
    closing_.resize(part_.axes.size());
    for (const std::size_t condition : part_.conditions) {
      closing_[last_axis_of(condition)].push_back(condition);
    }
    below_.assign(part_.axes.size() + 1, 1);
    for (std::size_t i = part_.axes.size(); i-- > 0;) {
      below_[i] = bounded_product(below_[i + 1], size_of(part_.axes[i]));
    }
    part_.raw_points = below_[0];
    chosen_.resize(part_.axes.size());
  }

  void list() { descend(0); }

 private:
  long long size_of(std::size_t axis) const {
    return static_cast<long long>(space_.axes_[axis].values.size());
  }

  std::vector<std::size_t> axes_of(std::size_t condition) const {
    std::vector<std::size_t> axes;
    for (const std::size_t place : space_.bound_[condition].places()) {
      if (place < space_.axes_.size()) {
        axes.push_back(place);
      }
    }
    return axes;
  }

  /// Conditions whose parameters have the fewest combinations left come first.
  std::vector<std::size_t> walking_order() const {
    std::vector<std::size_t> order;
    const auto missing_in = [&](std::size_t condition) {
      auto axes = axes_of(condition);
      std::erase_if(axes, [&](std::size_t axis) { return std::ranges::count(order, axis) > 0; });
      return axes;
    };
    const auto cost_of = [&](std::size_t condition) {
      double cost = 1.0;
      for (const std::size_t axis : missing_in(condition)) {
        cost *= static_cast<double>(size_of(axis));
      }
      return cost;
    };
    std::vector<std::size_t> open = part_.conditions;
    while (!open.empty()) {
      const auto next = std::ranges::min_element(open, {}, cost_of);
      const auto missing = missing_in(*next);
      order.insert(order.end(), missing.begin(), missing.end());
      open.erase(next);
    }
    std::ranges::copy_if(part_.axes, std::back_inserter(order),
                         [&](std::size_t axis) { return std::ranges::count(order, axis) == 0; });
    return order;
  }

  /// The depth at which all that the condition names is chosen.
  std::size_t last_axis_of(std::size_t condition) const {
    std::size_t last = 0;
    for (const std::size_t axis : axes_of(condition)) {
      const auto depth = std::ranges::find(part_.axes, axis) - part_.axes.begin();
      last = std::max(last, static_cast<std::size_t>(depth));
    }
    return last;
  }

  void descend(std::size_t depth) {
    if (depth == part_.axes.size()) {
      keep();
      return;
    }
    const std::size_t axis = part_.axes[depth];
    const std::vector<Value>& values = space_.axes_[axis].values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      table_[axis] = values[i];
      chosen_[depth] = static_cast<std::uint16_t>(i);
      if (const auto broken = first_broken(closing_[depth])) {
        part_.dropped[*broken] = bounded_sum(part_.dropped[*broken], below_[depth + 1]);
      } else {
        descend(depth + 1);
      }
    }
  }

  std::optional<std::size_t> first_broken(const std::vector<std::size_t>& conditions) {
    for (const std::size_t condition : conditions) {
      if (!holds(condition)) {
        return condition;
      }
    }
    return std::nullopt;
  }

  bool holds(std::size_t condition) {
    if (++space_.checks_ > limits_.checks) {
      reject("the space needs more than " + std::to_string(limits_.checks) +
             " conditions to be computed; restrict a parameter, or write conditions over fewer "
             "parameters");
    }
    return space_.holds(condition, table_, heap_);
  }

  void keep() {
    if (static_cast<std::size_t>(part_.points) == limits_.listed_points) {
      reject("the space has more than " + std::to_string(limits_.listed_points) +
             " points; restrict a parameter");
    }
    ++part_.points;
    part_.places.insert(part_.places.end(), chosen_.begin(), chosen_.end());
  }

  Space& space_;
  Part& part_;
  const SpaceLimits& limits_;
  std::vector<Value> table_;
  std::vector<std::vector<std::size_t>> closing_;  ///< Conditions by depth.
  std::vector<long long> below_;                   ///< Raw points below a depth.
  std::vector<std::uint16_t> chosen_;
  ValueHeap heap_;
};

Space::Space(std::vector<SpaceAxis> axes, std::vector<SpaceCondition> conditions,
             std::span<const NamedValue> constants, const SpaceLimits& limits)
    : axes_(std::move(axes)), conditions_(std::move(conditions)), errors_(conditions_.size()) {
  for (const SpaceAxis& axis : axes_) {
    require_axis(axis);
    table_.push_back(axis.values.front());
    raw_points_ = bounded_product(raw_points_, static_cast<long long>(axis.values.size()));
  }
  for (const NamedValue& constant : constants) {
    table_.push_back(constant.value);
  }
  const std::vector<std::string> names = all_names(axes_, constants);
  for (const SpaceCondition& condition : conditions_) {
    bound_.emplace_back(condition.expression, names);
    dropped_.push_back({condition.name, 0});
  }
  find_parts();
  for (Part& part : parts_) {
    Walk(*this, part, limits).list();
  }
  count(limits);
}

bool Space::holds(std::size_t condition, std::span<const Value> table, ValueHeap& heap) {
  if (!heap.is_empty()) {
    heap.clear();
  }
  try {
    return is_true(bound_[condition].evaluate_number(table, heap));
  } catch (const Error& error) {
    heap.require_budget();
    if (errors_[condition].empty()) {
      errors_[condition] = error.what();
    }
    return false;
  }
}

/// Axes that conditions connect belong together; conditions of no axis hold for all points or none.
void Space::find_parts() {
  std::vector<std::size_t> part_of(axes_.size());
  std::iota(part_of.begin(), part_of.end(), std::size_t{0});
  const auto join = [&](std::size_t a, std::size_t b) {
    const std::size_t from = std::max(part_of[a], part_of[b]);
    std::ranges::replace(part_of, from, std::min(part_of[a], part_of[b]));
  };
  const auto is_axis = [&](std::size_t place) { return place < axes_.size(); };
  for (const BoundExpression& condition : bound_) {
    const auto& places = condition.places();
    const auto first = std::ranges::find_if(places, is_axis);
    for (const std::size_t place : places) {
      if (is_axis(place)) {
        join(*first, place);
      }
    }
  }
  for (std::size_t head = 0; head < axes_.size(); ++head) {
    if (part_of[head] != head) {
      continue;
    }
    Part& part = parts_.emplace_back();
    for (std::size_t axis = head; axis < axes_.size(); ++axis) {
      if (part_of[axis] == head) {
        part.axes.push_back(axis);
      }
    }
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      const auto& places = bound_[i].places();
      const auto first = std::ranges::find_if(places, is_axis);
      if (first != places.end() && part_of[*first] == head) {
        part.conditions.push_back(i);
      }
    }
  }
}

void Space::count(const SpaceLimits& limits) {
  ValueHeap heap;
  heap.draw_on(limits.budget);
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    const bool names_axis = std::ranges::any_of(
        bound_[i].places(), [&](std::size_t place) { return place < axes_.size(); });
    if (!names_axis && !holds(i, table_, heap)) {
      dropped_[i].points = raw_points_;
      points_ = 0;
      return;
    }
  }
  std::vector<long long> behind(parts_.size() + 1, 1);
  for (std::size_t part = parts_.size(); part-- > 0;) {
    behind[part] = bounded_product(behind[part + 1], parts_[part].raw_points);
  }
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    for (std::size_t i = 0; i < dropped_.size(); ++i) {
      const long long dropped = bounded_product(points_, parts_[part].dropped[i]);
      dropped_[i].points =
          bounded_sum(dropped_[i].points, bounded_product(dropped, behind[part + 1]));
    }
    points_ = bounded_product(points_, parts_[part].points);
  }
  if (points_ > kMostPoints) {
    reject("more than 2^62 points satisfy the conditions; restrict some parameters");
  }
}

std::vector<int> Space::at(long long index) const {
  std::vector<int> places(axes_.size());
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    const auto point = static_cast<std::size_t>(index % part->points);
    index /= part->points;
    for (std::size_t i = 0; i < part->axes.size(); ++i) {
      places[part->axes[i]] = part->places[point * part->axes.size() + i];
    }
  }
  return places;
}

}  // namespace swr::kernel_spec
