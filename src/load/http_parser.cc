// SPDX-License-Identifier: Apache-2.0
#include "load/http_parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace rubato::load {
namespace {

constexpr std::string_view kVersion = "HTTP/1.";
constexpr size_t kMinorAt = 7, kCodeAt = 9;  // "HTTP/1.1 200 OK"
constexpr uint16_t kNoContent = 204, kNotModified = 304, kSwitching = 101;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Calls `with` for each word of a list with commas (RFC 9110, section 5.6.1).
template <class Function>
void for_each_word(std::string_view list, Function with) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view word = without_blanks(list.substr(0, comma));
    if (!word.empty()) with(word);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
}

// The whole text as a number.
std::optional<uint64_t> number(std::string_view text, int base) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value, base);
  if (problem != std::errc() || stop != end || value > HttpParser::kMaxBody) return std::nullopt;
  return value;
}

}  // namespace

// Three digits behind "HTTP/1.x ", and an end or a space.
HttpParser::State HttpParser::begin_status(std::string_view line) {
  if (line.size() < kCodeAt + 3 || !line.starts_with(kVersion) || line[kCodeAt - 1] != ' ') {
    return State::kBroken;
  }
  if (line.size() > kCodeAt + 3 && line[kCodeAt + 3] != ' ') return State::kBroken;
  const auto code = number(line.substr(kCodeAt, 3), 10);
  if (!code || *code < 100 || *code > 999) return State::kBroken;
  code_ = static_cast<uint16_t>(*code);
  status_size_ = std::min(line.size(), sizeof status_);
  std::memcpy(status_, line.data(), status_size_);
  coded_ = chunked_ = has_length_ = false;
  must_close_ = false;
  closes_ = line[kMinorAt] == '0';  // unless it says keep-alive
  left_ = 0;
  return State::kHeader;
}

void HttpParser::take_connection(std::string_view options) {
  for_each_word(options, [this](std::string_view option) {
    if (same_word(option, "close")) closes_ = must_close_ = true;
    if (same_word(option, "keep-alive")) closes_ = must_close_;
  });
}

HttpParser::State HttpParser::after_head() {
  head_bytes_ = 0;
  if (code_ == kSwitching) return State::kBroken;
  if (code_ < 200) return State::kStatus;
  if (code_ == kNoContent || code_ == kNotModified) return State::kDone;
  if (chunked_) return State::kChunkSize;
  if (coded_ || !has_length_) {
    closes_ = true;
    return State::kUntilEnd;
  }
  return left_ > 0 ? State::kBody : State::kDone;
}

HttpParser::State HttpParser::take_header(std::string_view line) {
  if (line.empty()) return after_head();
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return State::kBroken;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = without_blanks(line.substr(colon + 1));
  if (same_word(name, "Content-Length")) {
    const auto length = number(value, 10);
    if (!length || (has_length_ && left_ != *length)) return State::kBroken;
    left_ = *length;
    has_length_ = true;
  } else if (same_word(name, "Transfer-Encoding")) {
    coded_ = true;
    for_each_word(value, [this](std::string_view coding) {
      chunked_ = same_word(coding, "chunked");  // the last one counts
    });
  } else if (same_word(name, "Connection")) {
    take_connection(value);
  }
  return State::kHeader;
}

// The size in hexadecimal digits, and perhaps extensions behind a semicolon.
HttpParser::State HttpParser::begin_chunk(std::string_view line) {
  const auto size = number(without_blanks(line.substr(0, line.find(';'))), 16);
  if (!size) return State::kBroken;
  left_ = *size;
  return left_ > 0 ? State::kChunk : State::kTrailer;
}

HttpParser::State HttpParser::end_line(std::string_view line) {
  switch (state_) {
    case State::kStatus: return begin_status(line);
    case State::kHeader: return take_header(line);
    case State::kChunkSize: return begin_chunk(line);
    case State::kChunkEnd: return line.empty() ? State::kChunkSize : State::kBroken;
    case State::kTrailer: return line.empty() ? State::kDone : State::kTrailer;
    case State::kBody:
    case State::kChunk:
    case State::kUntilEnd:
    case State::kDone:
    case State::kBroken: break;
  }
  return State::kBroken;
}

size_t HttpParser::take_line(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  const bool whole = end != std::string_view::npos;
  const std::string_view part = bytes.substr(0, end);
  const size_t kept = std::min(part.size(), kMaxLine - line_size_);
  if (kept > 0) std::memcpy(line_ + line_size_, part.data(), kept);
  line_size_ += kept;
  cut_ = cut_ || kept < part.size();
  const size_t used = part.size() + (whole ? 1 : 0);
  head_bytes_ += used;
  if (head_bytes_ > kMaxHeaders) {
    state_ = State::kBroken;
    return used;
  }
  if (!whole) return used;
  std::string_view line(line_, line_size_);
  // RFC 9112, section 2.2: a line may end in a bare LF.
  if (!cut_ && line.ends_with('\r')) line.remove_suffix(1);
  line_size_ = 0;
  cut_ = false;
  state_ = end_line(line);
  return used;
}

size_t HttpParser::take_body(std::string_view bytes) {
  if (state_ == State::kUntilEnd) return bytes.size();
  const uint64_t skipped = std::min<uint64_t>(left_, bytes.size());
  left_ -= skipped;
  if (left_ == 0) {
    head_bytes_ = 0;
    state_ = state_ == State::kBody ? State::kDone : State::kChunkEnd;
  }
  return static_cast<size_t>(skipped);
}

HttpParser::Status HttpParser::feed(const char* data, size_t size, size_t& used) {
  if (state_ == State::kDone) {
    state_ = State::kStatus;
    head_bytes_ = 0;
  }
  used = 0;
  while (state_ != State::kBroken && state_ != State::kDone && used < size) {
    const std::string_view rest(data + used, size - used);
    const bool body =
        state_ == State::kBody || state_ == State::kChunk || state_ == State::kUntilEnd;
    used += body ? take_body(rest) : take_line(rest);
  }
  if (state_ == State::kBroken) return Status::kBroken;
  return state_ == State::kDone ? Status::kReply : Status::kMore;
}

bool HttpParser::end_of_stream() {
  if (state_ != State::kUntilEnd) return false;
  state_ = State::kDone;
  return true;
}

Outcome classify_http_error(std::string_view status_line) {
  const std::string_view code = status_line.substr(std::min(kCodeAt, status_line.size()), 3);
  return code == "503" || code == "429" ? Outcome::kRefused : Outcome::kError;
}

}  // namespace rubato::load
