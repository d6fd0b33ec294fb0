// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "mechanism/cpu/pin.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;

// The first line of a file, empty if it cannot be read.
std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Number>
Number read_number(const fs::path& path, Number otherwise) {
  return parse_number<Number>(read_line(path)).value_or(otherwise);
}

std::vector<uint32_t> read_list(const fs::path& path) {
  return parse_cpu_list(read_line(path)).value_or(std::vector<uint32_t>{});
}

bool contains(std::span<const uint32_t> sorted, uint32_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

// Names of the entries of `folder`, sorted; empty if it cannot be read.
std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The number after a prefix: 3 in "node3".
std::optional<uint32_t> suffix_number(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return parse_number<uint32_t>(name.substr(prefix.size()));
}

uint32_t numa_node_of(const fs::path& cpu_folder) {
  for (const std::string& name : entries(cpu_folder)) {
    if (const auto node = suffix_number(name, "node")) return *node;
  }
  return 0;
}

Cpu read_cpu(const fs::path& root, uint32_t id, std::span<const uint32_t> isolated,
             std::span<const uint32_t> tickless) {
  const fs::path folder = root / ("cpu" + std::to_string(id));
  Cpu cpu;
  cpu.id = id;
  cpu.core = read_number<uint32_t>(folder / "topology/core_id", id);
  cpu.package = read_number<uint32_t>(folder / "topology/physical_package_id", 0);
  cpu.numa_node = numa_node_of(folder);
  cpu.siblings = read_list(folder / "topology/thread_siblings_list");
  if (cpu.siblings.empty()) cpu.siblings = {id};
  cpu.isolated = contains(isolated, id);
  cpu.tickless = contains(tickless, id);
  cpu.governor = read_line(folder / "cpufreq/scaling_governor");
  return cpu;
}

std::vector<Hugepages> read_hugepages(const fs::path& folder) {
  std::vector<Hugepages> sizes;
  for (const std::string& name : entries(folder)) {
    if (!name.ends_with("kB")) continue;
    const auto kilobytes = suffix_number(name.substr(0, name.size() - 2), "hugepages-");
    if (!kilobytes) continue;
    sizes.push_back({uint64_t{*kilobytes} * 1024,
                     read_number<uint64_t>(folder / name / "nr_hugepages", 0),
                     read_number<uint64_t>(folder / name / "free_hugepages", 0)});
  }
  std::sort(sizes.begin(), sizes.end(),
            [](const Hugepages& a, const Hugepages& b) { return a.page_bytes < b.page_bytes; });
  return sizes;
}

// "always [madvise] never" -> "madvise".
std::string bracketed(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  return std::string(text.substr(open + 1, close - open - 1));
}

// "7" or "3-9" appended to `out`. False if it is neither or too large.
bool append_range(std::string_view text, std::vector<uint32_t>& out) {
  const size_t dash = text.find('-');
  const auto first = parse_number<uint32_t>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first
                                                   : parse_number<uint32_t>(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last > kCpuListMax) return false;
  for (uint32_t value = *first; value <= *last; ++value) out.push_back(value);
  return true;
}

}  // namespace

std::optional<std::vector<uint32_t>> parse_cpu_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::vector<uint32_t> cpus;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (!append_range(text.substr(0, comma), cpus)) return std::nullopt;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

Topology read_topology(const fs::path& sysfs, std::span<const uint32_t> allowed) {
  const fs::path root = sysfs / "devices/system/cpu";
  const std::vector<uint32_t> isolated = read_list(root / "isolated");
  const std::vector<uint32_t> tickless = read_list(root / "nohz_full");
  std::vector<uint32_t> online = read_list(root / "online");
  if (online.empty()) online.assign(allowed.begin(), allowed.end());
  Topology topology;
  for (uint32_t id : online) {
    if (std::find(allowed.begin(), allowed.end(), id) == allowed.end()) continue;
    topology.cpus.push_back(read_cpu(root, id, isolated, tickless));
  }
  topology.hugepages = read_hugepages(sysfs / "kernel/mm/hugepages");
  topology.transparent_hugepages =
      bracketed(read_line(sysfs / "kernel/mm/transparent_hugepage/enabled"));
  topology.clocksource =
      read_line(sysfs / "devices/system/clocksource/clocksource0/current_clocksource");
  return topology;
}

Topology read_topology() { return read_topology("/sys", allowed_cpus()); }

std::vector<uint32_t> Topology::one_per_core() const {
  std::vector<uint32_t> chosen;
  for (const Cpu& cpu : cpus) {
    const bool core_taken = std::any_of(
        cpu.siblings.begin(), cpu.siblings.end(), [&chosen](uint32_t sibling) {
          return std::find(chosen.begin(), chosen.end(), sibling) != chosen.end();
        });
    if (!core_taken) chosen.push_back(cpu.id);
  }
  return chosen;
}

}  // namespace rubato
