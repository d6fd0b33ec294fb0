// SPDX-License-Identifier: Apache-2.0
//
// Options with a range, whose errors are one line: the option, its range, and the value given. For
// set-up on one thread; the values referred to must outlive the parsing.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "cli/common/command_line.h"

namespace rubato::cli {

// `what` names the quantity in the error and the help: "requests per second".
Option add_number(CommandLine& command, const std::string& name, double& value, double low,
                  double high, const std::string& what, const std::string& help);
Option add_count(CommandLine& command, const std::string& name, uint64_t& value, uint64_t low,
                 uint64_t high, const std::string& what, const std::string& help);
Option add_count(CommandLine& command, const std::string& name, uint32_t& value, uint32_t low,
                 uint32_t high, const std::string& what, const std::string& help);
// A length of time; a bare number is seconds.
Option add_seconds(CommandLine& command, const std::string& name, Nanos& value, Nanos low,
                   Nanos high, const std::string& help);
// A length of time; a bare number is microseconds. An empty `default_text` = none is shown.
void add_micros(CommandLine& command, const std::string& name, Nanos& value,
                const std::string& help, const std::string& default_text);
// How long a client of Rubato RPC queues a request for want of credits; 0 = for ever.
Option add_rpc_expire(CommandLine& command, Nanos& value);

}  // namespace rubato::cli
