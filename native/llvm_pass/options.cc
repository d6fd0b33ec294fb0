// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/CommandLine.h>

#include <cstdlib>

namespace rubato::pass {
namespace {

namespace cl = llvm::cl;

constexpr unsigned kLeastDistance = 10;
constexpr unsigned kMostDistance = 1'000'000;

cl::opt<unsigned> g_distance("rubato-distance", cl::init(0),
                             cl::desc("Estimated instructions between two checkpoints"));
cl::opt<std::string> g_report("rubato-pass-report",
                              cl::desc("File to append one line of JSON per module to"));
cl::opt<bool> g_summary("rubato-pass-summary", cl::desc("One line per module on stderr"));
cl::opt<bool> g_local_exec("rubato-local-exec",
                           cl::desc("The program links librubato statically, and is no library"));
cl::opt<bool> g_thread_locals("rubato-thread-locals", cl::init(true),
                              cl::desc("Look thread-locals up afresh at every use"));

std::string from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

void read_distance(const std::string& text, const char* name, Options& options) {
  unsigned value = 0;
  if (llvm::StringRef(text).getAsInteger(10, value) || value < kLeastDistance ||
      value > kMostDistance) {
    options.error = std::string(name) + " takes a number from " + std::to_string(kLeastDistance) +
                    " to " + std::to_string(kMostDistance) + ", not '" + text + "'";
    return;
  }
  options.distance = value;
}

Options read_options() {
  Options options;
  if (g_distance.getNumOccurrences() > 0) {
    read_distance(std::to_string(g_distance), "-rubato-distance", options);
  } else if (const std::string text = from_environment("RUBATO_PASS_DISTANCE"); !text.empty()) {
    read_distance(text, "RUBATO_PASS_DISTANCE", options);
  }
  options.report = g_report.empty() ? from_environment("RUBATO_PASS_REPORT") : g_report.getValue();
  options.summary = g_summary;
  options.local_exec = g_local_exec;
  options.thread_locals = g_thread_locals;
  return options;
}

}  // namespace

const Options& options() {
  static const Options read = read_options();
  return read;
}

}  // namespace rubato::pass
