// SPDX-License-Identifier: MIT
#include "tuner/supervise/protocol.h"

#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

const AttentionProblem kProblem{.seq_q = 64, .seq_kv = 64};

/// Remembers what arrives.
class Recorder final : public Evaluator {
 public:
  const DeviceInfo& device() const override { return device_; }
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    arrived = kernel;
    asked = attention(problem);
    return VariantResult{.variant = variant, .outcome = Prediction{.time_us = 4.0}};
  }
  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    std::vector<CounterReading> readings(contenders.size());
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      readings[i].counters.emplace().l2_hits = attention(contenders[i].variant).stages;
      readings[i].missing_because = contenders[i].kernel->cubin_digest;
    }
    return readings;
  }
  std::vector<AccessReading> count_accesses(const Problem& /*problem*/,
                                            std::span<const Contender> contenders) override {
    std::vector<AccessReading> readings(contenders.size());
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      readings[i].accesses.emplace().smem_load_conflicts = attention(contenders[i].variant).stages;
      readings[i].missing_because = contenders[i].kernel->cubin_digest;
    }
    return readings;
  }
  std::vector<PowerReading> measure_power(const Problem& /*problem*/,
                                          std::span<const Contender> contenders) override {
    if (contenders.empty()) {
      return {PowerReading{.missing_because = "asleep"}};
    }
    std::vector<PowerReading> readings;
    for (const Contender& contender : contenders) {
      readings.push_back({100.0 * attention(contender.variant).stages, 12.5, ""});
    }
    return readings;
  }
  RaceResult race(const Problem& /*problem*/, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    seed = options.seed;
    return {.samples_us = {contenders.size(), {1.0, options.rounds + 0.5}},
            .degraded_because = "hot",
            .before = {.sm_clock_mhz = 1980},
            .after = {.temperature_c = 90}};
  }

  CompiledKernel arrived;
  AttentionProblem asked;
  unsigned long long seed = 0;

 private:
  DeviceInfo device_ = test::fictional_device();
};

CompiledKernel kernel_named(const std::string& digest) {
  return {.entry = "entry",
          .sm_arch = 90,
          .cubin = {std::byte{0}, std::byte{255}},
          .cubin_digest = digest,
          .source_digest = "source",
          .resources = {.registers_per_thread = 9, .spill_store_bytes = 8},
          .may_overlap = true,
          .from_cache = true};
}

std::string complaint(const std::function<void()>& action) {
  return message_of(ErrorCode::invalid_argument, [&] { action(); });
}

TEST(Protocol, CarriesAKernelToTheEvaluatorAndTheResultBack) {
  Recorder recorder;
  const CompiledKernel sent = kernel_named("digest");
  const AttentionVariant variant{.stages = 3};
  const Json reply = answer(evaluate_request(kProblem, variant, sent), recorder);
  EXPECT_EQ(recorder.asked, kProblem);
  EXPECT_EQ(recorder.arrived.entry, sent.entry);
  EXPECT_EQ(recorder.arrived.sm_arch, sent.sm_arch);
  EXPECT_EQ(recorder.arrived.cubin, sent.cubin);
  EXPECT_EQ(recorder.arrived.cubin_digest, sent.cubin_digest);
  EXPECT_EQ(recorder.arrived.source_digest, sent.source_digest);
  EXPECT_EQ(recorder.arrived.resources, sent.resources);
  EXPECT_TRUE(recorder.arrived.may_overlap);
  EXPECT_TRUE(recorder.arrived.from_cache);
  EXPECT_EQ(read_result(reply, variant).time_us(), 4.0);
  EXPECT_THAT(complaint([&] { read_result(reply, AttentionVariant{}); }), HasSubstr("stages=3"));
}

TEST(Protocol, KeepsContendersAndTheirKernelsTogether) {
  Recorder recorder;
  const CompiledKernel a = kernel_named("a");
  const CompiledKernel b = kernel_named("b");
  const std::vector<Contender> contenders{{AttentionVariant{.stages = 1}, &a},
                                          {AttentionVariant{.stages = 4}, &b}};
  const Json reply = answer(count_request(kProblem, contenders), recorder);
  const auto readings = read_readings(reply, 2);
  EXPECT_EQ(readings[0].counters->l2_hits, 1);
  EXPECT_EQ(readings[0].missing_because, "a");
  EXPECT_EQ(readings[1].counters->l2_hits, 4);
  EXPECT_EQ(readings[1].missing_because, "b");
  EXPECT_THAT(complaint([&] { read_readings(reply, 3); }), HasSubstr("readings"));
}

TEST(Protocol, CarriesPowerAndWhyThereIsNone) {
  Recorder recorder;
  const CompiledKernel kernel = kernel_named("a");
  const std::vector<Contender> contenders{{AttentionVariant{.stages = 4}, &kernel}};
  const Json reply = answer(power_request(kProblem, contenders), recorder);
  const auto readings = read_power(reply, 1);
  EXPECT_EQ(readings[0].power_w, 400.0);
  EXPECT_EQ(readings[0].launch_us, 12.5);
  EXPECT_EQ(readings[0].missing_because, "");
  EXPECT_THAT(complaint([&] { read_power(reply, 2); }), HasSubstr("power"));
  const auto idle = read_power(answer(power_request(kProblem, {}), recorder), 1);
  EXPECT_EQ(idle[0].power_w, std::nullopt);
  EXPECT_EQ(idle[0].missing_because, "asleep");
}

TEST(Protocol, CarriesAKernelOfSeveralContendersOnce) {
  Recorder recorder;
  const CompiledKernel a = kernel_named("a");
  const CompiledKernel copy_of_a = a;
  const CompiledKernel b = kernel_named("b");
  const std::vector<Contender> contenders{{AttentionVariant{.stages = 1}, &a},
                                          {AttentionVariant{.stages = 2}, &b},
                                          {AttentionVariant{.stages = 3}, &copy_of_a}};
  Json request = count_request(kProblem, contenders);
  EXPECT_EQ(request["kernels"].size(), 2U);
  const auto readings = read_readings(answer(request, recorder), 3);
  EXPECT_EQ(readings[1].missing_because, "b");
  EXPECT_EQ(readings[2].missing_because, "a");
  EXPECT_EQ(readings[2].counters->l2_hits, 3);
  request["contenders"][1]["kernel"] = 2;
  EXPECT_THAT(complaint([&] { answer(request, recorder); }), HasSubstr("number of a kernel"));
}

TEST(Protocol, CarriesAccessesAndLeavesOutWhatTheChipDoesNotCount) {
  Recorder recorder;
  const CompiledKernel kernel = kernel_named("a");
  const std::vector<Contender> contenders{{AttentionVariant{.stages = 3}, &kernel}};
  const Json reply = answer(count_accesses_request(kProblem, contenders), recorder);
  const auto readings = read_access_readings(reply, 1);
  EXPECT_EQ(readings[0].accesses, (AccessCounters{.smem_load_conflicts = 3}));
  EXPECT_EQ(readings[0].missing_because, "a");
  EXPECT_THAT(complaint([&] { read_access_readings(reply, 2); }), HasSubstr("readings"));
}

TEST(Protocol, CarriesARace) {
  Recorder recorder;
  const CompiledKernel kernel = kernel_named("a");
  const std::vector<Contender> contenders{{AttentionVariant{}, &kernel},
                                          {AttentionVariant{.stages = 4}, &kernel}};
  constexpr unsigned long long kSeed = ~0ULL;
  const Json reply =
      answer(race_request(kProblem, contenders, {.rounds = 5, .seed = kSeed}), recorder);
  const RaceResult race = read_race(reply, 2);
  EXPECT_EQ(recorder.seed, kSeed);
  EXPECT_EQ(race.samples_us, (std::vector<std::vector<double>>{{1.0, 5.5}, {1.0, 5.5}}));
  EXPECT_EQ(race.degraded_because, "hot");
  EXPECT_EQ(race.before, (GpuCondition{.sm_clock_mhz = 1980}));
  EXPECT_EQ(race.after, (GpuCondition{.temperature_c = 90}));
  EXPECT_THAT(complaint([&] { read_race(reply, 1); }), HasSubstr("racing"));
}

TEST(Protocol, CarriesTheDeviceAndErrors) {
  const DeviceInfo device = test::fictional_device();
  EXPECT_TRUE(same_device(read_greeting(greeting(device)), device));
  EXPECT_FALSE(find_error(greeting(device)).has_value());
  const auto error = find_error(error_answer(Error(ErrorCode::no_driver, "why")));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::no_driver);
  EXPECT_STREQ(error->what(), "why");
}

TEST(Protocol, RefusesWhatNoEvaluatorAnswers) {
  Recorder recorder;
  const CompiledKernel kernel = kernel_named("a");
  Json request = evaluate_request(kProblem, AttentionVariant{}, kernel);
  request["request"] = "sing";
  EXPECT_THAT(complaint([&] { answer(request, recorder); }), HasSubstr("'sing'"));
  EXPECT_THAT(complaint([&] { answer(Json(3), recorder); }), HasSubstr("request"));
}

TEST(Frame, CarriesBytesNumbersAndTextsOfAnyEncoding) {
  Json document = {{"text", "bad \xff utf-8"},
                   {"infinite", std::numeric_limits<double>::infinity()}};
  document["bytes"] = Json::binary({0, 1, 255});
  document["third"] = 1.0 / 3.0;
  FrameReader reader;
  reader.add(encode_frame(document));
  EXPECT_EQ(reader.next(), document);
  EXPECT_FALSE(reader.next().has_value());
}

TEST(Frame, IsPutTogetherFromSinglesBytesAndSplitFromItsNeighbour) {
  const std::string two = encode_frame({{"n", 1}}) + encode_frame({{"n", 2}});
  FrameReader reader;
  std::vector<Json> documents;
  for (const char byte : two) {
    reader.add({&byte, 1});
    if (auto document = reader.next()) {
      documents.push_back(*document);
    }
  }
  EXPECT_EQ(documents, (std::vector<Json>{{{"n", 1}}, {{"n", 2}}}));
  reader.add(two);
  EXPECT_EQ(reader.next()->at("n"), 1);
  EXPECT_EQ(reader.next()->at("n"), 2);
}

TEST(Frame, ThatIsNoneIsRefused) {
  FrameReader nonsense;
  nonsense.add(std::string("\0\0\0\2\xff\xff", 6));
  EXPECT_THROW(nonsense.next(), Error);
  FrameReader boundless;  // A list of 2^63 values.
  boundless.add(std::string("\0\0\0\x9\x9b\x80\0\0\0\0\0\0\0", 13));
  EXPECT_THROW(boundless.next(), Error);
  FrameReader endless;
  endless.add("\xff\xff\xff\xff");
  EXPECT_THROW(endless.next(), Error);
}

}  // namespace
}  // namespace swr
