// SPDX-License-Identifier: MIT
#include "tuner/supervise/protocol.h"

#include "core/bounded_json.h"
#include "core/fields.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

namespace swr {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr unsigned kBitsPerByte = 8;
/// Far above a race of many kernels; a damaged process must not make its reader run out of memory.
constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 28;

std::size_t document_bytes(std::string_view header) {
  std::size_t length = 0;
  for (const char byte : header) {
    length = (length << kBitsPerByte) | static_cast<unsigned char>(byte);
  }
  return length;
}

[[noreturn]] void reject_message(const std::string& cause) {
  throw Error(ErrorCode::unreadable, "tuner and measuring process do not understand each other (" +
                                         cause + "); are both the same swr?");
}

Json read_document(std::string_view bytes) {
  try {
    return parse_cbor(bytes, "a message", {.bytes = kMaxDocumentBytes});
  } catch (const Error& error) {
    reject_message(error.what());
  }
}

}  // namespace

std::string encode_frame(const Json& document) {
  std::string frame(kHeaderBytes, '\0');
  Json::to_cbor(document, frame);
  const std::size_t length = frame.size() - kHeaderBytes;
  if (length > kMaxDocumentBytes) {
    throw Error(ErrorCode::invalid_argument, "a message of " + std::to_string(length) +
                                                 " bytes is too long; pass fewer variants at once");
  }
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    frame[i] = static_cast<char>(length >> (kBitsPerByte * (kHeaderBytes - 1 - i)));
  }
  return frame;
}

std::optional<Json> FrameReader::next() {
  if (bytes_.size() < kHeaderBytes) {
    return std::nullopt;
  }
  const std::size_t length = document_bytes(std::string_view(bytes_).substr(0, kHeaderBytes));
  if (length > kMaxDocumentBytes) {
    reject_message("a message of " + std::to_string(length) + " bytes");
  }
  if (bytes_.size() < kHeaderBytes + length) {
    return std::nullopt;
  }
  Json document = read_document(std::string_view(bytes_).substr(kHeaderBytes, length));
  bytes_.erase(0, kHeaderBytes + length);
  return document;
}

namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what + " does not belong to what was asked");
}

Json kernel_json(const CompiledKernel& kernel) {
  std::vector<std::uint8_t> cubin(kernel.cubin.size());
  std::memcpy(cubin.data(), kernel.cubin.data(), cubin.size());
  return {{"entry", kernel.entry},
          {"further_entries", kernel.further_entries},
          {"sm_arch", kernel.sm_arch},
          {"cubin", Json::binary(std::move(cubin))},
          {"cubin_digest", kernel.cubin_digest},
          {"source_digest", kernel.source_digest},
          {"resources", kernel.resources},
          {"may_overlap", kernel.may_overlap},
          {"from_cache", kernel.from_cache}};
}

CompiledKernel read_kernel(const Json& json) {
  const Json& cubin = json_field(json, "cubin");
  if (!cubin.is_binary()) {
    reject("field 'cubin'");
  }
  CompiledKernel kernel{
      .entry = json_text(json, "entry"),
      .further_entries = json_field(json, "further_entries").get<std::vector<std::string>>(),
      .sm_arch = static_cast<int>(json_integer(json, "sm_arch", 1, kMaxInt)),
      .cubin = std::vector<std::byte>(cubin.get_binary().size()),
      .cubin_digest = json_text(json, "cubin_digest"),
      .source_digest = json_text(json, "source_digest"),
      .resources = json_field(json, "resources").get<KernelResources>(),
      .may_overlap = json_flag(json, "may_overlap"),
      .from_cache = json_flag(json, "from_cache")};
  std::memcpy(kernel.cubin.data(), cubin.get_binary().data(), kernel.cubin.size());
  return kernel;
}

Json request(std::string_view name, const Problem& problem, std::span<const Contender> contenders) {
  Json kernels = Json::array();
  Json all = Json::array();
  // Variants of one kernel share it: it is most of a message.
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> places;
  for (const Contender& contender : contenders) {
    const CompiledKernel& kernel = *contender.kernel;
    const auto [place, is_new] =
        places.try_emplace({kernel.cubin_digest, kernel.source_digest}, kernels.size());
    if (is_new) {
      kernels.push_back(kernel_json(kernel));
    }
    all.push_back({{"variant", contender.variant}, {"kernel", place->second}});
  }
  return {{"request", name},
          {"problem", problem},
          {"kernels", std::move(kernels)},
          {"contenders", std::move(all)}};
}

/// The contenders of a request and the kernels they point to.
struct Contenders {
  Contenders(const Json& request, const Operation& op) {
    for (const Json& kernel : json_field(request, "kernels")) {
      kernels.push_back(read_kernel(kernel));
    }
    for (const Json& contender : json_field(request, "contenders")) {
      const auto place = static_cast<std::size_t>(json_integer(contender, "kernel", 0, kMaxInt));
      if (place >= kernels.size()) {
        reject("the number of a kernel");
      }
      all.push_back({variant_from_json(op, json_field(contender, "variant")), &kernels[place]});
    }
  }
  Contenders(const Contenders&) = delete;
  Contenders& operator=(const Contenders&) = delete;

  std::vector<CompiledKernel> kernels;
  std::vector<Contender> all;
};

Json answer_prepare(const Json& /*request*/, const Problem& problem, Evaluator& evaluator) {
  evaluator.prepare(problem);
  return {{"prepared", true}};
}

Json answer_evaluate(const Json& request, const Problem& problem, Evaluator& evaluator) {
  const Contenders contenders(request, problem.operation());
  if (contenders.all.size() != 1) {
    reject("a number of contenders");
  }
  const Contender& only = contenders.all.front();
  return {{"result", evaluator.evaluate(problem, only.variant, *only.kernel)}};
}

Json reading_json(const CounterReading& reading) {
  Json json = {{"missing_because", reading.missing_because}};
  if (reading.counters) {
    json["counters"] = *reading.counters;
  }
  return json;
}

Json reading_json(const AccessReading& reading) {
  Json json = {{"missing_because", reading.missing_because}};
  if (reading.accesses) {
    json["accesses"] = *reading.accesses;
  }
  return json;
}

void read_reading(const Json& json, CounterReading& reading) {
  reading.missing_because = json_text(json, "missing_because");
  if (json.contains("counters")) {
    reading.counters = json["counters"].get<Counters>();
  }
}

void read_reading(const Json& json, AccessReading& reading) {
  reading.missing_because = json_text(json, "missing_because");
  if (json.contains("accesses")) {
    reading.accesses = json["accesses"].get<AccessCounters>();
  }
}

template <typename Reading>
Json readings_json(const std::vector<Reading>& readings) {
  Json all = Json::array();
  for (const Reading& reading : readings) {
    all.push_back(reading_json(reading));
  }
  return {{"readings", std::move(all)}};
}

/// Throws: Error{invalid_argument} unless there is one for each contender.
template <typename Reading>
std::vector<Reading> readings_of(const Json& answer, std::size_t contenders) {
  std::vector<Reading> readings;
  for (const Json& reading : json_field(answer, "readings")) {
    read_reading(reading, readings.emplace_back());
  }
  if (readings.size() != contenders) {
    reject("a number of counter readings");
  }
  return readings;
}

Json answer_count(const Json& request, const Problem& problem, Evaluator& evaluator) {
  const Contenders contenders(request, problem.operation());
  return readings_json(evaluator.count(problem, contenders.all));
}

Json answer_count_accesses(const Json& request, const Problem& problem, Evaluator& evaluator) {
  const Contenders contenders(request, problem.operation());
  return readings_json(evaluator.count_accesses(problem, contenders.all));
}

Json answer_power(const Json& request, const Problem& problem, Evaluator& evaluator) {
  const Contenders contenders(request, problem.operation());
  Json all = Json::array();
  for (const PowerReading& reading : evaluator.measure_power(problem, contenders.all)) {
    all.push_back({{"power_w", reading.power_w ? Json(*reading.power_w) : Json()},
                   {"launch_us", reading.launch_us},
                   {"missing_because", reading.missing_because}});
  }
  return {{"readings", std::move(all)}};
}

unsigned long long read_seed(const Json& request) {
  const Json& seed = json_field(request, "seed");
  if (!seed.is_number_unsigned()) {
    reject("field 'seed'");
  }
  return seed.get<unsigned long long>();
}

Json answer_race(const Json& request, const Problem& problem, Evaluator& evaluator) {
  const Contenders contenders(request, problem.operation());
  const RaceOptions options{.rounds = static_cast<int>(json_integer(request, "rounds", 0, kMaxInt)),
                            .seed = read_seed(request)};
  const RaceResult race = evaluator.race(problem, contenders.all, options);
  return {{"samples_us", race.samples_us},
          {"degraded_because", race.degraded_because},
          {"before", race.before},
          {"after", race.after}};
}

std::vector<Variant> unfit_variants(const Json& request, const Operation& operation) {
  std::vector<Variant> unfit;
  if (request.contains("unfit")) {
    for (const Json& variant : request["unfit"]) {
      unfit.push_back(variant_from_json(operation, variant));
    }
  }
  return unfit;
}

struct Answerer {
  std::string_view request;
  Json (*answer)(const Json& request, const Problem& problem, Evaluator& evaluator);
};

constexpr std::array kAnswerers{
    Answerer{"prepare", answer_prepare}, Answerer{"evaluate", answer_evaluate},
    Answerer{"count", answer_count},     Answerer{"count_accesses", answer_count_accesses},
    Answerer{"power", answer_power},     Answerer{"race", answer_race}};

std::vector<double> read_numbers(const Json& json) {
  std::vector<double> numbers;
  for (const Json& number : json) {
    if (!number.is_number()) {
      reject("a sample");
    }
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

}  // namespace

Json prepare_request(const Problem& problem) { return request("prepare", problem, {}); }

Json evaluate_request(const Problem& problem, const Variant& variant,
                      const CompiledKernel& kernel) {
  const std::array only{Contender{variant, &kernel}};
  return request("evaluate", problem, only);
}

Json count_request(const Problem& problem, std::span<const Contender> contenders) {
  return request("count", problem, contenders);
}

Json count_accesses_request(const Problem& problem, std::span<const Contender> contenders) {
  return request("count_accesses", problem, contenders);
}

Json power_request(const Problem& problem, std::span<const Contender> contenders) {
  return request("power", problem, contenders);
}

Json race_request(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) {
  Json json = request("race", problem, contenders);
  json["rounds"] = options.rounds;
  json["seed"] = options.seed;
  return json;
}

Json trial_note(const Variant* variant) {
  return {{"note", variant == nullptr ? Json() : Json(*variant)}};
}

Json without_trials_of(Json request, const std::vector<Json>& noted) {
  request["unfit"] = noted;
  return request;
}

Json greeting(const DeviceInfo& device) { return {{"device", device}}; }

Json error_answer(const Error& error) {
  Json json = Json::object();
  json["error"] = {{"code", static_cast<int>(error.code())}, {"message", error.what()}};
  return json;
}

Json answer(const Json& request, Evaluator& evaluator) {
  const std::string name = json_text(request, "request");
  const auto problem = json_field(request, "problem").get<Problem>();
  if (ReferenceTrials* const trials = evaluator.reference_trials(); trials != nullptr) {
    trials->unfit = unfit_variants(request, problem.operation());
  }
  for (const Answerer& answerer : kAnswerers) {
    if (answerer.request == name) {
      return answerer.answer(request, problem, evaluator);
    }
  }
  throw Error(ErrorCode::invalid_argument, "no evaluator answers the request '" + name + "'");
}

std::optional<Error> find_error(const Json& answer) {
  if (!answer.is_object() || !answer.contains("error")) {
    return std::nullopt;
  }
  const Json& error = answer["error"];
  const auto code = json_integer(error, "code", 0, static_cast<int>(ErrorCode::nothing_stored));
  return Error(static_cast<ErrorCode>(code), json_text(error, "message"));
}

DeviceInfo read_greeting(const Json& answer) {
  return json_field(answer, "device").get<DeviceInfo>();
}

VariantResult read_result(const Json& answer, const Variant& asked) {
  auto result = json_field(answer, "result").get<VariantResult>();
  if (result.variant != asked) {
    reject("a result of " + to_key(result.variant));
  }
  return result;
}

std::vector<CounterReading> read_readings(const Json& answer, std::size_t contenders) {
  return readings_of<CounterReading>(answer, contenders);
}

std::vector<AccessReading> read_access_readings(const Json& answer, std::size_t contenders) {
  return readings_of<AccessReading>(answer, contenders);
}

std::vector<PowerReading> read_power(const Json& answer, std::size_t readings) {
  std::vector<PowerReading> all;
  for (const Json& reading : json_field(answer, "readings")) {
    PowerReading& read = all.emplace_back();
    if (!json_field(reading, "power_w").is_null()) {
      read.power_w = json_number(reading, "power_w");
    }
    read.launch_us = json_number(reading, "launch_us");
    read.missing_because = json_text(reading, "missing_because");
  }
  if (all.size() != readings) {
    reject("a number of readings of power");
  }
  return all;
}

RaceResult read_race(const Json& answer, std::size_t contenders) {
  RaceResult race;
  for (const Json& samples : json_field(answer, "samples_us")) {
    race.samples_us.push_back(read_numbers(samples));
  }
  if (race.samples_us.size() != contenders) {
    reject("a number of racing variants");
  }
  race.degraded_because = json_text(answer, "degraded_because");
  race.before = json_field(answer, "before").get<GpuCondition>();
  race.after = json_field(answer, "after").get<GpuCondition>();
  return race;
}

}  // namespace swr
