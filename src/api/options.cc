// SPDX-License-Identifier: Apache-2.0
#include "api/options.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "api/texts.h"
#include "api/versioned.h"
#include "base/check.h"
#include "base/option_text.h"
#include "mechanism/cpu/cgroup.h"
#include "overload/credit_options.h"
#include "rpc/frames.h"

namespace rubato::api {
namespace {

// The place of one option of the library in the C struct.
struct Place {
  std::string_view option;
  size_t offset;
};
constexpr Place kPlaces[] = {
    // generated: c-places
    {"policy", offsetof(rubato_options, policy)},
    {"set", offsetof(rubato_options, set)},
    {"workers", offsetof(rubato_options, workers)},
    {"classify", offsetof(rubato_options, classify)},
    {"preempt", offsetof(rubato_options, preempt)},
    {"preemption_clock", offsetof(rubato_options, preemption_clock)},
    {"stack", offsetof(rubato_options, stack_bytes)},
    {"max_fibers", offsetof(rubato_options, max_fibers)},
    {"foreign_runtime", offsetof(rubato_options, foreign_runtime)},
    {"idle", offsetof(rubato_options, idle)},
    {"idle_spin", offsetof(rubato_options, idle_spin_ns)},
    {"pin", offsetof(rubato_options, pin)},
    {"pin_first", offsetof(rubato_options, pin_first)},
    {"drain_limit", offsetof(rubato_options, drain_limit_ns)},
    {"half_closed_limit", offsetof(rubato_options, half_closed_limit_ns)},
    {"inbox_capacity", offsetof(rubato_options, inbox_capacity)},
    {"shared_capacity", offsetof(rubato_options, shared_capacity)},
    {"cores", offsetof(rubato_options, cores)},
    {"cores_set", offsetof(rubato_options, cores_set)},
    {"guaranteed_cores", offsetof(rubato_options, guaranteed_cores)},
    {"overload", offsetof(rubato_options, overload)},
    {"target_delay", offsetof(rubato_options, target_delay_ns)},
    {"target_delay_long", offsetof(rubato_options, target_delay_long_ns)},
    {"overload_patience", offsetof(rubato_options, overload_patience_ns)},
    {"overload_calm", offsetof(rubato_options, overload_calm_ns)},
    {"overload_calm_idle", offsetof(rubato_options, overload_calm_idle_ns)},
    {"overload_budget", offsetof(rubato_options, overload_budget)},
    {"credits_set", offsetof(rubato_options, credits_set)},
    {"overload_set", offsetof(rubato_options, overload_set)},
    {"transport", offsetof(rubato_options, transport)},
    {"bind", offsetof(rubato_options, bind)},
    {"port", offsetof(rubato_options, port)},
    {"max_connections", offsetof(rubato_options, max_connections)},
    {"idle_timeout", offsetof(rubato_options, idle_timeout_ns)},
    {"max_request", offsetof(rubato_options, max_request_bytes)},
    {"max_reply", offsetof(rubato_options, max_reply_bytes)},
    {"metrics_bind", offsetof(rubato_options, metrics_bind)},
    {"metrics_port", offsetof(rubato_options, metrics_port)},
    {"handle_signals", offsetof(rubato_options, handle_signals)},
    {"rpc_target_delay", offsetof(rubato_options, rpc_target_delay_ns)},
    {"agent_bind", offsetof(rubato_options, agent_bind)},
    {"agent_port", offsetof(rubato_options, agent_port)},
    {"sessions_per_address", offsetof(rubato_options, sessions_per_address)},
    {"trace_file", offsetof(rubato_options, trace_file)},
    {"trace_events", offsetof(rubato_options, trace_events)},
    {"record_file", offsetof(rubato_options, record_file)},
    {"record_limit", offsetof(rubato_options, record_limit_bytes)},
    {"profile_file", offsetof(rubato_options, profile_file)},
    {"profile_for", offsetof(rubato_options, profile_for_ns)},
    // end of c-places
};

// A list of "name=value" settings, which takes two fields in C.
struct SettingsField {
  const char* const* texts;
  size_t count;
};

// Converts an option to a field of C; texts still belong to the option.
int64_t field_of(Nanos option) { return option.count(); }
uint32_t field_of(bool option) { return option ? 1 : 0; }
const char* field_of(const std::string& option) { return option.c_str(); }
SettingsField field_of(const OptionSettings&) { return {nullptr, 0}; }
template <Choice E>
uint32_t field_of(E option) {
  return static_cast<uint32_t>(option);
}
template <class T>
  requires std::is_arithmetic_v<T>
T field_of(T option) {
  return option;
}

// Converts a field of C to an option. Fails, with the fault, if the option cannot hold the value.
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
  if (Status there = check_texts(field.texts, field.count); !there.ok()) return there;
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

  // Calls v(info, option, where) for each option that the C struct has; `where` is its field there.
  template <class Bytes, class V>
  void visit_with(Bytes* c, V&& v) {
    visit([&](const OptionInfo& info, auto& option) {
      if ((info.hosts & kLibrary) == 0) return;
      const auto place = std::find_if(std::begin(kPlaces), std::end(kPlaces),
                                      [&](const Place& p) { return p.option == info.name; });
      RUBATO_CHECK(place != std::end(kPlaces));
      v(info, option, c + place->offset);
    });
  }
};

// Keeps the first error.
class Complaint {
 public:
  void note(const char* name, const Status& status) {
    if (first_.empty() && !status.ok()) first_ = std::string(name) + ": " + status.error();
  }
  Status status() const { return first_.empty() ? Status(Done{}) : Status(Error{first_}); }

 private:
  std::string first_;
};

Status read_fields(const rubato_options& c, Options& options) {
  Complaint complaint;
  options.visit_with(reinterpret_cast<const char*>(&c),
                     [&](const OptionInfo& info, auto& option, const char* where) {
                       decltype(field_of(option)) field;
                       std::memcpy(&field, where, sizeof field);
                       complaint.note(info.name, take(field, option));
                     });
  return complaint.status();
}

// Checks each option as if it were given as text.
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

// The kinds of options of servers that executors have as well.
constexpr std::string_view kOfExecutors[] = {"metrics_", "trace_", "record_", "profile_"};

// An option that has no effect is refused by name.
Status is_without_ports(ServerOptions& given) {
  std::vector<std::string> usual;
  ServerOptions defaults;
  const auto text_of = [](const OptionInfo& info, const auto& field) {
    return std::string(describe_option(info, field).default_value);
  };
  ServerOptions::visit(defaults, [&](const OptionInfo& info, const auto& field) {
    usual.push_back(text_of(info, field));
  });
  Complaint complaint;
  auto next = usual.begin();
  ServerOptions::visit(given, [&](const OptionInfo& info, const auto& field) {
    const bool is_usual = text_of(info, field) == *next++;
    const std::string_view name = info.name;
    const auto is_taken = [name](std::string_view kind) { return name.starts_with(kind); };
    if (is_usual || std::any_of(std::begin(kOfExecutors), std::end(kOfExecutors), is_taken)) return;
    complaint.note(info.name, Error{"an executor has no port and no connections"});
  });
  return complaint.status();
}

void use_server_options(const ServerOptions& server, uint32_t workers, Setup& setup) {
  setup.loopback = server.transport == Transport::kLoopback;
  setup.max_request_bytes = server.max_request_bytes;
  setup.max_reply_bytes = server.max_reply_bytes;
  // Twice the largest request, so that the framing refuses first and gives the reason.
  const FlowLimits limits{2 * (server.max_request_bytes + rpc::kHeaderBytes),
                          server.max_reply_bytes + 2 * rpc::kHeaderBytes};
  setup.tcp.bind = server.bind;
  setup.tcp.port = static_cast<uint16_t>(server.port);
  setup.tcp.queues = workers;
  setup.tcp.max_flows = server.max_connections;
  setup.tcp.idle_timeout = server.idle_timeout;
  setup.tcp.limits = limits;
  setup.tcp.date_backlog = setup.runtime.goes_by_waits();
  setup.wire.queues = workers;
  setup.wire.max_flows = server.max_connections;
  setup.wire.idle_timeout = server.idle_timeout;
  setup.wire.limits = limits;
  setup.metrics_bind = server.metrics_bind;
  setup.metrics_port = server.metrics_port;
  setup.agent_bind = server.agent_bind;
  setup.agent_port = server.agent_port;
  setup.handle_signals = server.handle_signals;
  RecorderOptions& recorders = setup.recorders;
  recorders.trace = {server.trace_file, server.trace_events};
  recorders.requests = {server.record_file, server.record_limit_bytes};
  recorders.profile.file = server.profile_file;
  recorders.profile.version = rubato_version();
  if (server.profile_for > Nanos()) recorders.profile.length = server.profile_for;
  recorders.ask(setup.runtime);
}

Status use_credits(const Options& options, Setup& setup) {
  const auto credits = overload::CreditOptions::read(options.scheduler.credits_settings,
                                                     options.server.rpc_target_delay);
  if (!credits.ok()) return Error{credits.error()};
  setup.admission.credits = credits.value();
  setup.admission.workers = options.scheduler.workers;
  setup.admission.max_sessions = options.server.max_connections;
  setup.admission.sessions_per_address = options.server.sessions_per_address;
  setup.admission.target_delay_long = options.scheduler.refusal_rule.target_delay_long;
  return Done{};
}

Result<Options> checked_options(const rubato_options* given) {
  auto read = read_versioned(given, default_options(), "options");
  if (!read.ok()) return Error{read.error()};
  Options options;
  Status good = read_fields(*read, options);
  if (good.ok()) good = check_ranges(options);
  if (!good.ok()) return Error{good.error()};
  uint32_t& workers = options.scheduler.workers;
  if (workers == 0) workers = std::min(usable_cpus(), limits::kMaxWorkers);
  return options;
}

Result<Setup> setup_of(const Options& options) {
  Setup setup;
  static_cast<SchedulerOptions&>(setup.runtime) = options.scheduler;
  use_server_options(options.server, options.scheduler.workers, setup);
  const Status good = use_credits(options, setup);
  if (!good.ok()) return Error{good.error()};
  return setup;
}

}  // namespace

rubato_options default_options() {
  static Options defaults;
  rubato_options c{};
  c.struct_size = sizeof c;
  defaults.visit_with(reinterpret_cast<char*>(&c),
                      [](const OptionInfo&, const auto& option, char* where) {
                        const auto field = field_of(option);
                        std::memcpy(where, &field, sizeof field);
                      });
  return c;
}

// A client over the limit gets an error, and the wait in the kernel counts as waiting.
void Setup::speak_rpc() {
  if (!runtime.has_limiter()) runtime.overload = Overload::kCredits;
  runtime.refusal_rule.target_delay = admission.credits.target_delay;
  tcp.date_backlog = true;
  rpc::encode(tcp.over_limit_reply, {rpc::Kind::kError, 0,
                                     static_cast<uint32_t>(rpc::Fault::kSessions), 0,
                                     rpc::to_string(rpc::Fault::kSessions)});
}

Result<Setup> read_options(const rubato_options* given) {
  auto options = checked_options(given);
  if (!options.ok()) return Error{options.error()};
  return setup_of(*options);
}

Result<Setup> read_executor_options(const rubato_options* given) {
  auto options = checked_options(given);
  if (!options.ok()) return Error{options.error()};
  if (options->scheduler.overload == Overload::kCredits) {
    return Error{"overload: credits needs RUBATO_FRAMING_RPC"};
  }
  if (Status good = is_without_ports(options->server); !good.ok()) return Error{good.error()};
  return setup_of(*options);
}

}  // namespace rubato::api
