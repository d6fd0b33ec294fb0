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
    current() = text_.c_str();
    std::signal(SIGABRT, &say);
  }
  ~Replay() {
    std::signal(SIGABRT, SIG_DFL);
    current() = nullptr;
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  static const char*& current() {
    static const char* text = nullptr;
    return text;
  }
  static void say(int) { std::fprintf(stderr, "%s\n", current()); }

  std::string text_;
  ::testing::ScopedTrace trace_;
};

}  // namespace rubato::testing
