// SPDX-License-Identifier: MIT
#include "report/page/page_data.h"

#include "core/architectures.h"
#include "report/explain/analysis.h"
#include "report/explain/memory_access.h"
#include "report/report.h"
#include <swr/version.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace swr {
namespace page {
namespace {

Json field_json(const ProblemStory& field, std::size_t device) {
  Json json = {{"problem", field.problem},
               {"title", to_string(field.problem)},
               {"device", device},
               {"provenance", std::string(to_string(field.provenance))},
               {"l2_state", field.l2_state},
               {"overlay", field.overlay_digest.substr(0, 12)},
               {"flop", flop_count(field.problem)},
               {"compulsory_sectors", compulsory_sectors(field.problem)},
               {"runs", field.run_ids},
               {"results", field.results},
               {"tried", field.stories.size()},
               {"succeeded", field.succeeded()},
               {"decided", field.decision != nullptr && field.provenance == Provenance::measured},
               {"rows", rows_json(field)}};
  if (field.has_best()) {
    const double error = error_of_best(field);
    json["prediction_error"] = error > 0 ? Json(error) : Json();
    json["answers"] = answers_json(field);
    json["accesses"] = accesses_json(field.problem, field.best().result());
    json["accesses_unknown"] = accesses_unknown_because(field.best().result());
    json["energy_front"] = front_json(field);
    json["winners_by"] = winners_json(field);
    json["unit_use"] = unit_use_json(field);
    json["roofline"] = roofline_json(field);
    json["tiles"] = tiles_json(field);
    json["progress"] = progress_json(field);
    json["curves"] = curves_json(field);
  }
  return json;
}

Json device_json(const ProblemStory& field) {
  const GpuProfile& profile = field.profile;
  return {{"device", field.device},
          {"text", describe(field.device)},
          {"profile", profile.id},
          {"clock_mhz", profile.clock_mhz},
          {"peak_tflop_per_s", peak_tflop_per_s(Family::portable, profile)},
          {"hopper_peak_tflop_per_s", field.device.sm_arch == kHopperArch
                                          ? Json(peak_tflop_per_s(Family::hopper, profile))
                                          : Json()},
          {"dram_gb_per_s", profile.device.dram_gb_per_s * profile.dram_efficiency},
          {"l2_gb_per_s", profile.l2_gb_per_s},
          {"l2_effective_bytes", profile.l2_effective_bytes}};
}

Json run_json(const RecordedRun& run) {
  return {{"id", run.id},
          {"started_at", run.started_at},
          {"finished_at", or_null(run.finished_at)},
          {"command", run.info.command},
          {"swr_version", run.info.swr_version},
          {"templates_digest", run.info.templates_digest},
          {"nvrtc_version", run.info.nvrtc_version},
          {"driver_version", run.info.driver_version},
          {"l2_state", run.info.l2_state},
          {"strategy", run.info.strategy},
          {"seed", run.info.seed}};
}

/// Fills the lists of devices and fields.
void add_fields(const std::vector<ProblemStory>& fields, Json& data) {
  std::vector<DeviceInfo> devices;
  for (const ProblemStory& field : fields) {
    const auto known = std::ranges::find_if(
        devices, [&](const DeviceInfo& device) { return same_device(device, field.device); });
    const auto index = static_cast<std::size_t>(known - devices.begin());
    if (known == devices.end()) {
      devices.push_back(field.device);
      data["devices"].push_back(device_json(field));
    }
    data["fields"].push_back(field_json(field, index));
  }
}

}  // namespace
}  // namespace page

Json page_data(const History& history, const std::set<long long>& winners,
               const PageOrigin& origin) {
  Json data = {{"swr_version", SWR_VERSION},      {"database", origin.database},
               {"command", origin.command},       {"written_at", origin.written_at},
               {"columns", page::columns_json()}, {"metrics", page::metrics_json()}};
  for (const char* list : {"devices", "fields", "runs"}) {
    data[list] = Json::array();
  }
  page::add_fields(page::fields_of(history, winners), data);
  for (const RecordedRun& run : history.runs) {
    data["runs"].push_back(page::run_json(run));
  }
  return data;
}

}  // namespace swr
