// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/parser.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>

namespace rubato::kv {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view kUnknown = "ERROR\r\n";
constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format\r\n";
constexpr std::string_view kBadData = "CLIENT_ERROR bad data chunk\r\n";
constexpr std::string_view kTooLong = "CLIENT_ERROR line too long\r\n";
constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache\r\n";
constexpr std::string_view kNoReply = "noreply";

struct Shape {
  std::string_view name;
  MemcachedVerb verb;
  size_t least;  // words behind the name, but noreply
  size_t most;
};

constexpr size_t kMany = std::numeric_limits<size_t>::max();
constexpr Shape kShapes[] = {
    {"get", MemcachedVerb::kGet, 1, kMany},
    {"gets", MemcachedVerb::kGets, 1, kMany},
    {"set", MemcachedVerb::kSet, 4, 4},
    {"add", MemcachedVerb::kAdd, 4, 4},
    {"replace", MemcachedVerb::kReplace, 4, 4},
    {"append", MemcachedVerb::kAppend, 4, 4},
    {"prepend", MemcachedVerb::kPrepend, 4, 4},
    {"cas", MemcachedVerb::kCas, 5, 5},
    {"delete", MemcachedVerb::kDelete, 1, 2},
    {"incr", MemcachedVerb::kIncr, 2, 2},
    {"decr", MemcachedVerb::kDecr, 2, 2},
    {"touch", MemcachedVerb::kTouch, 2, 2},
    {"flush_all", MemcachedVerb::kFlushAll, 0, 1},
    {"version", MemcachedVerb::kVersion, 0, kMany},
    {"stats", MemcachedVerb::kStats, 0, 0},
    {"verbosity", MemcachedVerb::kVerbosity, 0, 1},
    {"quit", MemcachedVerb::kQuit, 0, kMany},
};

bool may_be_silent(MemcachedVerb verb) {
  return (verb >= MemcachedVerb::kSet && verb <= MemcachedVerb::kFlushAll) ||
         verb == MemcachedVerb::kVerbosity;
}

bool stores(MemcachedVerb verb) {
  return verb >= MemcachedVerb::kSet && verb <= MemcachedVerb::kCas;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size();
}

bool is_key(std::string_view word) {
  return word.size() <= kMemcachedKeyBytes &&
         std::none_of(word.begin(), word.end(), [](char c) {
           return static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
         });
}

void bad(MemcachedRequest& request, std::string_view error) {
  request.verb = MemcachedVerb::kBad;
  request.error = error;
}

void split(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
}

const Shape* shape_of(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

// The words behind the name into the fields of the verb; false = they do not fit. `size` is that of
// the data that follow.
bool understand(Words words, MemcachedRequest& request, size_t& size) {
  switch (request.verb) {
    case MemcachedVerb::kGet:
    case MemcachedVerb::kGets:
      request.keys.assign(words.begin(), words.end());
      return std::all_of(words.begin(), words.end(), is_key);
    case MemcachedVerb::kCas:
      if (!read(words[4], request.number)) return false;
      [[fallthrough]];
    case MemcachedVerb::kSet:
    case MemcachedVerb::kAdd:
    case MemcachedVerb::kReplace:
    case MemcachedVerb::kAppend:
    case MemcachedVerb::kPrepend:
      request.keys.assign(1, words[0]);
      return is_key(words[0]) && read(words[1], request.flags) &&
             read(words[2], request.exptime) && read(words[3], size);
    case MemcachedVerb::kDelete:  // a time is obsolete, and must be 0
      request.keys.assign(1, words[0]);
      return is_key(words[0]) && (words.size() == 1 || words[1] == "0");
    case MemcachedVerb::kIncr:
    case MemcachedVerb::kDecr:
      request.keys.assign(1, words[0]);
      return is_key(words[0]) && read(words[1], request.number);
    case MemcachedVerb::kTouch:
      request.keys.assign(1, words[0]);
      return is_key(words[0]) && read(words[1], request.exptime);
    case MemcachedVerb::kFlushAll:
      return words.empty() || read(words[0], request.exptime);
    case MemcachedVerb::kVerbosity: return request.noreply || !words.empty();
    default: return true;
  }
}

}  // namespace

void MemcachedRequest::clear() {
  verb = MemcachedVerb::kBad;
  keys.clear();
  flags = 0;
  exptime = 0;
  number = 0;
  data = error = {};
  noreply = close = false;
}

size_t MemcachedParser::parse(std::string_view input, MemcachedRequest& request, size_t& wanted) {
  request.clear();
  wanted = 0;
  const size_t end = input.substr(0, kMemcachedLineBytes).find('\n');
  if (end == std::string_view::npos) {
    if (input.size() < kMemcachedLineBytes) return 0;
    bad(request, kTooLong);
    request.close = true;
    return input.size();
  }
  const size_t line_length = end + 1;
  split(input.substr(0, end > 0 && input[end - 1] == '\r' ? end - 1 : end), words_);
  const Shape* shape = words_.empty() ? nullptr : shape_of(words_[0]);
  if (shape == nullptr) {
    bad(request, kUnknown);
    return line_length;
  }
  Words words = Words(words_).subspan(1);
  if (may_be_silent(shape->verb) && !words.empty() && words.back() == kNoReply) {
    request.noreply = true;
    words = words.first(words.size() - 1);
  }
  request.verb = shape->verb;
  size_t size = 0;
  const bool fits = words.size() >= shape->least && words.size() <= shape->most;
  if (!fits) {
    bad(request, kUnknown);
    return line_length;
  }
  if (!understand(words, request, size)) {
    // The data behind a faulty request that stores cannot be told from the next request.
    request.close = stores(shape->verb);
    bad(request, kBadFormat);
    return line_length;
  }
  if (!stores(request.verb)) return line_length;
  if (size > kMemcachedItemBytes) {
    bad(request, kTooLarge);
    request.close = true;
    return line_length;
  }
  const size_t length = line_length + size + 2;
  if (input.size() < length) {
    wanted = length;
    return 0;
  }
  request.data = input.substr(line_length, size);
  if (input.substr(line_length + size, 2) != "\r\n") {
    bad(request, kBadData);
    request.close = true;
  }
  return length;
}

}  // namespace rubato::kv
