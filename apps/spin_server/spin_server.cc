// SPDX-License-Identifier: Apache-2.0
#include "spin_server/spin_server.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "kv_server/resp/parser.h"
#include "kv_server/resp/refusal.h"
#include "kv_server/text/words.h"
#include "mechanism/clock/clock.h"
#include "runtime/slow_requests.h"

namespace rubato::spin {
namespace {

constexpr Nanos kFarTooLong = kWorkUnit * 20;  // for one unit

using kv::same_word;

uint32_t preemptions() {
  const Request* request = current_request();
  return request != nullptr ? request->preemptions : 0;
}

// Nothing = the text is not a number from `low` to `high`.
std::optional<int64_t> parse_number(std::string_view text, int64_t low, int64_t high) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < low || number > high) return {};
  return number;
}

std::optional<uint32_t> parse_type(std::string_view text) {
  const std::optional<int64_t> type = parse_number(text, kFirstNamed, kLastNamed);
  return type ? std::optional(static_cast<uint32_t>(*type)) : std::nullopt;
}

class SpinSession final : public Session {
 public:
  explicit SpinSession(const SpinOptions& options) : options_(options) {}

  Frame frame(std::string_view unread, Request& request) override {
    const auto state = parser_.parse(unread, true);
    if (state == kv::RequestParser::State::kIncomplete) {
      return {FrameState::kIncomplete, parser_.length()};
    }
    failed_ = state == kv::RequestParser::State::kError;
    const size_t length = failed_ ? unread.size() : parser_.length();
    understand(request);
    return {FrameState::kComplete, length};
  }

  void refuse(Request& request) override {
    kv::append_refusal(*request.reply, kv::OverloadReply::kOverloaded, request);
    parser_.reset();
  }

  void run(Request& request) {
    if (service_ > Nanos()) {
      if (long_) long_begin();
      options_.work(service_);
      if (long_) long_end();
    }
    if (!request.cancelled) request.reply->append(text_);
    request.close_after = closes_ || request.cancelled;
    parser_.reset();
  }

 private:
  // Fixes the answer and the service time; errors are answers too.
  void understand(Request& request) {
    service_ = Nanos();
    closes_ = failed_;
    request.type = kControl;
    request.group = kControlGroup;
    const auto argv = parser_.argv();
    if (failed_) {
      text_ = "-ERR " + std::string(parser_.error()) + "\r\n";
    } else if (argv.empty()) {
      text_.clear();
    } else if (same_word(argv[0], "SPIN")) {
      understand_spin(request);
    } else if (same_word(argv[0], "PING")) {
      text_ = "+PONG\r\n";
    } else if (same_word(argv[0], "COMMAND")) {
      text_ = "*0\r\n";
    } else if (same_word(argv[0], "QUIT")) {
      text_ = "+OK\r\n";
      closes_ = true;
    } else {
      text_ =
          "-ERR unknown command; this server takes SPIN nanoseconds [SHORT|LONG] [TYPE], PING, "
          "QUIT\r\n";
    }
  }

  void understand_spin(Request& request) {
    const auto argv = parser_.argv();
    const size_t words = argv.size();
    const std::optional<uint32_t> type = words > 2 ? parse_type(argv[words - 1]) : std::nullopt;
    const size_t rest = words - (type ? 1 : 0);
    std::optional<Work> work;
    if (rest == 2) work = parse_work(argv[1], {}, options_);
    if (rest == 3 && !argv[2].empty()) work = parse_work(argv[1], argv[2], options_);
    if (!work) {
      text_ = "-ERR SPIN takes nanoseconds (0 .. " + std::to_string(options_.longest.count()) +
              "), then optionally SHORT or LONG, then optionally a type (" +
              std::to_string(kFirstNamed) + " .. " + std::to_string(kLastNamed) + ")\r\n";
      return;
    }
    service_ = work->service;
    long_ = work->is_long;
    request.type = type.value_or(long_ ? kLong : kShort);
    request.size_hint = service_;
    request.group = kPolicyGroup;
    text_ = "+OK\r\n";
  }

  const SpinOptions& options_;
  kv::RequestParser parser_;
  bool failed_ = false;
  bool closes_ = false;
  bool long_ = false;
  Nanos service_;
  std::string text_;
};

}  // namespace

std::optional<Work> parse_work(std::string_view nanoseconds, std::string_view of_class,
                               const SpinOptions& options) {
  const std::optional<int64_t> ns = parse_number(nanoseconds, 0, options.longest.count());
  if (!ns) return {};
  const Nanos service(*ns);
  if (of_class.empty()) return Work{service, service >= options.long_from};
  const bool is_long = same_word(of_class, "LONG");
  if (!is_long && !same_word(of_class, "SHORT")) return {};
  return Work{service, is_long};
}

void busy_work(Nanos service) {
  Nanos left = service;
  Instant since = now();
  uint32_t seen = preemptions();
  while (left > Nanos()) {
    const Nanos unit = std::min(left, kWorkUnit);
    Instant at = since;
    while (at - since < unit) at = now();
    // An interrupt may have let others run in the middle of a unit.
    const bool interrupted = at - since > kFarTooLong && std::exchange(seen, preemptions()) != seen;
    left -= interrupted ? unit : at - since;
    if (checkpoint()) return;
    // A checkpoint without a preemption is part of the work; the time of other requests is not.
    const Instant back = now();
    since = back - at < kWorkUnit ? at : back;
  }
}

std::unique_ptr<Session> SpinServer::open(const Peer&) {
  return std::make_unique<SpinSession>(options_);
}

void SpinServer::handle(Request& request) {
  static_cast<SpinSession&>(*request.session).run(request);
}

void SpinServer::slow(const Request& request, const Completion& times) {
  log_slow_request(type_name(request.type), times, type_name(times.blocker_type));
}

const char* type_name(uint32_t type) {
  static const auto names = [] {
    std::array<std::string, kTypes> all{"control", "short", "long"};
    for (uint32_t named = kFirstNamed; named < kTypes; ++named) all[named] = std::to_string(named);
    return all;
  }();
  return names[std::min(type, kTypes - 1)].c_str();
}

}  // namespace rubato::spin
