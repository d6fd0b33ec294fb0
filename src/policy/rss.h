// SPDX-License-Identifier: Apache-2.0
//
// RSS: what the papers call IX or a commodity RSS NIC. The hash of its flow decides where a request
// runs, and there it runs to completion. Which hash is the machine's matter (the kernel's, or
// `steering` of a cost file), so the policy is `fcfs` by the name under which figures draw it.
// Pure; see policy/contract.h for who calls what.
#pragma once

#include "policy/fcfs.h"

namespace rubato {

class Rss : public Fcfs {
 public:
  static constexpr const char* kName = "rss";
  static constexpr const char* kSummary =
      "a flow's hash picks the worker, which runs to completion; the same as fcfs";
  static constexpr const char* kSource = "IX, OSDI 2014; Altocumulus, section VII-A";

  explicit constexpr Rss(Config config) : Fcfs(config) {}
};

}  // namespace rubato
