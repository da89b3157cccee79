// SPDX-License-Identifier: MIT
#include "db/problem_key.h"

#include "core/mixed_hash.h"
#include "core/operation.h"
#include <swr/error.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

namespace swr {
namespace {

constexpr unsigned kOperationBits = 8;
constexpr unsigned kKindBits = 64;

/// How the fields of an operation's problems are packed into keys.
struct Packing {
  struct Kind {
    const ProblemField* field;
    unsigned shift;
    std::uint64_t mask;
  };

  Packing(const Operation& packed, std::uint64_t place) : operation(packed), operation_bits(place) {
    unsigned shift = kOperationBits;
    for (const ProblemField& field : operation.fields()) {
      if (field.role == FieldRole::size) {
        sizes.push_back(&field);
        continue;
      }
      const auto bits =
          static_cast<unsigned>(std::bit_width(static_cast<unsigned>(std::max(field.most, 1))));
      kinds.push_back({&field, shift, (std::uint64_t{1} << bits) - 1});
      shift += bits;
    }
    if (shift > kKindBits || sizes.size() > ShapePoint::kDimensions) {
      throw Error(ErrorCode::invalid_argument,
                  "problems of " + std::string(operation.name()) + " have too many fields to be " +
                      "looked up: at most " + std::to_string(ShapePoint::kDimensions) +
                      " sizes, and 56 bits for the others");
    }
  }

  const Operation& operation;
  std::uint64_t operation_bits;
  std::vector<Kind> kinds;
  std::vector<const ProblemField*> sizes;
};

/// By the operation's place in the registry; made once.
const std::vector<Packing>& packings() {
  static const std::vector<Packing> all = [] {
    std::vector<Packing> made;
    for (const Operation* const operation : operations()) {
      made.emplace_back(*operation, made.size());
    }
    return made;
  }();
  return all;
}

const Packing& packing_of(const Problem& problem) {
  for (const Packing& packing : packings()) {
    if (&packing.operation == &problem.operation()) {
      return packing;
    }
  }
  throw Error(ErrorCode::invalid_argument,
              "operation " + std::string(problem.operation().name()) + " is not registered");
}

std::uint64_t pair(int high, int low) {
  return static_cast<std::uint64_t>(high) << 32U | static_cast<std::uint32_t>(low);
}

}  // namespace

ProblemKey problem_key(const Problem& problem) {
  const Packing& packing = packing_of(problem);
  ProblemKey key{packing.operation_bits, {1, 1, 1, 1, 1}};
  for (const auto& [field, shift, mask] : packing.kinds) {
    key.kind |= static_cast<std::uint64_t>(field->read(problem.members())) << shift;
  }
  for (std::size_t i = 0; i < packing.sizes.size(); ++i) {
    key.sizes[i] = packing.sizes[i]->read(problem.members());
  }
  return key;
}

Problem problem_of(const ProblemKey& key) {
  const Packing& packing = packings().at(key.kind & ((1U << kOperationBits) - 1));
  Problem problem = packing.operation.default_problem();
  for (const auto& [field, shift, mask] : packing.kinds) {
    field->write(problem.members(), static_cast<int>(key.kind >> shift & mask));
  }
  for (std::size_t i = 0; i < packing.sizes.size(); ++i) {
    packing.sizes[i]->write(problem.members(), key.sizes[i]);
  }
  return problem;
}

ShapePoint shape_point(const ProblemKey& key) {
  const auto& [a, b, c, d, e] = key.sizes;
  return shape_point(a, b, c, d, e);
}

std::size_t hash_of(const ProblemKey& key) {
  const auto& [a, b, c, d, e] = key.sizes;
  return mixed(mixed(mixed(pair(a, b), pair(c, d)), static_cast<std::uint64_t>(e)), key.kind);
}

}  // namespace swr
