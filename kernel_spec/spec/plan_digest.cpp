// SPDX-License-Identifier: MIT
// What tells plans apart in databases.
#include "core/number_text.h"
#include "core/sha256.h"
#include "kernel_spec/spec/kernel_plan.h"

#include <algorithm>

namespace swr::kernel_spec {

/// Everything but what changes no result: words for people, usual sizes, the deadline. Databases
/// hold it beside the spec, so what comes later is added where a spec has it alone.
std::string KernelPlan::digest_of_all() const {
  std::string all;
  const auto add = [&all](const std::string& field) {
    all += std::to_string(field.size()) + ":" + field;
  };
  const auto add_all = [&](const std::vector<std::string>& fields) {
    add(std::to_string(fields.size()));
    std::ranges::for_each(fields, add);
  };
  const auto add_headers = [&](const std::map<std::string, std::string>& headers) {
    for (const auto& [name, text] : headers) {
      add_all({name, text});
    }
  };
  const auto digest_of = [this](const std::string& data_file) {
    const auto known = files_.data_digests.find(data_file);
    return known == files_.data_digests.end() ? std::string() : known->second;
  };
  const auto add_steps = [&](const std::vector<KernelStep>& steps) {
    for (const KernelStep& step : steps) {
      add_all({step.entry, step.shared_bytes, step.when, step.repeat});
      add_all(step.block);
      add_all(step.grid);
      add_all(step.arguments);
    }
  };
  add_all({spec_.name, spec_.source, files_.reference_source,
           spec_.dialect == SpecDialect::c ? "c" : "python", spec_.flops, spec_.bytes});
  add_headers(files_.headers);
  add_headers(files_.reference_headers);
  for (const KernelSize& size : spec_.sizes) {
    add(size.name);
  }
  for (const KernelParameter& parameter : spec_.parameters) {
    add_all({parameter.name, std::to_string(static_cast<int>(parameter.use)),
             parameter.usual.value_or("")});
    add_all(parameter.values);
  }
  add_all(spec_.constraints);
  for (const auto& [name, text] : spec_.defines) {
    add_all({name, text});
  }
  for (const auto& [name, items] : spec_.lists) {
    add(name);
    add_all(items);
  }
  add_all(spec_.options);
  for (const PlannedArgument& argument : arguments_) {
    const KernelArgument& one = argument.spec;
    add_all({one.name, one.type, one.size.value_or(""), one.is_output ? "output" : "",
             one.is_constant ? "constant" : "", std::to_string(static_cast<int>(one.fill)),
             one.value, fixed_text(one.low, 6), fixed_text(one.high, 6), std::to_string(one.seed),
             digest_of(one.file), digest_of(one.expected_file),
             fixed_text(argument.absolute * 1e12, 6), fixed_text(argument.relative * 1e12, 6)});
    if (one.texture) {
      add_all(one.texture->extent);
      add_all({"texture", std::to_string(static_cast<int>(one.texture->address)),
               one.texture->interpolates ? "linear" : "", one.texture->is_normalized ? "unit" : "",
               one.texture->reads_fractions ? "fractions" : ""});
    }
  }
  add_steps(spec_.steps);
  add_steps(spec_.reference);
  for (const auto& [name, value] : spec_.reference_parameters) {
    add_all({name, value});
  }
  return sha256_hex(all);
}

}  // namespace swr::kernel_spec
