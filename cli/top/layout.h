// SPDX-License-Identifier: Apache-2.0
//
// The screen of `rubato top`: servers, and of the selected one its figures, types, workers, queues,
// who held up whom, and its plan. Pure functions of what they are given.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/top/history.h"
#include "cli/top/screen.h"

namespace rubato::cli {

enum class SortBy : uint8_t { kRate, kName, kWait, kService, kP99, kMinuteP999 };
inline constexpr size_t kSorts = 6;
const char* name_of(SortBy sort);

struct ServerLine {
  std::string address;
  std::string trouble;           // why it tells nothing now; empty = it does
  std::optional<TopView> view;   // the last; none = it has told nothing yet
};

struct TopSettings {
  size_t selected = 0;  // of the servers
  SortBy sort = SortBy::kRate;
  bool reversed = false;
  std::string filter;   // types whose names have it; empty = all
  bool typing = false;  // the filter
  bool setting = false;  // an option is typed
  std::string option;    // NAME=VALUE, as typed
  bool frozen = false;
  size_t skipped = 0;   // types above the first one shown
  std::string note;     // in the place of the keys
};

// At most 7 and 6 characters with three digits or more of precision, as 12.3k and 1.25ms.
std::string short_number(double number);
std::string short_time(double us);
std::string short_bytes(double bytes);

// The types that pass the filter, in the order asked for: greatest first, names from A.
std::vector<TypeRow> chosen_types(const TopView& view, const TopSettings& settings);

// Requires settings.selected < servers.size().
void draw(Screen& screen, const std::vector<ServerLine>& servers, const TopSettings& settings);

}  // namespace rubato::cli
