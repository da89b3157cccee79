// SPDX-License-Identifier: MIT
#include "tuner/supervise/supervised_compiler.h"

#include "core/fields.h"
#include "tuner/supervise/protocol.h"
#include <swr/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace swr {
namespace {

/// As it is: json_text() would replace characters, and sources may have any.
std::string exact_text(const Json& json) {
  if (!json.is_string()) {
    throw Error(ErrorCode::invalid_argument, "a part of a compilation is no text");
  }
  return json.get<std::string>();
}

Json request_of(const CompileTask& task) {
  Json files = Json::array();
  for (const auto& [name, text] : task.files) {
    files.push_back(Json::array({name, text}));
  }
  return {
      {"files", std::move(files)},       {"sm_arch", task.sm_arch},
      {"arch_suffix", task.arch_suffix}, {"options", task.options},
      {"kernels", task.kernels},         {"limit_s", task.limit_s ? Json(*task.limit_s) : Json()},
      {"is_foreign", task.is_foreign}};
}

CompileTask read_request(const Json& request) {
  CompileTask task;
  for (const Json& file : json_field(request, "files")) {
    if (!file.is_array() || file.size() != 2) {
      throw Error(ErrorCode::invalid_argument, "a file of a compilation is no name and text");
    }
    task.files.emplace_back(exact_text(file[0]), exact_text(file[1]));
  }
  task.sm_arch = static_cast<int>(json_integer(request, "sm_arch", 1, kMaxInt));
  task.arch_suffix = exact_text(json_field(request, "arch_suffix"));
  for (const Json& option : json_field(request, "options")) {
    task.options.push_back(exact_text(option));
  }
  for (const Json& kernel : json_field(request, "kernels")) {
    task.kernels.push_back(exact_text(kernel));
  }
  if (const Json& limit = json_field(request, "limit_s"); limit.is_number()) {
    task.limit_s = limit.get<double>();
  }
  task.is_foreign = json_field(request, "is_foreign") != false;
  if (task.files.empty()) {
    throw Error(ErrorCode::invalid_argument, "a compilation has no file");
  }
  return task;
}

Json answer_of(const CompiledProgram& program) {
  std::vector<std::uint8_t> cubin(program.cubin.size());
  std::memcpy(cubin.data(), program.cubin.data(), cubin.size());
  return {{"cubin", Json::binary(std::move(cubin))},
          {"log", program.log},
          {"lowered_names", program.lowered_names}};
}

CompiledProgram read_answer(const Json& answer) {
  const Json& cubin = json_field(answer, "cubin");
  if (!cubin.is_binary()) {
    throw Error(ErrorCode::invalid_argument, "a compilation gave no cubin");
  }
  CompiledProgram program{.cubin = std::vector<std::byte>(cubin.get_binary().size()),
                          .log = exact_text(json_field(answer, "log"))};
  std::memcpy(program.cubin.data(), cubin.get_binary().data(), program.cubin.size());
  for (const Json& name : json_field(answer, "lowered_names")) {
    program.lowered_names.push_back(exact_text(name));
  }
  return program;
}

/// One for each supervised_compiler(), over all threads.
class Compiler {
 public:
  explicit Compiler(SuperviseCompilerOptions options) : options_(std::move(options)) {}

  CompiledProgram compile(const CompileTask& task) const {
    const Json request = request_of(task);
    Silence silence;
    for (int attempt = 0; attempt < 2 && silence.state == ResultState::crash; ++attempt) {
      if (auto program = ask(request, deadline_of(task), silence)) {
        return *std::move(program);
      }
    }
    if (task.limit_s && silence.state == ResultState::timeout) {
      throw Error(ErrorCode::compile_failed,
                  "compiling " + task.files.front().first + " for sm_" +
                      std::to_string(task.sm_arch) + " took longer than its limit of " +
                      std::to_string(static_cast<int>(*task.limit_s)) + " s");
    }
    throw Error(ErrorCode::compile_failed,
                "the compiler did not survive " + task.files.front().first + " for sm_" +
                    std::to_string(task.sm_arch) + ": " + silence.detail);
  }

 private:
  /// Of this thread. It dies with its thread, whose end the system takes for the tuner's.
  struct Process {
    long long compiler = 0;
    std::unique_ptr<WorkerProcess> worker;
  };

  std::chrono::milliseconds deadline_of(const CompileTask& task) const {
    constexpr std::chrono::seconds kToNotice{5};
    if (!task.limit_s) {
      return options_.deadline;
    }
    const std::chrono::duration<double> limit(*task.limit_s);
    return std::min(options_.deadline,
                    std::chrono::ceil<std::chrono::milliseconds>(limit) + kToNotice);
  }

  Process& own_process() const {
    static thread_local Process process;
    if (process.compiler != number_ || !process.worker || !process.worker->is_waiting()) {
      process.worker.reset();
      process = {number_, std::make_unique<WorkerProcess>(options_.command)};
    }
    return process;
  }

  /// Empty when there is no answer, for the reason that is set. Throws: what the compiler answered.
  std::optional<CompiledProgram> ask(const Json& request, std::chrono::milliseconds deadline,
                                     Silence& silence) const {
    Process& process = own_process();
    WorkerProcess::Reply reply = process.worker->ask(request, deadline);
    if (const Json* const answer = std::get_if<Json>(&reply)) {
      if (const auto error = find_error(*answer)) {
        throw Error(*error);
      }
      try {
        return read_answer(*answer);
      } catch (const Error& unreadable) {
        silence.detail = std::string("it answered nonsense: ") + unreadable.what();
      }
    } else {
      silence = std::get<Silence>(std::move(reply));
    }
    process.worker.reset();
    return std::nullopt;
  }

  static long long next_number() {
    static std::atomic<long long> last{0};
    return ++last;
  }

  SuperviseCompilerOptions options_;
  long long number_ = next_number();
};

}  // namespace

std::function<CompiledProgram(const CompileTask&)> supervised_compiler(
    SuperviseCompilerOptions options) {
  return [compiler = std::make_shared<const Compiler>(std::move(options))](
             const CompileTask& task) { return compiler->compile(task); };
}

void serve_compiler(int socket, const std::function<CompiledProgram(const CompileTask&)>& compile) {
  serve_requests(socket, [&](const Json& request) {
    try {
      return answer_of(compile(read_request(request)));
    } catch (const Error& error) {
      return error_answer(error);
    }
  });
}

}  // namespace swr
