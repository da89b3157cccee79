// SPDX-License-Identifier: MIT
#include "core/json.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "export/export.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/options.h"
#include <swr/error.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

struct ExportArguments {
  ProblemText problem;  ///< Of the first kernel of --spec, with --arg.
  std::string op = "all";
  std::string gpu = "all";
  std::string format = "dir";
  std::string package_name = "tuned_kernels";
  std::filesystem::path out;
};

void print_manifest(std::ostream& out, const Manifest& manifest, const ExportArguments& options) {
  for (const ExportedKernel& kernel : manifest.kernels) {
    const bool is_default = kernel.time_us == 0.0;
    out << kernel.file << "  " << to_string(kernel.problem) << " on " << kernel.device.name << ": "
        << describe(kernel.variant) << ", "
        << (is_default ? "the default variant, not tuned"
                       : time_text(kernel.time_us) + " (" +
                             std::string(to_string(kernel.provenance)) + ")")
        << (kernel.rebuilt ? ", rebuilt" : "") << "\n";
  }
  out << "wrote " << manifest.kernels.size()
      << (manifest.kernels.size() == 1 ? " kernel and " : " kernels and ")
      << (options.format == "cpp" ? "the CMake project " + options.package_name : kManifestFile)
      << " to " << options.out.string() << "\n";
}

void warn_about_rebuilt(std::ostream& err, const Manifest& manifest) {
  const auto rebuilt = std::count_if(manifest.kernels.begin(), manifest.kernels.end(),
                                     [](const ExportedKernel& kernel) { return kernel.rebuilt; });
  if (rebuilt > 0) {
    err << "swr-tune: note: " << rebuilt
        << " cubins differ from those recorded, because templates or NVRTC changed; tune again for "
           "times of the new ones\n";
  }
}

/// The GPUs of --gpu; none for all.
std::vector<DeviceInfo> devices_of(const ExportArguments& options) {
  std::vector<DeviceInfo> devices;
  std::istringstream names(options.gpu == "all" ? "" : options.gpu);
  for (std::string name; std::getline(names, name, ',');) {
    devices.push_back(choose_gpu(name).device);
  }
  return devices;
}

/// What to export of kernels where nothing was measured: the first spec's problems are those of
/// --arg.
std::vector<std::pair<Problem, DeviceInfo>> defaults(const ExportArguments& options,
                                                     const std::vector<const Operation*>& kernels,
                                                     const std::vector<DeviceInfo>& devices) {
  std::vector<std::pair<Problem, DeviceInfo>> all;
  for (const DeviceInfo& device : devices) {
    for (const Operation* const kernel : kernels) {
      const std::vector<Problem> asked = kernel->name() == options.problem.op
                                             ? problems(options.problem)
                                             : std::vector{kernel->default_problem()};
      for (const Problem& problem : asked) {
        all.emplace_back(problem, device);
      }
    }
  }
  return all;
}

/// Nothing where there need not be a database, because defaults are asked for.
std::optional<Store> open_store(const std::filesystem::path& database, bool may_be_absent) {
  if (may_be_absent && !std::filesystem::exists(database)) {
    return std::nullopt;
  }
  return std::optional<Store>(std::in_place, database, Store::Mode::read_only);
}

int run_export(const Session& session, ExportArguments options) {
  if (options.op != "all") {
    learn_stored_kernels(session, options.op);
  }
  if (const Operation* const kernel = kernel_called(options.op)) {
    options.op = std::string(kernel->name());
  }
  take_kernel(session, options.problem);
  ExportFilter filter{.problem = std::nullopt, .device = std::nullopt, .setting = setting(session)};
  filter.ops = session.kernels;
  filter.devices = devices_of(options);
  filter.defaults = defaults(options, filter.ops, filter.devices);
  const std::optional<Store> opened = open_store(database_path(session), !filter.defaults.empty());
  const Store* const store = opened ? &*opened : nullptr;
  if (options.op != "all") {
    filter.op = &find_operation(options.op);
  }
  if (filter.devices.size() > 1 && filter.ops.empty()) {
    throw Error(ErrorCode::invalid_argument, "--gpu takes a list of GPUs with --spec alone");
  }
  const CubinSource cubins = cubins_with(supervised_generator_options(session));
  const Manifest manifest =
      options.format == "cpp"
          ? export_package(store, cubins, options.out, options.package_name, filter)
          : export_kernels(store, cubins, options.out, filter);
  warn_about_rebuilt(session.err, manifest);
  if (session.common.json) {
    session.out << to_text(manifest);
  } else {
    print_manifest(session.out, manifest, options);
  }
  return kExitSuccess;
}

std::string exported_operations() {
  std::string names;
  for (const Operation* const operation : operations_of_swr()) {
    names.append(names.empty() ? "" : ", ").append(name_of(*operation));
  }
  return names;
}

}  // namespace

void add_export(CommandLine& line) {
  auto [options, asked] = line.add<ExportArguments>(
      {.name = "export",
       .meaning = "Write the kernels of all winners: cubins and a manifest, or a C++ package",
       .footer = "Examples:\n"
                 "  swr-tune export --out kernels\n"
                 "  swr-tune export --out kernels --gpu gb10\n"
                 "  swr-tune export --format cpp --name my_kernels --out my_kernels",
       .group = "Use it elsewhere"},
      run_export);
  options.add("--format", asked.format,
              "dir: cubins and manifest.json; cpp: a CMake project with embedded cubins that needs "
              "only the CUDA driver",
              {.shows_usual = true, .words = {"dir", "cpp"}});
  options.add("--name NAME", asked.package_name,
              "With --format cpp: name of the library and its namespace", {.shows_usual = true});
  options.add("--op NAME", asked.op,
              "Winners of one operation only: all, " + exported_operations() +
                  ", or a kernel of yours that the database has",
              {.shows_usual = true});
  options.add("--gpu GPU", asked.gpu,
              "Winners of one GPU only: auto, a profile or a profile's .json file; all exports "
              "those of every GPU. With --spec also a list of them; a kernel's default variant "
              "goes where nothing was measured, and the database may be missing",
              {.shows_usual = true, .role = FileRole::input});
  options.add("--out DIR", asked.out, "Directory; created when missing",
              {.group = "Files", .is_required = true, .role = FileRole::replaced_folder});
  add_spec_options(options, asked.problem);
  add_database_option(options);
  add_l2_option(options);
  add_generator_options(options);
  add_json_option(options);
}

}  // namespace swr::cli
