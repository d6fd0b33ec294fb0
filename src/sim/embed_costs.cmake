# SPDX-License-Identifier: Apache-2.0
#
# Writes OUT, a .cc that holds the files of FOLDER (*.toml) as the built-in cost files.
#   cmake -DFOLDER=... -DOUT=... -P embed_costs.cmake
file(GLOB files "${FOLDER}/*.toml")
list(SORT files)
set(table "")
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  file(READ "${file}" text)
  string(FIND "${text}" ")costs\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file}: cannot be a raw string")
  endif()
  string(APPEND table "    {\"${name}\", R\"costs(${text})costs\"},\n")
endforeach()
file(CONFIGURE OUTPUT "${OUT}" CONTENT [[
// SPDX-License-Identifier: Apache-2.0
// Generated from src/sim/costs/*.toml; edit those.
#include "sim/cost_file.h"

namespace rubato::sim {
namespace {
constexpr BuiltinCosts kFiles[] = {
@table@};
}  // namespace

std::span<const BuiltinCosts> builtin_costs() { return kFiles; }

}  // namespace rubato::sim
]] @ONLY)
