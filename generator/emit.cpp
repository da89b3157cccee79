// SPDX-License-Identifier: MIT
#include "generator/emit.h"

#include <swr/gemm_variant.h>
#include <swr/variant.h>

#include <set>

namespace swr {
namespace {

std::string text(int value) { return std::to_string(value); }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(DType value) { return "DType::" + std::string(to_string(value)); }
std::string text(Order value) { return "Order::" + std::string(to_string(value)); }
std::string text(KvCopy value) { return "KvCopy::" + std::string(to_string(value)); }
std::string text(Mainloop value) { return "Mainloop::" + std::string(to_string(value)); }
std::string text(POperand value) { return "POperand::" + std::string(to_string(value)); }
std::string text(Persistence value) { return "Persistence::" + std::string(to_string(value)); }

std::string text(OutputType value) { return "OutputType::" + std::string(to_string(value)); }
std::string text(GemmLayout value) { return "GemmLayout::" + std::string(to_string(value)); }
std::string text(GemmMainloop value) { return "GemmMainloop::" + std::string(to_string(value)); }

std::string field(std::string_view name, const std::string& value) {
  return "    ." + std::string(name) + " = " + value + ",\n";
}

/// Every field of the configuration. The structured binding stops the build when a field is added
/// to PortableAttentionConfig and forgotten here.
std::string config_fields(const PortableAttentionConfig& config) {
  const auto& [head_dim, dtype, causal, alignment_bytes, tile_m, tile_n, warps, stages, order,
               persistence, smem_swizzle, split_kv, pack_gqa, kv_copy] = config;
  return field("head_dim", text(head_dim)) + field("dtype", text(dtype)) +
         field("causal", text(causal)) + field("alignment_bytes", text(alignment_bytes)) +
         field("tile_m", text(tile_m)) + field("tile_n", text(tile_n)) +
         field("warps", text(warps)) + field("stages", text(stages)) + field("order", text(order)) +
         field("persistence", text(persistence)) + field("smem_swizzle", text(smem_swizzle)) +
         field("split_kv", text(split_kv)) + field("pack_gqa", text(pack_gqa)) +
         field("kv_copy", text(kv_copy));
}

/// The same for the Hopper family.
std::string config_fields(const HopperAttentionConfig& config) {
  const auto& [head_dim, dtype, causal, tile_m, tile_n, stages, mainloop, order, persistence,
               p_operand, exp2_fma_eighths, unroll] = config;
  return field("head_dim", text(head_dim)) + field("dtype", text(dtype)) +
         field("causal", text(causal)) + field("tile_m", text(tile_m)) +
         field("tile_n", text(tile_n)) + field("stages", text(stages)) +
         field("mainloop", text(mainloop)) + field("order", text(order)) +
         field("persistence", text(persistence)) + field("p_operand", text(p_operand)) +
         field("exp2_fma_eighths", text(exp2_fma_eighths)) + field("unroll", text(unroll));
}

std::string config_fields(const HopperGemmConfig& config) {
  const auto& [dtype, output, layout, reads_c, tile_m, tile_n, tile_k, stages, mainloop, consumers,
               cluster_m, cluster_n, cluster_k, persistence, k_order, split_k] = config;
  return field("dtype", text(dtype)) + field("output", text(output)) +
         field("layout", text(layout)) + field("reads_c", text(reads_c)) +
         field("tile_m", text(tile_m)) + field("tile_n", text(tile_n)) +
         field("tile_k", text(tile_k)) + field("stages", text(stages)) +
         field("mainloop", text(mainloop)) + field("consumers", text(consumers)) +
         field("cluster_m", text(cluster_m)) + field("cluster_n", text(cluster_n)) +
         field("cluster_k", text(cluster_k)) + field("persistence", text(persistence)) +
         field("k_order", text(k_order)) + field("split_k", text(split_k));
}

std::string config_fields(const PortableGemmConfig& config) {
  const auto& [dtype, output, layout, reads_c, alignment_bytes, tile_m, tile_n, tile_k, warps_m,
               warps_n, stages, persistence, k_order, split_k] = config;
  return field("dtype", text(dtype)) + field("output", text(output)) +
         field("layout", text(layout)) + field("reads_c", text(reads_c)) +
         field("alignment_bytes", text(alignment_bytes)) + field("tile_m", text(tile_m)) +
         field("tile_n", text(tile_n)) + field("tile_k", text(tile_k)) +
         field("warps_m", text(warps_m)) + field("warps_n", text(warps_n)) +
         field("stages", text(stages)) + field("persistence", text(persistence)) +
         field("k_order", text(k_order)) + field("split_k", text(split_k));
}

/// The header that defines kConfig of type `type`, which `include` declares.
std::string config_header(std::string_view include, std::string_view type,
                          const std::string& fields) {
  return std::string(R"(// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include ")") +
         std::string(include) + R"("

namespace swr {

inline constexpr )" +
         std::string(type) + R"( kConfig{
)" + fields +
         R"(};

}  // namespace swr
)";
}

bool is_pragma_once(std::string_view line) {
  const auto end = line.find_last_not_of(" \t\r");
  return end != std::string_view::npos && line.substr(0, end + 1) == "#pragma once";
}

class Flattener {
 public:
  explicit Flattener(const TemplateSet& templates) : templates_(templates) {}

  void append(TemplateFile file) {
    inlined_.insert(file.path);
    while (!file.text.empty()) {
      const auto end = file.text.find('\n');
      const std::string_view line = file.text.substr(0, end);
      append_line(line);
      file.text = end == std::string_view::npos ? std::string_view{} : file.text.substr(end + 1);
    }
  }

  const std::string& result() const { return result_; }

 private:
  void append_line(std::string_view line) {
    if (is_pragma_once(line)) {
      return;
    }
    const auto include = parse_include(line);
    const auto target = include ? templates_.find(include->path) : std::nullopt;
    if (!target) {
      result_ += std::string(line) + "\n";
    } else if (!inlined_.contains(target->path)) {
      result_ += "// ---- " + std::string(target->path) + "\n";
      append(*target);
      result_ += "// ---- end of " + std::string(target->path) + "\n";
    }
  }

  const TemplateSet& templates_;
  std::set<std::string_view> inlined_;
  std::string result_;
};

}  // namespace

std::string config_header(const PortableAttentionConfig& config) {
  return config_header("attention/config.h", "PortableAttentionConfig", config_fields(config));
}

std::string config_header(const HopperAttentionConfig& config) {
  return config_header("attention/hopper/config.h", "HopperAttentionConfig", config_fields(config));
}

std::string config_header(const HopperGemmConfig& config) {
  return config_header("gemm/hopper/config.h", "HopperGemmConfig", config_fields(config));
}

std::string config_header(const PortableGemmConfig& config) {
  return config_header("gemm/portable/config.h", "PortableGemmConfig", config_fields(config));
}

std::string flatten_template(const TemplateSet& templates, std::string_view entry) {
  const std::vector<TemplateFile> files = templates.closure(entry);  // Reports missing includes.
  Flattener flattener(templates);
  flattener.append(files.front());
  return flattener.result();
}

}  // namespace swr
