// SPDX-License-Identifier: MIT
// Runs attention, also as servers call it, and GEMM on device memory with the best stored kernels:
//
//   swr::Runtime runtime({.database = "tuned.db"});
//   runtime.attention({.params = params, .head_dim = 128, .causal = true}, stream);
//   runtime.gemm({.params = gemm_params, .layout = swr::GemmLayout::nt}, stream);
#pragma once

#include <swr/attention_backward_params.h>
#include <swr/attention_backward_problem.h>
#include <swr/attention_params.h>
#include <swr/attention_problem.h>
#include <swr/axes.h>
#include <swr/device.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>
#include <swr/gemm_problem.h>
#include <swr/generator.h>
#include <swr/lookup.h>
#include <swr/problem.h>
#include <swr/serving_attention_call.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

// The driver's CUstream and the CUDA runtime's cudaStream_t are pointers to this.
struct CUstream_st;

namespace swr {

struct FixedSite;

/// One forward pass on device memory.
struct AttentionCall {
  /// Pointers, strides, sizes and scale. A scale_log2 of 0 stands for log2(e) / sqrt(head_dim);
  /// section_heads is ignored, the kernel that is chosen decides it.
  AttentionParams params;
  int head_dim = 64;
  DType dtype = DType::fp16;
  bool causal = false;
};

/// The problem that a call poses: its alignment is the largest that every pointer and every stride
/// of a dimension with more than one element has.
/// Throws: Error{invalid_argument} as validate(), and for null pointers.
AttentionProblem problem_of(const AttentionCall& call);

/// One backward pass on device memory.
struct AttentionBackwardCall {
  /// Pointers, strides, sizes and scale. A scale of 0 stands for 1 / sqrt(head_dim). What lies
  /// below the scale is ignored: the kernels that are chosen decide it.
  AttentionBackwardParams params;
  int head_dim = 64;
  int head_dim_v = 64;
  DType dtype = DType::fp16;
  bool causal = false;
  bool deterministic = false;
  /// Device memory of the caller's, as much as Runtime::attention_backward_workspace() says or
  /// more, aligned to 256 bytes, which may hold anything and is free again when the call has run.
  /// Null: memory of the runtime, which a stream's first call, one that needs more than those
  /// before, and every captured one allocate.
  void* workspace = nullptr;
  long long workspace_bytes = 0;
};

/// As for attention.
AttentionBackwardProblem problem_of(const AttentionBackwardCall& call);
/// True where there is no score, because the batch is empty or there are no queries or no keys: all
/// gradients are then 0, which takes no workspace.
bool is_empty(const AttentionBackwardCall& call);

/// One matrix product for each item of a batch, on device memory.
struct GemmCall {
  /// Pointers, strides, sizes, alpha and beta; the choices made at launch are ignored, the kernel
  /// that is chosen decides them. C is read when beta is not 0.
  GemmParams params;
  DType dtype = DType::bf16;
  OutputType output = OutputType::bf16;
  GemmLayout layout = GemmLayout::nt;
  // As in GemmProblem; `extras` has the pointers that they ask for.
  Scaling scaling = Scaling::none;
  Accuracy accuracy = Accuracy::fast;
  Activation activation = Activation::none;
  bool gated = false;
  Scaling output_scaling = Scaling::none;
  GemmExtras extras;  ///< A bias that is not null is added.
  GemmGrouping grouping;
};

/// As for attention.
GemmProblem problem_of(const GemmCall& call);

struct RuntimeOptions {
  /// Where variants are looked up. Without one the exported directory answers, and where that has
  /// nothing either what comes with swr.
  std::optional<std::filesystem::path> database;
  /// Where its objective is time, a kernel whose spec names another is answered by that, if a run
  /// decided by it.
  LookupOptions lookup;
  /// A directory that `swr-tune export` wrote: kernels in it need no compiler.
  std::optional<std::filesystem::path> exported;
  /// Cubin cache and compiler for kernels that are not exported.
  GeneratorOptions generator;
  /// When false, nothing is ever compiled: a kernel comes from the exported directory, the cache or
  /// those that ship, and where the best one is in none, the best exported one that fits runs.
  bool may_compile = true;
  /// The archive of kernels that ship (docs/shipped_kernels.md): the installed one, unless one is
  /// named; an empty path is none. One that is installed and cannot be believed is left aside, with
  /// a line on stderr, and so is said, once, that a kernel which it lacks is compiled.
  std::optional<std::filesystem::path> kernels = {};
};

/// Any number of threads may use it at once, on any streams, contexts and devices. Kernels are
/// loaded once for each context. Neither a driver nor NVRTC is opened before it is needed. Must be
/// destroyed before the contexts that it was used in.
class Runtime {
 public:
  /// Throws: Error as Lookup for the database; Error{not_found}, Error{unreadable} for the exported
  /// directory and for an archive of kernels that is named.
  explicit Runtime(const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Enqueues one pass on `stream` of the current context, or of that of the Q tensor where none is
  /// current on this thread, which it then becomes. The first call for a problem in a context looks
  /// up, gets and loads its kernel; later ones launch without allocation. Never synchronises, and
  /// may be captured in a graph. Batch and lengths may be 0, here as in all that follows: rows
  /// without keys are 0 and have a log-sum-exp of -infinity, and tensors without elements may be
  /// null. Throws: Error{invalid_argument}; Error{not_compiled} where nothing may be compiled and
  /// nothing that is there fits; Error{driver_failed}, also in a process that was forked from one
  /// that had used CUDA; what Generator::compile throws.
  void attention(const AttentionCall& call, CUstream_st* stream);

  /// The same for backward. Throws: as attention(); Error{invalid_argument} for a workspace that is
  /// too small.
  void attention_backward(const AttentionBackwardCall& call, CUstream_st* stream);

  /// Bytes of workspace that calls of this problem need now. Does all that the first of them would
  /// do but the launches. No term of it grows with seq_q times seq_kv. Where no context is current
  /// that of `memory` is taken, or with null the first device's. Throws: as attention().
  long long attention_backward_workspace(const AttentionBackwardProblem& problem,
                                         const void* memory = nullptr);

  /// The same for a matrix product, whose A and B may be null where alpha is 0. Kernels that split
  /// k among CTAs take memory of the runtime, which the first such launch on a stream and every
  /// captured one allocate.
  void gemm(const GemmCall& call, CUstream_st* stream);

  /// Attention over unequal sequences, whose lengths stay on the device, after rows have been
  /// appended to K and V where the call says so: then two launches. Takes memory of the call or, as
  /// for a matrix product, of the runtime.
  void attention(const ServingAttentionCall& call, CUstream_st* stream);

  /// Does all that the first such call would do but the launches, and says how many bytes of
  /// ServingWorkspace it takes with any lengths within its bounds, until refresh() changes the
  /// choice. Tensors may be null, which other pointers that are to be used may not. Throws: as
  /// prepare().
  long long prepare(const ServingAttentionCall& call);

  /// Merges attention over different keys. Throws: Error{invalid_argument}, Error{not_compiled}.
  void merge_states(const MergeStatesCall& call, CUstream_st* stream);

  /// The same for any operation. `call` is the operation's own call structure, such as
  /// AttentionCall, that poses the problem; `memory` is a pointer to device memory of it.
  void launch(const Problem& problem, const void* call, const void* memory, CUstream_st* stream);

  /// Does all that the first call for this problem would do but the launch, and says what was
  /// chosen. Where no context is current it takes the first device's. Throws: as attention().
  Answer prepare(const Problem& problem);
  /// The same for one call and in the context of its memory, as launch() takes them; ReadyLaunch
  /// says how much memory it takes.
  long long prepare(const Problem& problem, const void* call, const void* memory = nullptr);

  /// What would run on a device, which need not be present.
  Answer best(const Problem& problem, const DeviceInfo& device) const;

  /// From now on notes, in a file that `swr-tune tune --missed` reads, each problem whose kernel
  /// was chosen without a measurement of exactly this problem on this device. Only a problem's
  /// first call, which loads its kernel, pays for it: about the time of opening and writing a file.
  void note_missed(const std::filesystem::path& file);

  /// From now on these kernels ship in place of those before. Throws: Error{not_found},
  /// Error{unreadable}.
  void use_kernels(const std::filesystem::path& archive);

  /// Reads the database again when it has changed, and then chooses anew; true when it had. Kernels
  /// that are loaded stay loaded. Throws: as Lookup::refresh.
  bool refresh();

 private:
  /// Calls `launch` with what kernels that nobody chooses take in the context of `memory`.
  void launch_fixed(const void* memory, const std::function<void(const FixedSite&)>& launch);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
