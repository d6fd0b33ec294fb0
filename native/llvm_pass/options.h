// SPDX-License-Identifier: Apache-2.0
//
// The settings of the pass, one set per compiler process: `-mllvm -rubato-...` when the plugin was
// loaded with -fplugin= as well, otherwise from the environment. Read by every part of the pass.
// Distances are in estimated instructions (cost.h).
#pragma once

#include <string>

namespace rubato::pass {

struct Options {
  unsigned distance = 3000;   // between two checkpoints, about
  std::string report;         // a file for one line of JSON per module; empty = none
  bool summary = false;       // one line per module on stderr
  bool local_exec = false;    // the program contains the checkpoint's word (static librubato)
  bool thread_locals = true;  // make uses of thread-locals safe against a change of threads
  std::string error;          // one line on a value that cannot be understood; or empty
};

// The values of the command line, otherwise of the environment (RUBATO_PASS_DISTANCE,
// RUBATO_PASS_REPORT).
const Options& options();

}  // namespace rubato::pass
