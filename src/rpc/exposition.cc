// SPDX-License-Identifier: Apache-2.0
#include "rpc/exposition.h"

#include <utility>

#include "mechanism/clock/clock.h"

namespace rubato::rpc {
namespace {

void write_credits(OpenMetrics& out, const AdmissionController::Pool& pool) {
  out.family("rubato_rpc_credits", "gauge", "Requests that clients may have underway.");
  const std::pair<const char*, int64_t> kinds[] = {{"total", pool.total()},
                                                   {"issued", pool.issued()},
                                                   {"pending", pool.pending()},
                                                   {"withheld", pool.withheld()}};
  for (const auto& [kind, credits] : kinds) {
    out.gauge(static_cast<double>(credits), OpenMetrics::label("kind", kind));
  }
  out.family("rubato_rpc_sessions", "gauge", "Open sessions.");
  out.gauge(static_cast<double>(pool.sessions()));
  out.family("rubato_rpc_drained_sessions", "gauge", "Sessions without a credit.");
  out.gauge(static_cast<double>(pool.drained()));
}

void write_counts(OpenMetrics& out, const AdmissionController::Counts& counts) {
  out.family("rubato_rpc_sessions_opened", "counter", "Sessions that were opened.");
  out.counter(counts.opened);
  out.family("rubato_rpc_sessions_refused", "counter", "Sessions over the limit.");
  out.counter(counts.sessions_refused + counts.refused_of_address);
  out.family("rubato_rpc_sessions_refused_of_address", "counter",
             "Of these, sessions over the limit of their address.");
  out.counter(counts.refused_of_address);
  out.family("rubato_rpc_served", "counter", "Requests that were run and answered.");
  out.counter(counts.served);
  out.family("rubato_rpc_refused", "counter", "Requests that were not run, by reason.");
  for (const Reason reason : {Reason::kOverloaded, Reason::kQueueFull, Reason::kOverCredit}) {
    out.counter(counts.refused[static_cast<size_t>(reason)],
                OpenMetrics::label("reason", to_string(reason)));
  }
  out.family("rubato_rpc_faults", "counter", "Sessions that were ended for what they sent.");
  out.counter(counts.faults);
  out.family("rubato_rpc_pushed_credits", "counter", "Credits sent in messages of their own.");
  out.counter(counts.offered);
  out.family("rubato_rpc_probes", "counter", "Probes of the load that were answered.");
  out.counter(counts.probes);
}

}  // namespace

void expose(OpenMetrics& out, const AdmissionController& admission) {
  write_credits(out, admission.pool());
  write_counts(out, admission.counts());
  out.family("rubato_rpc_delay_seconds", "gauge",
             "How long the oldest request that was not started has waited.");
  out.gauge(admission.delay(now()).seconds());
}

void expose(OpenMetrics& out, const UdpDrops& drops) {
  out.family("rubato_rpc_datagrams_dropped", "counter", "Datagrams that came to nothing.");
  const std::pair<const char*, uint64_t> reasons[] = {{"malformed", drops.malformed},
                                                      {"no_session", drops.no_session},
                                                      {"no_token", drops.no_token},
                                                      {"full", drops.full}};
  for (const auto& [reason, count] : reasons) {
    out.counter(count, OpenMetrics::label("reason", reason));
  }
}

}  // namespace rubato::rpc
