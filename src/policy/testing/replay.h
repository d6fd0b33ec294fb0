// SPDX-License-Identifier: Apache-2.0
//
// Replay: while it lives, every failure tells which seed is being run and with what settings, also
// one that aborts the program. case_name: what a case with a policy as its parameter is called. For
// tests, one at a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

namespace rubato::testing {

// Without `-`, which in a filter of GoogleTest means "but not".
inline std::string case_name(std::string policy) {
  std::replace(policy.begin(), policy.end(), '-', '_');
  return policy;
}

class Replay {
 public:
  Replay(uint64_t seed, const std::string& settings)
      : text_("RUBATO_SEED=" + std::to_string(seed) + " replays: " + settings),
        trace_(__FILE__, __LINE__, text_) {
    current() = this;
    before_ = std::signal(SIGABRT, &say);
  }
  ~Replay() {
    std::signal(SIGABRT, before_);
    current() = nullptr;
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  using Handler = void (*)(int);

  static const Replay*& current() {
    static const Replay* replay = nullptr;
    return replay;
  }
  static void say(int signal) {
    const Replay& replay = *current();
    std::fprintf(stderr, "%s\n", replay.text_.c_str());
    if (replay.before_ != SIG_DFL && replay.before_ != SIG_IGN) replay.before_(signal);
  }

  std::string text_;
  ::testing::ScopedTrace trace_;
  Handler before_ = SIG_DFL;
};

}  // namespace rubato::testing
