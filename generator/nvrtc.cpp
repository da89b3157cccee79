// SPDX-License-Identifier: MIT
#include "generator/nvrtc.h"

#include "core/dynamic_library.h"
#include "core/files.h"
#include "core/header_names.h"
#include "generator/compile_log.h"

#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

namespace swr {
namespace {

/// CUDA's own headers, which are handed to NVRTC with a source: what compiles it opens no file.
/// Reads a header when a source names it, and keeps it. Thread-safe.
class ToolkitHeaders {
 public:
  /// `folders`: first the most important; none where there is no toolkit.
  explicit ToolkitHeaders(std::vector<std::filesystem::path> folders)
      : folders_(std::move(folders)) {}

  /// The headers that `files` name and do not have, and what these name. Views of what is kept.
  std::vector<TemplateFile> named_by(std::span<const TemplateFile> files) const;

 private:
  struct Header {
    std::string text;
    std::vector<std::string> names;  ///< Paths of what it names.
  };
  /// The path at which compilers would find a name; empty where it is none of CUDA's.
  std::string place_of(const HeaderName& name, std::string_view includer) const;
  const Header& read(const std::string& path) const;

  std::vector<std::filesystem::path> folders_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Header, std::less<>> headers_;  ///< By path below a folder.
};

constexpr std::size_t kMostHeaderBytes = std::size_t{16} << 20;

/// The file of a path below one of the folders; empty where there is none.
std::filesystem::path find_file(const std::vector<std::filesystem::path>& folders,
                                const std::string& path) {
  for (const std::filesystem::path& folder : folders) {
    std::error_code unknown;
    if (std::filesystem::is_regular_file(folder / path, unknown)) {
      return folder / path;
    }
  }
  return {};
}

std::string ToolkitHeaders::place_of(const HeaderName& name, std::string_view includer) const {
  for (const std::string& place : header_places(name, includer)) {
    if (headers_.contains(place) || !find_file(folders_, place).empty()) {
      return place;
    }
  }
  return "";
}

const ToolkitHeaders::Header& ToolkitHeaders::read(const std::string& path) const {
  const auto [known, is_new] = headers_.try_emplace(path);
  Header& header = known->second;
  if (is_new) {
    const std::string text = read_regular_file(find_file(folders_, path), kMostHeaderBytes);
    header.text = with_header_paths(text, [&](const HeaderName& name) {
      std::string place = place_of(name, path);
      if (!place.empty()) {
        header.names.push_back(place);
      }
      return place;
    });
  }
  return header;
}

std::vector<TemplateFile> ToolkitHeaders::named_by(std::span<const TemplateFile> files) const {
  const std::lock_guard lock(mutex_);
  std::set<std::string, std::less<>> seen;
  std::vector<std::string> names;
  for (const TemplateFile& file : files) {
    seen.emplace(file.path);
    with_header_paths(file.text, [&](const HeaderName& name) {
      if (place_of(name, "") == name.text) {
        names.emplace_back(name.text);
      }
      return std::string();
    });
  }
  std::vector<TemplateFile> found;
  while (!names.empty()) {
    const auto [path, is_new] = seen.insert(std::move(names.back()));
    names.pop_back();
    if (is_new) {
      const Header& header = read(*path);
      found.push_back({.path = headers_.find(*path)->first, .text = header.text});
      names.insert(names.end(), header.names.begin(), header.names.end());
    }
  }
  return found;
}

constexpr std::string_view kAdvice =
    "install the CUDA toolkit or NVIDIA's package nvidia-cuda-nvrtc (scripts/setup does), or set "
    "SWR_NVRTC to the path of libnvrtc.so";

std::vector<std::string> candidates(const std::optional<std::filesystem::path>& library) {
  if (library) {
    return {library->string()};
  }
  std::vector<std::string> paths;
  const std::string build_dir = SWR_NVRTC_DIR;
  if (!build_dir.empty()) {
    paths = {build_dir + "/libnvrtc.so.13", build_dir + "/libnvrtc.so.12"};
  }
  paths.insert(paths.end(),
               {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"});
  return paths;
}

/// NVRTC opens its builtins by bare name, which the loader finds in its own search path only. Those
/// beside a library that was opened by path are therefore loaded first; where there are none, the
/// loader may still find some.
std::optional<DynamicLibrary> open_builtins(const std::filesystem::path& nvrtc,
                                            const std::string& version) {
  const std::filesystem::path builtins = nvrtc.parent_path() / ("libnvrtc-builtins.so." + version);
  if (!nvrtc.has_parent_path() || !std::filesystem::exists(builtins)) {
    return std::nullopt;
  }
  const std::array candidates{builtins.string()};
  return DynamicLibrary(candidates, ErrorCode::no_nvrtc, "NVRTC's builtins library",
                        std::string(kAdvice));
}

std::string arch_option(int sm_arch, std::string_view suffix) {
  return "--gpu-architecture=sm_" + std::to_string(sm_arch) + std::string(suffix);
}

/// The toolkit's folders of headers, first the most important; none where there is no toolkit.
std::vector<std::filesystem::path> header_folders(const std::filesystem::path& library) {
  for (const auto& folder :
       {library.parent_path() / "../include", std::filesystem::path(SWR_NVRTC_DIR) / "../include",
        std::filesystem::path("/usr/local/cuda/include")}) {
    if (folder.is_absolute() && std::filesystem::exists(folder / "cuda_fp16.h")) {
      std::vector<std::filesystem::path> folders{folder.lexically_normal()};
      if (std::filesystem::exists(folder / "cccl")) {
        folders.push_back((folder / "cccl").lexically_normal());
      }
      return folders;
    }
  }
  return {};
}

}  // namespace

struct Nvrtc::Impl {
  explicit Impl(const std::optional<std::filesystem::path>& path)
      : library(candidates(path), ErrorCode::no_nvrtc, "NVRTC, CUDA's run-time compiler,",
                std::string(kAdvice)) {}

  template <typename Function>
  Function* function(const char* name) const {
    return library.function<Function>(name);
  }

  /// Throws unless `result` is success; `action` completes "NVRTC cannot ...".
  void check(nvrtcResult result, const std::string& action) const {
    if (result != NVRTC_SUCCESS) {
      throw Error(ErrorCode::no_nvrtc, library.name() + " cannot " + action + " (" +
                                           error_string(result) + "); " + std::string(kAdvice));
    }
  }

  DynamicLibrary library;
  decltype(nvrtcGetErrorString)* error_string =
      function<decltype(nvrtcGetErrorString)>("nvrtcGetErrorString");
  decltype(nvrtcVersion)* version = function<decltype(nvrtcVersion)>("nvrtcVersion");
  decltype(nvrtcGetNumSupportedArchs)* arch_count =
      function<decltype(nvrtcGetNumSupportedArchs)>("nvrtcGetNumSupportedArchs");
  decltype(nvrtcGetSupportedArchs)* archs =
      function<decltype(nvrtcGetSupportedArchs)>("nvrtcGetSupportedArchs");
  decltype(nvrtcCreateProgram)* create_program =
      function<decltype(nvrtcCreateProgram)>("nvrtcCreateProgram");
  decltype(nvrtcDestroyProgram)* destroy_program =
      function<decltype(nvrtcDestroyProgram)>("nvrtcDestroyProgram");
  decltype(nvrtcAddNameExpression)* add_name_expression =
      function<decltype(nvrtcAddNameExpression)>("nvrtcAddNameExpression");
  decltype(nvrtcGetLoweredName)* lowered_name =
      function<decltype(nvrtcGetLoweredName)>("nvrtcGetLoweredName");
  decltype(nvrtcCompileProgram)* compile_program =
      function<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram");
  decltype(nvrtcGetProgramLogSize)* log_size =
      function<decltype(nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize");
  decltype(nvrtcGetProgramLog)* log = function<decltype(nvrtcGetProgramLog)>("nvrtcGetProgramLog");
  decltype(nvrtcGetCUBINSize)* cubin_size =
      function<decltype(nvrtcGetCUBINSize)>("nvrtcGetCUBINSize");
  decltype(nvrtcGetCUBIN)* cubin = function<decltype(nvrtcGetCUBIN)>("nvrtcGetCUBIN");

  using SetFlowCallback = nvrtcResult(nvrtcProgram, int (*)(void*, void*), void*);
  /// nullptr before NVRTC 12.8.
  SetFlowCallback* set_flow_callback = [this]() -> SetFlowCallback* {
    try {
      return function<SetFlowCallback>("nvrtcSetFlowCallback");
    } catch (const Error&) {
      return nullptr;
    }
  }();

  std::pair<int, int> version_numbers() const {
    std::pair<int, int> numbers;
    check(version(&numbers.first, &numbers.second), "tell its version");
    return numbers;
  }

  /// From CUDA 12.9 on, NVRTC uses the driver's compute cache where there is a driver. The log of
  /// such a compilation lacks ptxas' report, on which the resources depend; swr keeps a cache of
  /// its own.
  bool has_own_cache() const { return version_numbers() >= std::pair(12, 9); }

  std::string version_text() const {
    const auto [major, minor] = version_numbers();
    return std::to_string(major) + "." + std::to_string(minor);
  }

  ToolkitHeaders toolkit{header_folders(library.name())};
  mutable std::once_flag is_prepared;
  std::optional<DynamicLibrary> builtins = open_builtins(library.name(), version_text());

  class Program;
};

/// One compilation.
class Nvrtc::Impl::Program {
 public:
  Program(const Impl& nvrtc, std::span<const TemplateFile> files) : nvrtc_(nvrtc) {
    // NVRTC wants zero-terminated strings; a view need not be.
    const std::vector<std::string> names = copy(files, &TemplateFile::path);
    const std::vector<std::string> texts = copy(files, &TemplateFile::text);
    const std::vector<const char*> header_names = c_strings(std::span(names).subspan(1));
    const std::vector<const char*> header_texts = c_strings(std::span(texts).subspan(1));
    nvrtc_.check(nvrtc_.create_program(&program_, texts.front().c_str(), names.front().c_str(),
                                       static_cast<int>(header_names.size()), header_texts.data(),
                                       header_names.data()),
                 "create a program");
  }
  ~Program() { nvrtc_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Program(Program&&) = delete;
  Program& operator=(Program&&) = delete;

  void name_kernel(const std::string& kernel) {
    nvrtc_.check(nvrtc_.add_name_expression(program_, kernel.c_str()), "take '" + kernel + "'");
  }

  std::string lowered_name(const std::string& kernel) const {
    const char* name = nullptr;
    nvrtc_.check(nvrtc_.lowered_name(program_, kernel.c_str(), &name), "name '" + kernel + "'");
    return name;
  }

  /// From now on. NVRTC asks at points of its own whether it shall go on.
  void set_limit(double limit_s) {
    end_ = Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
    if (nvrtc_.set_flow_callback != nullptr) {
      nvrtc_.check(nvrtc_.set_flow_callback(program_, ask_whether_to_stop, this), "take a limit");
    }
  }
  bool is_beyond_limit() const { return end_ && Clock::now() > *end_; }

  nvrtcResult compile(std::span<const std::string> options) {
    const std::vector<const char*> pointers = c_strings(options);
    return nvrtc_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const {
    std::size_t with_terminator = 0;
    nvrtc_.check(nvrtc_.log_size(program_, &with_terminator), "return its log");
    std::string text(with_terminator, '\0');
    nvrtc_.check(nvrtc_.log(program_, text.data()), "return its log");
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }

  std::vector<std::byte> cubin() const {
    std::size_t bytes = 0;
    nvrtc_.check(nvrtc_.cubin_size(program_, &bytes), "return a cubin");
    std::vector<std::byte> image(bytes);
    nvrtc_.check(nvrtc_.cubin(program_, reinterpret_cast<char*>(image.data())), "return a cubin");
    return image;
  }

 private:
  static std::vector<std::string> copy(std::span<const TemplateFile> files,
                                       std::string_view TemplateFile::*member) {
    std::vector<std::string> copies;
    for (const TemplateFile& file : files) {
      copies.emplace_back(file.*member);
    }
    return copies;
  }

  static std::vector<const char*> c_strings(std::span<const std::string> strings) {
    std::vector<const char*> pointers;
    for (const std::string& string : strings) {
      pointers.push_back(string.c_str());
    }
    return pointers;
  }

  using Clock = std::chrono::steady_clock;

  static int ask_whether_to_stop(void* program, void* /*reserved*/) {
    return static_cast<const Program*>(program)->is_beyond_limit() ? 1 : 0;
  }

  const Impl& nvrtc_;
  nvrtcProgram program_ = nullptr;
  std::optional<Clock::time_point> end_;
};

Nvrtc::Nvrtc(const std::optional<std::filesystem::path>& library)
    : impl_(std::make_unique<const Impl>(library)) {}

Nvrtc::~Nvrtc() = default;

/// The first compilation of a process loads NVRTC's builtins, which a confined one could not. It
/// sets SIGINT to be ignored for a moment, which discards one that has been sent and not been taken
/// yet, and then has a handler of its own until it ends. Done here, no later compilation loses a
/// Ctrl-C. What fails here fails again, with its reason, when something is compiled.
void Nvrtc::prepare() const {
  std::call_once(impl_->is_prepared, [this] {
    constexpr std::array nothing{TemplateFile{.path = "nothing.cu", .text = ""}};
    Impl::Program(*impl_, nothing).compile({});
  });
}

std::vector<TemplateFile> Nvrtc::toolkit_headers(std::span<const TemplateFile> files) const {
  return impl_->toolkit.named_by(files);
}

std::string Nvrtc::version() const { return impl_->version_text(); }

void Nvrtc::require_arch(int sm_arch) const {
  int count = 0;
  impl_->check(impl_->arch_count(&count), "list its architectures");
  std::vector<int> supported(static_cast<std::size_t>(count));
  impl_->check(impl_->archs(supported.data()), "list its architectures");
  if (std::ranges::find(supported, sm_arch) != supported.end()) {
    return;
  }
  std::string list;
  for (const int arch : supported) {
    list += (list.empty() ? "sm_" : ", sm_") + std::to_string(arch);
  }
  throw Error(ErrorCode::invalid_argument, "NVRTC " + version() + " cannot compile for sm_" +
                                               std::to_string(sm_arch) + "; it supports " + list);
}

CompiledProgram Nvrtc::compile(std::span<const TemplateFile> files, int sm_arch,
                               std::string_view arch_suffix,
                               std::span<const std::string_view> options,
                               std::span<const std::string> kernels,
                               std::optional<double> limit_s) const {
  std::vector<std::string> arguments(options.begin(), options.end());
  arguments.push_back(arch_option(sm_arch, arch_suffix));
  if (impl_->has_own_cache()) {
    arguments.emplace_back("--no-cache");
  }
  Impl::Program program(*impl_, files);
  for (const std::string& kernel : kernels) {
    program.name_kernel(kernel);
  }
  if (limit_s) {
    program.set_limit(*limit_s);
  }
  const nvrtcResult result = program.compile(arguments);
  if (program.is_beyond_limit() && result != NVRTC_SUCCESS) {
    throw Error(ErrorCode::compile_failed, "compiling " + std::string(files.front().path) +
                                               " for sm_" + std::to_string(sm_arch) +
                                               " took longer than its limit of " +
                                               std::to_string(static_cast<int>(*limit_s)) + " s");
  }
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    impl_->check(result, "find libnvrtc-builtins of the same release beside it");
  }
  CompiledProgram output{.cubin = {}, .log = program.log()};
  if (result != NVRTC_SUCCESS) {
    throw Error(ErrorCode::compile_failed,
                "NVRTC cannot compile " + std::string(files.front().path) + " for sm_" +
                    std::to_string(sm_arch) + " (" + impl_->error_string(result) +
                    "): " + failure_text(output.log));
  }
  output.cubin = program.cubin();
  for (const std::string& kernel : kernels) {
    output.lowered_names.push_back(program.lowered_name(kernel));
  }
  return output;
}

}  // namespace swr
