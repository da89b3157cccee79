// SPDX-License-Identifier: MIT
#include "kernel_spec/source/signatures.h"
#include "kernel_spec/spec/element_type.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace swr::kernel_spec {
namespace {

void require_parameter(const KernelParameter& parameter) {
  const std::string where = "parameter " + parameter.name;
  if (parameter.name.starts_with("nvml_") || parameter.name.starts_with("ps_energy")) {
    refuse_spec(where,
                "Kernel Tuner sets clocks or power by this name, and swr does not: its variants "
                "would be equal. Set them outside, as with nvidia-smi, and take the parameter out");
  }
  if (parameter.usual && std::ranges::count(parameter.values, *parameter.usual) == 0) {
    refuse_spec(where, "its default " + *parameter.usual + " is none of its values");
  }
}

void require_fill(const KernelArgument& argument) {
  const auto require = [&](bool is_as_usual, KernelFill fill, const char* what) {
    if (!is_as_usual && argument.fill != fill) {
      refuse_spec("argument " + argument.name, what);
    }
  };
  const bool is_vector = argument.size || argument.texture;
  require(argument.low == 0.0 && argument.high == 1.0, KernelFill::random,
          "low and high belong to \"fill\": \"random\"");
  require(argument.file.empty(), KernelFill::file, "a file belongs to \"fill\": \"file\"");
  const bool has_value = is_vector && argument.value != "0" && argument.fill != KernelFill::index;
  require(!has_value, KernelFill::value, "a value belongs to \"fill\": \"value\" or \"index\"");
  if (!argument.is_output && (argument.absolute || argument.relative)) {
    refuse_spec("argument " + argument.name, "a tolerance belongs to an output");
  }
  if (!argument.is_output && !argument.expected_file.empty()) {
    refuse_spec("argument " + argument.name, "\"expected\" belongs to an output");
  }
}

/// "(float* y, int n)".
std::string list_of(const std::vector<SignatureParameter>& parameters) {
  std::string text;
  for (const SignatureParameter& parameter : parameters) {
    text += (text.empty() ? "" : ", ") + parameter.type + " " + parameter.name;
  }
  return "(" + text + ")";
}

std::vector<const KernelArgument*> arguments_of(const KernelSpec& spec, const KernelStep& step) {
  std::vector<const KernelArgument*> all;
  for (const KernelArgument& argument : spec.arguments) {
    if (step.arguments.empty() && !argument.is_constant) {
      all.push_back(&argument);
    }
  }
  for (const std::string& name : step.arguments) {
    const auto found = std::ranges::find(spec.arguments, name, &KernelArgument::name);
    if (found != spec.arguments.end()) {
      all.push_back(&*found);
    }
  }
  return all;
}

std::optional<ElementType> type_or_none(const std::string& name) {
  try {
    return element_type(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Why the argument cannot be the parameter; empty where it can, or nobody knows.
std::string misfit(const SignatureParameter& parameter, const KernelArgument& argument) {
  const auto takes = type_or_none(parameter.type);
  const auto brings = type_or_none(argument.type);
  if (argument.texture || !takes || !brings) {
    return "";
  }
  if (parameter.is_pointer() != argument.size.has_value()) {
    return parameter.is_pointer() ? "is a pointer, and its argument has no size"
                                  : "is no pointer, and its argument has a size";
  }
  // Vectors of others may be meant: bytes of anything, or numbers that are loaded together.
  const auto is_plain = [](const ElementType& type) {
    return type.lanes == 1 && type.bytes() >= sizeof(float);
  };
  const bool is_compared = !parameter.is_pointer() || (is_plain(*takes) && is_plain(*brings));
  const bool is_other = takes->bytes() != brings->bytes() || takes->is_real() != brings->is_real();
  return is_compared && is_other ? "is not of its argument's type " + argument.type : "";
}

void require_arguments(const KernelSpec& spec, const KernelStep& step,
                       const KernelSignature& kernel) {
  const std::vector<const KernelArgument*> given = arguments_of(spec, step);
  const std::string takes = kernel.name + " takes " + list_of(kernel.parameters);
  const auto is_given = [&](const SignatureParameter& parameter) {
    return std::ranges::any_of(given, [&](const auto* one) { return one->name == parameter.name; });
  };
  if (given.size() != kernel.parameters.size()) {
    const auto missing = std::ranges::find_if_not(kernel.parameters, is_given);
    const auto unnamed =
        static_cast<std::size_t>(std::ranges::count_if(kernel.parameters, std::not_fn(is_given)));
    const bool is_short = given.size() + unnamed == kernel.parameters.size();
    refuse_spec(
        spec.name,
        takes + ", and the spec has " + std::to_string(given.size()) + " of them" +
            (is_short && missing != kernel.parameters.end() ? "; '" + missing->name + "' is missing"
                                                            : ""));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (const std::string why = misfit(kernel.parameters[i], *given[i]); !why.empty()) {
      refuse_spec("argument " + given[i]->name,
                  takes + ", and '" + kernel.parameters[i].name + "' " + why);
    }
  }
}

/// Without what stands before the name, and without its template's arguments.
std::string_view name_of_kernel(std::string_view entry) {
  entry = entry.substr(0, entry.find('<'));
  const auto colon = entry.rfind(':');
  return colon == entry.npos ? entry : entry.substr(colon + 1);
}

}  // namespace

void require_settings_with_effect(const KernelSpec& spec) {
  std::ranges::for_each(spec.parameters, require_parameter);
  std::ranges::for_each(spec.arguments, require_fill);
}

void require_arguments_of_kernels(const KernelSpec& spec) {
  std::vector<KernelSignature> kernels;
  try {
    kernels = kernels_of(spec.source, spec.source_file).kernels;
  } catch (const Error&) {
    return;  // Of pragmas, which say nothing where a spec is no file of pragmas.
  }
  for (const KernelStep& step : spec.steps) {
    const auto is_it = [&](const KernelSignature& kernel) {
      return kernel.name == name_of_kernel(step.entry);
    };
    const auto kernel = std::ranges::find_if(kernels, is_it);
    if (kernel != kernels.end() && kernel->is_complete &&
        std::ranges::count_if(kernels, is_it) == 1) {
      require_arguments(spec, step, *kernel);
    }
  }
}

}  // namespace swr::kernel_spec
