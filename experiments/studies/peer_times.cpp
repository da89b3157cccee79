// SPDX-License-Identifier: MIT
#include "experiments/studies/peer_times.h"

#include "core/files.h"
#include <swr/error.h>
#include <swr/gemm_problem.h>

#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace swr {
namespace {

constexpr std::string_view kHeader = "m,n,k,stage,contestant,median_us,p95_us,tflops";
/// The first of the algorithms that cuBLASLt's heuristic returns.
constexpr std::string_view kFirstChoice = "cublaslt 0";

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t end = line.find(','); end != std::string_view::npos; end = line.find(',')) {
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  fields.push_back(line);
  return fields;
}

/// A positive number that takes up the whole field.
template <typename Number>
bool read_number(std::string_view field, Number& number) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc() && end == field.data() + field.size() && number > 0;
}

[[noreturn]] void refuse(const std::filesystem::path& path, int line, const std::string& why) {
  throw Error(ErrorCode::unreadable, path.string() + " line " + std::to_string(line) + ": " + why +
                                         "; write it with gemm_peers --csv");
}

}  // namespace

PeerTimes read_peer_times(const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 28;
  std::istringstream file(read_regular_file(path, kMostBytes));
  std::string text;
  std::getline(file, text);
  if (text != kHeader) {
    refuse(path, 1, "the header is not " + std::string(kHeader));
  }
  PeerTimes times;
  for (int line = 2; std::getline(file, text); ++line) {
    const auto fields = split(text);
    std::array<int, 3> size{};
    double median_us = 0.0;
    const bool is_row = fields.size() == split(kHeader).size() && read_number(fields[0], size[0]) &&
                        read_number(fields[1], size[1]) && read_number(fields[2], size[2]) &&
                        read_number(fields[5], median_us);
    if (!is_row) {
      refuse(path, line, "m, n, k or median_us is missing or no positive number");
    }
    if (fields[3] == "final" && fields[4] == kFirstChoice) {
      times[to_string(GemmProblem{.m = size[0], .n = size[1], .k = size[2]})] = median_us;
    }
  }
  return times;
}

std::optional<double> peer_time_us(const PeerTimes& peers, const GemmProblem& problem) {
  const auto found = peers.find(to_string(problem));
  return found != peers.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace swr
