// SPDX-License-Identifier: MIT
// kernels: makes the archive of kernels that ship with swr, and shows what one holds.
#include "core/files.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "core/reject.h"
#include "core/text_table.h"
#include "generator/kernel_archive.h"
#include "generator/kernel_recipe.h"
#include "model/profile/gpu_profile.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/kernel_range.h"
#include "tuner/cli/options.h"
#include "tuner/run/compile_queue.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <ostream>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace swr::cli {
namespace {

constexpr std::array kArchs{80, 86, 89, 90, 100, 103, 120, 121};
/// Of the draws; another one tells how much of the range the kernels cover.
constexpr unsigned kSeed = 1;
constexpr unsigned kOtherSeed = 2;

struct BuildArguments {
  std::string arch = "all";
  std::optional<std::filesystem::path> out;
  std::optional<std::filesystem::path> work;
  std::optional<std::filesystem::path> range;
  std::string op = "all";
  int jobs = 0;
  int most = 0;
};

struct ShowArguments {
  std::optional<std::filesystem::path> file;
};

std::vector<int> archs_of(const std::string& text) {
  if (text == "all") {
    return {kArchs.begin(), kArchs.end()};
  }
  std::vector<int> archs = whole_numbers(text, "--arch");
  for (const int arch : archs) {
    if (std::ranges::find(kArchs, arch) == kArchs.end()) {
      reject("--arch takes 80, 86, 89, 90, 100, 103, 120 and 121, not " + std::to_string(arch));
    }
  }
  return archs;
}

/// The GPUs of an architecture by whose sizes kernels are chosen: those with a profile. The
/// datacenter Blackwell, of which there is none, has Hopper's limits; its SMs and L2 are those that
/// NVIDIA's data sheets of the B200 and B300 imply.
std::vector<DeviceInfo> devices_of(int arch) {
  std::vector<DeviceInfo> devices;
  for (const std::string& id : profile_ids()) {
    const DeviceInfo device = load_profile(id).device;
    if (device.sm_arch == arch) {
      devices.push_back(device);
    }
  }
  if (devices.empty()) {
    DeviceInfo device = load_profile("h200").device;
    device.name = arch == 100 ? "NVIDIA B200" : "NVIDIA B300";
    device.sm_arch = arch;
    device.sm_count = 148;
    device.l2_bytes = 126LL << 20;
    device.dram_gb_per_s = 8000.0;
    devices.push_back(device);
  }
  return devices;
}

KernelRange range_of(const BuildArguments& asked) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  KernelRange range = asked.range ? parse_kernel_range(read_regular_file(*asked.range, kMostBytes))
                                  : shipped_range();
  std::erase_if(range.problems, [&](const ProblemRange& problems) {
    return asked.op != "all" && name_of(*problems.operation) != asked.op;
  });
  return range;
}

/// A kernel to compile: one that is chosen, or a template that no variant has.
struct Wanted {
  int arch = 0;
  std::string name;  ///< Operation and family.
  RangedKernel chosen = {};
  std::string file = {};
  std::string entry = {};

  KernelRecipe recipe(const TemplateSet& templates) const {
    return entry.empty() ? variant_recipe(templates, chosen.problem, chosen.variant, arch)
                         : template_recipe(templates, file, entry, arch);
  }
  CompiledKernel compile(const Generator& generator) const {
    return entry.empty() ? generator.compile(chosen.problem, chosen.variant, arch)
                         : generator.compile_template(file, entry, arch);
  }
};

struct WantedOfArch {
  std::vector<Wanted> kernels;  ///< Alike ones together.
  double coverage = 0.0;        ///< Share of other problems of the range that they serve.
};

/// Of each operation those that are chosen most often, or with `most` 0 all.
WantedOfArch wanted_kernels(const BuildArguments& asked, int arch) {
  const KernelRange range = range_of(asked);
  const auto devices = devices_of(arch);
  std::map<std::string, int> taken;
  std::set<std::string> identities;
  WantedOfArch wanted;
  for (RangedKernel& kernel : untuned_kernels(range.problems, devices, kSeed)) {
    const std::string operation(name_of(kernel.problem.operation()));
    if (asked.most == 0 || ++taken[operation] <= asked.most) {
      identities.insert(kernel.identity);
      const std::string family(to_string(family_of(kernel.variant)));
      wanted.kernels.push_back({arch, operation + " " + family, std::move(kernel)});
    }
  }
  // Kernels that differ little compress well side by side.
  std::ranges::sort(wanted.kernels, {}, [](const Wanted& kernel) {
    return std::tie(kernel.name, kernel.chosen.identity);
  });
  for (const FixedTemplate& fixed : range.templates) {
    for (const std::string& entry : fixed.entries) {
      wanted.kernels.push_back({arch, "fixed", {}, fixed.file, entry});
    }
  }
  long long all = 0;
  long long served = 0;
  for (const RangedKernel& kernel : untuned_kernels(range.problems, devices, kOtherSeed)) {
    all += kernel.problems;
    served += identities.contains(kernel.identity) ? kernel.problems : 0;
  }
  wanted.coverage = static_cast<double>(served) / static_cast<double>(std::max(1LL, all));
  return wanted;
}

/// Compiles on several threads and says how far it is.
class Building {
 public:
  Building(const Session& session, const Generator& generator, std::vector<Wanted> wanted)
      : session_(session), generator_(generator), wanted_(std::move(wanted)) {
    kernels_.resize(wanted_.size());
  }

  /// False when it was interrupted.
  bool run(int jobs) {
    const InterruptListener listener([this] { acknowledge_interrupt(session_); });
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < jobs; ++i) {
        threads.emplace_back([&] { work(listener); });
      }
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return !listener.interrupted();
  }

  std::vector<KernelToArchive> take() { return std::move(kernels_); }
  double compile_seconds(int arch) const {
    const auto found = seconds_.find(arch);
    return found == seconds_.end() ? 0.0 : found->second;
  }

 private:
  void work(const InterruptListener& listener) {
    while (!listener.interrupted() && !failure_) {
      const std::size_t index = next_++;
      if (index >= wanted_.size()) {
        return;
      }
      try {
        compile(index);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
    }
  }

  void compile(std::size_t index) {
    const auto begin = Clock::now();
    const Wanted& wanted = wanted_[index];
    CompiledKernel kernel = wanted.compile(generator_);
    const std::chrono::duration<double> taken = Clock::now() - begin;
    const bool is_new = !kernel.from_cache;
    kernels_[index] = {wanted.recipe(templates_).digest(), wanted.name, std::move(kernel)};
    const std::lock_guard lock(mutex_);
    ++done_;
    if (is_new) {
      ++compiled_;
      seconds_[wanted.arch] += taken.count();
      report();
    }
  }

  /// Requires: mutex_.
  void report() {
    constexpr std::chrono::seconds kPause{10};
    if (session_.common.quiet || Clock::now() < next_report_) {
      return;
    }
    next_report_ = Clock::now() + kPause;
    const std::chrono::duration<double> so_far = Clock::now() - begin_;
    const double left_s = so_far.count() / static_cast<double>(compiled_) *
                          static_cast<double>(wanted_.size() - done_);
    session_.err << "swr-tune: " << done_ << " of " << wanted_.size() << " kernels, about "
                 << significant_text(left_s / 60.0, 2) << " min left\n"
                 << std::flush;
  }

  using Clock = std::chrono::steady_clock;

  const Session& session_;
  const Generator& generator_;
  const TemplateSet templates_ = TemplateSet::built_in();
  const std::vector<Wanted> wanted_;
  std::vector<KernelToArchive> kernels_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_report_ = begin_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::size_t compiled_ = 0;
  std::map<int, double> seconds_;
  std::exception_ptr failure_;
};

/// Line information says where code comes from, not what it does, and is half of a cubin. So a
/// cubin of here has the key of one with it, and the work directory is no cache for others.
GeneratorOptions without_lines(GeneratorOptions options, const std::filesystem::path& work) {
  options.cache_dir = work;
  options.template_overlay.reset();
  options.compiler = [compile = options.compiler](CompileTask task) {
    std::erase(task.options, "--generate-line-info");
    return compile(task);
  };
  return options;
}

/// What an archive holds, a row for each architecture and name.
void print_archive(const Session& session, const KernelArchive& archive) {
  struct Row {
    int kernels = 0;
    int spilling = 0;
    int most_registers = 0;
    std::size_t bytes = 0;
    std::set<std::uint32_t> blocks;
  };
  std::map<std::pair<int, std::string>, Row> rows;
  for (const ArchivedKernel& kernel : archive.kernels()) {
    for (const std::string& name : {kernel.name, std::string("all")}) {
      Row& row = rows[{kernel.sm_arch, name}];
      ++row.kernels;
      row.bytes += kernel.bytes;
      row.spilling += kernel.resources.spill_store_bytes + kernel.resources.spill_load_bytes > 0;
      row.most_registers = std::max(row.most_registers, kernel.resources.registers_per_thread);
      row.blocks.insert(kernel.block);
    }
  }
  using Align = TextTable::Align;
  TextTable table({{"arch", Align::left},
                   {"kernels of", Align::left},
                   {"count"},
                   {"cubins"},
                   {"in the file"},
                   {"most registers"},
                   {"spilling"}});
  for (const auto& [key, row] : rows) {
    std::size_t packed = 0;
    for (const std::uint32_t block : row.blocks) {
      packed += archive.packed_bytes(block);
    }
    table.add_row({"sm_" + std::to_string(key.first), key.second, std::to_string(row.kernels),
                   bytes_text(static_cast<long long>(row.bytes)),
                   bytes_text(static_cast<long long>(packed)), std::to_string(row.most_registers),
                   std::to_string(row.spilling)});
  }
  table.print(session.out, {.width = session.environment.stdout_width});
  session.out << archive.path().string() << ": " << archive.kernels().size()
              << " kernels, SHA-256 of the index " << archive.digest() << "\n";
}

int run_build(const Session& session, const BuildArguments& asked) {
  std::vector<Wanted> wanted;
  for (const int arch : archs_of(asked.arch)) {
    WantedOfArch of_arch = wanted_kernels(asked, arch);
    session.out << "sm_" << arch << ": " << of_arch.kernels.size() << " kernels, which serve "
                << percent_text(of_arch.coverage, 4) << " of other problems of the range\n"
                << std::flush;
    wanted.insert(wanted.end(), std::move_iterator(of_arch.kernels.begin()),
                  std::move_iterator(of_arch.kernels.end()));
  }
  if (!asked.out) {
    return kExitSuccess;
  }
  const std::filesystem::path work =
      asked.work.value_or(std::filesystem::path(asked.out->string() + ".work"));
  const Generator generator(without_lines(supervised_generator_options(session), work));
  Building building(session, generator, wanted);
  const auto begin = std::chrono::steady_clock::now();
  if (!building.run(thread_count(asked.jobs))) {
    session.err << "swr-tune: the same command goes on from here\n";
    return kExitInterrupted;
  }
  write_kernel_archive(*asked.out, building.take());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  const KernelArchive archive(*asked.out);
  print_archive(session, archive);
  for (const int arch : archs_of(asked.arch)) {
    session.out << "sm_" << arch << ": " << significant_text(building.compile_seconds(arch), 3)
                << " s of compiling\n";
  }
  session.out << "wrote "
              << bytes_text(static_cast<long long>(std::filesystem::file_size(*asked.out)))
              << " in " << significant_text(taken.count() / 60.0, 3) << " min\n";
  return kExitSuccess;
}

/// Every kernel against its digest.
int run_show(const Session& session, const ShowArguments& asked) {
  const auto file = asked.file ? asked.file : installed_kernel_archive();
  if (!file) {
    throw Error(ErrorCode::not_found,
                "no kernels are installed; name a file with --file, or install swr-kernels");
  }
  const KernelArchive archive(*file);
  for (const ArchivedKernel& kernel : archive.kernels()) {
    archive.cubin(kernel);
  }
  print_archive(session, archive);
  return kExitSuccess;
}

}  // namespace

void add_kernels(CommandLine& line) {
  line.add_family({.name = "kernels",
                   .meaning = "Make the archive of kernels that ship with swr, and show one",
                   .group = "Use it elsewhere"});
  auto [build, building] = line.add<BuildArguments>(
      {.name = "kernels build",
       .meaning = "Compile what is chosen where nothing was tuned, into one file",
       .footer = "Without --out it says how many kernels that are. The same command goes on where "
                 "it was\ninterrupted, from the work directory.\n\n"
                 "Examples:\n"
                 "  swr-tune kernels build --arch 90\n"
                 "  swr-tune kernels build --arch 90,121 --out swr-kernels.bin"},
      run_build);
  build.add("--arch N[,N]", building.arch, "Architectures, or all", {.shows_usual = true});
  build.add("--range FILE", building.range,
            "What is asked, in place of swr's own range (shipped/kernel_range.txt)",
            {.role = FileRole::input});
  build.add("--op NAME", building.op, "Kernels of one operation only, or of all",
            {.shows_usual = true});
  build.add("--most N", building.most,
            "Of each operation the kernels that are chosen most often; 0: all", {.at_least = 0});
  build.add("--jobs N", building.jobs, "Threads; 0: as many as the machine has", {.at_least = 0});
  build.add("--out FILE", building.out, "The archive",
            {.group = "Files", .role = FileRole::output});
  build.add("--work DIR", building.work, "What was compiled so far [FILE.work]",
            {.group = "Files"});
  add_quiet_option(build);
  auto [show, shown] = line.add<ShowArguments>(
      {.name = "kernels show",
       .meaning = "Check every kernel of an archive against its digest, and list what there is",
       .footer = "Example: swr-tune kernels show"},
      run_show);
  show.add("--file FILE", shown.file, "The archive [the installed one]",
           {.group = "Files", .role = FileRole::input});
}

}  // namespace swr::cli
