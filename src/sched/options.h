// SPDX-License-Identifier: Apache-2.0
//
// SchedulerOptions: what a scheduler can be told, in every host. Each option is written once, in
// visit(): its flag, its key in a file, its field in the structs of include/rubato, its check and
// its line in docs/OPTIONS.md follow from that. A host's own options come beside these (a server's
// ports are in datapath/server_options.h). A plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/limits.h"
#include "base/option_text.h"
#include "base/preempt_mechanism.h"
#include "base/time.h"
#include "overload/refusal_rule.h"
#include "sched/classify.h"

namespace rubato {

// Which clock ends the slices of a long request.
enum class PreemptionClock : uint8_t { kSelf, kTimerCore, kEmbedded };

enum class Idle : uint8_t { kAdaptive, kSpin };

// What an overloaded server does.
enum class Overload : uint8_t { kNone, kAqm, kCredits, kGradient, kCinnamon, kDagor, kGradient2 };

inline constexpr std::array kClassifyChoices{
    OptionChoice{"feedback", "the application alone, at any time"},
    OptionChoice{"age", "or it outlives a quantum"},
    OptionChoice{"learned", "or its kind did so before"},
    OptionChoice{"declared", "the application alone, when the request arrives"},
};
constexpr std::span<const OptionChoice> choices_of(Classify) { return kClassifyChoices; }

inline constexpr std::array kPreemptionClockChoices{
    OptionChoice{"self", "its own worker, at checkpoints"},
    OptionChoice{"timer-core", "a thread of the server"},
    OptionChoice{"embedded", "the program around the library, by polling"},
};
constexpr std::span<const OptionChoice> choices_of(PreemptionClock) {
  return kPreemptionClockChoices;
}

inline constexpr std::array kIdleChoices{
    OptionChoice{"adaptive", "spin, then sleep"},
    OptionChoice{"spin", "never sleep: for isolated cores"},
};
constexpr std::span<const OptionChoice> choices_of(Idle) { return kIdleChoices; }

inline constexpr std::array kOverloadChoices{
    OptionChoice{"none", "it serves as long as queues have room"},
    OptionChoice{"aqm", "it refuses requests that have waited longer than twice the target delay"},
    OptionChoice{"credits", "clients may have as many requests underway as they were given credits,"
                            " by Rubato RPC"},
    OptionChoice{"gradient", "it limits the requests inside by how their latency compares with the"
                             " least one, as Envoy does"},
    OptionChoice{"cinnamon", "it refuses the least urgent requests, a share that a PID controller"
                             " finds from the flow through the queue, as Uber does"},
    OptionChoice{"dagor", "it refuses requests below a priority that falls while they wait for"
                          " longer than the target delay, as WeChat does"},
    OptionChoice{"gradient2", "it limits the requests inside by how their latency compares with the"
                              " usual one, as Netflix does"},
};
constexpr std::span<const OptionChoice> choices_of(Overload) { return kOverloadChoices; }

struct SchedulerOptions {
  static constexpr const char* kName = "the scheduler";
  static constexpr const char* kAdaptiveCores = "adaptive";
  using Config = SchedulerOptions;

  std::string policy = "synergy";
  OptionSettings policy_settings;
  uint32_t workers = 0;
  Classify classify = Classify::kAge;
  PreemptMechanism preempt = PreemptMechanism::kAuto;
  PreemptionClock preemption_clock = PreemptionClock::kSelf;
  size_t stack_bytes = size_t{16} << 20;
  uint32_t max_fibers = 4096;
  bool foreign_runtime = false;
  Idle idle = Idle::kAdaptive;
  Nanos idle_spin = Nanos::micros(50);
  bool pin = false;
  uint32_t pin_first = 0;
  Nanos drain_limit = Nanos::seconds(10);
  Nanos half_closed_limit = Nanos::millis(100);
  uint32_t inbox_capacity = limits::kInboxCapacity;
  uint32_t shared_capacity = limits::kSharedCapacity;
  std::string cores = kAdaptiveCores;
  OptionSettings cores_settings;
  uint32_t guaranteed_cores = 1;
  Overload overload = Overload::kNone;
  overload::RefusalSettings refusal_rule;
  OptionSettings credits_settings;
  OptionSettings overload_settings;

  // Do workers have cores only as long as an allocator leaves them?
  bool allocates_cores() const { return cores != kAdaptiveCores; }
  bool refuses_late() const { return overload == Overload::kAqm; }
  // Does a limiter decide what comes in (sched/limiter_options.h)?
  bool has_limiter() const { return overload >= Overload::kGradient; }
  bool goes_by_waits() const { return refuses_late() || has_limiter(); }

  template <class V>
  static void visit(SchedulerOptions& o, V&& v);

 private:
  static constexpr OptionHosts kLive = kServe | kLibrary;

  template <class V>
  static void visit_requests(SchedulerOptions& o, V& v);
  template <class V>
  static void visit_workers(SchedulerOptions& o, V& v);
  template <class V>
  static void visit_overload(SchedulerOptions& o, V& v);
};

template <class V>
void SchedulerOptions::visit(SchedulerOptions& o, V&& v) {
  visit_requests(o, v);
  visit_workers(o, v);
  visit_overload(o, v);
}

// What becomes of a request.
template <class V>
void SchedulerOptions::visit_requests(SchedulerOptions& o, V& v) {
  v(OptionInfo{"policy", "", 0, 0, "scheduling policy, see `rubato policies`"}, o.policy);
  v(OptionInfo{"set", "", 0, 0, "settings of the policy"}, o.policy_settings);
  v(OptionInfo{"workers", "", 0, limits::kMaxWorkers,
               "worker threads; 0 = one for each CPU that the process may use, by its affinity and "
               "the CPU quota of its control group",
               kLive},
    o.workers);
  v(OptionInfo{"classify", "", 0, 0, "what makes a request long, so that it may be preempted",
               kEveryHost | kTune},
    o.classify);
  v(OptionInfo{"preempt", "", 0, 0,
               "how long requests are preempted; `rubato doctor` says what works here", kLive},
    o.preempt);
  v(OptionInfo{"preemption_clock", "", 0, 0, "which clock ends the slices of a long request",
               kLive},
    o.preemption_clock);
}

// What workers are made of, and which of them have a core.
template <class V>
void SchedulerOptions::visit_workers(SchedulerOptions& o, V& v) {
  v(OptionInfo{"stack", "B", 16 << 10, 64 << 20, "stack that a request runs on", kLive},
    o.stack_bytes);
  v(OptionInfo{"max_fibers", "", 2, 30000,
               "requests that can be suspended at once, and one for each worker", kLive},
    o.max_fibers);
  v(OptionInfo{"foreign_runtime", "", 0, 1,
               "handlers belong to a runtime with threads of its own (Python, Go, Java): each runs "
               "on its worker's thread and stack, from its start to its end",
               kLibrary},
    o.foreign_runtime);
  v(OptionInfo{"idle", "", 0, 0, "what workers do that have nothing to do", kLive}, o.idle);
  v(OptionInfo{"idle_spin", "us", 0, 1e6,
               "how long an adaptive worker spins before it sleeps; beside a best-effort command "
               "10us unless given",
               kLive},
    o.idle_spin);
  v(OptionInfo{"pin", "", 0, 1,
               "run worker i on the i-th allowed CPU; beside a best-effort command also unless "
               "told, where there is a worker for each CPU",
               kLive},
    o.pin);
  v(OptionInfo{"pin_first", "", 0, 4096, "first CPU that is used by `pin`, as an index", kLive},
    o.pin_first);
  v(OptionInfo{"drain_limit", "s", 0, 3600,
               "longest time between the order to stop and the end, for requests in flight", kLive},
    o.drain_limit);
  v(OptionInfo{"half_closed_limit", "ms", 0, 3'600'000,
               "service that a request still gets, and the time that it may wait or a stop waits "
               "for it, when its client has sent its last byte: it may still read, or be gone",
               kLive},
    o.half_closed_limit);
  v(OptionInfo{"inbox_capacity", "", 64, 1 << 20, "requests that wait at one worker at most",
               kLive},
    o.inbox_capacity);
  v(OptionInfo{"shared_capacity", "", 64, 1 << 20, "requests that wait in one global queue at most",
               kLive},
    o.shared_capacity);
  v(OptionInfo{"cores", "", 0, 0,
               "which workers have a core: adaptive (all, and they sleep when idle), or what an "
               "allocator leaves them, see `rubato options`"},
    o.cores);
  v(OptionInfo{"cores_set", "", 0, 0, "settings of the allocator of cores"}, o.cores_settings);
  v(OptionInfo{"guaranteed_cores", "", 0, limits::kMaxWorkers,
               "workers that an allocator leaves alone, at least 1 in a server"},
    o.guaranteed_cores);
}

template <class V>
void SchedulerOptions::visit_overload(SchedulerOptions& o, V& v) {
  v(OptionInfo{"overload", "", 0, 0, "what an overloaded server does"}, o.overload);
  v(OptionInfo{"target_delay", "ms", 0.001, 6e4, "how long requests may wait for their turn"},
    o.refusal_rule.target_delay);
  v(OptionInfo{"target_delay_long", "ms", 0, 6e4,
               "the same of long requests; 0 = as others, or eight times their own service where "
               "they share a worker"},
    o.refusal_rule.target_delay_long);
  v(OptionInfo{"overload_patience", "ms", 0, 6e4,
               "waits are overload once a worker has not run out of work for so long (aqm)"},
    o.refusal_rule.patience);
  v(OptionInfo{"overload_calm", "ms", 0, 6e4,
               "overload is over when nobody was late for so long (aqm)"},
    o.refusal_rule.calm);
  v(OptionInfo{"overload_calm_idle", "ms", 0, 6e4,
               "the same where a worker runs out of work again (aqm)"},
    o.refusal_rule.calm_idle);
  v(OptionInfo{"overload_budget", "", 0, 1,
               "share of a worker's time that may go into refusing requests (aqm)"},
    o.refusal_rule.budget);
  v(OptionInfo{"credits_set", "", 0, 0, "settings of the credits"}, o.credits_settings);
  v(OptionInfo{"overload_set", "", 0, 0, "settings of gradient, gradient2, cinnamon or dagor"},
    o.overload_settings);
}

}  // namespace rubato
