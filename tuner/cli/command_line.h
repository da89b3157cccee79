// SPDX-License-Identifier: MIT
// The command line: commands declare their options and what they do, and what was typed is read
// into them. CLI11 stays behind it.
#pragma once

#include <swr/result.h>

#include <any>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace swr::cli {

struct Session;

/// Options that mean the same to every command that takes them, and the files of all options.
struct CommonOptions {
  std::optional<std::filesystem::path> database;
  std::optional<std::filesystem::path> cache_dir;
  /// Believe the kernels that members of the cache's group stored.
  bool shared_cache = false;
  std::optional<std::filesystem::path> templates;
  /// Specs of kernels of users; the first is the one that is asked for.
  std::vector<std::filesystem::path> specs;
  L2State l2_state = L2State::warm;
  bool json = false;
  bool quiet = false;

  // By FileRole.
  std::vector<std::filesystem::path> inputs;
  std::vector<std::filesystem::path> outputs;
  std::vector<std::filesystem::path> replaced_folders;
  std::vector<std::filesystem::path> queues;
};

/// What a path is to its command: output_guard.h.
enum class FileRole { other, input, output, replaced_folder, queue };

/// How an option is read and shown.
struct OptionTraits {
  std::string group = {};  ///< Its heading in the help; empty for the first one.
  bool is_required = false;
  bool shows_usual = false;  ///< The help says what the value is without the option.
  std::string usual = {};    ///< The same, for options that call.
  std::optional<int> at_least = std::nullopt;
  int at_most = 1000000;                ///< With at_least.
  std::vector<std::string> words = {};  ///< All that it takes, where that is a list.
  FileRole role = FileRole::other;
  CLI::Option* excludes = nullptr;
  CLI::Option* needs = nullptr;
};

class CommandLine;

/// Adds options to one command, or to a group of its options.
class OptionList {
 public:
  OptionList(CLI::App& app, CommandLine& line) : app_(&app), line_(&line) {}

  /// `name` is "--json", "--out FILE", or "path PATH" without dashes for what stands alone. A list
  /// takes the values of every occurrence, each of which has one unless the type ends in "...".
  template <typename Value>
  CLI::Option* add(const std::string& name, Value& value, const std::string& meaning,
                   const OptionTraits& traits = {});
  /// An option whose text goes to a function.
  CLI::Option* add_call(const std::string& name, std::function<void(const std::string&)> read,
                        const std::string& meaning, const OptionTraits& traits = {});
  /// A flag that calls.
  CLI::Option* add_flag(const std::string& name, std::function<void()> set,
                        const std::string& meaning, const OptionTraits& traits = {});

  bool has(const std::string& name) const;
  void exclude_all_but(CLI::Option* option, const std::set<std::string>& usable);
  /// The one has a meaning only with the other.
  static void need(CLI::Option* one, CLI::Option* other);

  CommonOptions& common();

 private:
  CLI::Option* finish(CLI::Option* option, const std::string& type, const OptionTraits& traits);

  CLI::App* app_;
  CommandLine* line_;
};

/// What the help says of a command.
struct CommandText {
  std::string name;        ///< "tune", or "db record".
  std::string alias = {};  ///< A former name of its last word.
  std::string meaning;
  std::string footer = {};
  std::string group = {};  ///< Heading in the list of commands.
  bool is_hidden = false;
  /// On a terminal it is broken to its width, and coloured.
  bool is_prose = false;
};

using RunCommand = std::function<int(const Session&)>;

/// What was typed.
struct ParsedCommand {
  std::string help_text;  ///< Printed in place of running anything, where it was asked for.
  CommandText text = {};
  CommonOptions common = {};
  RunCommand run = {};
  /// Serves measurements to the process that started this one; empty where nothing is measured.
  RunCommand measure = {};
  /// It is run for another process, which has checked what it may write.
  bool is_worker = false;
  std::any own = {};  ///< A shared_ptr to the command's own options.

  /// Requires: the options of the command.
  template <typename Arguments>
  const Arguments& arguments() const {
    return *std::any_cast<const std::shared_ptr<Arguments>&>(own);
  }
};

struct OptionNode {
  /// "--seq", or "-h" and "--help"; the bare name of what stands alone.
  std::vector<std::string> names;
  bool is_positional = false;
  bool takes_value = false;
  bool is_required = false;
  std::string type;     ///< FILE, DIR, N[,N]; empty for a flag.
  std::string meaning;  ///< One sentence.
  std::string usual;    ///< What it is when it is not given; empty where there is nothing to say.
  std::string group;
  /// What it takes, where that is a list of words.
  std::vector<std::string> values;
};

/// A command and its options as values, read from what parses them, so that completion, manual page
/// and suggestions say what the program takes, and nothing else.
struct CommandNode {
  std::string name;
  std::string meaning;
  std::string group;
  std::string footer;  ///< Remarks and examples, in lines.
  std::vector<OptionNode> options;
  std::vector<CommandNode> commands;
};

class CommandLine {
 public:
  /// `width`: most characters of a line of the help; 0 for the usual 100.
  CommandLine(const std::string& program, const std::string& overview, std::size_t width);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// A command with options of its own, which `run` gets when they are read.
  template <typename Arguments, typename Run>
  std::pair<OptionList, Arguments&> add(CommandText text, Run run) {
    return add<Arguments>(std::move(text), std::move(run), nullptr);
  }
  template <typename Arguments, typename Run, typename Measure>
  std::pair<OptionList, Arguments&> add(CommandText text, Run run, Measure measure) {
    const auto own = std::make_shared<Arguments>();
    ParsedCommand command{.help_text = {}, .text = std::move(text)};
    command.run = [own, run](const Session& session) { return run(session, *own); };
    if constexpr (!std::is_null_pointer_v<Measure>) {
      command.measure = [own, measure](const Session& session) { return measure(session, *own); };
    }
    command.own = own;
    return {add(std::move(command)), *own};
  }
  /// A command whose first word others begin with.
  void add_family(const CommandText& text);
  void set_footer(const std::string& footer);
  void set_version(const std::string& text);

  /// Options of the program itself.
  OptionList own();

  /// Throws: Error{invalid_argument} for what is no valid command line; what is misspelt is named
  /// with what was probably meant.
  ParsedCommand parse(std::vector<std::string> words);

  /// What is hidden from the help is left out.
  CommandNode tree() const;

  bool has_command(const std::string& name) const;
  /// Throws: Error{invalid_argument} for a first word that is no command.
  [[noreturn]] void reject_command(const std::string& typed) const;

 private:
  friend class OptionList;

  OptionList add(ParsedCommand command);

  std::unique_ptr<CLI::App> app_;
  std::vector<std::pair<CLI::App*, ParsedCommand>> commands_;
  std::vector<std::pair<CLI::Option*, FileRole>> files_;
  CommonOptions common_;
};

/// "; did you mean --causal?", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& words);

}  // namespace swr::cli
