// SPDX-License-Identifier: Apache-2.0
#include "runtime/desk_credits.h"

#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

void add(CreditReport& report, Refusal why, const rpc::CreditDesk::Counts& counts,
         rpc::Reason reason) {
  auto& refused = report.refusals[static_cast<size_t>(why)];
  for (size_t job_class = 0; job_class < refused.size(); ++job_class) {
    refused[job_class] += counts.judged[static_cast<size_t>(reason)][job_class].value();
  }
}

}  // namespace

CreditReport DeskCredits::report() const {
  CreditReport report;
  report.sessions = sessions();
  report.drained = drained();
  report.total = desk_.pool().total();
  report.issued = desk_.pool().issued();
  report.delay = desk_.delay(now());
  report.late = desk_.counts().late.value();
  add(report, Refusal::kDelay, desk_.counts(), rpc::Reason::kOverloaded);
  add(report, Refusal::kShare, desk_.counts(), rpc::Reason::kOverCredit);
  return report;
}

}  // namespace rubato
