// SPDX-License-Identifier: MIT
// Every command's options, each in the file of its command: adds them to the program.
#pragma once

#include "tuner/cli/options.h"

namespace CLI {
class App;
}

namespace swr::cli {

void add_tune(CLI::App& program, Options& options);
void add_kernel(CLI::App& program, Options& options);
void add_query(CLI::App& program, Options& options);
void add_explain(CLI::App& program, Options& options);
void add_calibrate(CLI::App& program, Options& options);
void add_export(CLI::App& program, Options& options);
void add_devices(CLI::App& program, Options& options);
void add_emit(CLI::App& program, Options& options);
void add_axes(CLI::App& program, Options& options);
void add_plan(CLI::App& program, Options& options);
void add_db(CLI::App& program, Options& options);
void add_judge(CLI::App& program, Options& options);
void add_report(CLI::App& program, Options& options);
void add_watch(CLI::App& program, Options& options);
void add_doctor(CLI::App& program, Options& options);
void add_completion(CLI::App& program, Options& options);
void add_man_page(CLI::App& program, Options& options);

}  // namespace swr::cli
