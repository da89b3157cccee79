// SPDX-License-Identifier: MIT
#include "tuner/distribute/shard.h"

#include "core/sha256.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace swr {
namespace {

/// More workers than any cluster has.
constexpr int kMaxShards = 1'000'000;

[[noreturn]] void reject_shard(const std::string& text) {
  throw Error(ErrorCode::invalid_argument,
              "shard '" + text + "' is not I/N with I from 0 to N-1, such as 0/8 to 7/8");
}

int number_of(std::string_view digits, const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) {
    reject_shard(text);
  }
  return value;
}

/// As wide as the largest of `count` indices, so that names sort as their numbers do.
std::string padded(int index, int count) {
  std::string text = std::to_string(index);
  return std::string(std::to_string(count - 1).size() - text.size(), '0') + text;
}

}  // namespace

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    reject_shard(text);
  }
  const std::string_view view = text;
  const Shard shard{number_of(view.substr(0, slash), text),
                    number_of(view.substr(slash + 1), text)};
  if (shard.index >= shard.count || shard.count > kMaxShards) {
    reject_shard(text);
  }
  return shard;
}

std::string to_string(const Shard& shard) {
  return std::to_string(shard.index) + "/" + std::to_string(shard.count);
}

std::vector<std::size_t> share_of(const std::vector<std::string>& identities, const Shard& shard) {
  std::vector<std::pair<std::string, std::size_t>> order;
  for (const std::string& identity : identities) {
    order.emplace_back(sha256_hex(identity), order.size());
  }
  std::ranges::sort(order);
  std::vector<std::size_t> share;
  for (std::size_t dealt = 0; dealt < order.size(); ++dealt) {
    if (dealt % static_cast<std::size_t>(shard.count) == static_cast<std::size_t>(shard.index)) {
      share.push_back(order[dealt].second);
    }
  }
  std::ranges::sort(share);
  return share;
}

std::filesystem::path shard_database(const std::filesystem::path& path, const Shard& shard) {
  const bool is_directory = std::filesystem::is_directory(path) || !path.has_filename();
  std::filesystem::path file = is_directory ? path / "tuned.db" : path;
  if (shard.is_everything()) {
    return file;
  }
  const std::string suffix =
      "." + padded(shard.index, shard.count) + "-of-" + std::to_string(shard.count);
  return file.replace_filename(file.stem().string() + suffix + file.extension().string());
}

}  // namespace swr
