// SPDX-License-Identifier: MIT
#include "operations/user_kernel/buffers.h"
#include <swr/error.h>

#include <algorithm>

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
      outputs[i] = launches.vector(i).contents();
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
  constexpr int kSmemBytes = 99 * 1024;  // What every chip of today's allows a CTA.
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

ExpectedOutputs outputs_that_agree(const UserKernel& user, const Problem& problem,
                                   const WorkloadTools& tools, ArgumentBuffers& buffers) {
  constexpr std::size_t kOthers = 2;
  std::vector<ExpectedOutputs> seen;
  std::vector<std::size_t> others_like;  // By place among those seen.
  const std::vector<Variant> all = candidates(user, problem, tools.sm_arch);
  for (const Variant& variant : all) {
    try {
      Point point;
      user.fill(point, problem, variant);
      const auto kernel =
          std::make_shared<const Kernel>(tools.generator.compile(problem, variant, tools.sm_arch));
      const BoundLaunches launches(user, user.plan().steps(), kernel, point, buffers);
      seen.push_back(outputs_after(user, launches, tools.stream));
    } catch (const DriverError& error) {
      if (error.context_is_lost()) {
        throw;
      }
      continue;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::compile_failed) {
        throw;
      }
      continue;
    }
    others_like.push_back(0);
    for (std::size_t place = 0; place + 1 < seen.size(); ++place) {
      if (agree(user, seen.back(), seen[place])) {
        ++others_like[place];
        ++others_like.back();
      }
    }
    const auto agreed = std::ranges::find_if(others_like, [&](std::size_t others) {
      return others >= std::min(kOthers, all.size() - 1);
    });
    if (agreed != others_like.end()) {
      return seen[static_cast<std::size_t>(agreed - others_like.begin())];
    }
  }
  throw Error(ErrorCode::invalid_argument,
              user.text(problem) + " has no reference, and of " + std::to_string(all.size()) +
                  " variants no three agree; name a reference in the spec");
}

}  // namespace

ExpectedOutputs expected_outputs(const UserKernel& user, const Problem& problem,
                                 const WorkloadTools& tools, ArgumentBuffers& buffers) {
  ExpectedOutputs expected;
  bool is_complete = true;
  const std::vector<PlannedArgument>& arguments = user.plan().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].expected.empty()) {
      const auto bytes = std::as_bytes(std::span(arguments[i].expected));
      expected[i].assign(bytes.begin(), bytes.end());
    } else {
      is_complete = is_complete && !arguments[i].spec.is_output;
    }
  }
  if (is_complete) {
    return expected;
  }
  ExpectedOutputs found = user.plan().reference().empty()
                              ? outputs_that_agree(user, problem, tools, buffers)
                              : outputs_of_reference(user, problem, tools, buffers);
  expected.merge(found);  // Those from files stay.
  return expected;
}

}  // namespace swr
