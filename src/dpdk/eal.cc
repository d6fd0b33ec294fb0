// SPDX-License-Identifier: Apache-2.0
#include "dpdk/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
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

// None: the EAL numbers no CPU that the thread may use.
std::optional<size_t> first_of(const cpu_set_t& cpus) {
  for (size_t cpu = 0; cpu < std::min<size_t>(CPU_SETSIZE, RTE_MAX_LCORE); ++cpu) {
    if (CPU_ISSET(cpu, &cpus) != 0) return cpu;
  }
  return std::nullopt;
}

// The words of the command line, of which the first is the program's.
Result<std::vector<std::string>> words_of(const std::string& arguments, const cpu_set_t* cpus) {
  std::vector<std::string> all{"rubato"};
  std::istringstream words(arguments);
  for (std::string word; words >> word;) all.push_back(word);
  if (says_which_cpus(all)) return all;
  const auto cpu = cpus != nullptr ? first_of(*cpus) : std::nullopt;
  if (!cpu) {
    return Error{"dpdk: --dpdk-args needs --lcores=0@CPU here: no CPU of this thread is below " +
                 std::to_string(RTE_MAX_LCORE)};
  }
  all.insert(all.begin() + 1, "--lcores=0@" + std::to_string(*cpu));
  return all;
}

}  // namespace

Status start_eal(const std::string& arguments) {
  Environment& eal = environment();
  if (eal.runs) return Done{};
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const bool known = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  auto words = words_of(arguments, known ? &cpus : nullptr);
  if (!words.ok()) return Error{words.error()};
  eal.words = std::move(*words);
  eal.pointers.clear();
  for (std::string& word : eal.words) eal.pointers.push_back(word.data());
  const auto count = static_cast<int>(eal.pointers.size());
  eal.pointers.push_back(nullptr);
  const int taken = rte_eal_init(count, eal.pointers.data());
  if (known) ::sched_setaffinity(0, sizeof cpus, &cpus);
  if (taken < 0) {
    return Error{"dpdk: the EAL does not start with '" + arguments + "': " +
                 rte_strerror(rte_errno) + " (what it says is above)"};
  }
  eal.runs = true;
  // The EAL has put what it does not know behind what it does.
  if (taken != count - 1) {
    return Error{std::string("dpdk: the EAL knows no argument '") +
                 eal.pointers[static_cast<size_t>(taken) + 1] + "'"};
  }
  return Done{};
}

}  // namespace rubato::dpdk
