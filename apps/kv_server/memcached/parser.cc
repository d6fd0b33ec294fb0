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
constexpr std::string_view kBadDelete =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
constexpr std::string_view kBadTime = "CLIENT_ERROR invalid exptime argument\r\n";
constexpr std::string_view kBadDelta = "CLIENT_ERROR invalid numeric delta argument\r\n";
constexpr std::string_view kBadFlag = "CLIENT_ERROR invalid flag\r\n";
constexpr std::string_view kBadData = "CLIENT_ERROR bad data chunk\r\n";
constexpr std::string_view kTooLong = "CLIENT_ERROR line too long\r\n";
constexpr std::string_view kNoReply = "noreply";
constexpr size_t kWordsKept = 64;  // room for so many stays from one request to the next
constexpr size_t kLineEndBytes = 2;
constexpr size_t kNoData = std::numeric_limits<size_t>::max();
constexpr size_t kMostData = std::numeric_limits<int32_t>::max() - 2;  // as memcached

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
    {"gat", MemcachedVerb::kGat, 2, kMany},
    {"gats", MemcachedVerb::kGats, 2, kMany},
    {"mg", MemcachedVerb::kMetaGet, 1, kMany},
    {"ms", MemcachedVerb::kMetaSet, 1, kMany},
    {"md", MemcachedVerb::kMetaDelete, 1, kMany},
    {"ma", MemcachedVerb::kMetaArithmetic, 1, kMany},
    {"me", MemcachedVerb::kMetaDebug, 1, kMany},
    {"mn", MemcachedVerb::kMetaNoop, 0, kMany},
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
    {"stats", MemcachedVerb::kStats, 0, kMany},
    {"verbosity", MemcachedVerb::kVerbosity, 0, 1},
    {"quit", MemcachedVerb::kQuit, 0, kMany},
};

bool may_be_silent(MemcachedVerb verb) {
  return (verb >= MemcachedVerb::kSet && verb <= MemcachedVerb::kTouch) ||
         verb == MemcachedVerb::kFlushAll || verb == MemcachedVerb::kVerbosity;
}

bool stores(MemcachedVerb verb) {
  return (verb >= MemcachedVerb::kSet && verb <= MemcachedVerb::kCas) ||
         verb == MemcachedVerb::kMetaSet;
}

// The letters of a meta command's flags.
std::string_view flags_of(MemcachedVerb verb) {
  switch (verb) {
    case MemcachedVerb::kMetaGet: return "bcfhklNOqRstTuv";
    case MemcachedVerb::kMetaSet: return "bcCFIkMNOqT";
    case MemcachedVerb::kMetaDebug: return "b";
    case MemcachedVerb::kMetaDelete: return "bCIkOqT";
    case MemcachedVerb::kMetaArithmetic: return "bcCDJkMNOqtTv";
    default: return {};
  }
}

// A browser or a forged form that was sent here (as Redis does, and memcached since 1.6).
bool is_http(Words words) {
  return words[0] == "POST" || words[0] == "Host:" ||
         (words.size() > 1 && words.back().starts_with("HTTP/"));
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

bool is_flag(std::string_view word, std::string_view letters) {
  return letters.find(word[0]) != std::string_view::npos;
}

// The words behind the name into the fields of the verb; false = they do not fit. `size` is that of
// the data that follow.
bool understand(Words words, MemcachedRequest& request, size_t& size) {
  switch (request.verb) {
    case MemcachedVerb::kGet:
    case MemcachedVerb::kGets:
      request.keys.assign(words.begin(), words.end());
      return std::all_of(words.begin(), words.end(), is_key);
    case MemcachedVerb::kGat:
    case MemcachedVerb::kGats:
      request.keys.assign(words.begin() + 1, words.end());
      return read(words[0], request.exptime) &&
             std::all_of(request.keys.begin(), request.keys.end(), is_key);
    case MemcachedVerb::kMetaSet:
      if (words.size() < 2) return false;
      request.keys.assign(1, words[0]);
      request.words.assign(words.begin() + 2, words.end());
      return is_key(words[0]) && read(words[1], size);
    case MemcachedVerb::kMetaGet:
    case MemcachedVerb::kMetaDebug:
    case MemcachedVerb::kMetaDelete:
    case MemcachedVerb::kMetaArithmetic:
      request.keys.assign(1, words[0]);
      request.words.assign(words.begin() + 1, words.end());
      return is_key(words[0]);
    case MemcachedVerb::kStats: request.words.assign(words.begin(), words.end()); return true;
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
    case MemcachedVerb::kVerbosity: {
      uint32_t level = 0;
      return words.empty() ? request.noreply : read(words[0], level);
    }
    default: return true;
  }
}

std::string_view bad_size(MemcachedVerb verb) {
  return verb == MemcachedVerb::kMetaSet ? kBadData : kBadFormat;
}

// Of a line that is wrong and has no data behind it.
std::string_view error_of(MemcachedVerb verb, bool has_key) {
  switch (verb) {
    case MemcachedVerb::kDelete: return kBadDelete;
    case MemcachedVerb::kFlushAll: return kBadTime;
    case MemcachedVerb::kTouch: return has_key ? kBadTime : kBadFormat;
    case MemcachedVerb::kIncr:
    case MemcachedVerb::kDecr: return has_key ? kBadDelta : kBadFormat;
    default: return kBadFormat;
  }
}

// The line of a request that is wrong. If it says how many data follow, they are skipped.
void misunderstood(Words words, MemcachedRequest& request, size_t& size) {
  if (!stores(request.verb)) {
    return bad(request, error_of(request.verb, !words.empty() && is_key(words[0])));
  }
  const size_t at = request.verb == MemcachedVerb::kMetaSet ? 1 : 3;
  if (words.size() <= at) return bad(request, kBadFormat);
  int64_t data = 0;
  if (!read(words[at], data) || data < 0 || static_cast<uint64_t>(data) > kMostData) {
    return bad(request, bad_size(request.verb));
  }
  size = static_cast<size_t>(data);
  bad(request, kBadFormat);
}

}  // namespace

void MemcachedRequest::clear() {
  verb = MemcachedVerb::kBad;
  keys.clear();
  words.clear();
  flags = 0;
  exptime = 0;
  number = 0;
  data = error = {};
  noreply = too_large = close = false;
}

size_t MemcachedParser::parse(std::string_view input, MemcachedRequest& request, size_t& wanted) {
  request.clear();
  wanted = 0;
  if (skipped_ > 0) {
    request.verb = MemcachedVerb::kSkipped;
    return skip(skipped_, input);
  }
  const bool reads = input.starts_with("get") || input.starts_with("gat");
  const size_t most = reads ? kMemcachedReadLineBytes : kMemcachedLineBytes;
  const size_t end = input.substr(0, most).find('\n');
  if (end == std::string_view::npos) {
    if (input.size() < most) return 0;
    bad(request, kTooLong);
    request.close = true;
    return input.size();
  }
  const size_t line_length = end + 1;
  const std::string_view behind = input.substr(line_length);
  size_t size = kNoData;
  parse_line(input.substr(0, end > 0 && input[end - 1] == '\r' ? end - 1 : end), request, size);
  if (size == kNoData) return line_length;
  if (request.verb == MemcachedVerb::kBad || size > kMemcachedItemBytes) {
    request.too_large = request.verb != MemcachedVerb::kBad;
    return line_length + skip(size + kLineEndBytes, behind);
  }
  if (behind.size() < size + kLineEndBytes) {
    wanted = line_length + size + kLineEndBytes;
    return 0;
  }
  request.data = behind.substr(0, size);
  if (behind.substr(size, kLineEndBytes) != "\r\n") bad(request, kBadData);
  return line_length + size + kLineEndBytes;
}

void MemcachedParser::shrink(MemcachedRequest& request) {
  for (auto* words : {&words_, &request.keys, &request.words}) {
    if (words->capacity() > kWordsKept) std::vector<std::string_view>().swap(*words);
  }
}

// `size` stays as it is where no data follow.
void MemcachedParser::parse_line(std::string_view line, MemcachedRequest& request, size_t& size) {
  split(line, words_);
  const Shape* shape = words_.empty() ? nullptr : shape_of(words_[0]);
  if (shape == nullptr) {
    bad(request, kUnknown);
    if (words_.empty() || !is_http(words_)) return;
    request.verb = MemcachedVerb::kSkipped;
    request.close = true;
    return;
  }
  Words words = Words(words_).subspan(1);
  if (may_be_silent(shape->verb) && !words.empty() && words.back() == kNoReply) {
    request.noreply = true;
    words = words.first(words.size() - 1);
  }
  request.verb = shape->verb;
  if (words.size() < shape->least || words.size() > shape->most) {
    const bool deletes = shape->verb == MemcachedVerb::kDelete && !words.empty();
    return bad(request, deletes ? kBadDelete : kUnknown);
  }
  size_t data = 0;
  if (!understand(words, request, data)) return misunderstood(words, request, size);
  if (!stores(request.verb)) data = kNoData;
  size = data;
  if (data != kNoData && data > kMostData) {
    size = kNoData;
    return bad(request, bad_size(request.verb));
  }
  const std::string_view letters = flags_of(request.verb);
  if (!letters.empty() && !std::all_of(request.words.begin(), request.words.end(),
                                       [&](std::string_view w) { return is_flag(w, letters); })) {
    bad(request, kBadFlag);
  }
}

// Skips what has come of `size` bytes, and remembers the rest.
size_t MemcachedParser::skip(size_t size, std::string_view input) {
  const size_t here = std::min(size, input.size());
  skipped_ = size - here;
  return here;
}

}  // namespace rubato::kv
