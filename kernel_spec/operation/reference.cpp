// SPDX-License-Identifier: MIT
#include "kernel_spec/operation/buffers.h"
#include <swr/error.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace swr {
namespace {

using kernel_spec::PlannedArgument;
using kernel_spec::Point;

ExpectedOutputs outputs_after(const UserKernel& user, const BoundLaunches& launches,
                              const Stream& stream) {
  launches.restore(stream);
  launches.enqueue(stream);
  stream.synchronize();
  ExpectedOutputs outputs;
  const std::vector<PlannedArgument>& arguments = user.plan().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].spec.is_output) {
      launches.read_output(i, outputs[i]);
    }
  }
  return outputs;
}

ExpectedOutputs outputs_of_reference(const UserKernel& user, const Problem& problem,
                                     const WorkloadTools& tools, ArgumentBuffers& buffers) {
  Point point;
  user.plan().fill(point, user.sizes_of(problem), user.plan().reference_choice());
  const auto kernel = std::make_shared<const Kernel>(
      tools.generator.compile_program(*user.reference_program(problem), tools.sm_arch));
  const BoundLaunches launches(user, user.plan().reference(), kernel, point, buffers);
  return outputs_after(user, launches, tools.stream);
}

bool agree(const UserKernel& user, const ExpectedOutputs& a, const ExpectedOutputs& b) {
  return std::ranges::all_of(a, [&](const auto& output) {
    const auto& [argument, bytes] = output;
    const std::vector<std::byte>& others = b.at(argument);
    return bytes.size() == others.size() &&
           kernel_spec::compare_output(user.plan().arguments()[argument], bytes, others)
               .failure.empty();
  });
}

/// The usual variant, then others spread over the space.
std::vector<Variant> candidates(const UserKernel& user, const Problem& problem, int sm_arch) {
  constexpr long long kMost = 16;
  constexpr int kSmemBytes = 227 * 1024;  // Some chips allow less: those are passed over there.
  const DeviceInfo device{.name = "any GPU",
                          .sm_arch = sm_arch,
                          .smem_per_cta_bytes = kSmemBytes,
                          .max_threads_per_sm = 1024};
  std::vector<Variant> all{user.default_variant(problem, device)};
  const kernel_spec::Space space = user.space(problem, {});
  const long long count = std::min(space.points(), kMost);
  for (long long i = 0; i < count; ++i) {
    const Variant variant = user.variant_of(space.at(i * space.points() / count));
    if (std::ranges::find(all, variant) == all.end() &&
        !user.broken_constraint(problem, variant, device)) {
      all.push_back(variant);
    }
  }
  return all;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Runs candidates until two agree. Those that cannot run, or agree with none, are named where that
/// never happens. Where the two leave an output as it was and write another, as a parameter may
/// choose, two more may agree that write none of theirs.
class Agreement {
 public:
  Agreement(const UserKernel& user, const Problem& problem, const WorkloadTools& tools,
            ArgumentBuffers& buffers)
      : user_(user), problem_(problem), tools_(tools), buffers_(buffers) {}

  /// Where only one candidate can run, what it leaves.
  std::vector<ExpectedOutputs> outputs() {
    for (const Variant& variant : candidates(user_, problem_, tools_.sm_arch)) {
      if (std::optional<Run> run = run_of(variant)) {
        take(variant, *std::move(run));
      }
      if (!agreed_.empty() && (written_.empty() || written_.size() == agreed_.front().size())) {
        break;
      }
    }
    if (agreed_.empty() && ran_.size() == 1) {
      agreed_.push_back(ran_.front().outputs);
    }
    if (agreed_.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  user_.text(problem_) + " has no reference, and no two variants agree:" + fates_ +
                      "; name a reference in the spec");
    }
    return std::move(agreed_);
  }

 private:
  struct Run {
    ExpectedOutputs outputs;
    std::set<std::size_t> written;  ///< Those that are not as they were at first.
  };

  void take(const Variant& variant, Run run) {
    const bool is_like_one = std::ranges::any_of(ran_, [&](const Run& other) {
      return other.written == run.written && agree(user_, other.outputs, run.outputs);
    });
    if (!is_like_one) {
      ran_.push_back(std::move(run));
      return note(variant, "agrees with none before it");
    }
    const bool writes_others =
        !run.written.empty() && std::ranges::none_of(run.written, [&](std::size_t output) {
          return written_.contains(output);
        });
    if (agreed_.empty() || writes_others) {
      agreed_.push_back(std::move(run.outputs));
      written_.merge(run.written);
    }
  }

  std::optional<Run> run_of(const Variant& variant) {
    const ReferenceTrials& trials = tools_.reference_trials;
    if (std::ranges::find(trials.unfit, variant) != trials.unfit.end()) {
      note(variant, "ended the measuring process");
      return std::nullopt;
    }
    std::optional<Run> made;
    trials.announce(&variant);
    try {
      made = run(variant);
    } catch (const DriverError& error) {
      if (error.context_is_lost()) {
        throw DriverError(error.result(), to_key(variant) + ", run to find out what is right: " +
                                              error.what() + "; name a reference in the spec");
      }
      note(variant, error.what());
    } catch (const Error& error) {
      note(variant, error.what());
    }
    trials.announce(nullptr);
    return made;
  }

  Run run(const Variant& variant) {
    Point point;
    user_.fill(point, problem_, variant);
    const auto kernel =
        std::make_shared<const Kernel>(tools_.generator.compile(problem_, variant, tools_.sm_arch));
    const BoundLaunches launches(user_, user_.plan().steps(), kernel, point, buffers_);
    Run run{.outputs = outputs_after(user_, launches, tools_.stream), .written = {}};
    launches.restore(tools_.stream);
    tools_.stream.synchronize();
    for (std::vector<std::byte> before; const auto& [argument, after] : run.outputs) {
      launches.read_output(argument, before);
      if (before != after) {
        run.written.insert(argument);
      }
    }
    return run;
  }

  void note(const Variant& variant, const std::string& fate) {
    fates_ += (fates_.empty() ? " " : "; ") + to_key(variant) + ": " + first_line(fate);
  }

  const UserKernel& user_;
  const Problem& problem_;
  const WorkloadTools& tools_;
  ArgumentBuffers& buffers_;
  std::vector<Run> ran_;
  std::vector<ExpectedOutputs> agreed_;
  std::set<std::size_t> written_;  ///< By those that agree.
  std::string fates_;
};

}  // namespace

std::vector<ExpectedOutputs> expected_outputs(const UserKernel& user, const Problem& problem,
                                              const WorkloadTools& tools,
                                              ArgumentBuffers& buffers) {
  ExpectedOutputs expected;
  bool is_complete = true;
  const std::vector<PlannedArgument>& arguments = user.plan().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].expected.empty()) {
      const auto bytes = std::as_bytes(std::span(arguments[i].expected));
      expected[i].assign(bytes.begin(), bytes.end());
      kernel_spec::make_comparable(arguments[i], arguments[i].type, expected[i]);
    } else {
      is_complete = is_complete && !arguments[i].spec.is_output;
    }
  }
  if (is_complete) {
    return {expected};
  }
  std::vector<ExpectedOutputs> all =
      user.plan().reference().empty()
          ? Agreement(user, problem, tools, buffers).outputs()
          : std::vector{outputs_of_reference(user, problem, tools, buffers)};
  for (ExpectedOutputs& found : all) {
    for (const auto& [argument, bytes] : expected) {  // Those from files stay.
      found[argument] = bytes;
    }
  }
  return all;
}

}  // namespace swr
