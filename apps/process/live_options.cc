// SPDX-License-Identifier: Apache-2.0
#include "process/live_options.h"

#include <algorithm>
#include <type_traits>

#include "base/name_list.h"
#include "base/option_text.h"
#include "policy/aliases.h"
#include "sched/options.h"

namespace rubato {
namespace {

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// Reads the option of that name ("target-delay"). One with settings of its own gets all anew.
Status read(std::string_view name, std::string_view value, SchedulerOptions& options) {
  Status read = Error{"no such option"};
  SchedulerOptions::visit(options, [&]<class T>(const OptionInfo& info, T& field) {
    if (with_dashes(info.name) != name) return;
    if constexpr (std::is_same_v<T, OptionSettings>) {
      field.clear();
      read = Done{};
      for (const std::string& setting : split(std::string(value), ' ')) {
        if (read.ok() && !setting.empty()) read = read_option(info, setting, field);
      }
    } else {
      read = read_option(info, value, field);
    }
  });
  return read;
}

// The settings of a policy, or of an allocator of cores, do not outlive it.
Status read_all(const LiveOptions::Lines& wanted, SchedulerOptions& options) {
  for (const auto& [name, value] : wanted) {
    if (name == "policy" && policy_called(value) != options.policy) options.policy_settings.clear();
    if (name == "cores" && value != options.cores) options.cores_settings.clear();
  }
  for (const auto& [name, value] : wanted) {
    const Status is_right = read(name, value, options);
    if (!is_right.ok()) return Error{name + ": " + is_right.error()};
  }
  return Done{};
}

}  // namespace

LiveOptions::Lines LiveOptions::all() const {
  Lines lines;
  for (const OptionDescription& option :
       describe<SchedulerOptions>(runtime_.scheduler_options())) {
    if ((option.hosts & kServe) == 0) continue;
    lines.emplace_back(with_dashes(option.name), option.default_value);
  }
  for (const LiveRecorder& recorder : recorders_) {
    lines.emplace_back(recorder.key, recorder.recording->recording() ? "yes" : "no");
  }
  return lines;
}

Recording* LiveOptions::recorder_of(std::string_view key) const {
  for (const LiveRecorder& recorder : recorders_) {
    if (recorder.key == key) return recorder.recording;
  }
  return nullptr;
}

Status LiveOptions::set(const Lines& wanted) const {
  for (const auto& [name, value] : wanted) {
    Recording* const recording = recorder_of(name);
    if (recording == nullptr) continue;
    if (value != "yes" && value != "no") return Error{name + ": takes yes or no"};
    if (wanted.size() > 1) return Error{name + ": is set alone"};
    const Status recorded = recording->record(value == "yes");
    return recorded.ok() ? recorded : Error{name + ": " + recorded.error()};
  }
  return runtime_.change(
      [&wanted](SchedulerOptions& options) { return read_all(wanted, options); });
}

}  // namespace rubato
