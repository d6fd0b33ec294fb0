// SPDX-License-Identifier: Apache-2.0
//
// Options with a range, whose errors are one line: the option, what it takes, what it got. For
// set-up on one thread; the values referred to must outlive the parsing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace rubato::cli {

// `what` names the quantity in the error and the help: "requests per second".
CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, double low,
                        double high, const std::string& what, const std::string& help);
CLI::Option* add_count(CLI::App& app, const std::string& name, uint64_t& value, uint64_t low,
                       uint64_t high, const std::string& what, const std::string& help);
CLI::Option* add_count(CLI::App& app, const std::string& name, uint32_t& value, uint32_t low,
                       uint32_t high, const std::string& what, const std::string& help);
// A length of time; a bare number is seconds.
CLI::Option* add_seconds(CLI::App& app, const std::string& name, Nanos& value, Nanos low,
                         Nanos high, const std::string& help);
// A length of time; a bare number is microseconds. An empty `default_text` = none is shown.
void add_micros(CLI::App& app, const std::string& name, Nanos& value, const std::string& help,
                const std::string& default_text);
// How long a client of Rubato RPC queues a request for want of credits; 0 = for ever.
CLI::Option* add_rpc_expire(CLI::App& app, Nanos& value);
// A text that `parse` takes or refuses with an Error.
CLI::Option* add_parsed(CLI::App& app, const std::string& name, const std::string& placeholder,
                        std::function<Status(const std::string&)> parse, const std::string& help);

// For CLI::Option::check, where the option keeps its value itself: numbers of `low` to `high`.
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator number(double low, double high);

// Throws the error that ends in exit status 2 and the line "rubato: NAME: MESSAGE".
[[noreturn]] void bad_value(const std::string& name, const std::string& message);

}  // namespace rubato::cli
