// SPDX-License-Identifier: Apache-2.0
#include "runtime/exposition.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "runtime/overload_exposition.h"

namespace rubato {
namespace {

std::string micros(Nanos time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", time.micros());
  return text;
}

struct NamedCounter {
  const char* name;
  const char* help;
  uint64_t RuntimeStats::*value;
};

constexpr NamedCounter kCounters[] = {
    {"requests", "Requests finished.", &RuntimeStats::requests},
    {"refused", "Requests refused, for whatever reason.", &RuntimeStats::refused},
    {"cancelled", "Requests that had started and were told to end, as nobody wanted the reply.",
     &RuntimeStats::cancelled},
    {"preemptions", "Requests put back before they were done.", &RuntimeStats::preemptions},
    {"preemptions_avoided", "Slices that ended with nobody waiting.",
     &RuntimeStats::preemptions_avoided},
    {"moved", "Requests that a manager sent to another group.", &RuntimeStats::moved},
    {"preemptions_denied", "Preemptions not done for want of a fiber.",
     &RuntimeStats::preemptions_denied},
    {"preemptions_deferred", "Preemptions put off: the request could not be left where it was.",
     &RuntimeStats::preemptions_deferred},
    {"lock_yields", "Times a request gave its worker away because a lock was taken.",
     &RuntimeStats::lock_yields},
    {"stuck_left",
     "Of these, times a request was found stuck, as for a lock of a suspended one, and left.",
     &RuntimeStats::stuck_left},
    {"waits", "Times a request gave its worker away to wait for something.",
     &RuntimeStats::waits},
    {"came_back", "Waits of requests that were over.", &RuntimeStats::came_back},
    {"resumed", "Preempted and waiting requests taken up again.", &RuntimeStats::resumed},
    {"long_by_feedback", "Requests that the application called long.",
     &RuntimeStats::long_by_feedback},
    {"long_by_age", "Requests that became long by attained service.", &RuntimeStats::long_by_age},
    {"long_learned", "Requests expected to be long.", &RuntimeStats::long_learned},
    {"steals", "Steals that found something.", &RuntimeStats::steals},
    {"stolen", "Requests stolen.", &RuntimeStats::stolen},
    {"helped", "Requests taken in for a stuck worker.", &RuntimeStats::helped},
    {"parked", "Times a worker went to sleep.", &RuntimeStats::parked},
    {"woken", "Times a worker's sleep was ended for work that somebody had queued.",
     &RuntimeStats::woken},
    {"changes", "Changes of the policy or its options while the runtime served.",
     &RuntimeStats::changes},
    {"changes_given_up", "Changes that were given up, as requests took too long.",
     &RuntimeStats::changes_given_up},
    {"core_parks", "Times a worker gave its core up.", &RuntimeStats::core_parks},
    {"core_grants", "Times the allocator gave a parked worker a core.",
     &RuntimeStats::core_grants},
    {"core_self_unparks", "Times a parked worker took its core back for work of its own.",
     &RuntimeStats::core_self_unparks},
};

struct NamedFlowCounter {
  const char* name;
  const char* help;
  uint64_t DatapathStats::*value;
};

constexpr NamedFlowCounter kFlowCounters[] = {
    {"flows_accepted", "Connections accepted.", &DatapathStats::flows_accepted},
    {"flows_refused", "Connections over the limit, or turned away.",
     &DatapathStats::flows_refused},
    {"flows_timed_out", "Connections closed for idleness.", &DatapathStats::flows_timed_out},
    {"flows_overflowed", "Connections closed because their replies were not read.",
     &DatapathStats::flows_overflowed},
    {"flows_input_limit", "Connections closed for a request over the limit.",
     &DatapathStats::flows_input_limit},
    {"flows_steered", "Moves of connections to another worker.", &DatapathStats::flows_steered},
    {"flows_unsteered", "Moves of connections back to the worker they came in by.",
     &DatapathStats::flows_unsteered},
    {"input_bytes", "Bytes received.", &DatapathStats::input_bytes},
    {"output_bytes", "Bytes sent.", &DatapathStats::output_bytes},
    {"zerocopy_sends", "Sends by MSG_ZEROCOPY.", &DatapathStats::zerocopy_sends},
    {"zerocopy_copied", "Of these, sends that the kernel has copied after all.",
     &DatapathStats::zerocopy_copied},
    {"zerocopy_refused", "Sends that the kernel refused to make by MSG_ZEROCOPY.",
     &DatapathStats::zerocopy_refused},
};

void write_counters(OpenMetrics& out, const RuntimeStats& stats, const DatapathStats& flows) {
  for (const NamedCounter& counter : kCounters) {
    out.family(std::string("rubato_") + counter.name, "counter", counter.help);
    out.counter(stats.*counter.value);
  }
  for (const NamedFlowCounter& counter : kFlowCounters) {
    out.family(std::string("rubato_") + counter.name, "counter", counter.help);
    out.counter(flows.*counter.value);
  }
  out.family("rubato_busy_seconds", "counter", "Time that workers spent on requests, summed.");
  out.counter_seconds(static_cast<double>(stats.busy_ns) / 1e9);
  out.family("rubato_core_seconds", "counter", "Time that workers were awake, summed.");
  out.counter_seconds(static_cast<double>(stats.awake_ns) / 1e9);
  out.family("rubato_cores_granted", "gauge", "Workers that have a core.");
  out.gauge(static_cast<double>(stats.cores_granted));
  out.family("rubato_flows_open", "gauge", "Connections open.");
  out.gauge(static_cast<double>(flows.flows_open));
  out.family("rubato_flows_away", "gauge", "Connections at another worker than they came in by.");
  out.gauge(static_cast<double>(flows.flows_migrated));
  out.family("rubato_fibers", "gauge", "Fibers that exist.");
  out.gauge(static_cast<double>(stats.fibers));
}

constexpr size_t kMostNamed = 20;

// The types that have come, each with its name, and the sum of the others.
class TypeFamilies {
 public:
  TypeFamilies(OpenMetrics& out, const Runtime& runtime, const ExposedTypes& types,
               NamedTypes& named)
      : out_(out), runtime_(runtime), types_(types), named_(named) {}

  void write() {
    for (uint32_t type = 0; type < types_.count; ++type) {
      if (runtime_.service(type).empty()) continue;
      if (!is_named(type) && (named_.size() < kMostNamed || !out_.brief())) named_.push_back(type);
    }
    out_.family("rubato_latency_seconds", "histogram", "From arrival to reply, waiting included.");
    write_each([this](uint32_t type) { return runtime_.latency(type); },
               [this](const auto& values, const auto& of) { out_.histogram(values, of); });
    out_.family("rubato_service_seconds", out_.brief() ? "summary" : "histogram",
                "Time on workers.");
    write_each([this](uint32_t type) { return runtime_.service(type); },
               [this](const auto& values, const auto& of) {
                 out_.brief() ? out_.summary(values, of) : out_.histogram(values, of);
               });
  }

 private:
  bool is_named(uint32_t type) const {
    return std::find(named_.begin(), named_.end(), type) != named_.end();
  }

  template <class HistogramOf, class Write>
  void write_each(HistogramOf&& histogram_of, Write&& write) {
    Histogram others;
    for (uint32_t type = 0; type < types_.count; ++type) {
      const Histogram values = histogram_of(type);
      if (values.empty()) continue;
      if (is_named(type)) {
        write(values, OpenMetrics::label("type", types_.name(type)));
      } else {
        others.merge(values);
      }
    }
    if (!others.empty()) write(others, OpenMetrics::label("type", "other"));
  }

  OpenMetrics& out_;
  const Runtime& runtime_;
  const ExposedTypes& types_;
  NamedTypes& named_;
};

// Writes the counts that tell whether a policy kept a type away from a worker.
void write_places(OpenMetrics& out, const Runtime& runtime, const ExposedTypes& types) {
  out.family("rubato_finished", "counter", "Requests by the worker that finished them.");
  for (uint32_t worker = 0; worker < runtime.options().workers; ++worker) {
    const std::string at = OpenMetrics::label("worker", std::to_string(worker)) + ",";
    for (uint32_t type = 0; type < types.count; ++type) {
      const uint64_t finished = runtime.finished(WorkerId{worker}, type);
      if (finished == 0) continue;
      out.counter(finished, at + OpenMetrics::label("type", types.name(type)));
    }
  }
}

void write_sums_of_depths(OpenMetrics& out, const Runtime& runtime) {
  std::map<std::string, uint64_t> sums;
  for (const QueueDepth& queue : runtime.queue_depths()) sums[queue.name] += queue.depth;
  for (const auto& [name, depth] : sums) {
    out.gauge(static_cast<double>(depth), OpenMetrics::label("queue", name));
  }
}

void write_depths(OpenMetrics& out, const Runtime& runtime) {
  out.family("rubato_queue_depth", "gauge", "Requests waiting, per queue.");
  if (out.brief()) return write_sums_of_depths(out, runtime);
  for (const QueueDepth& queue : runtime.queue_depths()) {
    out.gauge(queue.depth, OpenMetrics::label("queue", queue.name) + "," +
                               OpenMetrics::label("lane", std::to_string(queue.index)));
  }
}

}  // namespace

void expose(OpenMetrics& out, const Runtime& runtime, const Datapath& datapath,
            const ExposedTypes& types, NamedTypes& named) {
  write_counters(out, runtime.stats(), datapath.stats());
  write_depths(out, runtime);
  expose_overload(out, runtime);
  NamedTypes all;
  TypeFamilies(out, runtime, types, out.brief() ? named : all).write();
  if (!out.brief()) write_places(out, runtime, types);
}

std::vector<std::pair<std::string, uint64_t>> counter_values(const RuntimeStats& stats,
                                                             const DatapathStats& flows) {
  std::vector<std::pair<std::string, uint64_t>> values;
  for (const NamedCounter& one : kCounters) values.emplace_back(one.name, stats.*one.value);
  for (const NamedFlowCounter& one : kFlowCounters) values.emplace_back(one.name, flows.*one.value);
  return values;
}

std::vector<std::pair<std::string, std::string>> scheduler_lines(const Runtime& runtime,
                                                                 const ExposedTypes& types) {
  const RuntimeStats stats = runtime.stats();
  const RuntimeOptions& options = runtime.options();
  std::vector<std::pair<std::string, std::string>> lines{
      {"policy", options.policy},
      {"workers", std::to_string(options.workers)},
      {"classify", name_of(options.classify)},
      {"preempt", name_of(options.preempt)},
      {"preemption_clock", name_of(options.preemption_clock)},
      {"cores", options.cores},
      {"cores_granted", std::to_string(stats.cores_granted)},
  };
  for (const NamedCounter& counter : kCounters) {
    lines.emplace_back(counter.name, std::to_string(stats.*counter.value));
  }
  for (size_t i = 0; i < stats.quanta.size(); ++i) {
    lines.emplace_back("quantum_us_worker" + std::to_string(i), micros(stats.quanta[i]));
  }
  const Histogram overrun = runtime.overrun();
  lines.emplace_back("slice_overrun_us_p50", micros(overrun.percentile(50)));
  lines.emplace_back("slice_overrun_us_p99", micros(overrun.percentile(99)));
  lines.emplace_back("slice_overrun_us_max", micros(overrun.max()));
  for (const QueueDepth& queue : runtime.queue_depths()) {
    if (queue.depth == 0 && queue.index > 0) continue;
    lines.emplace_back("queue_" + queue.name + "_" + std::to_string(queue.index),
                       std::to_string(queue.depth));
  }
  lines.emplace_back("busy_us", micros(Nanos(static_cast<int64_t>(stats.busy_ns))));
  lines.emplace_back("core_us", micros(Nanos(static_cast<int64_t>(stats.awake_ns))));
  lines.emplace_back("fibers", std::to_string(stats.fibers));
  lines.emplace_back("stack_bytes", std::to_string(options.stack_bytes));
  lines.emplace_back("stack_high_water_bytes", std::to_string(runtime.stack_high_water_bytes()));
  uint32_t number = 0;
  for (std::string& line : runtime.explain_policy(types.name, types.count)) {
    lines.emplace_back("plan_" + std::to_string(++number), std::move(line));
  }
  return lines;
}

std::string plan_text(const Runtime& runtime, const ExposedTypes& types) {
  std::string text;
  for (const std::string& line : runtime.explain_policy(types.name, types.count)) {
    text += line + "\n";
  }
  return text.empty() ? "the policy " + runtime.options().policy + " has no plan\n" : text;
}

}  // namespace rubato
