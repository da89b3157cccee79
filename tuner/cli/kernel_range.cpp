// SPDX-License-Identifier: MIT
#include "tuner/cli/kernel_range.h"

#include "core/embedded_file.h"
#include "core/operation.h"
#include "core/reject.h"
#include <swr/error.h>
#include <swr/lookup.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <utility>

namespace swr {
std::span<const EmbeddedFile> kernel_range_files();
}

namespace swr::cli {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

int number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject("'" + std::string(text) + "' is no number");
  }
  return value;
}

const ProblemField* field_called(const Operation& operation, std::string_view name) {
  const auto all = operation.fields();
  const auto found = std::ranges::find(all, name, [](const ProblemField& f) { return f.name; });
  return found == all.end() ? nullptr : &*found;
}

/// "4096", "bf16", "1..4096", "16..4096/16", "heads_kv*4".
RangeValues::Item item_of(const Operation& operation, const ProblemField& field,
                          std::string_view text) {
  const auto spelt = std::ranges::find(field.spellings, text);
  if (spelt != field.spellings.end()) {
    const int value = static_cast<int>(spelt - field.spellings.begin());
    return {.low = value, .high = value};
  }
  const std::size_t times = text.find('*');
  if (const ProblemField* const of = field_called(operation, text.substr(0, times))) {
    return {.low = times == text.npos ? 1 : number(text.substr(times + 1)), .of = of};
  }
  RangeValues::Item item;
  if (const std::size_t step = text.find('/'); step != text.npos) {
    item.step = number(text.substr(step + 1));
    text = text.substr(0, step);
  }
  const std::size_t dots = text.find("..");
  item.low = number(text.substr(0, dots));
  item.high = dots == text.npos ? item.low : number(text.substr(dots + 2));
  return item;
}

RangeValues values_of(const Operation& operation, std::string_view name, std::string_view text) {
  RangeValues values;
  values.field = field_called(operation, name);
  if (values.field == nullptr) {
    reject(std::string(name_of(operation)) + " has no field " + std::string(name));
  }
  values.is_combined = text.find('|') != text.npos;
  for (const std::string_view part : split(text, values.is_combined ? '|' : ',')) {
    values.items.push_back(item_of(operation, *values.field, part));
  }
  return values;
}

/// "draws=100" or "field=values".
void add_word(ProblemRange& range, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos) {
    reject("'" + word + "' has no '='");
  }
  const std::string name = word.substr(0, equals);
  if (name == "draws") {
    range.draws = number(word.substr(equals + 1));
  } else {
    range.fields.push_back(values_of(*range.operation, name, word.substr(equals + 1)));
  }
}

void add_line(KernelRange& range, const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "template") {
    FixedTemplate& fixed = range.templates.emplace_back();
    words >> fixed.file;
    while (words >> word) {
      fixed.entries.push_back(word);
    }
    return;
  }
  ProblemRange& problems = range.problems.emplace_back();
  problems.operation = &find_operation(word);
  while (words >> word) {
    add_word(problems, word);
  }
}

/// As likely in every octave.
int drawn(const RangeValues::Item& item, const Problem& problem, std::mt19937& random) {
  if (item.of != nullptr) {
    return item.low * item.of->read(problem.members());
  }
  if (item.low == item.high) {
    return item.low;
  }
  constexpr double kParts = 1 << 20;
  const double share = static_cast<double>(random() % (1 << 20)) / kParts;
  const double octaves = std::log2(static_cast<double>(item.high) / item.low);
  const int value = static_cast<int>(item.low * std::exp2(share * octaves));
  return std::max(item.low, value / item.step * item.step);
}

bool is_problem(const Problem& problem) {
  try {
    validate(problem);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// More than any GPU holds: nobody asks it.
bool is_absurd(const Problem& problem) {
  constexpr long long kMostBytes = 1LL << 38;
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  return bytes.read + bytes.write > kMostBytes;
}

}  // namespace

void ProblemRange::each(unsigned seed, const std::function<void(const Problem&)>& visit) const {
  std::mt19937 random(seed);
  std::size_t combinations = 1;
  for (const RangeValues& values : fields) {
    combinations *= values.is_combined ? values.items.size() : 1;
  }
  for (std::size_t combination = 0; combination < combinations; ++combination) {
    for (int draw = 0; draw < draws; ++draw) {
      Problem problem = operation->default_problem();
      std::size_t rest = combination;
      for (const RangeValues& values : fields) {
        const std::size_t count = values.items.size();
        const std::size_t index = values.is_combined ? rest % count : random() % count;
        rest = values.is_combined ? rest / count : rest;
        values.field->write(problem.members(), drawn(values.items[index], problem, random));
      }
      if (is_problem(problem) && !is_absurd(problem)) {
        visit(problem);
      }
    }
  }
}

KernelRange parse_kernel_range(std::string_view text) {
  KernelRange range;
  int at = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++at;
    if (line.empty() || line.front() == '#') {
      continue;
    }
    try {
      add_line(range, std::string(line));
    } catch (const Error& error) {
      reject("line " + std::to_string(at) + " of the range of kernels: " + error.what());
    }
  }
  return range;
}

KernelRange shipped_range() { return parse_kernel_range(kernel_range_files().front().text); }

std::vector<RangedKernel> untuned_kernels(const std::vector<ProblemRange>& ranges,
                                          const std::vector<DeviceInfo>& devices, unsigned seed) {
  const Lookup lookup{LookupOptions{}};
  std::map<std::string, RangedKernel> kernels;
  for (const DeviceInfo& device : devices) {
    for (const ProblemRange& range : ranges) {
      range.each(seed, [&](const Problem& problem) {
        const Variant variant = lookup.best(problem, device).variant;
        std::string identity = std::string(family_source(variant).file) + "\n" +
                               problem.operation().config_header(problem, variant);
        const auto [at, is_new] = kernels.try_emplace(identity);
        if (is_new) {
          at->second = {.identity = identity, .problem = problem, .variant = variant};
        }
        ++at->second.problems;
      });
    }
  }
  std::vector<RangedKernel> ordered;
  for (auto& [identity, kernel] : kernels) {
    ordered.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(ordered, std::greater<>(), &RangedKernel::problems);
  return ordered;
}

}  // namespace swr::cli
