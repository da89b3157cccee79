// SPDX-License-Identifier: MIT
#include "db/problem_key.h"

#include "core/sha256.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace swr {
namespace {

constexpr unsigned kOperationBits = 8;
constexpr unsigned kKindBits = 64 - kOperationBits;
/// Of a value that its field cannot have; no operation has so high a number.
constexpr std::uint64_t kNoKind = std::numeric_limits<std::uint64_t>::max();

unsigned bits_of(const Field& field) {
  return static_cast<unsigned>(std::bit_width(static_cast<unsigned>(field.most)));
}

[[noreturn]] void reject_operation(const Operation& operation, const std::string& message) {
  throw Error(ErrorCode::invalid_argument,
              "operation " + std::string(operation.name()) + " has " + message);
}

static_assert(std::endian::native == std::endian::little, "words are read for single bytes");

/// Where one field lies among the members, and where in the packed number. Whole words are read for
/// flags, too: no branch tells them apart.
struct KindField {
  std::uint32_t word = 0;  ///< Offset of the word that holds it.
  std::uint32_t right = 0;
  std::uint32_t member = 0;  ///< Mask of what the word has of it.
  std::uint32_t values = 0;  ///< Mask of the values that it may have.
  std::uint32_t left = 0;
};

KindField kind_field(const Field& field, unsigned place) {
  constexpr std::size_t kWordBytes = sizeof(std::uint32_t);
  constexpr std::size_t kByteBits = 8;
  const bool is_flag = field.type == FieldType::flag;
  return {.word = static_cast<std::uint32_t>(field.offset / kWordBytes * kWordBytes),
          .right = static_cast<std::uint32_t>(field.offset % kWordBytes * kByteBits),
          .member = is_flag ? 0xffU : 0xffffffffU,
          .values = static_cast<std::uint32_t>((1ULL << bits_of(field)) - 1),
          .left = place};
}

/// How the problems of an operation become keys: worked out once, because every answer needs one.
struct KeyPlan {
  explicit KeyPlan(const Operation& described) : operation(&described) {
    require_key(described);
    number = static_cast<std::uint64_t>(std::ranges::find(operations(), &described) -
                                        operations().begin());
    unsigned place = kOperationBits;
    for (const ProblemField& field : described.fields()) {
      if (field.role == FieldRole::size) {
        sizes[size_count++] = static_cast<std::uint32_t>(field.offset);
        continue;
      }
      kind[kind_count++] = kind_field(field, place);
      place += bits_of(field);
    }
  }

  const Operation* operation;
  std::uint64_t number = 0;  ///< In the order of registration.
  std::size_t kind_count = 0;
  std::size_t size_count = 0;
  std::array<std::uint32_t, ShapePoint::kDimensions> sizes{};
  std::array<KindField, kKindBits> kind{};
};

std::uint64_t pair(int high, int low) {
  return static_cast<std::uint64_t>(high) << 32U | static_cast<std::uint32_t>(low);
}

}  // namespace

void require_key(const Operation& operation) {
  std::size_t sizes = 0;
  std::size_t kinds = 0;
  unsigned bits = 0;
  for (const ProblemField& field : operation.fields()) {
    const bool is_kind = field.role == FieldRole::kind;
    ++(is_kind ? kinds : sizes);
    bits += is_kind ? bits_of(field) : 0;
  }
  if (sizes > ShapePoint::kDimensions) {
    reject_operation(operation, std::to_string(sizes) + " sizes, and keys have room for " +
                                    std::to_string(ShapePoint::kDimensions) +
                                    "; make a kind of one that neighbours share");
  }
  if (bits > kKindBits || kinds > kKindBits) {
    reject_operation(operation, std::to_string(kinds) + " fields of kind of " +
                                    std::to_string(bits) + " bits, and keys have room for " +
                                    std::to_string(kKindBits) +
                                    "; lower the most that they may hold");
  }
}

ProblemKey problem_key(const Problem& problem) {
  const auto& plan = derived_of<KeyPlan>(problem.operation());
  const char* const members = static_cast<const char*>(problem.members());
  ProblemKey key{plan.number, {1, 1, 1, 1, 1}};
  std::uint32_t beyond = 0;
  for (std::size_t i = 0; i < plan.kind_count; ++i) {
    const KindField& field = plan.kind[i];
    std::uint32_t word = 0;
    std::memcpy(&word, members + field.word, sizeof word);
    const std::uint32_t value = word >> field.right & field.member;
    beyond |= value & ~field.values;
    key.kind |= static_cast<std::uint64_t>(value) << field.left;
  }
  for (std::size_t i = 0; i < plan.size_count; ++i) {
    int size = 0;
    std::memcpy(&size, members + plan.sizes[i], sizeof size);
    key.sizes[i] = size;
  }
  key.kind = beyond == 0 ? key.kind : kNoKind;
  return key;
}

Problem problem_of(const ProblemKey& key) {
  const Operation& operation = *operations()[key.kind & ((1U << kOperationBits) - 1)];
  Problem problem = Problem::zeroed(operation);
  std::uint64_t kind = key.kind >> kOperationBits;
  std::size_t size = 0;
  for (const ProblemField& field : operation.fields()) {
    if (field.role == FieldRole::size) {
      field.write(problem.members(), key.sizes[size++]);
      continue;
    }
    field.write(problem.members(), static_cast<int>(kind & ((1ULL << bits_of(field)) - 1)));
    kind >>= bits_of(field);
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

namespace {

DevicePoint device_point(const DeviceInfo& device) {
  return {device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s, device.mig};
}

}  // namespace

std::optional<double> shape_distance(const Problem& a, const Problem& b) {
  const ProblemKey key_a = problem_key(a);
  const ProblemKey key_b = problem_key(b);
  if (key_a.kind != key_b.kind) {
    return std::nullopt;
  }
  return std::sqrt(squared_distance(shape_point(key_a), shape_point(key_b)));
}

double device_distance(const DeviceInfo& a, const DeviceInfo& b) {
  return device_distance(device_point(a), device_point(b));
}

Merit merit(const Problem& problem, const VariantResult& result) {
  Merit merit{.time_us = result.time_us(),
              .registers_per_thread = result.resources.registers_per_thread};
  if (const auto excess = excess_miss_sectors(problem, result)) {
    merit.excess_misses = *excess;
  }
  return merit;
}

std::optional<long long> l2_miss_sectors(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->compulsory_misses + prediction->excess_misses;
  }
  const Measurement& measurement = *result.measurement();
  if (!measurement.counters || !measurement.counters_missing_because.empty()) {
    return std::nullopt;
  }
  return measurement.counters->l2_misses;
}

bool is_better(const Problem& problem, const VariantResult& a, const VariantResult& b) {
  const Merit of_a = merit(problem, a);
  const Merit of_b = merit(problem, b);
  return of_a == of_b ? to_key(a.variant) < to_key(b.variant) : of_a < of_b;
}

}  // namespace swr
