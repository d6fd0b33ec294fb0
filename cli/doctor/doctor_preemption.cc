// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "cli/doctor/doctor_findings.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato::cli {
namespace {

const char* advice_for(PreemptMechanism mechanism) {
  switch (mechanism) {
    case PreemptMechanism::kCheckpoint:
      return "cheapest and soonest; code of others needs checkpoints compiled in";
    case PreemptMechanism::kSignal:
      return "any code, at microseconds per preemption; the timer core takes a CPU";
    case PreemptMechanism::kTimer:
      return "any code, no timer core; arming a timer is a system call";
    case PreemptMechanism::kUintr:
      return "any code, without the kernel: Sapphire Rapids and later, and a kernel that lets us";
    case PreemptMechanism::kKmod:
      return "any code, at the cost of an interrupt; needs our kernel module";
    case PreemptMechanism::kNone:
      return "a long request holds its worker up until it ends";
    default:
      return "";
  }
}

Finding finding(PreemptMechanism mechanism) {
  Finding finding{.name = to_string(mechanism), .health = Health::kOk, .found = {}, .advice = {}};
  const Status has = available(mechanism);
  finding.found = has.ok() ? "--preempt " + finding.name + " works here"
                           : "--preempt " + finding.name + ": " + has.error();
  if (!has.ok()) finding.health = Health::kInfo;
  finding.advice = advice_for(mechanism);
  return finding;
}

}  // namespace

std::vector<Finding> examine_preemption() {
  std::vector<Finding> findings;
  for (const PreemptMechanism mechanism : kPreemptMechanisms) {
    findings.push_back(finding(mechanism));
  }
  const std::string best = to_string(resolve(PreemptMechanism::kAuto));
  findings.push_back({"preempt", Health::kInfo, "--preempt auto takes " + best,
                      "a server's first line says what it took"});
  return findings;
}

}  // namespace rubato::cli
