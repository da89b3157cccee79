// SPDX-License-Identifier: MIT
#include "core/ascii.h"
#include "core/bounded_json.h"
#include "core/embedded_file.h"
#include "core/json.h"
#include "core/operation.h"
#include "core/package_text.h"
#include "core/reject.h"
#include "export/export.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

namespace swr {

/// Made by swr_embed_files: the files of every package.
std::span<const EmbeddedFile> package_templates();

namespace {

constexpr std::string_view kToken = "swr_package";

/// Lower case, as names are compared: no identifier of C++ in its standard headers, no target of
/// CMake's generators.
bool is_taken(std::string name) {
  static const std::set<std::string_view> kTaken{"alignas",
                                                 "alignof",
                                                 "all",
                                                 "and",
                                                 "and_eq",
                                                 "asm",
                                                 "assert",
                                                 "auto",
                                                 "bitand",
                                                 "bitor",
                                                 "bool",
                                                 "break",
                                                 "case",
                                                 "catch",
                                                 "char",
                                                 "char16_t",
                                                 "char32_t",
                                                 "char8_t",
                                                 "class",
                                                 "clean",
                                                 "co_await",
                                                 "co_return",
                                                 "co_yield",
                                                 "compl",
                                                 "concept",
                                                 "const",
                                                 "const_cast",
                                                 "consteval",
                                                 "constexpr",
                                                 "constinit",
                                                 "continue",
                                                 "cuda",
                                                 "decltype",
                                                 "default",
                                                 "delete",
                                                 "depend",
                                                 "do",
                                                 "double",
                                                 "dynamic_cast",
                                                 "edit_cache",
                                                 "else",
                                                 "enum",
                                                 "eof",
                                                 "errno",
                                                 "explicit",
                                                 "export",
                                                 "extern",
                                                 "false",
                                                 "float",
                                                 "for",
                                                 "friend",
                                                 "goto",
                                                 "help",
                                                 "if",
                                                 "inline",
                                                 "install",
                                                 "int",
                                                 "linux",
                                                 "list_install_components",
                                                 "long",
                                                 "mutable",
                                                 "namespace",
                                                 "new",
                                                 "noexcept",
                                                 "not",
                                                 "not_eq",
                                                 "null",
                                                 "nullptr",
                                                 "operator",
                                                 "or",
                                                 "or_eq",
                                                 "package",
                                                 "package_source",
                                                 "posix",
                                                 "private",
                                                 "protected",
                                                 "public",
                                                 "rebuild_cache",
                                                 "register",
                                                 "reinterpret_cast",
                                                 "requires",
                                                 "return",
                                                 "short",
                                                 "signed",
                                                 "sizeof",
                                                 "static",
                                                 "static_assert",
                                                 "static_cast",
                                                 "std",
                                                 "struct",
                                                 "switch",
                                                 "swr",
                                                 "template",
                                                 "test",
                                                 "this",
                                                 "thread_local",
                                                 "throw",
                                                 "true",
                                                 "try",
                                                 "typedef",
                                                 "typeid",
                                                 "typename",
                                                 "union",
                                                 "unix",
                                                 "unsigned",
                                                 "using",
                                                 "virtual",
                                                 "void",
                                                 "volatile",
                                                 "wchar_t",
                                                 "while",
                                                 "xor",
                                                 "xor_eq"};
  std::ranges::transform(name, name.begin(), ascii::lower);
  return kTaken.contains(name);
}

void require_name(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool valid = !name.empty() && is_letter(name.front()) && !is_taken(name) &&
                     std::ranges::all_of(name, [&](char c) {
                       return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
                     });
  if (!valid) {
    throw Error(
        ErrorCode::invalid_argument,
        "a package cannot be called '" + name +
            "'; use letters, digits and underscores, a letter first, and no word of C++ or CMake");
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// operations/NAME/package/NAME.h: what a program includes for an operation.
bool is_operation_header(std::string_view path) {
  constexpr std::string_view kFolder = "operations/";
  if (!path.starts_with(kFolder)) {
    return false;
  }
  const std::string_view rest = path.substr(kFolder.size());
  const std::string name(rest.substr(0, rest.find('/')));
  return rest == name + "/package/" + name + ".h";
}

bool is_public(std::string_view path) {
  return path.starts_with("include/swr/") || path == "export/package/common.h" ||
         is_operation_header(path);
}

/// Its name in the package, where all files lie in two folders: a name that families share gets
/// the family's in front.
std::string file_name(std::string_view path) {
  if (path.find('/') == std::string_view::npos) {
    return std::string(path);
  }
  const std::string_view folder = path.substr(0, path.rfind('/'));
  const std::string_view name = path.substr(folder.size() + 1);
  if (name != "config.h") {
    return std::string(name);
  }
  return std::string(folder.substr(folder.rfind('/') + 1)) + "_" + std::string(name);
}

/// Where a file of swr lies in the package.
std::string place_of(std::string_view path, const std::string& name) {
  if (path == "export/package/CMakeLists.txt.in") {
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
  replace_all(result, "\nnamespace swr::", "\nnamespace " + name + "::swr::");
  replace_all(result, "\n}  // namespace swr::", "\n}  // namespace " + name + "::swr::");
  replace_all(result, kToken, name);
  return result;
}

std::string number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

std::string device_text(const DeviceInfo& device) {
  return package_list({std::to_string(device.sm_arch), std::to_string(device.sm_count),
                       std::to_string(device.l2_bytes), number(device.dram_gb_per_s),
                       package_truth(device.mig)});
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
         package_truth(exported.may_overlap) + ", " + device_text(exported.device) + ", " +
         package_truth(exported.provenance == Provenance::measured) + "}";
}

std::string kernel_text(const ExportedKernel& exported, const CompiledKernel& kernel) {
  const std::string row = exported.problem.operation().package()->package_row(
      {exported.problem, exported.variant, exported.device.sm_count, exported.ctas_per_sm,
       exported.entry, exported.further_entries});
  return "    {" + embedded_text(exported, kernel) + ",\n     " + row + "},\n";
}

/// A kernel and its cubin.
struct Embedded {
  const ExportedKernel& exported;
  const CompiledKernel& kernel;
};

std::string table_source(const PackagePart& part, const std::vector<Embedded>& kernels,
                         const std::string& name) {
  std::set<std::string> symbols;
  for (const Embedded& one : kernels) {
    symbols.insert(cubin_symbol(one.kernel));
  }
  std::string text = "// Generated by swr-tune export.\n#include \"" + std::string(part.name) +
                     "_kernels.h\"\n\n#if defined(__BYTE_ORDER__) && "
                     "__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n#error \"the embedded cubins are "
                     "little endian\"\n#endif\n\nnamespace " +
                     name + " {\n";
  for (const std::string& symbol : symbols) {
    text += "extern const std::uint64_t " + symbol + "[];\n";
  }
  const std::string table = std::string(part.type) + "Kernel";
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

/// Throws: Error{invalid_argument} where another file has the path.
void add_own_files(PackageFiles& files, const PackageTexts& own, const std::string& name) {
  for (const auto& [path, text] : own) {
    std::string place = path;
    replace_all(place, kToken, name);
    if (!files.emplace(place, carried(text, name)).second) {
      reject("the package has a file " + place +
             " already: give the kernel another name, or export it alone");
    }
  }
}

std::vector<Embedded> kernels_of(const Operation& op, const Manifest& manifest,
                                 const std::vector<CompiledKernel>& kernels) {
  std::vector<Embedded> own;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (&manifest.kernels[i].problem.operation() == &op) {
      own.push_back({manifest.kernels[i], kernels[i]});
    }
  }
  return own;
}

const PackagePart& require_part(const Operation& operation) {
  if (operation.package() == nullptr) {
    reject("kernels of " + std::string(operation.name()) +
           " cannot be exported as a C++ package; export cubins, without --format cpp");
  }
  return operation.package()->package_part();
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
               {"kernels", parse_json(to_text(manifest), "the manifest").at("kernels")}};
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
  std::set<std::string> types;
  for (const Operation* const operation : operations()) {
    const std::vector<Embedded> own = kernels_of(*operation, manifest, kernels);
    if (!own.empty()) {
      const PackagePart& part = require_part(*operation);
      if (!types.emplace(part.type).second) {
        reject("the package has a class " + std::string(part.type) +
               " already: give one of the kernels another name, or export it alone");
      }
      add_templates(files, part.files(), name);
      if (part.own_files != nullptr) {
        add_own_files(files, part.own_files(*operation), name);
      }
      files["src/" + std::string(part.name) + "_kernels.cpp"] = table_source(part, own, name);
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
