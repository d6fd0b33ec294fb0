// SPDX-License-Identifier: Apache-2.0
//
// The agent of `rubato load`: a process on another machine that generates a part of a run for who
// knows its token. Lines of JSON on a TCP connection; > is to the agent:
//   > {"token": "...", "version": "...", "args": ["--target", "...", ...], "password": "..."}
//     {"ready": true}              its connections to the server stand
//   > {"go": true, "limit_s": 42}  all parts are ready; the run has so long
//   > {"stop": true}               at any time: the part ends early
//     {"status": 0, "said": "last line on stderr", "report": "{...}"}
// or, in place of any of its lines, {"refused": "why"}. A run ends with the connection of who asked
// for it, where no "go" comes, and where it exceeds its limit. Nothing of it is encrypted, neither
// token nor password.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace rubato::cli {

struct AgentOptions {
  std::string host;
  uint16_t port = 0;  // 0 = a free one
  std::string token;
};

inline constexpr size_t kMostAgentBytes = 256u << 20;  // of a line

// The options that a coordinator keeps to itself; an agent refuses them.
bool is_for_the_coordinator(const std::string& option);

std::string agent_request(const std::string& token, const std::vector<std::string>& args,
                          const std::string& password);
// Lets a part that is ready begin; `limit` is for its run and its report.
std::string agent_go(Nanos limit);

// Serves one run after another, each in a process of its own, until `*stop`. Prints where it
// listens. Fails with one line. Main thread.
Status run_agent(const AgentOptions& options, const volatile std::sig_atomic_t* stop);

}  // namespace rubato::cli
