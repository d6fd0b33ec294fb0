// SPDX-License-Identifier: Apache-2.0
//
// TopModel: all that `rubato top` shows, from what servers told and which keys were pressed.
// Knows no clock, socket or terminal; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/top/history.h"
#include "cli/top/layout.h"
#include "cli/top/recording.h"

namespace rubato::cli {

class TopModel {
 public:
  // By their addresses, which observations name; at least one.
  explicit TopModel(const std::vector<std::string>& servers);

  // Takes in what a server told. A frozen screen stays as it is.
  void take(const Observation& observation);

  // The bytes of one or more keys. False = the user wants to leave.
  bool press(std::string_view keys);

  // The option that was typed since the last call, as NAME=VALUE, for the selected server.
  std::optional<std::string> take_wanted() { return std::exchange(wanted_, std::nullopt); }
  // In the place of the keys, until the next one is pressed.
  void tell(const std::string& note) { settings_.note = note; }

  const TopSettings& settings() const { return settings_; }
  // As they are shown.
  const std::vector<ServerLine>& servers() const { return shown_; }
  void draw(Screen& screen) const { cli::draw(screen, shown_, settings_); }

 private:
  bool press_one(char key);
  void type_filter(char key);
  void type_option(char key);
  void scroll(bool down);
  void freeze();

  TopSettings settings_;
  std::optional<std::string> wanted_;
  std::vector<ServerHistory> histories_;
  std::vector<ServerLine> servers_;  // of now
  std::vector<ServerLine> shown_;    // the same, or as they were when the screen was frozen
};

// What is shown, for programs: one object with the schema rubato.top/1.
std::string top_json(const std::vector<ServerLine>& servers);

}  // namespace rubato::cli
