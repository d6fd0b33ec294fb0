// SPDX-License-Identifier: Apache-2.0
//
// `--config FILE`: a TOML file whose keys are the names of a command's options. Options on the
// command line override the file. A table [set] holds the policy's settings (`--set name=value`).
// One thread at a time.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/common/command_line.h"

namespace rubato::cli {

// Applies the file to the options of `command` that have not been given. Fails with one line that
// names file, line and key.
Status apply_config_file(const std::string& path, CommandLine& command);

// All options of the command with the values that count, as such a file.
std::string config_text(const CommandLine& command);

}  // namespace rubato::cli
