// SPDX-License-Identifier: Apache-2.0
#include "load/reply_parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace rubato::load {
namespace {

constexpr std::string_view kKnownTypes = "+-:$*_#,(%~=!";
constexpr std::string_view kBulkTypes = "$=!";
constexpr std::string_view kAggregateTypes = "*~%";

bool one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

}  // namespace

bool ReplyParser::start_element(char type) {
  if (!one_of(type, kKnownTypes)) return false;
  type_ = type;
  if (top_) {
    error_ = type == '-' || type == '!';
    pending_ = 1;
    top_ = false;
  }
  // The text of a top-level error survives until the next reply, since no element follows it.
  line_size_ = 0;
  state_ = State::kLine;
  return true;
}

bool ReplyParser::element_done() {
  state_ = State::kType;
  if (--pending_ > 0) return false;
  top_ = true;
  return true;
}

// A line is complete: its meaning depends on the type. False = not RESP.
bool ReplyParser::line_done() {
  if (!one_of(type_, kBulkTypes) && !one_of(type_, kAggregateTypes)) {
    reply_done_ = element_done();
    return true;
  }
  int64_t number = 0;
  const auto [stop, problem] = std::from_chars(line_, line_ + line_size_, number);
  if (problem != std::errc() || stop != line_ + line_size_ || number < -1) return false;
  if (number == -1) {
    reply_done_ = element_done();
    return true;
  }
  if (one_of(type_, kBulkTypes)) {
    if (number > kMaxBody) return false;
    body_left_ = number + 2;
    state_ = State::kBody;
    return true;
  }
  if (number > kMaxElements) return false;
  pending_ += static_cast<uint64_t>(number) * (type_ == '%' ? 2u : 1u);
  if (pending_ > static_cast<uint64_t>(2 * kMaxElements)) return false;
  reply_done_ = element_done();
  return true;
}

ReplyParser::Status ReplyParser::feed(const char* data, size_t size, size_t& used) {
  reply_done_ = false;
  size_t i = 0;
  bool good = state_ != State::kBroken;
  while (good && i < size && !reply_done_) {
    switch (state_) {
      case State::kType:
        good = start_element(data[i++]);
        break;
      case State::kLine: {
        const char* end = static_cast<const char*>(std::memchr(data + i, '\r', size - i));
        const size_t length = end != nullptr ? static_cast<size_t>(end - data) - i : size - i;
        const size_t kept = std::min(length, kMaxLine - line_size_);
        std::memcpy(line_ + line_size_, data + i, kept);
        line_size_ += kept;
        i += length;
        if (end != nullptr) ++i, state_ = State::kLineEnd;
        break;
      }
      case State::kLineEnd:
        good = data[i++] == '\n' && line_done();
        break;
      case State::kBody: {
        const int64_t skip = std::min(body_left_, static_cast<int64_t>(size - i));
        i += static_cast<size_t>(skip);
        body_left_ -= skip;
        if (body_left_ == 0) reply_done_ = element_done();
        break;
      }
      case State::kBroken:
        break;
    }
  }
  used = i;
  if (!good) {
    state_ = State::kBroken;
    return Status::kBroken;
  }
  return reply_done_ ? Status::kReply : Status::kMore;
}

Outcome classify_error(std::string_view text) {
  for (std::string_view refusal : {"OVERLOADED", "THROTTLED", "BUSY", "TRYAGAIN"}) {
    if (!text.starts_with(refusal)) continue;
    if (text.size() == refusal.size() || text[refusal.size()] == ' ') return Outcome::kRefused;
  }
  return Outcome::kError;
}

}  // namespace rubato::load
