// SPDX-License-Identifier: Apache-2.0
#include "load/memcached_parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

namespace rubato::load {
namespace {

constexpr std::string_view kErrors[] = {"ERROR", "CLIENT_ERROR", "SERVER_ERROR"};
constexpr std::string_view kWords[] = {"END",     "STORED",    "NOT_STORED", "EXISTS",
                                       "DELETED", "NOT_FOUND", "TOUCHED",    "OK"};

template <size_t kCount>
bool one_of(std::string_view text, const std::string_view (&set)[kCount]) {
  return std::find(std::begin(set), std::end(set), text) != std::end(set);
}

std::string_view first_word(std::string_view line) { return line.substr(0, line.find(' ')); }

bool is_error_line(std::string_view line) { return one_of(first_word(line), kErrors); }
bool is_version(std::string_view line) { return first_word(line) == "VERSION"; }

// The whole text as a number of at most `most`.
std::optional<uint64_t> number(std::string_view text, uint64_t most) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stop != end || value > most) return std::nullopt;
  return value;
}

bool is_number(std::string_view text) {
  return number(text, std::numeric_limits<uint64_t>::max()).has_value();
}

// Takes the text before the next space, and the space.
std::string_view next_field(std::string_view& rest) {
  const std::string_view field = first_word(rest);
  rest.remove_prefix(std::min(field.size() + 1, rest.size()));
  return field;
}

}  // namespace

void MemcachedParser::begin_line() {
  state_ = State::kLine;
  line_size_ = 0;
  cut_ = false;
  last_ = 0;
}

// Keeps bytes of a line without its '\n'. False = no reply has so long a line.
bool MemcachedParser::keep(std::string_view bytes) {
  if (bytes.empty()) return true;
  last_ = bytes.back();
  const size_t kept = std::min(bytes.size(), kMaxLine - line_size_);
  std::memcpy(line_ + line_size_, bytes.data(), kept);
  line_size_ += kept;
  cut_ = cut_ || kept < bytes.size();
  return !cut_ || is_error_line(line()) || is_version(line());
}

// `VALUE <key> <flags> <bytes> [<cas>]`. False = it is malformed.
bool MemcachedParser::begin_value() {
  std::string_view rest = line();
  next_field(rest);
  const std::string_view key = next_field(rest);
  const std::string_view flags = next_field(rest);
  const auto bytes = number(next_field(rest), kMaxBody);
  if (key.empty() || key.size() > kMaxKey || !bytes) return false;
  if (!number(flags, std::numeric_limits<uint32_t>::max())) return false;
  if (!rest.empty() && !is_number(rest)) return false;
  values_ = true;
  body_left_ = *bytes;
  state_ = body_left_ > 0 ? State::kBody : State::kBodyEnd;
  return true;
}

// The '\n' of a line has come. False = it is no reply.
bool MemcachedParser::end_line() {
  if (last_ != '\r') return false;
  if (!cut_) --line_size_;
  if (first_word(line()) == "VALUE") return begin_value();
  error_ = is_error_line(line());
  done_ = true;
  if (error_ || line() == "END") return true;
  return !values_ && (one_of(line(), kWords) || is_version(line()) || is_number(line()));
}

size_t MemcachedParser::take_line(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  const bool whole = end != std::string_view::npos;
  if (!keep(bytes.substr(0, end)) || (whole && !end_line())) state_ = State::kBroken;
  return whole ? end + 1 : bytes.size();
}

// A data block and the CRLF behind it.
size_t MemcachedParser::take_body(std::string_view bytes) {
  switch (state_) {
    case State::kBody: {
      const uint64_t skipped = std::min<uint64_t>(body_left_, bytes.size());
      body_left_ -= skipped;
      if (body_left_ == 0) state_ = State::kBodyEnd;
      return static_cast<size_t>(skipped);
    }
    case State::kBodyEnd:
      state_ = bytes[0] == '\r' ? State::kLastByte : State::kBroken;
      return 1;
    case State::kLastByte:
      begin_line();
      if (bytes[0] != '\n') state_ = State::kBroken;
      return 1;
    case State::kLine:
    case State::kBroken: break;
  }
  return 0;
}

MemcachedParser::Status MemcachedParser::feed(const char* data, size_t size, size_t& used) {
  if (done_ && state_ != State::kBroken) begin_line();
  if (done_) error_ = values_ = done_ = false;
  used = 0;
  while (state_ != State::kBroken && used < size && !done_) {
    const std::string_view rest(data + used, size - used);
    used += state_ == State::kLine ? take_line(rest) : take_body(rest);
  }
  if (state_ == State::kBroken) return Status::kBroken;
  return done_ ? Status::kReply : Status::kMore;
}

Outcome classify_memcached_error(std::string_view line) {
  constexpr std::string_view kRefusal = "SERVER_ERROR overloaded";
  const bool refused =
      line == kRefusal || (line.starts_with(kRefusal) && line[kRefusal.size()] == ' ');
  return refused ? Outcome::kRefused : Outcome::kError;
}

}  // namespace rubato::load
