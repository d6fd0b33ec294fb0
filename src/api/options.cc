// SPDX-License-Identifier: Apache-2.0
#include "api/options.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "api/versioned.h"
#include "base/option_text.h"
#include "mechanism/cpu/cgroup.h"
#include "overload/credit_options.h"
#include "rpc/frames.h"

namespace rubato::api {
namespace {

// "name=value" each, in C.
struct SettingsField {
  const char* const*& texts;
  size_t& count;
};

// Calls visit(field of C, option) for each option of the library.
template <class V>
void for_each_field(rubato_options& c, SchedulerOptions& o, ServerOptions& s, V&& visit) {
  visit(c.policy, o.policy);
  visit(SettingsField{c.set, c.set_count}, o.policy_settings);
  visit(c.workers, o.workers);
  visit(c.classify, o.classify);
  visit(c.preemption_clock, o.preemption_clock);
  visit(c.idle, o.idle);
  visit(c.idle_spin_ns, o.idle_spin);
  visit(c.pin, o.pin);
  visit(c.pin_first, o.pin_first);
  visit(c.stack_bytes, o.stack_bytes);
  visit(c.max_fibers, o.max_fibers);
  visit(c.transport, s.transport);
  visit(c.bind, s.bind);
  visit(c.port, s.port);
  visit(c.max_connections, s.max_connections);
  visit(c.idle_timeout_ns, s.idle_timeout);
  visit(c.max_request_bytes, s.max_request_bytes);
  visit(c.max_reply_bytes, s.max_reply_bytes);
  visit(c.drain_limit_ns, o.drain_limit);
  visit(c.metrics_bind, s.metrics_bind);
  visit(c.metrics_port, s.metrics_port);
  visit(c.handle_signals, s.handle_signals);
  visit(c.preempt, o.preempt);
  visit(c.rpc_target_delay_ns, s.rpc_target_delay);
  visit(c.overload, o.overload);
  visit(c.guaranteed_cores, o.guaranteed_cores);
  visit(c.target_delay_ns, o.shedding.target_delay);
  visit(c.target_delay_long_ns, o.shedding.target_delay_long);
  visit(c.cores, o.cores);
  visit(SettingsField{c.cores_set, c.cores_set_count}, o.cores_settings);
  visit(c.agent_bind, s.agent_bind);
  visit(c.agent_port, s.agent_port);
  visit(c.sessions_per_address, s.sessions_per_address);
  visit(c.inbox_capacity, o.inbox_capacity);
  visit(c.shared_capacity, o.shared_capacity);
  visit(c.overload_patience_ns, o.shedding.patience);
  visit(c.overload_calm_ns, o.shedding.calm);
  visit(c.overload_calm_idle_ns, o.shedding.calm_idle);
  visit(c.overload_budget, o.shedding.budget);
  visit(SettingsField{c.credits_set, c.credits_set_count}, o.credits_settings);
  visit(c.half_closed_limit_ns, o.half_closed_limit);
}

// From an option to a field of C; texts stay the option's.
template <class Field, class Option>
void give(Field&& field, const Option& option) {
  if constexpr (std::is_same_v<Option, Nanos>) {
    field = option.count();
  } else if constexpr (std::is_same_v<Option, std::string>) {
    field = option.c_str();
  } else if constexpr (std::is_same_v<Option, OptionSettings>) {
    field.texts = nullptr;
    field.count = 0;
  } else if constexpr (std::is_same_v<Option, bool>) {
    field = option ? 1 : 0;
  } else {
    field = static_cast<std::remove_cvref_t<Field>>(option);
  }
}

// From a field of C to an option. Fails with what is wrong where the option could not hold it.
Status take(int64_t field, Nanos& option) {
  option = Nanos(field);
  return Done{};
}
Status take(uint32_t field, bool& option) {
  option = field != 0;
  return Done{};
}
Status take(const char* field, std::string& option) {
  if (field == nullptr) return Error{"null"};
  option = field;
  return Done{};
}
template <Choice E>
Status take(uint32_t field, E& option) {
  if (field >= choices_of(option).size()) return read_option({}, std::to_string(field), option);
  option = static_cast<E>(field);
  return Done{};
}
Status take(const SettingsField& field, OptionSettings& option) {
  for (size_t i = 0; i < field.count; ++i) {
    if (Status read = read_option({}, field.texts[i], option); !read.ok()) return read;
  }
  return Done{};
}
template <class T>
Status take(const T& field, T& option) {
  option = field;
  return Done{};
}

// The options of a server of the library.
struct Options {
  SchedulerOptions scheduler;
  ServerOptions server;

  template <class V>
  void visit(V&& v) {
    SchedulerOptions::visit(scheduler, v);
    ServerOptions::visit(server, v);
  }

  const char* name_of(const void* option) {
    const char* name = "";
    visit([&](const OptionInfo& info, auto& field) {
      if (static_cast<const void*>(&field) == option) name = info.name;
    });
    return name;
  }
};

// The first complaint.
class Complaint {
 public:
  void note(const char* name, const Status& status) {
    if (first_.empty() && !status.ok()) first_ = std::string(name) + ": " + status.error();
  }
  Status status() const { return first_.empty() ? Status(Done{}) : Status(Error{first_}); }

 private:
  std::string first_;
};

Status read_fields(rubato_options& c, Options& options) {
  Complaint complaint;
  for_each_field(c, options.scheduler, options.server, [&](auto&& field, auto& option) {
    complaint.note(options.name_of(&option), take(field, option));
  });
  return complaint.status();
}

// As if each were given as text.
Status check_ranges(Options& options) {
  Complaint complaint;
  options.visit([&](const OptionInfo& info, auto& field) {
    auto copy = field;
    if constexpr (std::is_arithmetic_v<decltype(copy)> || std::is_same_v<decltype(copy), Nanos>) {
      const std::string text = describe_option(info, field).default_value;
      complaint.note(info.name, read_option(info, text, copy));
    }
  });
  return complaint.status();
}

void use_server_options(const ServerOptions& server, uint32_t workers, Setup& setup) {
  setup.loopback = server.transport == Transport::kLoopback;
  setup.max_request_bytes = server.max_request_bytes;
  setup.max_reply_bytes = server.max_reply_bytes;
  // Twice the largest request: the framing refuses first, and says why.
  const FlowLimits limits{2 * (server.max_request_bytes + rpc::kHeaderBytes),
                          server.max_reply_bytes + 2 * rpc::kHeaderBytes};
  setup.tcp.bind = server.bind;
  setup.tcp.port = static_cast<uint16_t>(server.port);
  setup.tcp.queues = workers;
  setup.tcp.max_flows = server.max_connections;
  setup.tcp.idle_timeout = server.idle_timeout;
  setup.tcp.limits = limits;
  setup.tcp.date_backlog = setup.runtime.sheds();
  setup.wire.queues = workers;
  setup.wire.max_flows = server.max_connections;
  setup.wire.idle_timeout = server.idle_timeout;
  setup.wire.limits = limits;
  setup.metrics_bind = server.metrics_bind;
  setup.metrics_port = server.metrics_port;
  setup.agent_bind = server.agent_bind;
  setup.agent_port = server.agent_port;
  setup.handle_signals = server.handle_signals;
}

Status use_credits(const Options& options, Setup& setup) {
  const auto credits = overload::CreditOptions::read(options.scheduler.credits_settings,
                                                     options.server.rpc_target_delay);
  if (!credits.ok()) return Error{credits.error()};
  setup.admission.credits = credits.value();
  setup.admission.workers = options.scheduler.workers;
  setup.admission.max_sessions = options.server.max_connections;
  setup.admission.sessions_per_address = options.server.sessions_per_address;
  setup.admission.target_delay_long = options.scheduler.shedding.target_delay_long;
  return Done{};
}

}  // namespace

rubato_options default_options() {
  static Options defaults;
  rubato_options c{};
  c.struct_size = sizeof c;
  for_each_field(c, defaults.scheduler, defaults.server,
                 [](auto&& field, const auto& option) { give(field, option); });
  return c;
}

// Who is over the limit is told so, and what waits in the kernel has waited.
void Setup::speak_rpc() {
  runtime.overload = Overload::kCredits;
  runtime.shedding.target_delay = admission.credits.target_delay;
  tcp.date_backlog = true;
  rpc::encode(tcp.over_limit_reply, {rpc::Kind::kError, 0,
                                     static_cast<uint32_t>(rpc::Fault::kSessions), 0,
                                     rpc::to_string(rpc::Fault::kSessions)});
}

Result<Setup> read_options(const rubato_options* given) {
  auto read = read_versioned(given, default_options(), "options");
  if (!read.ok()) return Error{read.error()};
  Options options;
  Status good = read_fields(*read, options);
  if (good.ok()) good = check_ranges(options);
  if (!good.ok()) return Error{good.error()};
  uint32_t& workers = options.scheduler.workers;
  if (workers == 0) workers = std::min(usable_cpus(), limits::kMaxWorkers);
  Setup setup;
  static_cast<SchedulerOptions&>(setup.runtime) = options.scheduler;
  use_server_options(options.server, workers, setup);
  good = use_credits(options, setup);
  if (!good.ok()) return Error{good.error()};
  return setup;
}

}  // namespace rubato::api
