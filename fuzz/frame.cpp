// SPDX-License-Identifier: MIT
// What a measuring process may send to its supervisor, and the supervisor to it: bytes of frames,
// or, where the input begins with a brace, one document in a frame.

#include "core/bounded_json.h"
#include "fuzz/harness.h"
#include "tuner/supervise/protocol.h"
#include <swr/attention_variant.h>

namespace swr::fuzz {
namespace {

/// Answers as if there were a GPU.
class QuietEvaluator final : public Evaluator {
 public:
  const DeviceInfo& device() const override { return device_; }

  VariantResult evaluate(const Problem& /*problem*/, const Variant& variant,
                         const CompiledKernel& kernel) override {
    VariantResult result;
    result.variant = variant;
    result.resources = kernel.resources;
    result.outcome = Prediction{.time_us = 1.0};
    return result;
  }
  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    return {contenders.size(), CounterReading{std::nullopt, "not counted"}};
  }
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    return no_accesses(contenders);
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    return no_power(contenders);
  }
  RaceResult race(const Problem& /*problem*/, std::span<const Contender> contenders,
                  const RaceOptions& /*options*/) override {
    RaceResult result;
    result.samples_us.assign(contenders.size(), {1.0});
    return result;
  }

 private:
  DeviceInfo device_;
};

/// A damaged document must not keep the readers after it from seeing it.
template <typename Read>
void attempt(Read&& read) {
  try {
    read();
  } catch (const Error&) {
    // As it should be.
  }
}

void read_as_everything(const Json& document) {
  attempt([&] { (void)read_greeting(document); });
  attempt([&] { (void)find_error(document); });
  attempt([&] { (void)read_result(document, AttentionVariant{}); });
  attempt([&] { (void)read_readings(document, 1); });
  attempt([&] { (void)read_access_readings(document, 1); });
  attempt([&] { (void)read_race(document, 1); });
  QuietEvaluator evaluator;
  attempt([&] { (void)encode_frame(answer(document, evaluator)); });
}

std::string frames_of(std::string_view input) {
  if (input.starts_with('{')) {
    return encode_frame(parse_json(input, "a document"));
  }
  return std::string(input);
}

}  // namespace

void run_one(std::string_view input) {
  const std::string frames = frames_of(input);
  FrameReader reader;
  const std::size_t half = frames.size() / 2;
  for (const std::string_view piece :
       {std::string_view(frames).substr(0, half), std::string_view(frames).substr(half)}) {
    reader.add(piece);
    while (const auto document = reader.next()) {
      read_as_everything(*document);
    }
  }
}

}  // namespace swr::fuzz
