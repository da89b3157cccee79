// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/text.h"
#include <swr/variant.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace swr::cli {
namespace {

std::string option_name(std::string_view axis_name) {
  std::string name = "--" + std::string(axis_name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_tile_axis(std::string_view name) {
  return name == "tile_m" || name == "tile_n" || name == "warps";
}

std::string axis_help(const Axis& axis) {
  std::string choices;
  for (const auto spelling : axis.spellings) {
    choices += (choices.empty() ? " One or more of: " : ", ") + std::string(spelling);
  }
  return std::string(axis.summary) + (choices.empty() ? "" : choices + ".");
}

}  // namespace

void add_axis_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Axes";
  app.add_option("--tile", options.tiles,
                 "Rows x columns of the tile, and warps if wanted: 64x64,128x64,80x80x5")
      ->type_name("MxN[xWARPS]")
      ->group(kGroup);
  for (const Operation* const operation : operations_of_swr()) {
    const bool is_first = operation == operations().front();
    for (const Axis& axis : axes(*operation)) {
      std::string& values = options.axis_values[std::string(axis.name)];
      if (!is_tile_axis(axis.name) && app.get_option_no_throw(option_name(axis.name)) == nullptr) {
        app.add_option(option_name(axis.name), values, axis_help(axis))
            ->type_name("LIST")
            ->group(is_first ? kGroup
                             : "Axes of --op " + std::string(name_of(*operation)) + " alone");
      }
    }
  }
}

Tile parse_tile(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 2 && parts.size() != 3) {
    reject("--tile '" + text + "' is not of the form MxN or MxNxWARPS, e.g. 128x64");
  }
  Tile tile{.tile_m = whole_number(parts[0], "--tile"), .tile_n = whole_number(parts[1], "--tile")};
  if (parts.size() == 3) {
    tile.warps = whole_number(parts[2], "--tile");
    if (tile.warps == 0) {
      reject("--tile '" + text + "' has no warps; leave the third number out for the usual ones");
    }
  }
  return tile;
}

SpaceOptions space_options(const Options& options) {
  SpaceOptions space;
  if (!options.tiles.empty()) {
    for (const std::string& part : split(options.tiles, ',')) {
      space.tiles.push_back(parse_tile(part));
    }
  }
  for (const auto& [axis_name, text] : options.axis_values) {
    if (text.empty()) {
      continue;
    }
    for (std::string& value : split(text, ',')) {
      space.restrictions[axis_name].emplace_back(std::move(value));
    }
  }
  return space;
}

}  // namespace swr::cli
