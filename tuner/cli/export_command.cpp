// SPDX-License-Identifier: MIT
#include "core/json.h"
#include "core/number_text.h"
#include "export/export.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"

#include <algorithm>
#include <ostream>

namespace swr::cli {
namespace {

void print_manifest(std::ostream& out, const Manifest& manifest, const Options& options) {
  for (const ExportedKernel& kernel : manifest.kernels) {
    out << kernel.file << "  " << to_string(kernel.problem) << " on " << kernel.device.name << ": "
        << describe(kernel.variant) << ", " << time_text(kernel.time_us) << " ("
        << to_string(kernel.provenance) << ")" << (kernel.rebuilt ? ", rebuilt" : "") << "\n";
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

}  // namespace

int run_export(const Session& session) {
  const Options& options = session.options;
  const Store store(database_path(session), Store::Mode::read_only);
  ExportFilter filter{.problem = std::nullopt, .device = std::nullopt, .setting = setting(session)};
  if (options.export_op != "all") {
    filter.op = &find_operation(options.export_op);
  }
  if (options.export_gpu != "all") {
    filter.device = choose_gpu(options.export_gpu).device;
  }
  const Generator generator(generator_options(session));
  const Manifest manifest =
      options.export_format == "cpp"
          ? export_package(store, cubins_of(generator), *options.out, options.package_name, filter)
          : export_kernels(store, generator, *options.out, filter);
  warn_about_rebuilt(session.err, manifest);
  if (options.json) {
    session.out << to_text(manifest);
  } else {
    print_manifest(session.out, manifest, options);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
