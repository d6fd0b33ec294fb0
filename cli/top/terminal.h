// SPDX-License-Identifier: Apache-2.0
//
// Terminal: the terminal of this process as a screen to draw on: keys come one by one and unseen,
// the cursor is hidden, and the screen that was there before comes back at the end. SIGINT,
// SIGTERM, SIGHUP and SIGQUIT ask for the end instead of ending the process with the terminal as it
// is. One at a time; main thread.
#pragma once

#include <termios.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace rubato::cli {

class Terminal {
 public:
  // Fails with one line if the standard input and output are no terminal that can do this.
  static Result<std::unique_ptr<Terminal>> open();
  ~Terminal();

  struct Size {
    int columns = 80, rows = 24;
  };
  Size size() const;
  bool colour() const { return colour_; }

  void show(const std::string& text) const;
  // The bytes of the keys that are pressed within `limit`, the first ones; empty = none.
  std::string keys(Nanos limit) const;
  // A signal has asked for the end, or the terminal is gone.
  bool ended() const;

 private:
  static constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

  explicit Terminal(const termios& before);

  termios before_;
  std::array<struct sigaction, kSignals.size()> actions_{};
  bool colour_;
};

}  // namespace rubato::cli
