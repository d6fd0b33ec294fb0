// SPDX-License-Identifier: Apache-2.0
#include "cli/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace rubato::cli {
namespace {

std::atomic<bool> g_ended{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_end(int) { g_ended.store(true, std::memory_order_relaxed); }

// The alternate screen of xterm, which all terminals of today have; a cursor that does not show.
constexpr std::string_view kBegin = "\033[?1049h\033[?25l\033[2J";
constexpr std::string_view kEnd = "\033[0m\033[?25h\033[?1049l";

}  // namespace

Result<std::unique_ptr<Terminal>> Terminal::open() {
  termios before{};
  const char* const kind = std::getenv("TERM");
  const bool able = kind != nullptr && std::string_view(kind) != "dumb";
  if (!able || ::isatty(STDOUT_FILENO) == 0 || ::tcgetattr(STDIN_FILENO, &before) != 0) {
    return Error{"takes a terminal; --once prints one screen without"};
  }
  return std::unique_ptr<Terminal>(new Terminal(before));
}

Terminal::Terminal(const termios& before) : before_(before) {
  const char* const no_colour = std::getenv("NO_COLOR");  // no-color.org
  colour_ = no_colour == nullptr || *no_colour == '\0';
  g_ended.store(false, std::memory_order_relaxed);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = note_end;
    ::sigaction(kSignals[i], &action, &actions_[i]);
  }
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stop would leave the screen as it is
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  show(std::string(kBegin));
}

Terminal::~Terminal() {
  show(std::string(kEnd));
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &actions_[i], nullptr);
}

Terminal::Size Terminal::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

void Terminal::show(const std::string& text) const {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t done = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return g_ended.store(true, std::memory_order_relaxed);
    rest.remove_prefix(static_cast<size_t>(done));
  }
}

std::string Terminal::keys(Nanos limit) const {
  pollfd pressed{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&pressed, 1, static_cast<int>(limit.count() / 1'000'000));
  if (ready <= 0) return {};
  char bytes[32];
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (got <= 0) {
    if (got == 0 || errno != EINTR) note_end(0);
    return {};
  }
  return std::string(bytes, static_cast<size_t>(got));
}

bool Terminal::ended() const { return g_ended.load(std::memory_order_relaxed); }

}  // namespace rubato::cli
