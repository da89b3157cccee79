// SPDX-License-Identifier: MIT
// Searches a space that others recorded (a cache file of Kernel Tuner) with a strategy of swr's,
// once for each seed, until the recorded costs of what was tried exceed a budget. Prints a line for
// each seed: the places in the file of the rows tried, in their order.
#include "tuner/search/strategy.h"
#include <swr/error.h>
#include <swr/kernel_spec.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

struct Row {
  swr::VariantResult result;
  double cost_s = 0.0;
};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A kernel with the parameters of the file. It is never compiled.
const swr::Operation& make_operation(const Json& file) {
  swr::KernelSpec spec{.name = "recorded", .source_file = "recorded.cu"};
  spec.source = "extern \"C\" __global__ void recorded(float* out) {}";
  spec.sizes = {{.name = "size", .usual = 1}};
  for (const auto& name : file.at("tune_params_keys")) {
    swr::KernelParameter& parameter = spec.parameters.emplace_back();
    parameter.name = name;
    for (const auto& value : file.at("tune_params").at(parameter.name)) {
      parameter.values.push_back(text_of(value));
    }
  }
  spec.arguments = {{.name = "out", .size = "1", .is_output = true}};
  spec.steps = {{.entry = "recorded", .block = {"1"}, .grid = {"1"}}};
  return swr::register_kernel(spec);
}

Row make_row(const swr::Operation& operation, const Json& file, const Json& recorded) {
  Row row;
  row.result.variant = swr::default_axes(operation);
  for (const auto& name : file.at("tune_params_keys")) {
    swr::find_axis(operation, name.get<std::string>())
        ->set(row.result.variant, text_of(recorded.at(name.get<std::string>())));
  }
  const Json& time = recorded.at("time");
  row.result.state = time.is_number() ? swr::ResultState::ok : swr::ResultState::runtime;
  row.result.outcome =
      swr::Measurement{.median_us = time.is_number() ? time.get<double>() * 1e3 : 0.0};
  for (const char* part :
       {"compile_time", "verification_time", "benchmark_time", "framework_time", "strategy_time"}) {
    row.cost_s += recorded.value(part, 0.0) * 1e-3;
  }
  return row;
}

/// The places of the rows tried, in their order.
std::vector<std::size_t> search(const std::vector<Row>& rows, const swr::SearchOptions& options,
                                double budget_s) {
  std::map<swr::Variant, std::size_t> places;
  for (std::size_t place = 0; place < rows.size(); ++place) {
    places.emplace(rows[place].result.variant, place);
  }
  std::vector<swr::Variant> variants;
  for (const auto& [variant, place] : places) {
    variants.push_back(variant);
  }
  const auto strategy = swr::make_strategy(options, variants, {});
  std::vector<std::size_t> tried;
  double spent_s = 0.0;
  while (spent_s <= budget_s) {
    const auto batch = strategy->propose();
    if (batch.empty()) {
      break;
    }
    for (const swr::Variant& variant : batch) {
      const std::size_t place = places.at(variant);
      tried.push_back(place);
      spent_s += rows[place].cost_s;
      strategy->tell(rows[place].result);
    }
  }
  return tried;
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  std::string strategy = "learned";
  unsigned long long first = 1;
  unsigned long long seeds = 100;
  double budget_s = 0.0;
  CLI::App app{"Searches a recorded space"};
  app.add_option("file", path, "A cache file of Kernel Tuner")->required();
  app.add_option("--strategy", strategy, "One of swr's");
  app.add_option("--first", first, "The first seed");
  app.add_option("--seeds", seeds, "Searches");
  app.add_option("--budget", budget_s, "Seconds that a search has, as recorded")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    const Json file = Json::parse(std::ifstream(path));
    const swr::Operation& operation = make_operation(file);
    std::vector<Row> rows;
    for (const auto& recorded : file.at("cache")) {
      rows.push_back(make_row(operation, file, recorded));
    }
    for (unsigned long long seed = first; seed < first + seeds; ++seed) {
      const swr::SearchOptions options{.strategy = swr::parse_strategy(strategy),
                                       .max_variants = {},
                                       .max_s = budget_s,
                                       .seed = seed};
      for (const std::size_t place : search(rows, options, budget_s)) {
        std::cout << place << ' ';
      }
      std::cout << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << "recorded_search: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
