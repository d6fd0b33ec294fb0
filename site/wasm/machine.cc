// SPDX-License-Identifier: Apache-2.0
//
// The machine of a program that runs in a page.
#include "cli/common/machine.h"

namespace rubato::cli {

std::string first_line(const std::string&) { return ""; }

MachineInfo this_machine() {
  return {.cpu_model = "WebAssembly", .cores = 1, .kernel = "", .virtualised = "yes"};
}

}  // namespace rubato::cli
