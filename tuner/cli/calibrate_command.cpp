// SPDX-License-Identifier: MIT
// swr-tune calibrate: writes a profile of the GPU present.
#include "core/bounded_json.h"
#include "core/json.h"
#include "core/number_text.h"
#include "driver/devices.h"
#include "tuner/calibrate/calibrate.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/options.h"
#include "tuner/cli/output_file.h"
#include <swr/error.h>

#include <chrono>
#include <ctime>
#include <ostream>

namespace swr::cli {
namespace {

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

int ordinal_present(const std::string& gpu) {
  const GpuChoice choice = choose_gpu(gpu);
  if (choice.profile) {
    throw Error(ErrorCode::invalid_argument, choice.device.name +
                                                 " is not present; calibrate measures, so run it "
                                                 "on the machine that has the GPU");
  }
  return choice.ordinal;
}

void print_calibration(std::ostream& out, const Calibration& calibration) {
  const GpuProfile& profile = calibration.profile;
  const auto line = [&out](const char* name, double value, const char* unit) {
    out << name << significant_text(value, 4) << unit << "\n";
  };
  out << "measured on " << profile.device.name << "\n";
  line("  SM clock under matrix load  ", profile.clock_mhz, " MHz");
  line("  mma.sync fp16               ", profile.matrix_flop_per_clock_per_sm,
       " FLOP per clock and SM");
  line("  ex2                         ", profile.exp2_per_clock_per_sm, " per clock and SM");
  line("  FMA                         ", profile.fma_per_clock_per_sm, " per clock and SM");
  line("  L2 bandwidth                ", profile.l2_gb_per_s, " GB/s");
  line("  DRAM bandwidth              ", profile.dram_efficiency * profile.device.dram_gb_per_s,
       " GB/s");
  line("  L2 latency                  ", profile.l2_latency_clocks, " clocks");
  line("  DRAM latency                ", profile.dram_latency_clocks, " clocks");
  out << "  effective L2                " << bytes_text(profile.l2_effective_bytes) << " of "
      << bytes_text(profile.device.l2_bytes) << "\n";
  if (!calibration.incomplete_because.empty()) {
    out << "note: " << calibration.incomplete_because << "\n";
  }
}

Json calibration_json(const Calibration& calibration) {
  Json json = Json::object();
  json["profile"] = parse_json(profile_text(calibration.profile), "the profile");
  json["incomplete_because"] = calibration.incomplete_because;
  json["sweep"] = Json::array();
  for (const SweepPoint& point : calibration.sweep) {
    json["sweep"].push_back(
        {{"buffer_bytes", point.buffer_bytes},
         {"order", point.sawtooth ? "sawtooth" : "cyclic"},
         {"time_us", point.time_us},
         {"dram_read_bytes", point.dram_read_bytes ? Json(*point.dram_read_bytes) : Json()},
         {"predicted_dram_read_bytes",
          modelled_sweep_bytes(point.buffer_bytes, point.sawtooth,
                               calibration.profile.l2_effective_bytes)}});
  }
  return json;
}

struct CalibrateArguments {
  std::string gpu = "auto";
  std::filesystem::path out;
  std::optional<std::filesystem::path> sweep;
};

int run_calibrate(const Session& session, const CalibrateArguments& options) {
  CalibrateOptions settings;
  settings.device_ordinal = ordinal_present(options.gpu);
  settings.id = options.out.stem().string();
  settings.source =
      "measured by swr-tune calibrate, driver CUDA " + driver_version() + ", " + today();
  if (!session.common.quiet) {
    settings.progress = [&session](const std::string& step) { session.err << step << std::endl; };
  }
  OutputFile profile_file(session, options.out);  // Fails before the GPU works for minutes.
  const Generator generator(generator_options(session));
  const Calibration calibration = calibrate(generator, settings);
  profile_file.text() << profile_text(calibration.profile);
  profile_file.finish();
  if (options.sweep) {
    OutputFile file(session, *options.sweep);
    write_sweep_csv(file.text(), calibration.sweep, calibration.profile.l2_effective_bytes);
    file.finish();
  }
  if (session.common.json) {
    session.out << json_document(calibration_json(calibration));
  } else {
    print_calibration(session.out, calibration);
  }
  return kExitSuccess;
}

}  // namespace

void add_calibrate(CommandLine& line) {
  auto [options, asked] = line.add<CalibrateArguments>(
      {.name = "calibrate",
       .meaning = "Measure on the GPU present what its profile needs and write the profile",
       .footer = "Measures the effective L2 for data that every SM reads, bandwidth and latency of "
                 "L2 and\n"
                 "DRAM, and the rates of mma.sync, ex2 and FMA.\n\n"
                 "Example: swr-tune calibrate --out h200.json --sweep sweep.csv",
       .group = "GPUs and this machine"},
      run_calibrate);
  options.add("--gpu GPU", asked.gpu, "auto (the first GPU present), or a profile's id or file",
              {.shows_usual = true, .role = FileRole::input});
  options.add("--out FILE", asked.out, "The profile to write; its name without .json is its id",
              {.group = "Files", .is_required = true, .role = FileRole::output});
  options.add("--sweep FILE", asked.sweep,
              "Write the buffer sweep, measured beside modelled, to a CSV file",
              {.group = "Files", .role = FileRole::output});
  add_generator_options(options);
  add_quiet_option(options);
  add_json_option(options);
}

}  // namespace swr::cli
