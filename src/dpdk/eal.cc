// SPDX-License-Identifier: Apache-2.0
#include "dpdk/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace rubato::dpdk {
namespace {

// The EAL keeps pointers to its arguments.
struct Environment {
  ~Environment() {
    if (runs) rte_eal_cleanup();
  }
  std::vector<std::string> words;
  std::vector<char*> pointers;
  bool runs = false;
};

Environment& environment() {
  static Environment only;
  return only;
}

bool says_which_cpus(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("-l") || word.starts_with("-c") || word.starts_with("--lcores");
  });
}

size_t first_of(const cpu_set_t& cpus) {
  size_t cpu = 0;
  while (cpu < CPU_SETSIZE - 1 && CPU_ISSET(cpu, &cpus) == 0) ++cpu;
  return cpu;
}

}  // namespace

Status start_eal(const std::string& arguments) {
  Environment& eal = environment();
  if (eal.runs) return Done{};
  eal.words.assign(1, "rubato");
  eal.pointers.clear();
  std::istringstream words(arguments);
  for (std::string word; words >> word;) eal.words.push_back(word);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  ::sched_getaffinity(0, sizeof cpus, &cpus);
  if (!says_which_cpus(eal.words)) {
    eal.words.push_back("--lcores=0@" + std::to_string(first_of(cpus)));
  }
  for (std::string& word : eal.words) eal.pointers.push_back(word.data());
  const auto count = static_cast<int>(eal.pointers.size());
  eal.pointers.push_back(nullptr);
  const int taken = rte_eal_init(count, eal.pointers.data());
  ::sched_setaffinity(0, sizeof cpus, &cpus);
  if (taken < 0) {
    return Error{"dpdk: the EAL does not start with '" + arguments + "': " +
                 rte_strerror(rte_errno) + " (what it says is above)"};
  }
  eal.runs = true;
  if (taken != count - 1) {
    return Error{"dpdk: the EAL knows no argument '" +
                 eal.words[static_cast<size_t>(taken) + 1] + "'"};
  }
  return Done{};
}

}  // namespace rubato::dpdk
