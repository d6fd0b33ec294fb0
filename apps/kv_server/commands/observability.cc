// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

int64_t micros(Nanos time) { return time.count() / Nanos::micros(1).count(); }

// Six fields are those of Redis and mean the same (the third is the service time alone). FULL adds
// five, which explain why the client waited longer; they come only on demand, because some clients
// read six fields whatever the reply announces.
void reply_slow_entry(Context& c, const SlowEntry& entry, bool full) {
  constexpr size_t kFields = 6;
  constexpr size_t kFullFields = 11;
  c.reply.array(full ? kFullFields : kFields);
  c.reply.integer(entry.id);
  c.reply.integer(entry.unix_time_s);
  c.reply.integer(micros(entry.times.service));
  c.reply.array(entry.argv.size());
  for (const std::string& arg : entry.argv) c.reply.bulk(arg);
  c.reply.bulk(entry.client_address);
  c.reply.bulk(entry.client_name);
  if (!full) return;
  c.reply.integer(micros(entry.times.wait));
  c.reply.integer(micros(entry.times.service));
  c.reply.integer(entry.times.preemptions);
  const bool has_blocker = entry.times.blocker_service > Nanos(0) &&
                           entry.times.blocker_type < command_table().size();
  c.reply.bulk(has_blocker ? command_table().full_name(entry.times.blocker_type) : "");
  c.reply.integer(micros(entry.times.blocker_service));
}

void slowlog_get(Context& c) {
  constexpr int64_t kDefaultCount = 10;
  int64_t count = kDefaultCount;
  const bool full = same_word(c.argv.back(), "full");
  const size_t words = c.argv.size() - (full ? 1 : 0);
  if (words > 3) {
    return c.error("ERR wrong number of arguments for 'slowlog|get' command");
  }
  if (words == 3 &&
      !read_integer_between(c, c.argv[2], -1, INT64_MAX, count,
                            "ERR count should be greater than or equal to -1")) {
    return;
  }
  const size_t limit = count < 0 ? ~size_t{0} : static_cast<size_t>(count);
  const std::vector<SlowEntry> entries = c.server.slowlog().newest(limit);
  c.reply.array(entries.size());
  for (const SlowEntry& entry : entries) reply_slow_entry(c, entry, full);
}

void slowlog_len(Context& c) {
  c.reply.integer(static_cast<int64_t>(c.server.slowlog().size()));
}

void slowlog_reset(Context& c) {
  c.server.slowlog().reset();
  c.reply.ok();
}

// Redis' buckets: powers of two of 1.024 us, each with the count of all calls at most as long.
using Cumulative = std::vector<std::pair<int64_t, uint64_t>>;

Cumulative power_of_two_counts(const Histogram& times) {
  constexpr uint64_t kFirstNs = 1024;
  Cumulative out;
  uint64_t total = 0;
  times.for_each_bucket([&](Nanos, Nanos high, uint64_t count) {
    const auto last_ns = static_cast<uint64_t>(high.count()) - 1;
    const uint64_t bound_ns = std::bit_ceil(std::max(last_ns + 1, kFirstNs)) - 1;
    const auto bound_us = static_cast<int64_t>(bound_ns / 1000);
    total += count;
    if (out.empty() || out.back().first != bound_us) out.emplace_back(bound_us, 0);
    out.back().second = total;
  });
  return out;
}

void reply_histogram(Context& c, uint32_t type, const Histogram& times) {
  c.reply.bulk(command_table().full_name(type));
  c.reply.map(2);
  c.reply.bulk("calls");
  c.reply.integer(static_cast<int64_t>(times.count()));
  c.reply.bulk("histogram_usec");
  const Cumulative counts = power_of_two_counts(times);
  c.reply.map(counts.size());
  for (const auto& [bound_us, count] : counts) {
    c.reply.integer(bound_us);
    c.reply.integer(static_cast<int64_t>(count));
  }
}

std::vector<uint32_t> named_types(std::span<const std::string_view> names) {
  const CommandTable& table = command_table();
  std::vector<uint32_t> types;
  if (names.empty()) {
    for (uint32_t type = 1; type < table.size(); ++type) types.push_back(type);
  }
  for (const std::string_view name : names) {
    const size_t bar = name.find('|');
    uint32_t type = table.find(name.substr(0, bar));
    if (bar != std::string_view::npos) type = table.find_subcommand(type, name.substr(bar + 1));
    if (type == kUnknownCommand) continue;
    types.push_back(type);
    for (const uint32_t sub : table.subcommands(type)) types.push_back(sub);
  }
  return types;
}

void latency_histogram(Context& c) {
  LatencySource* latency = c.server.host().latency;
  std::vector<std::pair<uint32_t, Histogram>> found;
  if (latency != nullptr) {
    for (const uint32_t type : named_types(c.argv.subspan(2))) {
      Histogram times = latency->total_time(type);
      if (!times.empty()) found.emplace_back(type, std::move(times));
    }
  }
  c.reply.map(found.size());
  for (const auto& [type, times] : found) reply_histogram(c, type, times);
}

void latency_latest(Context& c) {
  const auto events = c.server.latency_monitor().snapshot();
  c.reply.array(events.size());
  for (const auto& [name, event] : events) {
    c.reply.array(4);
    c.reply.bulk(name);
    c.reply.integer(event.samples.back().unix_time_s);
    c.reply.integer(event.samples.back().latency_ms);
    c.reply.integer(event.max_ms);
  }
}

void latency_history(Context& c) {
  const auto events = c.server.latency_monitor().snapshot();
  const auto found = events.find(std::string(c.argv[2]));
  if (found == events.end()) return c.reply.array(0);
  c.reply.array(found->second.samples.size());
  for (const LatencyMonitor::Sample& sample : found->second.samples) {
    c.reply.array(2);
    c.reply.integer(sample.unix_time_s);
    c.reply.integer(sample.latency_ms);
  }
}

void latency_reset(Context& c) {
  size_t count = 0;
  if (c.argv.size() == 2) count = c.server.latency_monitor().reset("");
  for (const std::string_view event : c.argv.subspan(2)) {
    if (!event.empty()) count += c.server.latency_monitor().reset(event);
  }
  c.reply.integer(static_cast<int64_t>(count));
}

void latency_doctor(Context& c) {
  const auto events = c.server.latency_monitor().snapshot();
  if (events.empty()) {
    const bool on = c.server.config().latency_threshold_ms() > 0;
    return c.reply.verbatim("txt", on ? "No latency spike was observed since the start.\n"
                                      : "Latency monitoring is off: set "
                                        "latency-monitor-threshold to the milliseconds that are "
                                        "too many. SLOWLOG GET tells whom a slow request "
                                        "waited for.\n");
  }
  std::string report;
  for (const auto& [name, event] : events) {
    report += name + ": " + std::to_string(event.samples.size()) + " spikes, worst " +
              std::to_string(event.max_ms) + " ms.\n";
  }
  c.reply.verbatim("txt", report + "SLOWLOG GET tells whom each slow request waited for.\n");
}

constexpr uint32_t kManage = kAdmin | kNoScript | kLoading;
constexpr Group kGroup = Group::kServer;

constexpr Command kCommands[] = {
    {"slowlog", -2, kManage, {}, nullptr, kGroup, "2.2.12", "Requests whose client waited long",
     {}},
    {"get", -2, kManage, {}, slowlog_get, kGroup, "2.2.12",
     "The newest entries: id, time, service us, arguments, address, name; with FULL then wait us, "
     "service us, preemptions, culprit, its us",
     "slowlog"},
    {"len", 2, kManage, {}, slowlog_len, kGroup, "2.2.12", "How many entries there are",
     "slowlog"},
    {"reset", 2, kManage, {}, slowlog_reset, kGroup, "2.2.12", "Forgets all entries", "slowlog"},
    {"help", 2, kManage, {}, reply_help, kGroup, "6.2.0", "This help", "slowlog"},
    {"latency", -2, kManage, {}, nullptr, kGroup, "2.8.13", "How long requests take", {}},
    {"histogram", -2, kManage, {}, latency_histogram, kGroup, "7.0.0",
     "Wait and service together, per command", "latency"},
    {"latest", 2, kManage, {}, latency_latest, kGroup, "2.8.13", "The newest spike of each event",
     "latency"},
    {"history", 3, kManage, {}, latency_history, kGroup, "2.8.13", "The spikes of an event",
     "latency"},
    {"reset", -2, kManage, {}, latency_reset, kGroup, "2.8.13", "Forgets spikes", "latency"},
    {"doctor", 2, kManage, {}, latency_doctor, kGroup, "2.8.13", "The spikes in words",
     "latency"},
    {"help", 2, kManage, {}, reply_help, kGroup, "2.8.13", "This help", "latency"},
};

}  // namespace

std::span<const Command> observability_commands() { return kCommands; }

}  // namespace rubato::kv
