// SPDX-License-Identifier: Apache-2.0
//
// rubato: the one binary. Exit status 0 done, 1 the run failed, 2 bad arguments.
#include <cstdio>
#include <exception>
#include <string>

#include "cli/common/command_registry.h"

namespace {

using namespace rubato::cli;

constexpr const char* kAbout =
    "Rubato schedules requests so that a long one never blocks a short one.\n"
    "Each subcommand explains itself: rubato load --help";

// The output of a command may still be buffered, and writing may fail: a full disk, a closed pipe.
// The status must then not be 0.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return status != kDone ? status : fail("cannot write to the standard output");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return flushed(run_command_line(
        argc, argv, kAbout, std::string("rubato ") + version(),
        {{"bench", "Measure what mechanisms cost here"},
         {"lab", "Simulate on a page"},
         {"report", "Show runs on a page, or merge their reports", "page"},
         {"serve", "Run a server"},
         {"trace", "Compare traces of workers"}},
        Command::all()));
  } catch (const std::exception& error) { return fail(error.what()); }
}
