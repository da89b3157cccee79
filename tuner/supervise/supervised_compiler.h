// SPDX-License-Identifier: MIT
// Compiles in processes of their own, so that a kernel that makes the compiler crash, hang or take
// all memory costs a row and not the run.
#pragma once

#include "core/json.h"
#include "tuner/evaluator.h"
#include "tuner/supervise/worker_process.h"
#include <swr/generator.h>

#include <chrono>
#include <functional>
#include <memory>

namespace swr {

struct SuperviseCompilerOptions {
  /// A program that calls serve_compiler() on its standard input.
  WorkerCommand command;
  /// Longest time of one kernel, many times what the slowest takes on a busy machine. A task with a
  /// limit of its own has that, and a little for the compiler to notice it: it looks up between its
  /// phases alone.
  std::chrono::milliseconds deadline{300'000};
};

/// For GeneratorOptions::compiler. Each thread that compiles has a process, which starts with its
/// first kernel and ends with the thread. A kernel during which a process dies, or takes more
/// memory than its command allows, is tried again in a new one; one that is not done in time is
/// not. Then it throws Error{compile_failed}.
std::function<CompiledProgram(const CompileTask&)> supervised_compiler(
    SuperviseCompilerOptions options);

/// The other side: compiles what is asked until the tuner closes its end. Errors are answers.
/// Throws: Error{invalid_argument} when `socket` is none.
void serve_compiler(int socket, const std::function<CompiledProgram(const CompileTask&)>& compile);

/// Says which device the evaluator has, or why there is no evaluator, then answers requests until
/// the tuner closes its end. Returns early after an Error, which the tuner is told: after it
/// nothing further can be evaluated. Whatever else is thrown is left to end the process. Throws:
/// Error{invalid_argument} when `socket` is none.
void serve_evaluator(int socket, const std::function<std::unique_ptr<Evaluator>()>& make_evaluator);

/// Answers requests until the tuner closes its end. Throws: what `answer` throws;
/// Error{invalid_argument} when `socket` is none.
void serve_requests(int socket, const std::function<Json(const Json&)>& answer);

}  // namespace swr
