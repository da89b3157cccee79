// SPDX-License-Identifier: MIT
#include "tuner/package_source.h"

#include "core/embedded_file.h"
#include "core/json.h"
#include "core/launch.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

namespace swr {

/// Made by swr_embed_files.
std::span<const EmbeddedFile> package_templates();

namespace {

constexpr std::string_view kToken = "swr_package";

void require_name(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool valid = !name.empty() && is_letter(name.front()) && name != "swr" && name != "cuda" &&
                     std::ranges::all_of(name, [&](char c) {
                       return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
                     });
  if (!valid) {
    throw Error(ErrorCode::invalid_argument,
                "a package cannot be called '" + name +
                    "'; use letters, digits and underscores, a letter first, and not swr");
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool is_public(std::string_view path) {
  return path.starts_with("include/swr/") || path == "tuner/package/attention.h";
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Where a file of swr lies in the package.
std::string place_of(std::string_view path, const std::string& name) {
  if (path == "tuner/package/CMakeLists.txt.in") {
    return "CMakeLists.txt";
  }
  return (is_public(path) ? "include/" + name + "/" : "src/") + std::string(base_name(path));
}

/// An include line of swr as one of the package; other lines stay.
std::string moved_include(const std::string& line, const std::string& name) {
  constexpr std::string_view kQuoted = "#include \"";
  constexpr std::string_view kPublic = "#include <swr/";
  if (line.starts_with(kPublic)) {
    return "#include <" + name + "/" + line.substr(kPublic.size());
  }
  if (!line.starts_with(kQuoted)) {
    return line;
  }
  const std::string path = line.substr(kQuoted.size(), line.size() - kQuoted.size() - 1);
  const std::string file(base_name(path));
  return is_public(path) ? "#include <" + name + "/" + file + ">" : "#include \"" + file + "\"";
}

/// A file of swr for the package: includes moved, everything inside the package's namespace.
std::string carried(std::string_view text, const std::string& name) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    result += moved_include(std::string(text.substr(0, end)), name) + "\n";
    text.remove_prefix(end + 1);
  }
  replace_all(result, "\nnamespace swr {", "\nnamespace " + name + "::swr {");
  replace_all(result, "\n}  // namespace swr\n", "\n}  // namespace " + name + "::swr\n");
  replace_all(result, kToken, name);
  return result;
}

std::string number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

std::string list(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return "{" + text + "}";
}

std::string truth(bool value) { return value ? "true" : "false"; }

std::string problem_text(const AttentionProblem& p) {
  return list({std::to_string(p.batch), std::to_string(p.heads_q), std::to_string(p.heads_kv),
               std::to_string(p.seq_q), std::to_string(p.seq_kv), std::to_string(p.head_dim),
               "swr::DType::" + std::string(to_string(p.dtype)), truth(p.causal),
               std::to_string(p.alignment_bytes)});
}

std::string device_text(const DeviceInfo& device) {
  return list({std::to_string(device.sm_arch), std::to_string(device.sm_count),
               std::to_string(device.l2_bytes), number(device.dram_gb_per_s), truth(device.mig)});
}

std::string box_text(const TensorBox& box) {
  return list(
      {std::to_string(box.columns), std::to_string(box.rows), std::to_string(box.swizzle_bytes)});
}

/// Every member in its order.
std::string plan_text(const LaunchPlan& plan) {
  static_assert(sizeof(LaunchPlan) == 18 * sizeof(int), "a new member is to be written here");
  return list({std::to_string(plan.tile_m), std::to_string(plan.tile_n),
               std::to_string(plan.threads), std::to_string(plan.dynamic_smem_bytes),
               "swr::Persistence::" + std::string(to_string(plan.persistence)),
               std::to_string(plan.workers),
               "swr::Swizzle::" + std::string(to_string(plan.swizzle)),
               std::to_string(plan.section_heads), std::to_string(plan.kv_splits),
               truth(plan.pack_gqa), "swr::DType::" + std::string(to_string(plan.dtype)),
               std::to_string(plan.head_dim), box_text(plan.q_box), box_text(plan.kv_box)});
}

std::string cubin_symbol(const CompiledKernel& kernel) {
  constexpr std::size_t kDigestLetters = 16;
  return "cubin_" + kernel.cubin_digest.substr(0, kDigestLetters);
}

/// Eight bytes per number, lowest first: compilers read that several times faster than bytes.
std::string cubin_source(const CompiledKernel& kernel, const std::string& name) {
  constexpr std::size_t kWord = 8;
  constexpr std::size_t kPerLine = 4;
  std::string text = "// Generated by swr-tune export. The cubin with SHA-256\n// " +
                     kernel.cubin_digest + ".\n#include <cstdint>\n\nnamespace " + name +
                     " {\nextern const std::uint64_t " + cubin_symbol(kernel) +
                     "[];\nalignas(16) const std::uint64_t " + cubin_symbol(kernel) + "[] = {";
  for (std::size_t at = 0; at < kernel.cubin.size(); at += kWord) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < kWord && at + i < kernel.cubin.size(); ++i) {
      word |= std::to_integer<std::uint64_t>(kernel.cubin[at + i]) << 8 * i;
    }
    std::array<char, 17> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), word, 16).ptr;
    text +=
        (at % (kWord * kPerLine) == 0 ? "\n    0x" : " 0x") + std::string(digits.data(), end) + ",";
  }
  return text + "\n};\n}  // namespace " + name + "\n";
}

std::string kernel_text(const ExportedKernel& exported, const CompiledKernel& kernel) {
  const auto& problem = std::get<AttentionProblem>(exported.problem);
  const auto& variant = std::get<AttentionVariant>(exported.variant);
  const LaunchPlan plan =
      launch_plan(problem, variant, exported.device.sm_count, exported.ctas_per_sm);
  const bool fills_device = is_persistent(variant.persistence) && variant.workers == 0;
  const std::string file = exported.file.substr(0, exported.file.rfind('.'));
  return "    {\"" + file + "\", \"" + exported.entry + "\",\n     \"" + exported.sha256 +
         "\",\n     " + cubin_symbol(kernel) + ", " + std::to_string(kernel.cubin.size()) +
         ",\n     " + problem_text(problem) + ",\n     " + device_text(exported.device) + ", " +
         truth(exported.provenance == Provenance::measured) + ",\n     " + plan_text(plan) + ", " +
         truth(fills_device) + "},\n";
}

std::string table_source(const Manifest& manifest, const std::vector<CompiledKernel>& kernels,
                         const std::string& name) {
  std::set<std::string> symbols;
  std::ranges::transform(kernels, std::inserter(symbols, symbols.end()), cubin_symbol);
  std::string text =
      "// Generated by swr-tune export.\n#include \"kernels.h\"\n\n#if defined(__BYTE_ORDER__) && "
      "__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n#error \"the embedded cubins are little "
      "endian\"\n#endif\n\nnamespace " +
      name + " {\n";
  for (const std::string& symbol : symbols) {
    text += "extern const std::uint64_t " + symbol + "[];\n";
  }
  text += "\nconst EmbeddedKernel kKernels[] = {\n";
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    text += kernel_text(manifest.kernels[i], kernels[i]);
  }
  return text + "};\nconst std::size_t kKernelCount = " + std::to_string(kernels.size()) +
         ";\n\n}  // namespace " + name + "\n";
}

std::string package_manifest(const Manifest& manifest, const std::string& name,
                             const PackageFiles& files) {
  Json json = {{"format", kPackageFormat},
               {"format_version", 1},
               {"swr_version", manifest.swr_version},
               {"name", name},
               {"files", Json::array()},
               {"kernels", Json::parse(to_text(manifest)).at("kernels")}};
  for (const auto& [path, text] : files) {
    json["files"].push_back(path);
  }
  return json_document(json);
}

}  // namespace

PackageFiles package_files(const Manifest& manifest, const std::vector<CompiledKernel>& kernels,
                           const std::string& name) {
  require_name(name);
  PackageFiles files;
  for (const EmbeddedFile& file : package_templates()) {
    files[place_of(file.path, name)] = carried(file.text, name);
  }
  std::string sources;
  for (const CompiledKernel& kernel : kernels) {
    const std::string path = "src/" + cubin_symbol(kernel) + ".cpp";
    if (files.emplace(path, cubin_source(kernel, name)).second) {
      sources += (sources.empty() ? "  " : "\n  ") + path;
    }
  }
  replace_all(files["CMakeLists.txt"], "@SOURCES@", sources);
  files["src/kernels.cpp"] = table_source(manifest, kernels, name);
  files[kManifestFile] = package_manifest(manifest, name, files);
  return files;
}

}  // namespace swr
