// SPDX-License-Identifier: Apache-2.0
#include "cli/common/progress.h"

#include <fmt/format.h>

#include <cstdio>

namespace rubato::cli {
namespace {

constexpr double kShowAfterSeconds = 1.0;

std::string time_left(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::draw(double done) {
  std::string line = fmt::format("{:3.0f} %", 100 * done);
  if (done > 0) line += ", about " + time_left(elapsed_s() * (1 - done) / done) + " left";
  draw(line);
}

void Progress::draw(const std::string& what) {
  if (!shown_ || elapsed_s() < kShowAfterSeconds) return;
  drawn_ = true;
  std::fputs(("\r\033[K" + what).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace rubato::cli
