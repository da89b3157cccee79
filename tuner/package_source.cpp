// SPDX-License-Identifier: MIT
#include "tuner/package_source.h"

#include "core/embedded_file.h"
#include "core/gemm_config.h"
#include "core/json.h"
#include "core/launch.h"
#include "core/operation.h"
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

/// Made by swr_embed_files: the files of every package, and those of an operation.
std::span<const EmbeddedFile> package_templates();
std::span<const EmbeddedFile> attention_package_templates();
std::span<const EmbeddedFile> gemm_package_templates();

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
  return path.starts_with("include/swr/") || path == "tuner/package/common.h" ||
         path == "tuner/package/attention.h" || path == "tuner/package/gemm.h";
}

/// Its name in the package, where all files lie in two folders: a name that families share gets
/// the family's in front.
std::string file_name(std::string_view path) {
  const std::string_view folder = path.substr(0, path.rfind('/'));
  const std::string_view name = path.substr(folder.size() + 1);
  if (name != "config.h") {
    return std::string(name);
  }
  return std::string(folder.substr(folder.rfind('/') + 1)) + "_" + std::string(name);
}

/// Where a file of swr lies in the package.
std::string place_of(std::string_view path, const std::string& name) {
  if (path == "tuner/package/CMakeLists.txt.in") {
    return "CMakeLists.txt";
  }
  return (is_public(path) ? "include/" + name + "/" : "src/") + file_name(path);
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
  const std::string file = file_name(path);
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

template <typename Enum>
std::string enumerator(const std::string& type, Enum value) {
  return "swr::" + type + "::" + std::string(to_string(value));
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
std::string plan_text(const AttentionLaunchPlan& plan) {
  static_assert(sizeof(AttentionLaunchPlan) == 20 * sizeof(int), "a new member is to be written here");
  return list({std::to_string(plan.tile_m), std::to_string(plan.tile_n),
               std::to_string(plan.threads), std::to_string(plan.dynamic_smem_bytes),
               enumerator("Persistence", plan.persistence), std::to_string(plan.workers),
               enumerator("Swizzle", plan.swizzle), std::to_string(plan.section_heads),
               std::to_string(plan.kv_splits), truth(plan.pack_gqa), truth(plan.longest_first),
               enumerator("DType", plan.dtype), std::to_string(plan.head_dim),
               std::to_string(plan.sm_count), std::to_string(plan.ctas_per_sm),
               box_text(plan.q_box), box_text(plan.kv_box)});
}

/// Every member in its order, as of the following one.
std::string config_text(const HopperGemmConfig& c) {
  static_assert(sizeof(HopperGemmConfig) == 16 * sizeof(int), "a new member is to be written here");
  return "swr::HopperGemmConfig" +
         list({enumerator("DType", c.dtype), enumerator("OutputType", c.output),
               enumerator("GemmLayout", c.layout), truth(c.reads_c), std::to_string(c.tile_m),
               std::to_string(c.tile_n), std::to_string(c.tile_k), std::to_string(c.stages),
               enumerator("GemmMainloop", c.mainloop), std::to_string(c.consumers),
               std::to_string(c.cluster_m), std::to_string(c.cluster_n),
               std::to_string(c.cluster_k), enumerator("Persistence", c.persistence),
               enumerator("Order", c.k_order), truth(c.split_k)});
}

std::string config_text(const PortableGemmConfig& c) {
  static_assert(sizeof(PortableGemmConfig) == 14 * sizeof(int),
                "a new member is to be written here");
  return "swr::PortableGemmConfig" +
         list({enumerator("DType", c.dtype), enumerator("OutputType", c.output),
               enumerator("GemmLayout", c.layout), truth(c.reads_c),
               std::to_string(c.alignment_bytes), std::to_string(c.tile_m),
               std::to_string(c.tile_n), std::to_string(c.tile_k), std::to_string(c.warps_m),
               std::to_string(c.warps_n), std::to_string(c.stages),
               enumerator("Persistence", c.persistence), enumerator("Order", c.k_order),
               truth(c.split_k)});
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

/// What the kernels of every operation are described by.
std::string embedded_text(const ExportedKernel& exported, const CompiledKernel& kernel) {
  const std::string file = exported.file.substr(0, exported.file.rfind('.'));
  return "{\"" + file + "\", \"" + exported.entry + "\",\n      \"" + exported.sha256 +
         "\",\n      " + cubin_symbol(kernel) + ", " + std::to_string(kernel.cubin.size()) + ", " +
         truth(exported.may_overlap) + ", " + device_text(exported.device) + ", " +
         truth(exported.provenance == Provenance::measured) + "}";
}

std::string problem_text(const AttentionProblem& p) {
  return list({std::to_string(p.batch), std::to_string(p.heads_q), std::to_string(p.heads_kv),
               std::to_string(p.seq_q), std::to_string(p.seq_kv), std::to_string(p.head_dim),
               enumerator("DType", p.dtype), truth(p.causal), std::to_string(p.alignment_bytes)});
}

std::string problem_text(const GemmProblem& p) {
  return list({std::to_string(p.batch), std::to_string(p.m), std::to_string(p.n),
               std::to_string(p.k), enumerator("DType", p.dtype),
               enumerator("OutputType", p.output), enumerator("GemmLayout", p.layout),
               truth(p.reads_c), std::to_string(p.alignment_bytes)});
}

/// What follows the problem in the table.
std::string launch_text(const AttentionProblem& problem, const AttentionVariant& variant,
                        const ExportedKernel& exported) {
  const AttentionLaunchPlan plan =
      launch_plan(problem, variant, exported.device.sm_count, exported.ctas_per_sm);
  const bool fills_device = is_persistent(variant.persistence) && variant.workers == 0;
  return plan_text(plan) + ", " + truth(fills_device);
}

std::string launch_text(const GemmProblem& problem, const GemmVariant& variant,
                        const ExportedKernel& /*exported*/) {
  const std::string config = std::visit([](const auto& one) { return config_text(one); },
                                        make_gemm_config(problem, variant));
  return config + ",\n     " + enumerator("Raster", variant.raster) + ", " +
         std::to_string(variant.raster_group) + ", " + std::to_string(variant.swizzle_stride) +
         ", " + std::to_string(variant.splits) + ", " + std::to_string(variant.workers);
}

std::string kernel_text(const ExportedKernel& exported, const CompiledKernel& kernel) {
  return visit_operation(
      exported.problem, exported.variant, [&](const auto& problem, const auto& variant) {
        return "    {" + embedded_text(exported, kernel) + ",\n     " + problem_text(problem) +
               ",\n     " + launch_text(problem, variant, exported) + "},\n";
      });
}

/// How an operation appears in a package.
struct OperationFiles {
  Op op;
  std::string name;  ///< Of its header, source and table.
  std::string type;  ///< Of its kernels.
  std::span<const EmbeddedFile> (*templates)();
};

const std::array<OperationFiles, 2> kOperations{
    OperationFiles{Op::attention, "attention", "Attention", attention_package_templates},
    OperationFiles{Op::gemm, "gemm", "Gemm", gemm_package_templates},
};

/// A kernel and its cubin.
struct Embedded {
  const ExportedKernel& exported;
  const CompiledKernel& kernel;
};

std::string table_source(const OperationFiles& operation, const std::vector<Embedded>& kernels,
                         const std::string& name) {
  std::set<std::string> symbols;
  for (const Embedded& one : kernels) {
    symbols.insert(cubin_symbol(one.kernel));
  }
  std::string text = "// Generated by swr-tune export.\n#include \"" + operation.name +
                     "_kernels.h\"\n\n#if defined(__BYTE_ORDER__) && "
                     "__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n#error \"the embedded cubins are "
                     "little endian\"\n#endif\n\nnamespace " +
                     name + " {\n";
  for (const std::string& symbol : symbols) {
    text += "extern const std::uint64_t " + symbol + "[];\n";
  }
  const std::string table = operation.type + "Kernel";
  text += "\nconst " + table + " k" + table + "s[] = {\n";
  for (const Embedded& one : kernels) {
    text += kernel_text(one.exported, one.kernel);
  }
  return text + "};\nconst std::size_t k" + table + "Count = " + std::to_string(kernels.size()) +
         ";\n\n}  // namespace " + name + "\n";
}

void add_templates(PackageFiles& files, std::span<const EmbeddedFile> templates,
                   const std::string& name) {
  for (const EmbeddedFile& file : templates) {
    files[place_of(file.path, name)] = carried(file.text, name);
  }
}

std::vector<Embedded> kernels_of(Op op, const Manifest& manifest,
                                 const std::vector<CompiledKernel>& kernels) {
  std::vector<Embedded> own;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (op_of(manifest.kernels[i].problem) == op) {
      own.push_back({manifest.kernels[i], kernels[i]});
    }
  }
  return own;
}

/// The sources for CMake, a line each.
std::string source_list(const PackageFiles& files) {
  std::string sources;
  for (const auto& [path, text] : files) {
    if (path.ends_with(".cpp")) {
      sources += (sources.empty() ? "  " : "\n  ") + path;
    }
  }
  return sources;
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
  add_templates(files, package_templates(), name);
  for (const OperationFiles& operation : kOperations) {
    const std::vector<Embedded> own = kernels_of(operation.op, manifest, kernels);
    if (!own.empty()) {
      add_templates(files, operation.templates(), name);
      files["src/" + operation.name + "_kernels.cpp"] = table_source(operation, own, name);
    }
  }
  for (const CompiledKernel& kernel : kernels) {
    files.emplace("src/" + cubin_symbol(kernel) + ".cpp", cubin_source(kernel, name));
  }
  replace_all(files["CMakeLists.txt"], "@SOURCES@", source_list(files));
  files[kManifestFile] = package_manifest(manifest, name, files);
  return files;
}

}  // namespace swr
