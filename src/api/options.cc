// SPDX-License-Identifier: Apache-2.0
#include "api/options.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "api/versioned.h"
#include "mechanism/cpu/cgroup.h"
#include "overload/cores/rule.h"
#include "rpc/frames.h"

namespace rubato::api {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr uint32_t kMaxFibers = 30000;  // two mappings each, see mechanism/fiber/stack.h
constexpr uint32_t kMaxPort = 65535;
constexpr Nanos kRpcTargetDelay = Nanos::millis(1);
constexpr int64_t kDayNs = int64_t{24} * 3600 * 1'000'000'000;

// Collects the first complaint, so that a list of checks reads as one.
class Checks {
 public:
  template <class T>
  void in(const char* name, T value, T low, T high) {
    if (!first_.empty() || (value >= low && value <= high)) return;
    first_ = std::string(name) + ": " + std::to_string(value) + " is not in " +
             std::to_string(low) + " .. " + std::to_string(high);
  }
  void given(const char* name, const char* text) {
    if (first_.empty() && text == nullptr) first_ = std::string(name) + ": null";
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

void check_overload(Checks& checks, const rubato_options& o) {
  checks.given("cores", o.cores);
  checks.given("agent_bind", o.agent_bind);
  checks.in("overload", o.overload, 0u, uint32_t{RUBATO_OVERLOAD_AQM});
  checks.in("target_delay_ns", o.target_delay_ns, int64_t{1000}, kDayNs);
  const int64_t shortest = o.target_delay_long_ns == 0 ? 0 : 1000;
  checks.in("target_delay_long_ns", o.target_delay_long_ns, shortest, kDayNs);
  checks.in("guaranteed_cores", o.guaranteed_cores, 1u, o.workers);
  checks.in("agent_port", o.agent_port, -1, static_cast<int32_t>(kMaxPort));
}

Status check(const rubato_options& o) {
  Checks checks;
  checks.given("policy", o.policy);
  checks.given("bind", o.bind);
  checks.given("metrics_bind", o.metrics_bind);
  checks.in("workers", o.workers, 1u, limits::kMaxWorkers);
  checks.in("classify", o.classify, 0u, uint32_t{RUBATO_CLASSIFY_LEARNED});
  checks.in("clock", o.clock, 0u, uint32_t{RUBATO_CLOCK_EMBEDDED});
  checks.in("preempt", o.preempt, 0u, uint32_t{RUBATO_PREEMPT_KMOD});
  checks.in("idle", o.idle, 0u, uint32_t{RUBATO_IDLE_SPIN});
  checks.in("idle_spin_ns", o.idle_spin_ns, int64_t{0}, kDayNs);
  checks.in("stack_bytes", o.stack_bytes, 16 * kKiB, 64 * kMiB);
  checks.in("max_fibers", o.max_fibers, o.workers + 1, kMaxFibers);
  checks.in("transport", o.transport, 0u, uint32_t{RUBATO_LOOPBACK});
  checks.in("port", o.port, 0u, kMaxPort);
  checks.in("max_connections", o.max_connections, 1u, std::numeric_limits<uint32_t>::max());
  checks.in("idle_timeout_ns", o.idle_timeout_ns, int64_t{0}, kDayNs);
  checks.in("max_request_bytes", o.max_request_bytes, size_t{1}, kMiB * 1024);
  checks.in("max_reply_bytes", o.max_reply_bytes, size_t{1}, kMiB * 1024);
  checks.in("drain_limit_ns", o.drain_limit_ns, int64_t{0}, kDayNs);
  checks.in("rpc_target_delay_ns", o.rpc_target_delay_ns, int64_t{1000}, kDayNs);
  checks.in("metrics_port", o.metrics_port, -1, static_cast<int32_t>(kMaxPort));
  check_overload(checks, o);
  if (!checks.first().empty()) return Error{checks.first()};
  return Done{};
}

using Settings = std::map<std::string, std::string>;

Status read_settings(const char* name, const char* const* settings, size_t count, Settings& to) {
  for (size_t i = 0; i < count; ++i) {
    const std::string_view text = settings[i];
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return Error{std::string(name) + ": '" + std::string(text) + "' is not name=value"};
    }
    to[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return Done{};
}

Status read_cores(const rubato_options& o, RuntimeOptions& runtime) {
  const bool allocates = std::string_view(o.cores) != "adaptive";
  if (!allocates && o.guaranteed_cores != 1) {
    return Error{"guaranteed_cores: needs cores with an allocator: " + overload::core_rule_names()};
  }
  if (allocates) runtime.cores = o.cores;
  runtime.guaranteed_cores = o.guaranteed_cores;
  return read_settings("cores_set", o.cores_set, o.cores_set_count,
                       runtime.cores_settings);
}

RuntimeOptions runtime_options(const rubato_options& o) {
  RuntimeOptions runtime;
  runtime.policy = o.policy;
  runtime.workers = o.workers;
  runtime.classify = static_cast<Classify>(o.classify);
  runtime.preemption_clock = static_cast<PreemptionClock>(o.clock);
  runtime.preempt = static_cast<PreemptMechanism>(o.preempt);
  runtime.idle = static_cast<Idle>(o.idle);
  runtime.idle_spin = Nanos(o.idle_spin_ns);
  runtime.pin = o.pin != 0;
  runtime.pin_first = o.pin_first;
  runtime.stack_bytes = o.stack_bytes;
  runtime.max_fibers = o.max_fibers;
  runtime.drain_limit = Nanos(o.drain_limit_ns);
  runtime.shed = o.overload == RUBATO_OVERLOAD_AQM;
  runtime.shedding.target_delay = Nanos(o.target_delay_ns);
  runtime.shedding.target_delay_long = Nanos(o.target_delay_long_ns);
  return runtime;
}

}  // namespace

static_assert(static_cast<int>(Classify::kFeedback) == RUBATO_CLASSIFY_FEEDBACK);
static_assert(static_cast<int>(Classify::kAge) == RUBATO_CLASSIFY_AGE);
static_assert(static_cast<int>(Classify::kLearned) == RUBATO_CLASSIFY_LEARNED);
static_assert(static_cast<int>(PreemptionClock::kSelf) == RUBATO_CLOCK_SELF);
static_assert(static_cast<int>(PreemptionClock::kTimerCore) == RUBATO_CLOCK_TIMER_CORE);
static_assert(static_cast<int>(PreemptionClock::kEmbedded) == RUBATO_CLOCK_EMBEDDED);
static_assert(static_cast<int>(PreemptMechanism::kAuto) == RUBATO_PREEMPT_AUTO);
static_assert(static_cast<int>(PreemptMechanism::kNone) == RUBATO_PREEMPT_NONE);
static_assert(static_cast<int>(PreemptMechanism::kCheckpoint) == RUBATO_PREEMPT_CHECKPOINT);
static_assert(static_cast<int>(PreemptMechanism::kSignal) == RUBATO_PREEMPT_SIGNAL);
static_assert(static_cast<int>(PreemptMechanism::kTimer) == RUBATO_PREEMPT_TIMER);
static_assert(static_cast<int>(PreemptMechanism::kUintr) == RUBATO_PREEMPT_UINTR);
static_assert(static_cast<int>(PreemptMechanism::kKmod) == RUBATO_PREEMPT_KMOD);
static_assert(static_cast<int>(Idle::kAdaptive) == RUBATO_IDLE_ADAPTIVE);
static_assert(static_cast<int>(Idle::kSpin) == RUBATO_IDLE_SPIN);

rubato_options default_options() {
  const RuntimeOptions runtime;
  const TcpOptions tcp;
  rubato_options o{};
  o.struct_size = sizeof o;
  o.policy = "synergy";
  o.classify = static_cast<uint32_t>(runtime.classify);
  o.clock = static_cast<uint32_t>(runtime.preemption_clock);
  o.preempt = static_cast<uint32_t>(runtime.preempt);
  o.idle = static_cast<uint32_t>(runtime.idle);
  o.idle_spin_ns = runtime.idle_spin.count();
  o.stack_bytes = runtime.stack_bytes;
  o.max_fibers = runtime.max_fibers;
  o.bind = "127.0.0.1";
  o.max_connections = tcp.max_flows;
  o.max_request_bytes = 16 * kMiB;
  o.max_reply_bytes = tcp.limits.output_bytes;
  o.drain_limit_ns = runtime.drain_limit.count();
  o.metrics_bind = "127.0.0.1";
  o.metrics_port = -1;
  o.rpc_target_delay_ns = kRpcTargetDelay.count();
  o.target_delay_ns = runtime.shedding.target_delay.count();
  o.cores = "adaptive";
  o.guaranteed_cores = runtime.guaranteed_cores;
  o.agent_bind = "127.0.0.1";
  o.agent_port = -1;
  return o;
}

// Who is over the limit is told so, and what waits in the kernel has waited.
void Setup::speak_rpc() {
  runtime.shedding.target_delay = admission.credits.target_delay;
  tcp.date_backlog = true;
  rpc::encode(tcp.over_limit_reply, {rpc::Kind::kError, 0,
                                     static_cast<uint32_t>(rpc::Fault::kSessions), 0,
                                     rpc::to_string(rpc::Fault::kSessions)});
}

Result<Setup> read_options(const rubato_options* given) {
  const auto read = read_versioned(given, default_options(), "options");
  if (!read.ok()) return Error{read.error()};
  rubato_options o = read.value();
  if (o.workers == 0) o.workers = std::min(usable_cpus(), limits::kMaxWorkers);
  if (Status good = check(o); !good.ok()) return Error{good.error()};
  Setup setup;
  setup.runtime = runtime_options(o);
  Status good = read_settings("settings", o.settings, o.settings_count,
                              setup.runtime.policy_settings);
  if (good.ok()) good = read_cores(o, setup.runtime);
  if (!good.ok()) return Error{good.error()};
  setup.loopback = o.transport == RUBATO_LOOPBACK;
  setup.max_request_bytes = o.max_request_bytes;
  setup.max_reply_bytes = o.max_reply_bytes;
  // Twice the largest request: the framing refuses first, and says why.
  const FlowLimits limits{2 * (o.max_request_bytes + rpc::kHeaderBytes),
                          o.max_reply_bytes + 2 * rpc::kHeaderBytes};
  setup.tcp.bind = o.bind;
  setup.tcp.port = static_cast<uint16_t>(o.port);
  setup.tcp.queues = o.workers;
  setup.tcp.max_flows = o.max_connections;
  setup.tcp.idle_timeout = Nanos(o.idle_timeout_ns);
  setup.tcp.limits = limits;
  setup.tcp.date_backlog = setup.runtime.shed;
  setup.wire.queues = o.workers;
  setup.wire.max_flows = o.max_connections;
  setup.wire.idle_timeout = Nanos(o.idle_timeout_ns);
  setup.wire.limits = limits;
  setup.metrics_bind = o.metrics_bind;
  setup.metrics_port = o.metrics_port;
  setup.agent_bind = o.agent_bind;
  setup.agent_port = o.agent_port;
  setup.handle_signals = o.handle_signals != 0;
  setup.admission.credits.target_delay = Nanos(o.rpc_target_delay_ns);
  setup.admission.credits.drop_delay = setup.admission.credits.target_delay * 2;  // CoreSync IV-A
  setup.admission.workers = o.workers;
  setup.admission.max_sessions = o.max_connections;
  setup.admission.sessions_per_address = o.rpc_sessions_per_address;
  setup.admission.target_delay_long = Nanos(o.target_delay_long_ns);
  return setup;
}

}  // namespace rubato::api
