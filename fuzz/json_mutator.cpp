// SPDX-License-Identifier: MIT
// Lets libFuzzer change the structure of JSON inputs, so that it comes past the parser: it
// replaces, removes, repeats and exchanges values. Every third change is one of single bytes.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed);

namespace {

using Json = nlohmann::json;
using Random = std::mt19937;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

void collect(Json& json, std::vector<Json*>& nodes) {
  nodes.push_back(&json);
  if (json.is_structured()) {
    for (Json& child : json) {
      collect(child, nodes);
    }
  }
}

Json interesting(Random& random) {
  static const std::array<Json, 18> kValues{Json(),
                                            Json(true),
                                            Json(0),
                                            Json(1),
                                            Json(-1),
                                            Json(16),
                                            Json(64),
                                            Json(255),
                                            Json(256),
                                            Json(4096),
                                            Json(2147483647),
                                            Json(2147483648LL),
                                            Json(0.5),
                                            Json(1e300),
                                            Json(std::numeric_limits<std::int64_t>::max()),
                                            Json(std::numeric_limits<std::uint64_t>::max()),
                                            Json::array(),
                                            Json::object()};
  return kValues[below(random, kValues.size())];
}

void change_bytes(std::string& text) {
  constexpr std::size_t kMost = 64;
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const std::size_t room = std::max(kMost, bytes.size());
  const std::size_t size = bytes.size();
  bytes.resize(room);
  bytes.resize(LLVMFuzzerMutate(bytes.data(), size, room));
  text.assign(bytes.begin(), bytes.end());
}

void change_scalar(Json& node, Random& random) {
  if (node.is_string() && below(random, 2) == 0) {
    change_bytes(node.get_ref<std::string&>());
  } else if (node.is_number_integer() && below(random, 2) == 0) {
    node = static_cast<std::int64_t>(node.get<std::uint64_t>() * 2 + below(random, 3) - 1);
  } else if (node.is_number_float() && below(random, 2) == 0) {
    node = node.get<double>() * (below(random, 2) == 0 ? -1.0 : 1e10);
  } else {
    node = interesting(random);
  }
}

void change_structure(Json& node, Random& random) {
  if (node.empty() || below(random, 4) == 0) {
    node = interesting(random);
    return;
  }
  const auto child =
      std::next(node.begin(), static_cast<std::ptrdiff_t>(below(random, node.size())));
  if (below(random, 2) == 0) {
    node.erase(child);
  } else if (node.is_array()) {
    const Json copy = *child;
    node.push_back(copy);
  } else {
    std::string name = child.key();
    const Json copy = *child;
    change_bytes(name);
    node[name] = copy;
  }
}

void change(Json& document, Random& random) {
  std::vector<Json*> nodes;
  collect(document, nodes);
  Json& node = *nodes[below(random, nodes.size())];
  if (below(random, 4) == 0) {
    const Json other = *nodes[below(random, nodes.size())];
    node = other;
  } else if (node.is_structured()) {
    change_structure(node, random);
  } else {
    change_scalar(node, random);
  }
}

/// Empty when the text is not JSON or is nested deeper than recursion over it should go.
std::string changed(std::string_view text, Random& random) {
  constexpr std::ptrdiff_t kMostOpened = 2000;
  if (std::count(text.begin(), text.end(), '[') > kMostOpened) {
    return {};
  }
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) {
    return {};
  }
  for (std::size_t left = 1 + below(random, 3); left > 0; --left) {
    change(document, random);
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  Random random(seed);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string text = below(random, 3) == 0 ? std::string() : changed(input, random);
  if (text.empty() || text.size() > max_size) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
