// SPDX-License-Identifier: Apache-2.0
//
// `rubato man`: the manual pages, made from what the commands declare, into a folder: rubato.1 and
// one per command, rubato-serve-kv.1.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "cli/common/command_registry.h"

namespace rubato::cli {
namespace {

std::string page_name(const CommandSpec& spec) {
  return std::string("rubato-") + spec.group + (*spec.group == '\0' ? "" : "-") + spec.name;
}

// A text that means nothing to roff, on one line.
std::string plain(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '|') {
      escaped += "|\\:";  // a long list of values may break here
    } else if (c == '\n') {
      escaped += ' ';
    } else if ((c == '.' || c == '\'') && escaped.empty()) {
      escaped += std::string("\\&") + c;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string header(const std::string& page, const std::string& summary) {
  std::string upper = page;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".TH \"" + upper + "\" 1 \"\" \"rubato\" \"User Commands\"\n.SH NAME\n" + plain(page) +
         " \\- " + plain(summary) + "\n";
}

std::string option_text(const Option& option) {
  std::string text = ".TP\n.B \\-\\-" + plain(option.name());
  if (const std::string value = option.placeholder(); !value.empty()) {
    text += " \\fI" + plain(value) + "\\fR";
  }
  text += "\n" + plain(option.help()) + ".";
  const std::string unset = option.is_flag() ? "" : option.value();
  if (!unset.empty()) text += " Default: " + plain(unset) + ".";
  return text + "\n";
}

std::string command_page(const CommandSpec& spec) {
  LooseCommand command(spec.name);
  spec.declare(command.line());
  std::string words = page_name(spec);
  std::replace(words.begin(), words.end(), '-', ' ');
  std::string text = header(page_name(spec), spec.description);
  text += ".SH SYNOPSIS\n.B " + plain(words) + "\n[\\fIOPTION\\fR]...\n.SH OPTIONS\n";
  for (const Option& option : command.line().options()) {
    if (!option.name().empty()) text += option_text(option);
  }
  if (std::string(spec.group) == "serve") {
    text += ".SH ENVIRONMENT\nEach option can stand in a variable: RUBATO_DRAIN_LIMIT is "
            "\\-\\-drain\\-limit. The command line overrides variables, and they override the "
            "file of \\-\\-config.\n.SH SIGNALS\nSIGTERM and SIGINT stop the server when it has "
            "answered what it has begun, a second one at once. SIGHUP reads the options again and "
            "opens the log file anew. SIGUSR1 writes to the log what the server does.\n";
  }
  text += ".SH EXIT STATUS\n0: done. 1: it failed. 2: bad arguments.\n.SH SEE ALSO\n"
          ".BR rubato (1)\n";
  return text;
}

std::string main_page() {
  std::string text = header("rubato", "a long request never blocks a short one");
  text += ".SH SYNOPSIS\n.B rubato\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH COMMANDS\n";
  for (const CommandSpec& spec : Command::all()) {
    text += ".TP\n.BR " + plain(page_name(spec)) + " (1)\n" + plain(spec.description) + ".\n";
  }
  return text;
}

int write_pages(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  const auto write = [&](const std::string& page, const std::string& text) {
    std::ofstream file(folder + "/" + page + ".1", std::ios::binary);
    return static_cast<bool>(file << text << std::flush);
  };
  bool written = write("rubato", main_page());
  for (const CommandSpec& spec : Command::all()) {
    written = written && write(page_name(spec), command_page(spec));
  }
  return written ? kDone : fail(("cannot write to '" + folder + "'").c_str());
}

void add_man(CommandLine& command) {
  auto folder = std::make_shared<std::string>(".");
  command.add_text("--to", *folder, "Folder that the pages are written to").placeholder("DIR");
  command.action([folder] { return write_pages(*folder); });
}

const Command kMan({"", "man", "Write the manual pages of these commands", add_man});

}  // namespace
}  // namespace rubato::cli
