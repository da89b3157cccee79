// SPDX-License-Identifier: MIT
// For tests of which several compile one text: variants that only launch it in another way, kernels
// of one file.
#pragma once

#include <swr/generator.h>

#include <map>
#include <memory>
#include <tuple>

namespace swr::test {

/// Has NVRTC compile a text once; what is read from its log is read each time. One thread's.
inline Generator generator_compiling_once() {
  using Key = decltype(std::tuple(CompileTask{}.files, 0, CompileTask{}.arch_suffix,
                                  CompileTask{}.options));
  const auto compiled = std::make_shared<std::map<Key, CompiledProgram>>();
  return Generator({.compiler = [compiled, compile = nvrtc_compiler({})](const CompileTask& task) {
    CompiledProgram& program =
        (*compiled)[Key(task.files, task.sm_arch, task.arch_suffix, task.options)];
    if (program.cubin.empty()) {
      program = compile(task);
    }
    return program;
  }});
}

}  // namespace swr::test
