// SPDX-License-Identifier: Apache-2.0
#include "dpdk/testing/environment.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "dpdk/eal.h"

namespace rubato::testing {

bool dpdk_starts() {
  static const bool starts = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      std::vector<std::string> words{"probe"};
      std::istringstream text(kEnvironment);
      for (std::string word; text >> word;) words.push_back(word);
      std::vector<char*> pointers;
      for (std::string& word : words) pointers.push_back(word.data());
      ::_exit(rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0 ? 1 : 0);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
  }();
  return starts;
}

bool has_environment(std::string& reason) {
  if (!dpdk_starts()) {
    reason = "rte_eal_init fails here";
    return false;
  }
  static const Status kStarted = dpdk::start_eal(kEnvironment);
  if (kStarted.ok()) return true;
  reason = kStarted.error();
  ADD_FAILURE() << reason;
  return false;
}

}  // namespace rubato::testing
