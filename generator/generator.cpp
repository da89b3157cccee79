// SPDX-License-Identifier: MIT
#include "core/header_names.h"
#include "core/operation.h"
#include "core/sha256.h"
#include "core/source_words.h"
#include "generator/compile_log.h"
#include "generator/cubin_cache.h"
#include "generator/expansion.h"
#include "generator/kernel_recipe.h"
#include "generator/nvrtc.h"
#include "generator/template_set.h"
#include <swr/error.h>
#include <swr/generator.h>

#include <algorithm>
#include <array>
#include <deque>
#include <sstream>
#include <string>

namespace swr {
namespace {

/// Checks a restriction against its axis and removes repetitions ("2" and 2 are the same value).
Values checked_values(const Operation& op, const std::string& name, const Values& values) {
  const Axis* const axis = find_axis(op, name);
  if (axis == nullptr) {
    std::string known;
    for (const Axis& other : axes(op)) {
      known += (known.empty() ? "" : ", ") + std::string(other.name);
    }
    throw Error(ErrorCode::invalid_argument, "unknown axis '" + name + "'; choose one of " + known);
  }
  if (values.empty()) {
    throw Error(ErrorCode::invalid_argument, "axis " + name + " is restricted to no value at all");
  }
  Values unique;
  Variant scratch = default_axes(op);
  for (const AxisValue& value : values) {
    axis->set(scratch, value);
    const AxisValue canonical = axis->get(scratch);
    if (std::ranges::find(unique, canonical) == unique.end()) {
      unique.push_back(canonical);
    }
  }
  return unique;
}

/// A restricted axis that a family lacks leaves the family out: who asks for a main loop wants
/// kernels that have one.
bool has_restricted_axes(const Operation& op, const SpaceOptions& options, Family family) {
  return std::ranges::all_of(options.restrictions, [&](const auto& restriction) {
    return find_axis(op, restriction.first)->belongs_to(family);
  });
}

/// Families that are asked for; else all but those made for one other architecture.
bool family_wanted(const Operation& op, const FamilySource& source, const SpaceOptions& options,
                   const DeviceInfo& device) {
  if (!has_restricted_axes(op, options, source.family)) {
    return false;
  }
  if (const Values* const asked_for = restriction_of(options, "family")) {
    const AxisValue name = std::string(to_string(source.family));
    return std::ranges::find(*asked_for, name) != asked_for->end();
  }
  return source.arch_suffix.empty() || device.sm_arch == source.first_arch;
}

SpaceOptions checked(const Operation& op, const SpaceOptions& options) {
  SpaceOptions canonical{.tiles = options.tiles, .restrictions = {}};
  for (const auto& [name, values] : options.restrictions) {
    canonical.restrictions.emplace(name, checked_values(op, name, values));
  }
  return canonical;
}

}  // namespace

SearchSpace enumerate_space(const Problem& problem, const DeviceInfo& device,
                            const SpaceOptions& options) {
  validate(problem);
  const Operation& op = problem.operation();
  const SpaceOptions restricted = checked(op, options);
  SearchSpace space;
  for (const FamilySource& source : op.families()) {
    if (!family_wanted(op, source, restricted, device)) {
      continue;
    }
    Points points = op.points(source.family, problem, device, restricted);
    space.left_out.merge(points.left_out);
    for (const Variant& variant : points.listed) {
      if (auto dropped = check_constraints(problem, variant, device)) {
        space.dropped.push_back(std::move(*dropped));
      } else {
        space.variants.push_back(variant);
      }
    }
  }
  return space;
}

namespace {

using namespace std::string_view_literals;

/// Of kernels that are none of swr's. What says neither where it runs is for the device, so that a
/// file may hold its own host program.
constexpr std::array kProgramOptions{"--generate-line-info"sv, "--ptxas-options=-v"sv,
                                     "--device-as-default-execution-space"sv};

/// What a user's program defines as macros, of which a header of CUDA's must know nothing where a
/// parameter is called T or size.
class ParameterMacros {
 public:
  explicit ParameterMacros(std::string_view program) {
    constexpr std::string_view kDefine = "#define ";
    const auto begin = program.find(kParametersBegin);
    std::istringstream lines(
        std::string(begin == program.npos ? "" : program.substr(begin + kParametersBegin.size())));
    for (std::string line; std::getline(lines, line) && !line.starts_with("#line");) {
      if (line.starts_with(kDefine)) {
        names_.push_back(
            line.substr(kDefine.size(), line.find(' ', kDefine.size()) - kDefine.size()));
        undone_.append("#undef ").append(names_.back()).append("\n");
        restored_.append(line).append("\n");
      }
    }
  }

  bool are_in(std::string_view header) const {
    return std::ranges::any_of(
        names_, [&](const auto& name) { return find_word(header, name, 0) != header.npos; });
  }

  /// The outermost of such headers hides them; NVRTC has no push_macro. Without include guards of
  /// its own one may come again within itself.
  std::string hidden_from(std::string_view header, std::size_t number) const {
    const std::string inner = "swr_inner_" + std::to_string(number) + "\n";
    const std::string outer = "swr_outer_" + std::to_string(number) + "\n";
    std::string text = "#ifdef swr_hides\n#define " + inner + "#else\n#define swr_hides\n#define " +
                       outer + undone_ + "#endif\n#line 1\n";
    text.append(header).append("\n#ifdef ").append(inner).append("#undef ").append(inner);
    text.append("#elif defined ").append(outer).append("#undef ").append(outer);
    return text.append("#undef swr_hides\n").append(restored_).append("#endif\n");
  }

 private:
  std::vector<std::string> names_;
  std::string undone_;
  std::string restored_;
};

/// The only way to NVRTC, of whatever process. Nothing that is compiled can open a file: what it
/// may read is handed over with it.
CompiledProgram compile_with(const Nvrtc& nvrtc, const CompileTask& task) {
  std::vector<TemplateFile> files;
  for (const auto& [name, text] : task.files) {
    files.push_back({.path = name, .text = text});
  }
  const ParameterMacros macros(task.is_foreign ? files.front().text : "");
  std::deque<std::string> changed;
  for (TemplateFile header : nvrtc.toolkit_headers(files)) {
    if (macros.are_in(header.text)) {
      header.text = changed.emplace_back(macros.hidden_from(header.text, changed.size()));
    }
    files.push_back(header);
  }
  const std::vector<std::string_view> options(task.options.begin(), task.options.end());
  CompiledProgram program;
  const auto compile = [&] {
    program =
        nvrtc.compile(files, task.sm_arch, task.arch_suffix, options, task.kernels, task.limit_s);
  };
  nvrtc.prepare();
  if (!run_confined(compile)) {
    if (task.is_foreign) {
      throw Error(ErrorCode::compile_failed,
                  "this system cannot keep the compiler away from files (seccomp filters are "
                  "missing or forbidden), so swr compiles no kernel of a spec here; compile it "
                  "where Linux has CONFIG_SECCOMP_FILTER, and export it from there");
    }
    compile();
  }
  return program;
}

KernelResources most_of(const KernelResources& a, const KernelResources& b) {
  return {.registers_per_thread = std::max(a.registers_per_thread, b.registers_per_thread),
          .spill_store_bytes = std::max(a.spill_store_bytes, b.spill_store_bytes),
          .spill_load_bytes = std::max(a.spill_load_bytes, b.spill_load_bytes),
          .stack_bytes = std::max(a.stack_bytes, b.stack_bytes),
          .static_smem_bytes = std::max(a.static_smem_bytes, b.static_smem_bytes),
          .wgmma_warnings = std::max(a.wgmma_warnings, b.wgmma_warnings)};
}

KernelResources resources_of(const KernelRecipe& recipe, std::string_view entry,
                             const std::string& log) {
  const auto resources = parse_resources(log, entry);
  if (!resources) {
    throw Error(ErrorCode::compile_failed,
                "NVRTC reports no entry function '" + std::string(entry) + "' in " +
                    std::string(recipe.file) + "; declare it extern \"C\" __global__\n" + log);
  }
  return *resources;
}

}  // namespace

struct Generator::Impl {
  explicit Impl(const GeneratorOptions& options)
      : templates(options.template_overlay ? TemplateSet::overlaid(*options.template_overlay)
                                           : TemplateSet::built_in()),
        nvrtc(options.nvrtc_library),
        nvrtc_version(nvrtc.version()),
        compiler(options.compiler) {
    if (options.cache_dir) {
      cache.emplace(*options.cache_dir, sharing(options.shared_cache));
    }
  }

  CompiledProgram compile(const CompileTask& task) const {
    return compiler ? compiler(task) : compile_with(nvrtc, task);
  }

  CompiledKernel build(const KernelRecipe& recipe, const std::string& source_digest) const {
    CompiledProgram output = compile(recipe.task());
    KernelResources resources = resources_of(recipe, recipe.entry, output.log);
    for (const std::string_view entry : recipe.further_entries) {
      resources = most_of(resources, resources_of(recipe, entry, output.log));
    }
    std::string cubin_digest = sha256_hex(output.cubin);
    return {.entry = std::string(recipe.entry),
            .further_entries = {recipe.further_entries.begin(), recipe.further_entries.end()},
            .sm_arch = recipe.sm_arch,
            .cubin = std::move(output.cubin),
            .cubin_digest = std::move(cubin_digest),
            .source_digest = source_digest,
            .resources = resources};
  }

  CompiledKernel compile(const KernelRecipe& recipe) const {
    nvrtc.require_arch(recipe.sm_arch);
    const std::string source_digest = recipe.digest(nvrtc_version);
    const auto build_now = [&] { return build(recipe, source_digest); };
    CompiledKernel kernel = cache ? cache->find_or_compile(source_digest, build_now) : build_now();
    kernel.may_overlap = recipe.may_overlap;
    return kernel;
  }

  /// Digest of everything the cubin depends on; the toolkit's headers count by its version.
  std::string key(const KernelProgram& program, int sm_arch) const {
    const std::string arch = std::to_string(sm_arch);
    std::vector<std::string_view> fields{"program", program.file, program.text, arch,
                                         nvrtc_version};
    for (const auto& [name, text] : program.headers) {
      fields.insert(fields.end(), {"header", name, text});
    }
    for (const std::string& option : program.options) {
      fields.insert(fields.end(), {"option", option});
    }
    for (const std::string& kernel : program.kernels) {
      fields.insert(fields.end(), {"kernel", kernel});
    }
    return digest_of_fields(fields);
  }

  CompiledKernel build(const KernelProgram& program, int sm_arch,
                       const std::string& source_digest) const {
    CompileTask task{.files = {{program.file, program.text}},
                     .sm_arch = sm_arch,
                     .arch_suffix = "",
                     .options = {kProgramOptions.begin(), kProgramOptions.end()},
                     .kernels = program.kernels,
                     .limit_s = program.compile_limit_s,
                     .is_foreign = true};
    task.files.insert(task.files.end(), program.headers.begin(), program.headers.end());
    task.options.insert(task.options.end(), program.options.begin(), program.options.end());
    CompiledProgram output = compile(task);
    CompiledKernel kernel{
        .entry = output.lowered_names.at(0),
        .further_entries = {output.lowered_names.begin() + 1, output.lowered_names.end()},
        .sm_arch = sm_arch,
        .cubin_digest = sha256_hex(output.cubin),
        .source_digest = source_digest};
    kernel.cubin = std::move(output.cubin);
    for (const std::string& entry : output.lowered_names) {
      const auto resources = parse_resources(output.log, entry);
      if (!resources) {
        throw Error(ErrorCode::compile_failed, "NVRTC reports no kernel '" + entry + "' in " +
                                                   program.file + "\n" + output.log);
      }
      kernel.resources = most_of(kernel.resources, *resources);
    }
    return kernel;
  }

  CompiledKernel compile(const KernelProgram& program, int sm_arch) const {
    nvrtc.require_arch(sm_arch);
    const std::string source_digest = key(program, sm_arch);
    const auto build_now = [&] { return build(program, sm_arch, source_digest); };
    return cache ? cache->find_or_compile(source_digest, build_now) : build_now();
  }

  TemplateSet templates;
  Nvrtc nvrtc;
  std::string nvrtc_version;
  std::function<CompiledProgram(const CompileTask&)> compiler;
  std::optional<CubinCache> cache;
};

Generator::Generator(const GeneratorOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

CompiledKernel Generator::compile(const Problem& problem, const Variant& variant,
                                  int sm_arch) const {
  if (const auto program = problem.operation().program(problem, variant)) {
    require_same_operation(problem, variant);
    return impl_->compile(*program, sm_arch);
  }
  return impl_->compile(variant_recipe(impl_->templates, problem, variant, sm_arch));
}

CompiledKernel Generator::compile_configured(const Operation& operation, Family family,
                                             const std::string& config_header, int sm_arch) const {
  return impl_->compile(
      family_recipe(impl_->templates, family_source(operation, family), config_header, sm_arch));
}

CompiledKernel Generator::compile_template(std::string_view path, std::string_view entry,
                                           int sm_arch) const {
  return impl_->compile(template_recipe(impl_->templates, path, entry, sm_arch));
}

CompiledKernel Generator::compile_program(const KernelProgram& program, int sm_arch) const {
  return impl_->compile(program, sm_arch);
}

std::string Generator::config_header(const Problem& problem, const Variant& variant) const {
  validate(problem);
  require_same_operation(problem, variant);
  return problem.operation().config_header(problem, variant);
}

std::string Generator::flatten(const Problem& problem, const Variant& variant) const {
  if (const auto program = problem.operation().program(problem, variant)) {
    return program->text;
  }
  const FamilySource& source = family_source(variant);
  return flatten_template(
      impl_->templates.with(std::string(source.config_header), config_header(problem, variant)),
      source.file);
}

std::string Generator::template_text(std::string_view path) const {
  return impl_->templates.text(path);
}

std::string Generator::templates_digest() const { return impl_->templates.digest(); }

std::string Generator::nvrtc_version() const { return impl_->nvrtc_version; }

std::function<CompiledProgram(const CompileTask&)> nvrtc_compiler(const GeneratorOptions& options) {
  return [nvrtc = std::make_shared<const Nvrtc>(options.nvrtc_library)](const CompileTask& task) {
    return compile_with(*nvrtc, task);
  };
}

std::string overlay_digest(const GeneratorOptions& options) {
  if (!options.template_overlay) {
    return "";
  }
  const std::string digest = TemplateSet::overlaid(*options.template_overlay).digest();
  return digest == TemplateSet::built_in().digest() ? "" : digest;
}

}  // namespace swr
