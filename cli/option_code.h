// SPDX-License-Identifier: Apache-2.0
//
// What include/rubato has of options, as text: tools/generated_docs.py puts it there. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "base/option_text.h"

namespace rubato::cli {

// The options of the library, in the order in which they are fields of struct rubato_options.
std::vector<OptionDescription> library_options();

std::string c_enums();
std::string c_fields();
std::string cpp_enums();
std::string cpp_fields();
std::string cpp_members();  // of the struct that owns what the fields of C point to
std::string cpp_copies();   // from the fields of C++ to those of C

}  // namespace rubato::cli
