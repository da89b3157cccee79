// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "core/reject.h"
#include "operations/gemm/parts.h"
#include "templates/common/gemm_groups.h"
#include <swr/gemm_problem.h>

#include <array>
#include <utility>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kLayouts{"nt"sv, "nn"sv, "tn"sv};
constexpr std::array kOutputs{"fp16"sv, "bf16"sv, "fp32"sv, "fp8"sv};
constexpr std::array kScalings{"none"sv, "tensor"sv, "row"sv, "block"sv};
constexpr std::array kAccuracies{"fast"sv, "two_level"sv};
constexpr std::array kActivations{"none"sv, "gelu"sv, "gelu_tanh"sv, "silu"sv};
constexpr std::array kGroups{"none"sv, "offsets"sv, "contiguous"sv, "masked"sv};

void require(bool holds, const char* otherwise) {
  if (!holds) {
    reject(otherwise);
  }
}

void validate_scales(const GemmProblem& p) {
  constexpr int kLeastFp8Alignment = 4;
  const bool fp8 = is_fp8(p.dtype);
  require(fp8 || p.scaling == Scaling::none,
          "scales belong to e4m3 and e5m2; leave scaling at none");
  require(fp8 || p.accuracy == Accuracy::fast,
          "fp16 and bf16 are always summed in fp32; leave accuracy at fast");
  require(!fp8 || p.layout == GemmLayout::nt,
          "tensor cores take e4m3 and e5m2 contiguous along k: layout nt");
  require(!fp8 || p.alignment_bytes >= kLeastFp8Alignment,
          "addresses and strides of e4m3 and e5m2 must be multiples of 4 bytes");
  require(p.scaling != Scaling::block || p.accuracy == Accuracy::two_level,
          "block scales are applied to sums of 128 elements: accuracy two_level");
  // Of offsets, scales of A would begin where the copy engine cannot read.
  const bool is_grouped = p.groups != GemmGroups::none;
  require(p.scaling != Scaling::block || p.groups != GemmGroups::offsets,
          "block scales of groups take rows that are contiguous or masked, not offsets");
  require(
      !is_grouped || (p.scaling != Scaling::tensor && !p.has_bias && p.output != OutputType::fp8),
      "groups have scales of rows or blocks, and neither a bias nor an output of fp8");
  require(
      p.batch == 1 || is_grouped ||
          (p.scaling == Scaling::none && !p.has_bias && !p.gated && p.output != OutputType::fp8),
      "scales, a bias and a gate are those of one product: batch 1");
  require((p.output == OutputType::fp8) == (p.output_scaling != Scaling::none),
          "output_scaling (tensor or block) belongs to an output of fp8");
  require(p.output != OutputType::fp8 || !p.reads_c, "a C of fp8 is not read");
  require(p.output_scaling != Scaling::row,
          "the scale of a row needs all of it at once: output_scaling tensor or block");
  require(!p.gated || p.layout == GemmLayout::nt, "gated takes layout nt");
  const bool has_blocks_of_columns =
      p.output_scaling == Scaling::block || (p.gated && p.scaling == Scaling::block);
  require(!has_blocks_of_columns || p.n % kScaleBlock == 0,
          "block scales of C, and of a gated B, take n in multiples of 128");
}

/// What differs from a plain product of 16-bit types, each part after `before`.
std::string extras_text(const GemmProblem& p, const std::string& before) {
  std::string text;
  const auto add = [&](bool is_there, std::string_view part) {
    text += is_there ? before + std::string(part) : "";
  };
  add(p.scaling != Scaling::none, "scale_" + std::string(to_string(p.scaling)));
  add(p.accuracy != Accuracy::fast, to_string(p.accuracy));
  add(p.has_bias, "bias");
  add(p.activation != Activation::none, to_string(p.activation));
  add(p.gated, "gated");
  add(p.output_scaling != Scaling::none, "out_" + std::string(to_string(p.output_scaling)));
  return text;
}

void validate_groups(const GemmProblem& problem) {
  if (problem.groups == GemmGroups::none) {
    if (problem.skewed) {
      reject("skewed says how rows are shared out among groups; name their form, too");
    }
    return;
  }
  if (problem.layout == GemmLayout::tn || problem.reads_c) {
    reject("a grouped product takes A [rows, k], layout nt or nn, and does not read C");
  }
  if (problem.batch > kMostGroups) {
    reject("a grouped product has at most " + std::to_string(kMostGroups) + " items, not " +
           std::to_string(problem.batch));
  }
}

/// Nothing, or what is said of groups behind the rest.
std::string groups_text(const GemmProblem& problem, char separator) {
  return problem.groups == GemmGroups::none
             ? ""
             : std::string(1, separator).append(to_string(problem.groups)) +
                   (problem.skewed ? std::string(1, separator) + "skewed" : "");
}

}  // namespace

void validate(const GemmProblem& problem) {
  constexpr int kMaxLength = 1 << 24;
  for (const auto& [value, name] :
       {std::pair{problem.m, "m"}, {problem.n, "n"}, {problem.k, "k"}, {problem.batch, "batch"}}) {
    if (value < 1 || value > kMaxLength) {
      reject(std::string(name) + " must be 1 to 16777216, not " + std::to_string(value));
    }
  }
  validate_groups(problem);
  require_alignment(problem.alignment_bytes);
  if (problem.alignment_bytes < output_bytes(problem.output)) {
    reject("alignment must be at least the 4 bytes of an fp32 element of C");
  }
  validate_scales(problem);
}

int product_columns(const GemmProblem& problem) {
  return problem.gated ? 2 * problem.n : problem.n;
}

double flop_count(const GemmProblem& problem) {
  return 2.0 * problem.batch * problem.m * product_columns(problem) * problem.k;
}

CompulsoryBytes compulsory_bytes(const GemmProblem& problem) {
  const auto matrix = [&](int rows, int columns, int bytes) {
    return static_cast<long long>(problem.batch) * rows * columns * bytes;
  };
  const int bytes = element_bytes(problem.dtype);
  const long long c = matrix(problem.m, problem.n, output_bytes(problem.output));
  const long long scales =
      problem.scaling == Scaling::block ? matrix(problem.m, (problem.k + 127) / kScaleBlock, 4) : 0;
  return {.read = matrix(problem.m, problem.k, bytes) +
                  matrix(problem.k, product_columns(problem), bytes) + scales +
                  (problem.reads_c ? c : 0),
          .write = c};
}

std::string_view to_string(GemmLayout value) { return enum_text(kLayouts, value); }
std::string_view to_string(OutputType value) { return enum_text(kOutputs, value); }
std::string_view to_string(Scaling value) { return enum_text(kScalings, value); }
std::string_view to_string(Accuracy value) { return enum_text(kAccuracies, value); }
std::string_view to_string(Activation value) { return enum_text(kActivations, value); }
std::string_view to_string(GemmGroups value) { return enum_text(kGroups, value); }
GemmLayout parse_gemm_layout(std::string_view text) {
  return parse_enum<GemmLayout>(kLayouts, text, "layout");
}
OutputType parse_output_type(std::string_view text) {
  return parse_enum<OutputType>(kOutputs, text, "output");
}

std::string to_string(const GemmProblem& problem) {
  std::string text = "gemm b" + std::to_string(problem.batch) + " m" + std::to_string(problem.m) +
                     " n" + std::to_string(problem.n) + " k" + std::to_string(problem.k) + " " +
                     std::string(to_string(problem.dtype)) + " " +
                     std::string(to_string(problem.layout)) + " " +
                     std::string(to_string(problem.output));
  if (problem.reads_c) {
    text += " beta";
  }
  if (problem.alignment_bytes != 16) {
    text += " align" + std::to_string(problem.alignment_bytes);
  }
  return text + extras_text(problem, " ") + groups_text(problem, ' ');
}

std::span<const ProblemField> gemm_fields() {
  using P = GemmProblem;
  static const std::array fields{
      size_field(&P::m, "m", "Rows of C", {.option = "m", .is_required = true, .takes_list = true}),
      size_field(&P::n, "n", "Columns of C", {.option = "n", .is_required = true}),
      size_field(&P::k, "k", "Inner dimension", {.option = "k", .is_required = true}),
      size_field(&P::batch, "batch", "Batch size", {.option = "batch", .usual = 1}),
      choice_field(&P::dtype, kEveryDType, "dtype", "Type of A and B", {.option = "dtype"}),
      choice_field(&P::output, kOutputs, "output", "Type of C",
                   {.option = "output", .follows = "dtype", .usual = 1}),
      choice_field(&P::layout, kLayouts, "layout",
                   "nt: A [m, k] and B [n, k]; nn: B [k, n]; tn: A [k, m] and B [k, n]",
                   {.option = "layout"}),
      flag_field(&P::reads_c, "reads_c", "C is an input too (beta is not 0)",
                 {.option = "reads-c"}),
      alignment_field(&P::alignment_bytes),
      later(choice_field(&P::scaling, kScalings, "scaling", "Scales of A and B of FP8",
                         {.option = "scaling"})),
      later(choice_field(&P::accuracy, kAccuracies, "accuracy",
                         "Sums of FP8 by tensor cores alone, or promoted to fp32",
                         {.option = "accuracy"})),
      later(flag_field(&P::has_bias, "bias", "A bias per column", {.option = "bias"})),
      later(choice_field(&P::activation, kActivations, "activation", "After the bias",
                         {.option = "activation"})),
      later(flag_field(&P::gated, "gated", "Two products, the activation of one times the other",
                       {.option = "gated"})),
      later(choice_field(&P::output_scaling, kScalings, "output_scaling", "Scales of C of FP8",
                         {.option = "output-scaling"})),
      later(
          choice_field(&P::groups, kGroups, "groups",
                       "How rows are shared out among B's batch; m counts those of one on average",
                       {.option = "groups"})),
      later(flag_field(&P::skewed, "skewed",
                       "One group has half of the rows, and a quarter of them has none",
                       {.option = "skewed"})),
  };
  return fields;
}

std::string file_name_of(const GemmProblem& problem) {
  return "gemm_b" + std::to_string(problem.batch) + "_m" + std::to_string(problem.m) + "_n" +
         std::to_string(problem.n) + "_k" + std::to_string(problem.k) + "_" +
         std::string(to_string(problem.dtype)) + "_" + std::string(to_string(problem.layout)) +
         "_" + std::string(to_string(problem.output)) + (problem.reads_c ? "_beta" : "") +
         alignment_suffix(problem.alignment_bytes) + extras_text(problem, "_") +
         groups_text(problem, '_');
}

/// Splits need a longer k than this.
void enlarge_sizes(GemmProblem& problem) {
  constexpr int kLarge = 1 << 20;
  problem.m = kLarge;
  problem.n = kLarge;
  problem.k = kLarge;
}

}  // namespace swr
