// SPDX-License-Identifier: Apache-2.0
#include "cli/common/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/common/output_file.h"
#include "cli/common/suggestion.h"

namespace rubato::cli {
namespace {

constexpr size_t kHelpColumn = 34;

std::string error_text(const std::string& name, const std::string& message) {
  // Parsers begin with the name of their input ("mix: ..."), which repeats the option's name.
  std::string prefix = name.substr(name.find_first_not_of('-')) + ": ";
  std::replace(prefix.begin(), prefix.end(), '-', '_');
  return name + ": " +
         (message.starts_with(prefix) ? message.substr(prefix.size()) : message);
}

CLI::Validator whole_number(int64_t low, int64_t high) {
  auto problem_of = [low, high](const std::string& text) -> std::string {
    int64_t parsed = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, parsed);
    const bool fits = problem == std::errc() && stop == end && parsed >= low && parsed <= high;
    return fits ? "" : fmt::format("takes a whole number of {} to {}, not '{}'", low, high, text);
  };
  return {problem_of, "", ""};
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  auto problem_of = [choices](const std::string& text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
    return fmt::format("takes {}, not '{}'", any_of(choices), text);
  };
  return {problem_of, "", ""};
}

CLI::Validator existing_file() {
  auto problem_of = [](const std::string& path) -> std::string {
    std::error_code failed;
    return std::filesystem::is_regular_file(path, failed)
               ? ""
               : fmt::format("takes a file; there is none at '{}'", path);
  };
  return {problem_of, "", ""};
}

CLI::Validator output_file() {
  auto problem_of = [](const std::string& path) -> std::string {
    const Status may = may_write(path);
    return may.ok() ? "" : may.error();
  };
  return {problem_of, "", ""};
}

// The full name of a command: "rubato bench preempt".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent != nullptr ? full_name(*parent) + " " : "") + command.get_name();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The error for a word where a command was expected.
std::string not_a_command(const CLI::App& group, const std::vector<std::string>& words) {
  const std::vector<std::string> names = command_names(group);
  const std::string name = full_name(group);
  if (words.empty()) return fmt::format("{} takes {}", name, any_of(names));
  const bool option = words.front().starts_with('-');
  return fmt::format("'{}' is not {} of {}, which takes {}{}", words.front(),
                     option ? "an option" : "a command", name, any_of(names),
                     suggestion(words.front(), option ? option_names(group) : names));
}

std::string not_an_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (!word.starts_with('-')) {
    return fmt::format("'{}' is not an argument of {}", word, full_name(command));
  }
  return fmt::format("'{}' is not an option of {}{}", name, full_name(command),
                     suggestion(name, option_names(command)));
}

// CLI11 explains some errors over several lines; ours are one.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Without the name of the program in front and without a newline.
std::string usage_error(const CLI::App& root, const CLI::ParseError& error) {
  // An option that is misspelt is also one that is missing.
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!lacks && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return one_line(error.what());
  }
  const CLI::App* asked = &root;
  while (true) {
    const bool group = !asked->get_subcommands({}).empty();
    const std::vector<std::string> words = asked->remaining();
    const bool last = asked->get_subcommands().empty();
    if (group && (last || !words.empty())) return not_a_command(*asked, words);
    if (!words.empty()) return not_an_option(*asked, words.front());
    if (last) return one_line(error.what());
    asked = asked->get_subcommands().front();
  }
}

int bad_arguments(const CLI::App& root, const std::string& error) {
  const CLI::App* asked = &root;
  while (!asked->get_subcommands().empty()) asked = asked->get_subcommands().front();
  std::fprintf(stderr, "rubato: %s (%s --help tells more)\n", error.c_str(),
               full_name(*asked).c_str());
  return kBadArguments;
}

CLI::App& group_of(CLI::App& root, std::string_view name,
                   const std::vector<CommandGroup>& groups) {
  if (name.empty()) return root;
  for (CLI::App* existing : root.get_subcommands({})) {
    if (existing->get_name() == name) return *existing;
  }
  std::string description;
  for (const CommandGroup& group : groups) {
    if (group.name == name) description = group.description;
  }
  CLI::App* app = root.add_subcommand(std::string(name), description);
  app->require_subcommand(1);
  return *app;
}

// The arguments, with the usual command of a group where no command of it follows.
std::vector<std::string> with_usual(int argc, char** argv, const CLI::App& root,
                                    const std::vector<CommandGroup>& groups) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (const CommandGroup& group : groups) {
    if (words.size() < 2 || words[0] != group.name || *group.usual == '\0') continue;
    const std::vector<std::string> names = command_names(*root.get_subcommand(words[0]));
    const bool named = std::find(names.begin(), names.end(), words[1]) != names.end();
    if (named || words[1] == "--help" || words[1] == "-h") continue;
    words.insert(words.begin() + 1, group.usual);
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  return words;
}

}  // namespace

UsageError::UsageError(const std::string& name, const std::string& message)
    : std::runtime_error(error_text(name, message)) {}

void bad_value(const std::string& name, const std::string& message) {
  throw UsageError(name, message);
}

Option& Option::placeholder(const std::string& text) {
  option_->type_name(text);
  return *this;
}

Option& Option::default_text(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Option& Option::hidden() {
  option_->group("");
  return *this;
}

Option& Option::description(const std::string& text) {
  option_->description(text);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::repeatable() {
  option_->take_all()->trigger_on_parse();
  return *this;
}

Option& Option::marks(bool& given) {
  option_->each([&given](const std::string&) { given = true; });
  return *this;
}

std::string Option::name() const {
  const std::vector<std::string>& names = option_->get_lnames();
  return names.empty() ? "" : names.front();
}

bool Option::given() const { return option_->count() > 0; }

std::vector<std::string> Option::values() const { return option_->results(); }

std::string Option::value() const {
  std::string text = given() ? values().back() : option_->get_default_str();
  if (!is_flag()) return text;
  return !text.empty() && CLI::detail::to_flag_value(text) > 0 ? "true" : "false";
}

bool Option::is_flag() const { return option_->get_expected_max() == 0; }

std::string Option::help() const { return option_->get_description(); }

std::string Option::placeholder() const {
  return is_flag() ? "" : option_->get_type_name();
}

std::vector<std::string> Option::choices() const {
  const std::string type = option_->get_type_name();
  if (type.find('|') == std::string::npos) return {};
  std::vector<std::string> all;
  std::istringstream words(type);
  for (std::string word; std::getline(words, word, '|');) all.push_back(word);
  return all;
}

bool Option::takes_settings() const { return option_->get_type_name() == "NAME=VALUE"; }

Status Option::take(const std::vector<std::string>& values) {
  try {
    for (const std::string& value : values) option_->add_result(value);
    if (given()) option_->run_callback();
  } catch (const CLI::Error& error) {
    return Error{error.what()};
  } catch (const UsageError& error) { return Error{error.what()}; }
  return Done{};
}

Option CommandLine::add_parsed(const std::string& name, const std::string& placeholder,
                               Parse parse, const std::string& help) {
  auto take = [name, parse = std::move(parse)](const std::string& text) {
    if (Status parsed = parse(text); !parsed) bad_value(name, parsed.error());
  };
  return Option(app_->add_option_function<std::string>(name, take, help)->type_name(placeholder));
}

Option CommandLine::add_settings(const std::string& name,
                                 std::function<Status(const std::vector<std::string>&)> parse,
                                 const std::string& help) {
  auto take = [name, parse = std::move(parse)](const std::vector<std::string>& texts) {
    if (Status parsed = parse(texts); !parsed) bad_value(name, parsed.error());
  };
  return Option(app_->add_option_function<std::vector<std::string>>(name, take, help)
                    ->type_name("NAME=VALUE")
                    ->allow_extra_args(false));
}

Option CommandLine::add_text(const std::string& name, std::string& value,
                             const std::string& help) {
  return Option(app_->add_option(name, value, help)->capture_default_str());
}

Option CommandLine::add_texts(const std::string& name, std::vector<std::string>& values,
                              const std::string& help) {
  return Option(app_->add_option(name, values, help));
}

Option CommandLine::add_choice(const std::string& name, std::string& value,
                               const std::vector<std::string>& choices, const std::string& help) {
  return Option(app_->add_option(name, value, help)
                    ->check(one_of(choices))
                    ->type_name(fmt::format("{}", fmt::join(choices, "|")))
                    ->capture_default_str());
}

Option CommandLine::add_existing_file(const std::string& name, std::string& value,
                                      const std::string& help) {
  return Option(
      app_->add_option(name, value, help)->check(existing_file())->type_name("FILE"));
}

Option CommandLine::add_output(const std::string& name, std::string& value,
                               const std::string& help) {
  return Option(app_->add_option(name, value, help)->check(output_file())->type_name("FILE"));
}

template <class Integer>
Option CommandLine::add_integer(const std::string& name, Integer& value, int64_t low, int64_t high,
                                const std::string& help) {
  return Option(app_->add_option(name, value, help)
                    ->check(whole_number(low, high))
                    ->type_name("N")
                    ->capture_default_str());
}
template Option CommandLine::add_integer(const std::string&, int&, int64_t, int64_t,
                                         const std::string&);
template Option CommandLine::add_integer(const std::string&, uint32_t&, int64_t, int64_t,
                                         const std::string&);
template Option CommandLine::add_integer(const std::string&, int64_t&, int64_t, int64_t,
                                         const std::string&);

Option CommandLine::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

std::vector<Option> CommandLine::options() const {
  std::vector<Option> all;
  for (CLI::Option* option : app_->get_options({})) {
    const bool is_hidden = option->get_group().empty();
    if (option != app_->get_help_ptr() && !is_hidden) all.emplace_back(option);
  }
  return all;
}

std::optional<Option> CommandLine::find(const std::string& name) const {
  CLI::Option* option = app_->get_option_no_throw(name);
  return option != nullptr ? std::optional<Option>(option) : std::nullopt;
}

std::string CommandLine::name() const { return app_->get_name(); }

std::string CommandLine::footer() const { return app_->get_footer(); }

void CommandLine::footer(const std::string& text) { app_->footer(text); }

void CommandLine::action(std::function<int()> run) {
  app_->callback([run = std::move(run), status = status_] { *status = run(); });
}

LooseCommand::LooseCommand(const std::string& name)
    : app_(std::make_unique<CLI::App>("", name)), line_(app_.get(), &status_) {}

LooseCommand::~LooseCommand() = default;

int run_command_line(int argc, char** argv, const std::string& about, const std::string& version,
                     const std::vector<CommandGroup>& groups,
                     const std::vector<CommandSpec>& commands) {
  CLI::App root(about, "rubato");
  root.set_version_flag("--version", version);
  root.require_subcommand(0, 1);
  root.get_formatter()->column_width(kHelpColumn);
  int status = kDone;
  for (const CommandSpec& command : commands) {
    CLI::App& parent = group_of(root, command.group, groups);
    CommandLine declared(parent.add_subcommand(command.name, command.description), &status);
    command.declare(declared);
  }
  try {
    root.parse(with_usual(argc, argv, root, groups));
  } catch (const CLI::Success& asked) {  // help or version
    return root.exit(asked);
  } catch (const CLI::ParseError& error) {
    return bad_arguments(root, usage_error(root, error));
  } catch (const UsageError& error) { return bad_arguments(root, one_line(error.what())); }
  if (root.get_subcommands().empty()) {
    std::fputs(root.help().c_str(), stderr);
    return kBadArguments;
  }
  return status;
}

}  // namespace rubato::cli
