// SPDX-License-Identifier: Apache-2.0
//
// The agent of `rubato load`: a process on another machine that generates a part of a run for who
// knows its token. One line of JSON each way on a TCP connection:
//   {"token": "...", "version": "...", "args": ["--target", "...", ...]}
//   {"status": 0, "said": "last line on stderr", "report": "{...}"}  or  {"refused": "why"}
// A run ends with the connection of who asked for it. The token travels in the clear.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::cli {

struct AgentOptions {
  std::string host;
  uint16_t port = 0;  // 0 = a free one
  std::string token;
};

inline constexpr size_t kMostAgentBytes = 256u << 20;  // of a line
inline constexpr size_t kLeastToken = 16;              // bytes

// The options that a coordinator keeps to itself; an agent refuses them.
bool is_for_the_coordinator(const std::string& option);

std::string agent_request(const std::string& token, const std::vector<std::string>& args);

// Serves one run after another, each in a process of its own, until `*stop`. Prints where it
// listens. Fails with one line. Main thread.
Status run_agent(const AgentOptions& options, const volatile std::sig_atomic_t* stop);

}  // namespace rubato::cli
