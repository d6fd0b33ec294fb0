// SPDX-License-Identifier: Apache-2.0
#include "cli/top/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string_view>

namespace rubato::cli {
namespace {

constexpr int kLeastColumns = 40, kLeastRows = 8;
constexpr size_t kTypeName = 14;
constexpr int kWorkerColumns = 26;
constexpr std::array<std::string_view, 8> kKeys{"q quit",   "s sort", "r reverse",  "/ filter",
                                                "f freeze", ": set",  "tab server", "jk scroll"};

double value(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

double bytes(const LiveState& state, const char* name) {
  const auto found = state.memory.find(name);
  return found == state.memory.end() ? 0 : static_cast<double>(found->second);
}

// Three digits.
std::string digits(double number) {
  if (number >= 99.95) return fmt::format("{:.0f}", number);
  return fmt::format("{:.{}f}", number, number >= 9.995 ? 1 : 2);
}

std::string clipped(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

// The rows of each section: the first may have half, then one after another gets one more until all
// have what they want.
template <size_t N>
std::array<int, N> shared(int rows, const std::array<int, N>& wanted) {
  std::array<int, N> given{std::min(rows / 2, wanted[0])};
  rows -= given[0];
  for (bool some = true; some && rows > 0;) {
    some = false;
    for (size_t i = 0; i < N && rows > 0; ++i) {
      if (given[i] == wanted[i]) continue;
      ++given[i];
      --rows;
      some = true;
    }
  }
  return given;
}

std::string more(size_t all, size_t shown) {
  return all > shown ? fmt::format("  (+{} more)", all - shown) : "";
}

// Writes from a row on, down to a last one.
class Sections {
 public:
  Sections(Screen& screen, const TopView& view, const TopSettings& settings)
      : screen_(screen), view_(view), settings_(settings) {}

  int summary(int row) const {
    const LiveState& now = *view_.now;
    const auto rate = [this](const char* name) { return short_number(value(view_.rates, name)); };
    const auto workers = static_cast<double>(now.workers.size());
    screen_.put(row++, 0,
                fmt::format("{}/s  busy {:.0f} %, awake {:.1f} of {} workers  preempted {}/s  "
                            "stolen {}/s",
                            rate("requests"), workers > 0 ? 100 * view_.busy / workers : 0,
                            view_.awake, now.workers.size(), rate("preemptions"), rate("stolen")));
    screen_.put(row++, 0,
                fmt::format("connections {:.0f}  in flight {:.0f}  refused {}/s  "
                            "delay short {} long {}",
                            value(now.figures, "flows_open"), value(now.figures, "in_flight"),
                            rate("refused"),
                            short_time(value(now.queue_delays_us, "short")),
                            short_time(value(now.queue_delays_us, "long"))));
    screen_.put(row++, 0, memory() + fibers_and_queues());
    if (now.credits) {
      screen_.put(row++, 0,
                  fmt::format("credits issued {}, in all {}  sessions {}, without credit {}",
                              now.credits->issued, now.credits->total, now.credits->sessions,
                              now.credits->drained));
    }
    if (view_.refused.empty()) return row;
    std::string text = "refused";
    for (const auto& [why, per_s] : view_.refused) {
      text += fmt::format("  {} {}/s", why, short_number(per_s));
    }
    screen_.put(row++, 0, text, Ink::kBad);
    return row;
  }

  void types(int row, int end) const {
    const std::vector<TypeRow> all = chosen_types(view_, settings_);
    const size_t first = std::min(settings_.skipped, all.empty() ? 0 : all.size() - 1);
    const auto shown = static_cast<size_t>(std::max(end - row - 3, 0));
    const auto heading = [](double seconds) { return fmt::format("last {:.1f} s", seconds); };
    const std::string left = first > 0 ? fmt::format("  ({} above)", first) : "";
    screen_.put(row, 0, fmt::format("types {}{}{}", all.size(), left,
                                    more(all.size() - first, shown)), Ink::kBold);
    screen_.put(row, 38, heading(view_.second_s), Ink::kBold);
    screen_.put(row++, 59, heading(view_.minute_s), Ink::kBold);
    if (row >= end) return;
    screen_.put(row++, 0,
                fmt::format("{:<{}}{:>7}{:>7}{:>8}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}", "TYPE",
                            kTypeName, "RATE/s", "WAIT", "SERVICE", "P50", "P99", "P99.9", "P50",
                            "P99", "P99.9"),
                Ink::kReverse);
    if (row < end) type(row++, view_.all, Ink::kDim);
    for (size_t i = first; i < all.size() && row < end; ++i) type(row++, all[i], Ink::kPlain);
  }

  void workers(int row, int end) const {
    const int across = std::max(screen_.columns() / kWorkerColumns, 1);
    const auto shown = static_cast<size_t>(std::max(end - row - 1, 0) * across);
    const auto& all = view_.workers;
    const int64_t suspended =
        std::accumulate(all.begin(), all.end(), int64_t{0}, [](int64_t sum, const auto& one) {
          return sum + one.state.suspended;
        });
    screen_.put(row++, 0, fmt::format("workers {}  preempted requests that wait {}{}", all.size(),
                                      std::max<int64_t>(suspended, 0), more(all.size(), shown)),
                Ink::kBold);
    for (size_t i = 0; i < std::min(all.size(), shown); ++i) {
      worker(row + static_cast<int>(i) / across, static_cast<int>(i) % across * kWorkerColumns, i);
    }
  }
  int worker_rows() const {
    const int across = std::max(screen_.columns() / kWorkerColumns, 1);
    return 1 + (static_cast<int>(view_.workers.size()) + across - 1) / across;
  }

  void blocked(int row, int end) const {
    if (row >= end) return;
    const auto shown = static_cast<size_t>(end - row - 1);
    screen_.put(row++, 0, fmt::format("held up by one slice, last {:.1f} s{}", view_.minute_s,
                                      more(view_.blocked.size(), shown)), Ink::kBold);
    for (size_t i = 0; i < std::min(view_.blocked.size(), shown); ++i) {
      const BlockedRow& pair = view_.blocked[i];
      screen_.put(row++, 0,
                  fmt::format("  {:<{}} behind {:<{}}{:>7}/s, {} each",
                              clipped(pair.victim, kTypeName), kTypeName,
                              clipped(pair.blocker, kTypeName), kTypeName,
                              short_number(pair.rate_per_s), short_time(pair.held_us)));
    }
  }

  void plan(int row, int end) const {
    if (row >= end) return;
    const auto& lines = view_.now->plan;
    const auto shown = static_cast<size_t>(end - row - 1);
    screen_.put(row++, 0, "plan" + more(lines.size(), shown), Ink::kBold);
    for (size_t i = 0; i < std::min(lines.size(), shown); ++i) screen_.put(row++, 2, lines[i]);
  }

 private:
  std::string memory() const {
    const LiveState& now = *view_.now;
    std::string text = "memory " + short_bytes(bytes(now, "resident_bytes"));
    if (bytes(now, "limit_bytes") > 0) {
      const double used = bytes(now, "data_bytes") + bytes(now, "buffers_bytes") +
                          bytes(now, "stacks_bytes");
      text += fmt::format(" ({} of {})", short_bytes(used), short_bytes(bytes(now, "limit_bytes")));
    }
    return text;
  }

  std::string fibers_and_queues() const {
    std::string text;
    for (const QueueState& queue : view_.now->queues) {
      text += fmt::format("  {} {}", queue.name, queue.depth);
      if (queue.depth > 0 && queue.queues > 1) text += fmt::format(" (deepest {})", queue.deepest);
    }
    return fmt::format("  fibers {:.0f}", value(view_.now->figures, "fibers")) +
           (text.empty() ? text : "  queues" + text);
  }

  void type(int row, const TypeRow& type, Ink ink) const {
    std::string text = fmt::format("{:<{}}{:>7}", clipped(type.name, kTypeName), kTypeName,
                                   short_number(type.rate_per_s));
    const bool some = type.second.count > 0;
    text += fmt::format("{:>7}{:>8}", some ? short_time(type.wait_us) : "-",
                        some ? short_time(type.service_us) : "-");
    for (const Quantiles* one : {&type.second, &type.minute}) {
      for (const double us : {one->p50_us, one->p99_us, one->p999_us}) {
        text += fmt::format("{:>7}", one->count > 0 ? short_time(us) : "-");
      }
    }
    screen_.put(row, 0, text, ink);
  }

  void worker(int row, int column, size_t index) const {
    const WorkerRow& one = view_.workers[index];
    const bool runs = one.state.state == "runs";
    const Ink ink = runs ? Ink::kGood : one.state.state == "sleeps" ? Ink::kDim : Ink::kPlain;
    const std::string does =
        runs ? clipped(one.state.type, 8) + " " + short_time(one.state.for_us) : one.state.state;
    screen_.put(row, column, fmt::format("{:>3} {:>3.0f} % {}", index, 100 * one.busy, does), ink);
  }

  Screen& screen_;
  const TopView& view_;
  const TopSettings& settings_;
};

std::string text_of_trouble(const ServerLine& server) {
  return server.trouble.empty() ? "waits for its first answer" : "away: " + server.trouble;
}

void draw_title(Screen& screen, int row, const ServerLine& server, const TopSettings& settings) {
  std::string text = server.address;
  if (server.view) {
    const LiveState& now = *server.view->now;
    text += fmt::format("  {}  pid {}  {}{}", now.policy, now.pid, now.version,
                        now.serving ? "" : "  not serving");
  }
  const int end = screen.put(row, 0, text, Ink::kBold);
  if (settings.frozen) screen.put_right(row, screen.columns(), " FROZEN", Ink::kReverse);
  if (!server.trouble.empty() && server.view) screen.put(row, end, "  AWAY", Ink::kBad);
}

// A line for each server, and the row after them.
int draw_servers(Screen& screen, const std::vector<ServerLine>& servers, size_t selected) {
  const int most = std::max(screen.rows() / 4, 2);
  const auto shown = std::min(servers.size(), static_cast<size_t>(most - 1));
  const size_t first = selected < shown ? 0 : selected - shown + 1;
  screen.put(0, 0, fmt::format("{:<22}{:>8}{:>7}{:>11}{:>8}{:>8}{:>8}", "SERVER", "RATE/s", "BUSY",
                               "REFUSED/s", "P50", "P99", "P99.9") +
                       more(servers.size(), shown), Ink::kReverse);
  for (size_t i = first; i < first + shown; ++i) {
    const ServerLine& server = servers[i];
    const int row = 1 + static_cast<int>(i - first);
    const Ink ink = i == selected ? Ink::kBold : Ink::kPlain;
    const std::string name = (i == selected ? ">" : " ") + clipped(server.address, 20);
    screen.put(row, 0, name, ink);
    if (!server.trouble.empty() || !server.view) {
      screen.put(row, 23, text_of_trouble(server), Ink::kBad);
      continue;
    }
    const TopView& view = *server.view;
    const auto workers = static_cast<double>(std::max<size_t>(view.now->workers.size(), 1));
    screen.put(row, 22,
               fmt::format("{:>8}{:>5.0f} %{:>11}{:>8}{:>8}{:>8}",
                           short_number(value(view.rates, "requests")), 100 * view.busy / workers,
                           short_number(value(view.rates, "refused")),
                           short_time(view.all.second.p50_us), short_time(view.all.second.p99_us),
                           short_time(view.all.second.p999_us)), ink);
  }
  return 1 + static_cast<int>(shown);
}

void draw_sections(Screen& screen, int row, int end, const TopView& view,
                   const TopSettings& settings) {
  const Sections sections(screen, view, settings);
  row = sections.summary(row);
  const auto wanted = [](size_t lines) { return lines == 0 ? 0 : static_cast<int>(lines) + 1; };
  const std::array<int, 4> rows =
      shared<4>(end - row, {static_cast<int>(chosen_types(view, settings).size()) + 3,
                            sections.worker_rows(), wanted(view.blocked.size()),
                            wanted(view.now->plan.size())});
  if (rows[0] > 0) sections.types(row, row + rows[0]);
  row += rows[0];
  if (rows[1] > 0) sections.workers(row, row + rows[1]);
  row += rows[1];
  sections.blocked(row, row + rows[2]);
  row += rows[2];
  sections.plan(row, row + rows[3]);
}

// With as many of the keys as have room.
std::string last_line(const TopSettings& settings, int columns) {
  if (settings.typing) return "filter: " + settings.filter + "_  (enter ends, escape clears)";
  if (settings.setting) {
    return "set: " + settings.option + "_  (NAME=VALUE; enter sets it, escape leaves)";
  }
  if (!settings.note.empty()) return settings.note;
  std::string text = fmt::format("by {}{}", name_of(settings.sort),
                                 settings.reversed ? ", reversed" : "");
  if (!settings.filter.empty()) text = fmt::format("only '{}', ", settings.filter) + text;
  text += " |";
  for (const std::string_view key : kKeys) {
    if (std::ssize(text) + 1 + std::ssize(key) > columns) break;
    text.append(" ").append(key);
  }
  return text;
}

}  // namespace

const char* name_of(SortBy sort) {
  switch (sort) {
    case SortBy::kRate: return "rate";
    case SortBy::kName: return "name";
    case SortBy::kWait: return "wait";
    case SortBy::kService: return "service";
    case SortBy::kP99: return "p99";
    case SortBy::kMinuteP999: return "p99.9";
  }
  return "";
}

std::string short_number(double number) {
  if (number >= 999'500) return digits(number / 1e6) + "M";
  if (number >= 9'999.5) return digits(number / 1e3) + "k";
  if (number >= 99.95) return fmt::format("{:.0f}", number);
  return number == 0 ? "0" : fmt::format("{:.1f}", number);
}

std::string short_time(double us) {
  if (us == 0) return "0";
  if (us < 0.9995) return fmt::format("{:.0f}ns", us * 1e3);
  if (us < 999.5) return digits(us) + "us";
  if (us < 999'500) return digits(us / 1e3) + "ms";
  return digits(us / 1e6) + "s";
}

std::string short_bytes(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f}B", bytes);
  if (bytes < 1024.0 * 1024) return digits(bytes / 1024) + "K";
  if (bytes < 1024.0 * 1024 * 1024) return digits(bytes / (1024.0 * 1024)) + "M";
  return digits(bytes / (1024.0 * 1024 * 1024)) + "G";
}

std::vector<TypeRow> chosen_types(const TopView& view, const TopSettings& settings) {
  std::vector<TypeRow> rows;
  std::copy_if(view.types.begin(), view.types.end(), std::back_inserter(rows),
               [&](const TypeRow& row) {
                 return row.name.find(settings.filter) != std::string::npos;
               });
  const auto figure = [&settings](const TypeRow& row) {
    switch (settings.sort) {
      case SortBy::kRate: return row.rate_per_s;
      case SortBy::kWait: return row.wait_us;
      case SortBy::kService: return row.service_us;
      case SortBy::kP99: return row.second.p99_us;
      case SortBy::kMinuteP999: return row.minute.p999_us;
      case SortBy::kName: break;
    }
    return 0.0;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const TypeRow& a, const TypeRow& b) {
    if (settings.sort == SortBy::kName) return a.name < b.name;
    return figure(a) > figure(b);
  });
  if (settings.reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

void draw(Screen& screen, const std::vector<ServerLine>& servers, const TopSettings& settings) {
  if (screen.columns() < kLeastColumns || screen.rows() < kLeastRows) {
    screen.put(0, 0, fmt::format("too small: {}x{} at least", kLeastColumns, kLeastRows));
    return;
  }
  const ServerLine& server = servers[settings.selected];
  int row = servers.size() > 1 ? draw_servers(screen, servers, settings.selected) : 0;
  draw_title(screen, row++, server, settings);
  if (!server.trouble.empty() || !server.view) {
    screen.put(row++, 0, text_of_trouble(server), Ink::kBad);
  }
  const int end = screen.rows() - 1;
  if (server.view) draw_sections(screen, row, end, *server.view, settings);
  screen.put(end, 0, last_line(settings, screen.columns()), Ink::kDim);
}

}  // namespace rubato::cli
