// SPDX-License-Identifier: Apache-2.0
//
// Progress: one line on stderr that shows the progress of a long command, redrawn in place and
// wiped at the end. One thread.
#pragma once

#include <chrono>
#include <string>

namespace rubato::cli {

class Progress {
 public:
  // Draws nothing unless `shown`, nor in the first second: short runs need no progress.
  explicit Progress(bool shown) : shown_(shown) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // `done` of 0..1, with a guess of the time that is left.
  void draw(double done);
  // For work whose remaining time is unknown.
  void draw(const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  bool shown_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace rubato::cli
