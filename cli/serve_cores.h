// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato serve` that say which cores the server uses and what runs on the others.
// Main thread, at start.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/best_effort.h"
#include "runtime/options.h"

namespace CLI {
class App;
}

namespace rubato::cli {

struct CoresOptions {
  std::string cores = "adaptive";
  std::vector<std::string> settings;
  uint32_t guaranteed = 1;
  BestEffortOptions best_effort;
  bool no_group = false;
};

void add_cores_options(CLI::App& command, CoresOptions& options);

// After the parse. Fails with one line.
Status finish_cores_options(const CLI::App& command, const CoresOptions& options,
                            RuntimeOptions& runtime);

// The best-effort command, not yet begun; null if none was given. To be called before any thread
// starts.
Result<std::unique_ptr<BestEffort>> prepare_best_effort(const CLI::App& command,
                                                        const CoresOptions& options);

}  // namespace rubato::cli
