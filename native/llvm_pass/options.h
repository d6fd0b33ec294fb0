// SPDX-License-Identifier: Apache-2.0
//
// The settings of the pass, one set per compiler process: `-mllvm -rubato-...` when the plugin was
// loaded with -fplugin= as well, else the environment. Read by every part of the pass.
// Distances are in estimated instructions (cost.h).
#pragma once

#include <string>

namespace rubato::pass {

struct Options {
  unsigned distance = 3000;   // between two checkpoints, about
  std::string report;         // a file that gets one line of JSON per module; empty = none
  bool summary = false;       // one line per module on stderr
  bool local_exec = false;    // the program has the checkpoint's word in itself (static librubato)
  bool thread_locals = true;  // make uses of thread-locals safe against a change of threads
  std::string error;          // a value that cannot be understood: one line; else empty
};

// What the command line says, else the environment (RUBATO_PASS_DISTANCE, RUBATO_PASS_REPORT).
const Options& options();

}  // namespace rubato::pass
