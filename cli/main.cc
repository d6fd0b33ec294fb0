// SPDX-License-Identifier: Apache-2.0
//
// rubato: the one binary. Exit status 0 done, 1 the run failed, 2 bad arguments.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/command.h"
#include "cli/usage_error.h"

namespace {

using namespace rubato::cli;

constexpr const char* kAbout =
    "Rubato schedules requests so that a long one never blocks a short one.\n"
    "Each subcommand explains itself: rubato load --help";

int bad_arguments(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* asked = &root;
  while (!asked->get_subcommands().empty()) asked = asked->get_subcommands().front();
  std::fprintf(stderr, "rubato: %s (%s --help tells more)\n", usage_error(root, error).c_str(),
               full_name(*asked).c_str());
  return kBadArguments;
}

int run(int argc, char** argv) {
  CLI::App root(kAbout, "rubato");
  root.set_version_flag("--version", std::string("rubato ") + version());
  root.require_subcommand(0, 1);
  root.get_formatter()->column_width(34);
  int status = kDone;
  Command::add_all(root, status);
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return root.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return root.exit(help);
  } catch (const CLI::CallForVersion& wanted) {
    return root.exit(wanted);
  } catch (const CLI::ParseError& error) { return bad_arguments(root, error); }
  if (root.get_subcommands().empty()) {
    std::fputs(root.help().c_str(), stderr);
    return kBadArguments;
  }
  return status;
}

// What a command printed may still wait to be written, and writing may fail: a full disk, a closed
// pipe. A status of 0 would then be a lie.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return status != kDone ? status : fail("cannot write to the standard output");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return flushed(run(argc, argv));
  } catch (const std::exception& error) { return fail(error.what()); }
}
