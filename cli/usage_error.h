// SPDX-License-Identifier: Apache-2.0
//
// What the command line could not be understood for, in one line: the word that is not known, what
// was expected in its place, and what was perhaps meant. Main thread, after a parse that threw.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rubato::cli {

// How a command is called: "rubato bench preempt".
std::string full_name(const CLI::App& command);

// Without the program's name in front and without a newline.
std::string usage_error(const CLI::App& root, const CLI::ParseError& error);

}  // namespace rubato::cli
