// SPDX-License-Identifier: MIT
#include "core/json.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "export/export.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/measuring.h"
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

void print_manifest(std::ostream& out, const Manifest& manifest, const Options& options) {
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
      << (options.export_format == "cpp" ? "the CMake project " + options.package_name
                                         : kManifestFile)
      << " to " << options.out->string() << "\n";
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

/// The kernels of --spec.
std::vector<const Operation*> kernels_of_specs(const Options& options) {
  std::vector<const Operation*> kernels;
  for (const Operation* const operation : operations()) {
    const bool is_named = std::ranges::any_of(options.kernel.specs, [&](const auto& file) {
      return operation->spec_file() == file.string();
    });
    if (is_named) {
      kernels.push_back(operation);
    }
  }
  return kernels;
}

/// The GPUs of --gpu; none for all.
std::vector<DeviceInfo> devices_of(const Options& options) {
  std::vector<DeviceInfo> devices;
  std::istringstream names(options.export_gpu == "all" ? "" : options.export_gpu);
  for (std::string name; std::getline(names, name, ',');) {
    devices.push_back(choose_gpu(name).device);
  }
  return devices;
}

/// What to export of kernels where nothing was measured: the first spec's problems are those of
/// --arg.
std::vector<std::pair<Problem, DeviceInfo>> defaults(const Options& options,
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

}  // namespace

int run_export(const Session& session) {
  const Options& options = session.options;
  ExportFilter filter{.problem = std::nullopt, .device = std::nullopt, .setting = setting(session)};
  filter.ops = kernels_of_specs(options);
  filter.devices = devices_of(options);
  filter.defaults = defaults(options, filter.ops, filter.devices);
  const std::optional<Store> opened = open_store(database_path(session), !filter.defaults.empty());
  const Store* const store = opened ? &*opened : nullptr;
  if (options.export_op != "all") {
    filter.op = &find_operation(options.export_op);
  }
  if (filter.devices.size() > 1 && filter.ops.empty()) {
    throw Error(ErrorCode::invalid_argument, "--gpu takes a list of GPUs with --spec alone");
  }
  const Generator generator(supervised_generator_options(session));
  const Manifest manifest =
      options.export_format == "cpp"
          ? export_package(store, cubins_of(generator), *options.out, options.package_name, filter)
          : export_kernels(store, cubins_of(generator), *options.out, filter);
  warn_about_rebuilt(session.err, manifest);
  if (options.json) {
    session.out << to_text(manifest);
  } else {
    print_manifest(session.out, manifest, options);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
