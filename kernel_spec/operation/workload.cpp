// SPDX-License-Identifier: MIT
#include "kernel_spec/operation/buffers.h"
#include <swr/error.h>

#include <algorithm>
#include <utility>

namespace swr {
namespace {

using kernel_spec::Point;

constexpr std::size_t kGuardBytes = 4096;
constexpr std::byte kGuard{0xff};

std::size_t count_disturbed(CUdeviceptr address) {
  std::vector<std::byte> guard(kGuardBytes);
  cuda_driver().copy_to_host(static_cast<void*>(guard.data()), address, guard.size());
  return static_cast<std::size_t>(
      std::ranges::count_if(guard, [](std::byte one) { return one != kGuard; }));
}

}  // namespace

InitialContents::InitialContents(std::span<const std::byte> bytes)
    : size_bytes_(bytes.size()), first_(bytes.front()) {
  if (!std::ranges::all_of(bytes, [this](std::byte b) { return b == first_; })) {
    bytes_ = DeviceBuffer(bytes.size());
    bytes_.upload(bytes);
  }
}

void InitialContents::copy_to(CUdeviceptr address, const Stream& stream) const {
  if (bytes_.size_bytes() == 0) {
    cuda_driver().memset_async(address, static_cast<unsigned char>(first_), size_bytes_,
                               stream.handle());
  } else {
    cuda_driver().copy_on_device(address, bytes_.address(), size_bytes_, stream.handle());
  }
}

GuardedVector::GuardedVector(std::shared_ptr<const InitialContents> initial)
    : initial_(std::move(initial)), memory_(initial_->size_bytes() + 2 * kGuardBytes) {}

CUdeviceptr GuardedVector::address() const { return memory_.address() + kGuardBytes; }

void GuardedVector::restore(const Stream& stream) const {
  const auto guard = static_cast<unsigned char>(kGuard);
  const auto fill_guard = [&](CUdeviceptr place) {
    cuda_driver().memset_async(place, guard, kGuardBytes, stream.handle());
  };
  fill_guard(memory_.address());
  fill_guard(address() + initial_->size_bytes());
  initial_->copy_to(address(), stream);
}

std::vector<std::byte> GuardedVector::contents() const {
  std::vector<std::byte> bytes;
  read_into(bytes);
  return bytes;
}

void GuardedVector::read_into(std::vector<std::byte>& bytes) const {
  bytes.resize(initial_->size_bytes());
  cuda_driver().copy_to_host(static_cast<void*>(bytes.data()), address(), bytes.size());
}

std::size_t GuardedVector::disturbed_bytes() const {
  return count_disturbed(memory_.address()) + count_disturbed(address() + initial_->size_bytes());
}

ArgumentBuffers ArgumentBuffers::elsewhere() const {
  ArgumentBuffers buffers(kernel_, seed_);
  buffers.initials_ = initials_;
  return buffers;
}

ArgumentBuffers::VectorKey ArgumentBuffers::key_of(std::size_t argument, const Point& point) const {
  const kernel_spec::PlannedArgument& planned = kernel_.plan().arguments()[argument];
  const kernel_spec::ElementType& type = planned.type_at(point);
  return {argument, kernel_.plan().elements(planned, point), type.kind, type.lanes};
}

const GuardedVector& ArgumentBuffers::get(std::size_t argument, const Point& point) {
  const VectorKey key = key_of(argument, point);
  if (const auto known = vectors_.find(key); known != vectors_.end()) {
    return known->second;
  }
  std::shared_ptr<const InitialContents>& contents = initials_[key];
  if (!contents) {
    contents = std::make_shared<const InitialContents>(initial(argument, point));
  }
  return vectors_.try_emplace(key, contents).first->second;
}

void ArgumentBuffers::require_room(const Point& point) const {
  const kernel_spec::KernelPlan& plan = kernel_.plan();
  double needed = 0.0;
  for (std::size_t i = 0; i < plan.arguments().size(); ++i) {
    const kernel_spec::PlannedArgument& argument = plan.arguments()[i];
    if (!argument.size && !argument.spec.texture) {
      continue;
    }
    const double bytes = static_cast<double>(plan.elements(argument, point)) *
                         static_cast<double>(argument.type_at(point).bytes());
    if (!argument.spec.texture && !vectors_.contains(key_of(i, point))) {
      // Beside what it holds lies what it held at first, unless that is there already.
      const bool is_kept = argument.spec.fill != KernelFill::nothing &&
                           argument.spec.fill != KernelFill::zeros &&
                           !initials_.contains(key_of(i, point));
      needed += bytes * (is_kept ? 2.0 : 1.0);
    } else if (argument.spec.texture && !textures_.contains({i, plan.extent(argument, point)})) {
      needed += bytes;
    }
  }
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  cuda_driver().mem_get_info(&free_bytes, &all_bytes);
  if (needed > static_cast<double>(free_bytes)) {
    constexpr double kMebibyte = 1 << 20;
    throw Error(ErrorCode::invalid_argument,
                "the arguments of " + std::string(kernel_.given_name()) + " need " +
                    std::to_string(static_cast<long long>(needed / kMebibyte)) +
                    " MiB of device memory, and " + std::to_string(free_bytes >> 20U) +
                    " MiB are free; choose smaller sizes");
  }
}

const TextureMemory& ArgumentBuffers::texture(std::size_t argument, const Point& point) {
  const kernel_spec::PlannedArgument& planned = kernel_.plan().arguments()[argument];
  const std::pair key{argument, kernel_.plan().extent(planned, point)};
  const auto known = textures_.find(key);
  return known != textures_.end() ? known->second
                                  : textures_
                                        .try_emplace(key, *planned.spec.texture, planned.type,
                                                     key.second, initial(argument, point))
                                        .first->second;
}

std::vector<std::byte> ArgumentBuffers::initial(std::size_t argument, const Point& point) const {
  // Arguments differ in what they hold, and runs do.
  const unsigned long long seed = seed_ * 1000003ULL + argument;
  return kernel_spec::initial_bytes(kernel_.plan(), kernel_.plan().arguments()[argument], point,
                                    seed);
}

namespace {

template <typename Value>
std::vector<std::byte> bytes_of(const Value& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

BoundLaunches::BoundLaunches(const UserKernel& user,
                             std::span<const kernel_spec::PlannedStep> steps,
                             std::shared_ptr<const Kernel> kernel, const Point& point,
                             ArgumentBuffers& buffers)
    : user_(user), kernel_(std::move(kernel)) {
  const kernel_spec::KernelPlan& plan = user.plan();
  values_.resize(plan.arguments().size());
  buffers.require_room(point);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const kernel_spec::PlannedArgument& argument = plan.arguments()[i];
    if (argument.spec.texture) {
      values_[i] = bytes_of(buffers.texture(i, point).object());
      continue;
    }
    if (!argument.size) {
      values_[i] = kernel_spec::scalar_bytes(argument, point);
      continue;
    }
    const GuardedVector& vector = buffers.get(i, point);
    vectors_[i] = &vector;
    types_[i] = argument.type_at(point);
    values_[i] = bytes_of(vector.address());
    if (argument.spec.is_constant) {
      kernel_->set_variable(argument.spec.name,
                            kernel_spec::initial_bytes(plan, argument, point, 0));
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const kernel_spec::PlannedLaunch planned = plan.launch(steps[i], point);
    if (planned.times == 0) {
      continue;
    }
    const auto& [gx, gy, gz] = planned.grid;
    const auto& [bx, by, bz] = planned.block;
    Launch launch{.entry = i,
                  .shape = {gx, gy, gz, bx, by, bz, static_cast<unsigned>(planned.shared_bytes)},
                  .times = planned.times,
                  .pointers = {}};
    for (const std::size_t argument : steps[i].arguments) {
      launch.pointers.push_back(values_[argument].data());
    }
    launches_.push_back(std::move(launch));
    kernel_->allow_dynamic_smem(planned.shared_bytes, i);
  }
}

void BoundLaunches::restore(const Stream& stream) const {
  for (const auto& [argument, vector] : vectors_) {
    vector->restore(stream);
  }
}

void BoundLaunches::enqueue(const Stream& stream) const {
  for (const Launch& launch : launches_) {
    for (int i = 0; i < launch.times; ++i) {
      kernel_->enqueue(launch.shape, stream, const_cast<void**>(launch.pointers.data()),
                       launch.entry);
    }
  }
}

void BoundLaunches::read_output(std::size_t argument, std::vector<std::byte>& bytes) const {
  vectors_.at(argument)->read_into(bytes);
  kernel_spec::make_comparable(user_.plan().arguments()[argument], types_.at(argument), bytes);
}

std::size_t BoundLaunches::disturbed_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [argument, vector] : vectors_) {
    bytes += vector->disturbed_bytes();
  }
  return bytes;
}

namespace {

class UserTrial final : public Trial {
 public:
  UserTrial(const UserKernel& user, BoundLaunches launches,
            const std::vector<ExpectedOutputs>& expected, const Stream& stream,
            std::vector<std::byte>& found)
      : user_(user),
        launches_(std::move(launches)),
        expected_(expected),
        stream_(stream),
        found_(found) {}

  void launch() override { launches_.enqueue(stream_); }

  Verdict verify() override {
    launches_.restore(stream_);
    launches_.enqueue(stream_);
    stream_.synchronize();
    return judge();
  }

  /// Timed launches go on from what the one before them left, so what they leave is judged by one
  /// more from the start.
  Verdict check_after_timing() override { return verify(); }

 private:
  Verdict judge() const {
    Verdict verdict = against(expected_.front());
    for (std::size_t i = 1; i < expected_.size() && !verdict.failure.empty(); ++i) {
      if (Verdict other = against(expected_[i]); other.failure.empty()) {
        verdict = std::move(other);
      }
    }
    if (const std::size_t bytes = launches_.disturbed_bytes(); bytes > 0) {
      verdict.failure += (verdict.failure.empty() ? "" : "; ") + std::string("wrote ") +
                         std::to_string(bytes) + " bytes outside the arguments";
    }
    return verdict;
  }

  Verdict against(const ExpectedOutputs& outputs) const {
    Verdict verdict;
    for (const auto& [argument, expected] : outputs) {
      launches_.read_output(argument, found_);
      const kernel_spec::PlannedArgument& planned = user_.plan().arguments()[argument];
      if (found_.size() != expected.size()) {
        verdict.failure = planned.spec.name + " has " + std::to_string(found_.size()) +
                          " bytes, and the reference's has " + std::to_string(expected.size());
        return verdict;
      }
      const auto compared = kernel_spec::compare_output(planned, found_, expected);
      verdict.relative_error = std::max(verdict.relative_error, compared.relative_error);
      if (!compared.failure.empty()) {
        verdict.failure += (verdict.failure.empty() ? "" : "; ") + compared.failure;
      }
    }
    return verdict;
  }

  const UserKernel& user_;
  BoundLaunches launches_;
  const std::vector<ExpectedOutputs>& expected_;
  const Stream& stream_;
  std::vector<std::byte>& found_;
};

class UserWorkload final : public Workload {
 public:
  UserWorkload(const UserKernel& user, const Problem& problem, const WorkloadTools& tools,
               unsigned long long seed)
      : user_(user),
        problem_(problem),
        tools_(tools),
        buffers_(user, seed),
        expected_(expected_outputs(user, problem, tools, buffers_)) {}

  /// For races, which verify nothing.
  UserWorkload(const UserWorkload& like, ArgumentBuffers buffers)
      : user_(like.user_),
        problem_(like.problem_),
        tools_(like.tools_),
        buffers_(std::move(buffers)) {}

  const Problem& problem() const override { return problem_; }

  std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                              int /*ctas_per_sm*/) override {
    Point point;
    user_.fill(point, problem_, variant);
    BoundLaunches launches(user_, user_.plan().steps(), std::move(kernel), point, buffers_);
    launches.restore(tools_.stream);
    return std::make_unique<UserTrial>(user_, std::move(launches), expected_, tools_.stream,
                                       found_);
  }

  std::unique_ptr<Workload> copy() override {
    return std::make_unique<UserWorkload>(*this, buffers_.elsewhere());
  }

 private:
  const UserKernel& user_;
  Problem problem_;
  const WorkloadTools& tools_;
  ArgumentBuffers buffers_;
  std::vector<ExpectedOutputs> expected_;
  std::vector<std::byte> found_;  ///< Of the trial that verifies.
};

}  // namespace

std::unique_ptr<Workload> make_user_workload(const UserKernel& kernel, const Problem& problem,
                                             const WorkloadTools& tools, unsigned long long seed) {
  if (!kernel.plan().has_data()) {
    throw Error(
        ErrorCode::invalid_argument,
        std::string(kernel.name()) +
            " has arguments from files, which no database holds; name its spec with --spec");
  }
  return std::make_unique<UserWorkload>(kernel, problem, tools, seed);
}

}  // namespace swr
