// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/parser.h"

#include <algorithm>
#include <cstring>

#include "kv_server/text/number.h"

namespace rubato::kv {
namespace {

constexpr size_t kReserveArgs = 1024;      // trusted of an announced count
constexpr size_t kKeepArgs = 1024;         // kept between requests
constexpr size_t kKeepInlineBytes = 1024;  // kept between requests
constexpr size_t kLineEndBytes = 2;
constexpr size_t kFastDigits = 9;  // a header this short cannot overflow

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char escaped(char c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

// Reads one argument of an inline command.
class TokenReader {
 public:
  TokenReader(std::string_view line, size_t at) : line_(line), at_(at) {}

  // Appends the argument to `out`; false = quotes that do not balance.
  bool read(std::string& out) {
    while (at_ < line_.size() && line_[at_] != '\0' && !ends_plain(line_[at_])) {
      const char c = line_[at_++];
      if (c == '"') return read_double_quoted(out);
      if (c == '\'') return read_single_quoted(out);
      out.push_back(c);
    }
    return true;
  }
  size_t position() const { return at_; }

 private:
  static bool ends_plain(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  char peek(size_t ahead) const { return at_ + ahead < line_.size() ? line_[at_ + ahead] : '\0'; }
  // A closing quote stands before a space or the end.
  bool closed() const { return peek(0) == '\0' || is_space(peek(0)); }

  bool read_double_quoted(std::string& out) {
    while (peek(0) != '\0') {
      const char c = line_[at_++];
      if (c == '"') return closed();
      if (c != '\\' || peek(0) == '\0') {
        out.push_back(c);
      } else if (peek(0) == 'x' && hex_value(peek(1)) >= 0 && hex_value(peek(2)) >= 0) {
        out.push_back(static_cast<char>(hex_value(peek(1)) * 16 + hex_value(peek(2))));
        at_ += 3;
      } else {
        out.push_back(escaped(line_[at_++]));
      }
    }
    return false;
  }

  bool read_single_quoted(std::string& out) {
    while (peek(0) != '\0') {
      const char c = line_[at_++];
      if (c == '\'') return closed();
      if (c == '\\' && peek(0) == '\'') {
        out.push_back('\'');
        ++at_;
      } else {
        out.push_back(c);
      }
    }
    return false;
  }

  std::string_view line_;
  size_t at_;
};

}  // namespace

void RequestParser::reset() {
  state_ = State::kIncomplete;
  position_ = scanned_ = wanted_ = 0;
  args_left_ = 0;
  bulk_bytes_ = -1;
  base_ = nullptr;
  args_.clear();
  if (args_.capacity() > kKeepArgs) args_.shrink_to_fit();
  if (!inline_bytes_.empty()) {
    inline_bytes_.clear();
    if (inline_bytes_.capacity() > kKeepInlineBytes) inline_bytes_.shrink_to_fit();
  }
}

RequestParser::State RequestParser::parse(std::string_view input, bool authenticated) {
  if (input.empty()) return more(0);
  if (input[0] != '*') return parse_inline(input);
  if (base_ != input.data()) {
    // The buffer has moved since the last call; so have the bytes behind the views.
    for (std::string_view& arg : args_) {
      const auto offset =
          reinterpret_cast<uintptr_t>(arg.data()) - reinterpret_cast<uintptr_t>(base_);
      arg = {input.data() + offset, arg.size()};
    }
    base_ = input.data();
  }
  return parse_array(input, authenticated);
}

RequestParser::State RequestParser::finish(size_t position) {
  position_ = position;
  return state_ = State::kComplete;
}

RequestParser::State RequestParser::more(size_t wanted) {
  wanted_ = wanted;
  return state_ = State::kIncomplete;
}

bool RequestParser::fail(std::string_view what) {
  error_ = "Protocol error: ";
  error_ += what;
  state_ = State::kError;
  return false;
}

RequestParser::State RequestParser::parse_array(std::string_view input, bool authenticated) {
  if (args_left_ == 0) {
    int64_t count = 0;
    size_t next = 0;
    const Line line = read_header(input, count, next);
    if (line == Line::kMore) return more(0);
    args_left_ = count;
    if (!good_array_header(line, authenticated)) return state_;
    if (count <= 0) {
      args_left_ = 0;
      return finish(next);
    }
    position_ = scanned_ = next;
    args_.reserve(std::min(static_cast<size_t>(count), kReserveArgs));
  }
  return parse_bulks(input, authenticated);
}

bool RequestParser::good_array_header(Line line, bool authenticated) {
  if (line == Line::kTooLong) return fail("too big mbulk count string");
  if (line == Line::kNotANumber || args_left_ > limits_.args) {
    return fail("invalid multibulk length");
  }
  if (!authenticated && args_left_ > limits_.unauthenticated_args) {
    return fail("unauthenticated multibulk length");
  }
  return true;
}

RequestParser::State RequestParser::parse_bulks(std::string_view input, bool authenticated) {
  while (args_left_ > 0) {
    if (bulk_bytes_ < 0) {
      size_t next = 0;
      int64_t bytes = 0;
      if (position_ >= input.size()) return more(0);
      const char kind = input[position_];
      const Line line = read_header(input, bytes, next);
      if (line == Line::kMore) return more(0);
      bulk_bytes_ = bytes;
      if (!good_bulk_header(line, kind, authenticated)) return state_;
      position_ = next;
    }
    const auto bytes = static_cast<size_t>(bulk_bytes_);
    if (input.size() - position_ < bytes + kLineEndBytes) {
      return more(position_ + bytes + kLineEndBytes);
    }
    args_.emplace_back(input.data() + position_, bytes);
    position_ += bytes + kLineEndBytes;
    scanned_ = position_;
    bulk_bytes_ = -1;
    --args_left_;
  }
  return finish(position_);
}

bool RequestParser::good_bulk_header(Line line, char kind, bool authenticated) {
  if (line == Line::kTooLong) return fail("too big bulk count string");
  if (kind != '$') {
    // A line end inside an error reply would end the reply.
    const char shown = kind == '\r' || kind == '\n' ? ' ' : kind;
    return fail(std::string("expected '$', got '") + shown + "'");
  }
  if (line == Line::kNotANumber || bulk_bytes_ < 0 || bulk_bytes_ > limits_.bulk_bytes) {
    return fail("invalid bulk length");
  }
  if (!authenticated && bulk_bytes_ > limits_.unauthenticated_bulk_bytes) {
    return fail("unauthenticated bulk length");
  }
  return true;
}

// The header line at position_: a kind byte, a number, a line end. The common case (a few digits,
// all there) without a search for the line end.
RequestParser::Line RequestParser::read_header(std::string_view input, int64_t& number,
                                               size_t& next) {
  const char* const begin = input.data() + position_ + 1;
  const char* const end = input.data() + input.size();
  const char* at = begin;
  int64_t value = 0;
  const char* const stop = begin + std::min(input.size() - position_ - 1, kFastDigits + 1);
  while (at < stop && *at >= '0' && *at <= '9') value = value * 10 + (*at++ - '0');
  const auto digits = static_cast<size_t>(at - begin);
  const bool canonical = digits == 1 || (digits != 0 && *begin != '0');
  if (digits > kFastDigits || !canonical || end - at < 2 || *at != '\r') {
    return read_header_slowly(input, number, next);
  }
  number = value;
  next = static_cast<size_t>(at - input.data()) + kLineEndBytes;
  return Line::kGood;
}

RequestParser::Line RequestParser::read_header_slowly(std::string_view input, int64_t& number,
                                                      size_t& next) {
  const std::string_view line = input.substr(position_);
  const size_t known = scanned_ - position_;
  const size_t searched = std::min(line.size(), limits_.line_bytes + 1);
  const size_t found = line.substr(0, searched).find('\r', known);
  if (found == std::string_view::npos) {
    if (searched > limits_.line_bytes) return Line::kTooLong;
    scanned_ = position_ + searched;
    return Line::kMore;
  }
  scanned_ = position_ + found;
  if (line.size() < found + kLineEndBytes) return Line::kMore;
  next = position_ + found + kLineEndBytes;
  if (found == 0 || !parse_integer(line.substr(1, found - 1), number)) return Line::kNotANumber;
  return Line::kGood;
}

RequestParser::State RequestParser::parse_inline(std::string_view input) {
  const size_t searched = std::min(input.size(), limits_.line_bytes + 1);
  const size_t found = input.substr(0, searched).find('\n', scanned_);
  if (found == std::string_view::npos) {
    if (searched > limits_.line_bytes) {
      fail("too big inline request");
      return state_;
    }
    scanned_ = searched;
    return more(0);
  }
  std::string_view line = input.substr(0, found);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!split_inline(line)) {
    fail("unbalanced quotes in request");
    return state_;
  }
  return finish(found + 1);
}

bool RequestParser::split_inline(std::string_view line) {
  // Unquoting never makes a line longer, so that the views stay where they are.
  inline_bytes_.clear();
  inline_bytes_.reserve(line.size());
  size_t at = 0;
  while (true) {
    while (at < line.size() && is_space(line[at])) ++at;
    if (at == line.size() || line[at] == '\0') return true;
    const size_t begin = inline_bytes_.size();
    TokenReader token(line, at);
    if (!token.read(inline_bytes_)) {
      args_.clear();
      return false;
    }
    at = token.position();
    args_.emplace_back(inline_bytes_.data() + begin, inline_bytes_.size() - begin);
  }
}

}  // namespace rubato::kv
