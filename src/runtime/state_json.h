// SPDX-License-Identifier: Apache-2.0
//
// The state of a live runtime for programs that watch it, such as `rubato top`: one JSON object,
// served at /state of the metrics port:
//
//   {"schema": "rubato.state/1", "time_us": monotonic, "pid": n, "version": s, "policy": s,
//    "serving": b, "counters": {NAME: n since the start}, "figures": {NAME: x of now},
//    "types": [{"name": s, "finished": n, "waited_us": x, "service_us": x, "latency_ns": histogram,
//               "service_ns": histogram}],
//    "workers": [{"state": "runs"|"awake"|"sleeps", "type": s, "for_us": x, "unpolled_us": x,
//                 "suspended": n, "requests": n, "preemptions": n, "busy_us": x}],
//    "queues": [{"name": s, "queues": n, "depth": n, "deepest": n}],
//    "refusals": [{"reason": s, "class": "short"|"long", "requests": n}],
//    "delays": [{"class": s, "queue_delay_us": x}],
//    "blocked": [{"victim": s, "blocker": s, "requests": n, "held_us": x}],
//    "credits": null or {"sessions": n, "drained": n, "total": n, "issued": n, "delay_us": x},
//    "memory": {"resident_bytes": n, and of an account: "limit_bytes", "data_bytes",
//               "buffers_bytes", "stacks_bytes"},
//    "plan": [a sentence each]}
//
// Histograms are whole and since the start (metrics/histogram_json.h; their extremes are those of
// a bucket), so that a watcher gets the exact distribution between any two moments from a
// difference. "finished", "waited_us" and "service_us" of a type are of requests in the policy's
// queues. Reads snapshots only, and takes no lock that a worker takes; any thread.
#pragma once

#include <string>

#include "base/memory_account.h"
#include "runtime/exposition.h"

namespace rubato {

struct StateExtras {
  std::string version = {};               // of the program
  const MemoryAccount* memory = nullptr;  // null = the program has none
};

std::string state_json(const Runtime& runtime, const Datapath& datapath, const ExposedTypes& types,
                       const StateExtras& extras = {});

}  // namespace rubato
