// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "core/sha256.h"
#include "generator/compile_log.h"
#include "generator/cubin_cache.h"
#include "generator/nvrtc.h"
#include "generator/template_set.h"
#include <swr/error.h>
#include <swr/generator.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

namespace swr {
namespace {

using namespace std::string_view_literals;

/// Line information lets profilers show the templates; ptxas reports resources in the log.
constexpr std::array kReferenceOptions{"--std=c++20"sv, "--generate-line-info"sv,
                                       "--ptxas-options=-v"sv};
constexpr std::array kVariantOptions{"--std=c++20"sv, "--generate-line-info"sv,
                                     "--ptxas-options=-v"sv, "--use_fast_math"sv};

/// Of kernels that are none of swr's. What says neither where it runs is for the device, so that a
/// file may hold its own host program.
constexpr std::array kProgramOptions{"--generate-line-info"sv, "--ptxas-options=-v"sv,
                                     "--device-as-default-execution-space"sv};

/// What is compiled and how.
struct Job {
  const TemplateSet& templates;
  std::string_view file;
  std::string_view entry;
  int sm_arch;
  std::string_view arch_suffix;
  std::span<const std::string_view> options;
  std::span<const std::string_view> further_entries = {};
};

CompileTask task_of(const Job& job) {
  CompileTask task{.files = {},
                   .sm_arch = job.sm_arch,
                   .arch_suffix = std::string(job.arch_suffix),
                   .options = {job.options.begin(), job.options.end()}};
  for (const TemplateFile& file : job.templates.closure(job.file)) {
    task.files.emplace_back(file.path, file.text);
  }
  return task;
}

/// The only way to NVRTC, of whatever process. Nothing that is compiled can open a file: what it
/// may read is handed over with it.
CompiledProgram compile_with(const Nvrtc& nvrtc, const CompileTask& task) {
  std::vector<TemplateFile> files;
  for (const auto& [name, text] : task.files) {
    files.push_back({.path = name, .text = text});
  }
  std::ranges::move(nvrtc.toolkit_headers(files), std::back_inserter(files));
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

void require_family_arch(const FamilySource& source, int sm_arch) {
  if (sm_arch < source.first_arch || sm_arch > source.last_arch) {
    throw Error(ErrorCode::invalid_argument,
                "family " + std::string(to_string(source.family)) + " needs sm_" +
                    std::to_string(source.first_arch) +
                    (source.last_arch == source.first_arch ? "" : " or later") + ", not sm_" +
                    std::to_string(sm_arch));
  }
}

KernelResources most_of(const KernelResources& a, const KernelResources& b) {
  return {.registers_per_thread = std::max(a.registers_per_thread, b.registers_per_thread),
          .spill_store_bytes = std::max(a.spill_store_bytes, b.spill_store_bytes),
          .spill_load_bytes = std::max(a.spill_load_bytes, b.spill_load_bytes),
          .stack_bytes = std::max(a.stack_bytes, b.stack_bytes),
          .static_smem_bytes = std::max(a.static_smem_bytes, b.static_smem_bytes),
          .wgmma_warnings = std::max(a.wgmma_warnings, b.wgmma_warnings)};
}

KernelResources resources_of(const Job& job, std::string_view entry, const std::string& log) {
  const auto resources = parse_resources(log, entry);
  if (!resources) {
    throw Error(ErrorCode::compile_failed,
                "NVRTC reports no entry function '" + std::string(entry) + "' in " +
                    std::string(job.file) + "; declare it extern \"C\" __global__\n" + log);
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

  /// The templates with a kernel's configuration header.
  TemplateSet configured(const FamilySource& source, const std::string& config_header) const {
    return templates.with(std::string(source.config_header), config_header);
  }
  TemplateSet configured(const Problem& problem, const Variant& variant) const {
    validate(problem);
    require_same_operation(problem, variant);
    return configured(family_source(variant), problem.operation().config_header(problem, variant));
  }

  CompiledKernel compile_family(const FamilySource& source, const TemplateSet& configured,
                                int sm_arch) const {
    CompiledKernel kernel = compile({.templates = configured,
                                     .file = source.file,
                                     .entry = source.entry,
                                     .sm_arch = sm_arch,
                                     .arch_suffix = source.arch_suffix,
                                     .options = kVariantOptions,
                                     .further_entries = source.further_entries});
    kernel.may_overlap = source.may_overlap(sm_arch);
    return kernel;
  }

  /// Digest of everything the cubin depends on.
  std::string key(const Job& job) const {
    const std::string closure = job.templates.closure_digest(job.file);
    const std::string arch = std::to_string(job.sm_arch) + std::string(job.arch_suffix);
    std::vector<std::string_view> fields{closure, job.entry, arch, nvrtc_version};
    fields.insert(fields.end(), job.options.begin(), job.options.end());
    fields.insert(fields.end(), job.further_entries.begin(), job.further_entries.end());
    return digest_of_fields(fields);
  }

  CompiledProgram compile(const CompileTask& task) const {
    return compiler ? compiler(task) : compile_with(nvrtc, task);
  }

  CompiledKernel build(const Job& job, const std::string& source_digest) const {
    CompiledProgram output = compile(task_of(job));
    KernelResources resources = resources_of(job, job.entry, output.log);
    for (const std::string_view entry : job.further_entries) {
      resources = most_of(resources, resources_of(job, entry, output.log));
    }
    std::string cubin_digest = sha256_hex(output.cubin);
    return {.entry = std::string(job.entry),
            .further_entries = {job.further_entries.begin(), job.further_entries.end()},
            .sm_arch = job.sm_arch,
            .cubin = std::move(output.cubin),
            .cubin_digest = std::move(cubin_digest),
            .source_digest = source_digest,
            .resources = resources,
            .from_cache = false};
  }

  CompiledKernel compile(const Job& job) const {
    nvrtc.require_arch(job.sm_arch);
    const std::string source_digest = key(job);
    const auto build_now = [&] { return build(job, source_digest); };
    return cache ? cache->find_or_compile(source_digest, build_now) : build_now();
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
  const FamilySource& source = family_source(variant);
  require_family_arch(source, sm_arch);
  if (const auto program = problem.operation().program(problem, variant)) {
    require_same_operation(problem, variant);
    return impl_->compile(*program, sm_arch);
  }
  return impl_->compile_family(source, impl_->configured(problem, variant), sm_arch);
}

CompiledKernel Generator::compile_configured(const Operation& operation, Family family,
                                             const std::string& config_header, int sm_arch) const {
  const FamilySource& source = family_source(operation, family);
  require_family_arch(source, sm_arch);
  return impl_->compile_family(source, impl_->configured(source, config_header), sm_arch);
}

CompiledKernel Generator::compile_template(std::string_view path, std::string_view entry,
                                           int sm_arch) const {
  return impl_->compile({.templates = impl_->templates,
                         .file = path,
                         .entry = entry,
                         .sm_arch = sm_arch,
                         .arch_suffix = "",
                         .options = kReferenceOptions});
}

CompiledKernel Generator::compile_program(const KernelProgram& program, int sm_arch) const {
  return impl_->compile(program, sm_arch);
}

std::string Generator::config_header(const Problem& problem, const Variant& variant) const {
  return impl_->configured(problem, variant).text(family_source(variant).config_header);
}

std::string Generator::flatten(const Problem& problem, const Variant& variant) const {
  if (const auto program = problem.operation().program(problem, variant)) {
    return program->text;
  }
  return flatten_template(impl_->configured(problem, variant), family_source(variant).file);
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
