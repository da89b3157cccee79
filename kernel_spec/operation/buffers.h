// SPDX-License-Identifier: MIT
// Device memory of a user kernel's arguments, and launches on it.
#pragma once

#include "kernel_spec/operation/user_kernel.h"
#include "kernel_spec/spec/argument_data.h"

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

namespace swr {

/// What a vector holds at first, on the device.
class InitialContents {
 public:
  /// Requires: at least one byte. Throws: DriverError, also when the device is out of memory.
  explicit InitialContents(std::span<const std::byte> bytes);

  std::size_t size_bytes() const { return size_bytes_; }
  /// In stream order.
  void copy_to(CUdeviceptr address, const Stream& stream) const;

 private:
  std::size_t size_bytes_;
  std::byte first_;
  DeviceBuffer bytes_;  ///< Empty where every byte is the first.
};

/// A vector between guards.
class GuardedVector {
 public:
  /// Throws: DriverError, also when the device is out of memory.
  explicit GuardedVector(std::shared_ptr<const InitialContents> initial);

  CUdeviceptr address() const;
  /// What it held at first, guards as well, in stream order. Nothing comes from the host: finals
  /// restore many times, and vectors may be large.
  void restore(const Stream& stream) const;
  /// Waits for work of every blocking stream.
  std::vector<std::byte> contents() const;
  /// The same into memory that is there: new pages cost more than the copy.
  void read_into(std::vector<std::byte>& bytes) const;
  /// Bytes of the guards that were written.
  std::size_t disturbed_bytes() const;

 private:
  std::shared_ptr<const InitialContents> initial_;
  DeviceBuffer memory_;
};

/// A texture object over an array of its own.
class TextureMemory {
 public:
  /// `elements` in the order of the array, x first. Throws: DriverError, also when the device is
  /// out of memory.
  TextureMemory(const KernelTexture& texture, const kernel_spec::ElementType& type,
                const std::array<std::size_t, 3>& extent, std::span<const std::byte> elements);
  ~TextureMemory();
  TextureMemory(const TextureMemory&) = delete;
  TextureMemory& operator=(const TextureMemory&) = delete;

  CUtexObject object() const { return object_; }

 private:
  CUarray array_ = nullptr;
  CUtexObject object_ = 0;
};

/// The vectors of one problem, by argument, type and number of elements: variants may ask for
/// different ones. Textures are kept by their extent.
class ArgumentBuffers {
 public:
  ArgumentBuffers(const UserKernel& kernel, unsigned long long seed)
      : kernel_(kernel), seed_(seed) {}

  /// Vectors of its own that begin as these do. What they begin with is shared: each race has such
  /// buffers, and filling them on the host would take longer than the race.
  ArgumentBuffers elsewhere() const;

  /// Throws: Error{invalid_argument} where what get() and texture() would make at this point is
  /// more than the device has free: before the host fills it.
  void require_room(const kernel_spec::Point& point) const;
  /// Throws: Error{invalid_argument}; DriverError, also when the device is out of memory.
  const GuardedVector& get(std::size_t argument, const kernel_spec::Point& point);
  const TextureMemory& texture(std::size_t argument, const kernel_spec::Point& point);

 private:
  /// Argument, elements, and the kind and lanes of their type, which a parameter may name.
  using VectorKey = std::tuple<std::size_t, long long, kernel_spec::NumberKind, int>;

  VectorKey key_of(std::size_t argument, const kernel_spec::Point& point) const;

  std::vector<std::byte> initial(std::size_t argument, const kernel_spec::Point& point) const;

  const UserKernel& kernel_;
  unsigned long long seed_;
  std::map<VectorKey, std::shared_ptr<const InitialContents>> initials_;
  std::map<VectorKey, GuardedVector> vectors_;
  std::map<std::pair<std::size_t, std::array<std::size_t, 3>>, TextureMemory> textures_;
};

/// All launches of a variant, or of a reference, on the arguments at a point.
class BoundLaunches {
 public:
  /// `kernel` has the steps in their order. Throws: as ArgumentBuffers::get(); DriverError.
  BoundLaunches(const UserKernel& user, std::span<const kernel_spec::PlannedStep> steps,
                std::shared_ptr<const Kernel> kernel, const kernel_spec::Point& point,
                ArgumentBuffers& buffers);

  void restore(const Stream& stream) const;
  void enqueue(const Stream& stream) const;
  /// The vector of an output argument.
  const GuardedVector& vector(std::size_t argument) const { return *vectors_.at(argument); }
  /// What an output argument holds, as it is compared, into memory that is there.
  void read_output(std::size_t argument, std::vector<std::byte>& bytes) const;
  std::size_t disturbed_bytes() const;

 private:
  struct Launch {
    std::size_t entry = 0;
    LaunchShape shape;
    int times = 1;
    std::vector<void*> pointers;  ///< To the values of arguments.
  };

  const UserKernel& user_;
  std::shared_ptr<const Kernel> kernel_;
  std::map<std::size_t, kernel_spec::ElementType> types_;
  std::map<std::size_t, const GuardedVector*> vectors_;
  std::vector<std::vector<std::byte>> values_;  ///< By argument: an address, a texture or a scalar.
  std::vector<Launch> launches_;
};

/// Outputs that are right, by argument.
using ExpectedOutputs = std::map<std::size_t, std::vector<std::byte>>;

/// From files, the reference's kernels, or the first two variants that agree. More than one where
/// these write some outputs and two others the rest: a variant is right by any.
/// Throws: Error{compile_failed}, Error{invalid_argument} where there is none; DriverError.
std::vector<ExpectedOutputs> expected_outputs(const UserKernel& user, const Problem& problem,
                                              const WorkloadTools& tools, ArgumentBuffers& buffers);

}  // namespace swr
