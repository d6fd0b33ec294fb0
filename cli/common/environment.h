// SPDX-License-Identifier: Apache-2.0
//
// Options as environment variables: RUBATO_DRAIN_LIMIT is --drain-limit. Options on the command
// line override them, and they override a file. One thread at a time, and none that changes the
// environment.
#pragma once

#include "base/result.h"
#include "cli/common/command_line.h"

namespace rubato::cli {

// Gives the options of `command` that have not been given the values of their variables. Settings
// stand in one variable: RUBATO_SET=quantum_max=50us,levels=2. An empty variable counts as none.
// Fails with one line for a wrong value, and for a RUBATO_ variable that is nearly an option;
// others are somebody else's.
Status apply_environment(CommandLine& command);

}  // namespace rubato::cli
