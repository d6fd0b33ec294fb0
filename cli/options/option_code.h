// SPDX-License-Identifier: Apache-2.0
//
// The options as text for the interfaces in C and C++, where tools/generated_docs.py puts it. Pure
// functions.
#pragma once

#include <string>

namespace rubato::cli {

std::string c_enums();
std::string c_fields();
std::string c_places();     // the offsets of the fields in struct rubato_options
std::string cpp_enums();
std::string cpp_fields();
std::string cpp_members();  // of the struct that owns the data that the fields of C point to
std::string cpp_copies();   // from the fields of C++ to those of C

}  // namespace rubato::cli
