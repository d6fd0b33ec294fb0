// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/meta.h"

#include <algorithm>
#include <array>

namespace rubato::kv {
namespace {

constexpr std::string_view kBadToken = "CLIENT_ERROR bad token in command line format";
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Of RFC 4648; false = it is none, or gives no bytes.
bool decode_base64(std::string_view text, std::string& bytes) {
  if (text.size() % 4 != 0 || text.empty()) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.clear();
  uint32_t group = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = i < text.size() - padding ? kDigits.find(text[i]) : 0;
    if (digit == std::string_view::npos) return false;
    group = group << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(group >> shift & 0xff));
    group = 0;
  }
  bytes.resize(bytes.size() - padding);
  return true;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end;
}

}  // namespace

void MetaOperation::run() {
  key_ = key();
  if (!read_flags()) return say(kBadToken);
  if (flags_.asks_use && !engine_.keeps_use()) {
    return say("CLIENT_ERROR flags h and l need --engine memory, this one keeps no times of use");
  }
  if (flags_.base64) {
    if (!decode_base64(key(), key_room_)) return say("CLIENT_ERROR bad command line format");
    key_ = key_room_;
  }
  switch (asked_.verb) {
    case MemcachedVerb::kMetaGet: return get();
    case MemcachedVerb::kMetaDebug: return describe();
    case MemcachedVerb::kMetaSet: return set();
    case MemcachedVerb::kMetaDelete: return erase();
    default: return step();
  }
}

bool MetaOperation::read_flags() {
  return std::all_of(asked_.words.begin(), asked_.words.end(), [&](std::string_view word) {
    return read_flag(word[0], word.substr(1));
  });
}

bool MetaOperation::read_flag(char letter, std::string_view token) {
  switch (letter) {
    case 'b': flags_.base64 = true; return true;
    case 'h':
    case 'l': flags_.asks_use = true; return true;
    case 'q': flags_.quiet = true; return true;
    case 'u': flags_.unused = true; return true;
    case 'v': flags_.value = true; return true;
    case 'C': return read(token, flags_.version.emplace());
    case 'I': flags_.invalidates = true; return true;
    case 'R': return read(token, flags_.recache_s.emplace());
    case 'D': return read(token, flags_.delta);
    case 'F': return read(token, flags_.client);
    case 'J': return read(token, flags_.initial);
    case 'M': flags_.mode = token.empty() ? '?' : token[0]; return token.size() == 1;
    case 'N': flags_.creates = true; return read(token, flags_.creates_exptime);
    case 'T': flags_.touches = true; return read(token, flags_.exptime);
    default: return true;
  }
}

MetaOperation::Shown MetaOperation::shown_of(const MemcachedItem& item, const Current& current) {
  return {item.flags, item.data.size(), current.version, current.expires_at_ms, false, item.state,
          current.idle_ms, current.read};
}

Change MetaOperation::put(std::string_view value, int64_t expires_at_ms,
                          uint64_t& version) const {
  Change change = Change::put(value, expires_at_ms);
  change.version = &version;
  return change;
}

// A missing item may be made, without data, for the client to fill; an item that is stale, or is
// to expire soon, is to be fetched by the first client that sees it.
Change MetaOperation::got(const Current& current, Shown& shown) {
  if (!current.exists) {
    if (!flags_.creates) return Change::keep();
    shown.won = true;
    shown.expires_at_ms = expires_at_ms(flags_.creates_exptime);
    return put(write_item(0, "", room_, {.token_sent = true}), shown.expires_at_ms,
               shown.version);
  }
  const MemcachedItem item = read_item(current.value);
  shown = shown_of(item, current);
  if (flags_.value) data_.assign(item.data);
  const bool expires_soon = flags_.recache_s && current.expires_at_ms != kNoExpiry &&
                            seconds_left(shown) < static_cast<uint64_t>(*flags_.recache_s);
  shown.won = (item.state.stale || expires_soon) && !item.state.token_sent;
  if (flags_.touches) shown.expires_at_ms = expires_at_ms(flags_.exptime);
  if (shown.won) {
    return put(write_item(item.flags, item.data, room_, {item.state.stale, true}),
               shown.expires_at_ms, shown.version);
  }
  return flags_.touches ? Change::expire(shown.expires_at_ms) : Change::keep();
}

void MetaOperation::get() {
  Shown shown;
  bool existed = false;
  const Outcome outcome = engine_.update(key_, [&](const Current& current) {
    existed = current.exists;
    return got(current, shown).as(flags_.unused ? Change::Use::kNone : Change::Use::kRead);
  });
  if (!good(outcome)) return;
  // As memcached counts: what N makes is a hit, and no time is set where nothing is found.
  const bool hit = shown.version != 0;
  hit && flags_.touches ? count_touch(true) : count_get(hit);
  if (hit && !existed) count("total_items");
  prefixes().get(key(), hit);
  if (!hit) {
    if (!flags_.quiet) say("EN");
    return;
  }
  flags_.value ? answer_value(shown, data_) : answer("HD", &shown);
}

// There are no classes of sizes, of which memcached shows the item's. This is no use of the item.
void MetaOperation::describe() {
  count("cmd_meta");
  Shown shown;
  const Outcome outcome = engine_.update(key_, [&](const Current& current) {
    if (current.exists) shown = shown_of(read_item(current.value), current);
    return Change::keep().as(Change::Use::kNone);
  });
  if (!good(outcome)) return;
  if (shown.version == 0) return say("EN");
  out_.append("ME ");
  out_.append(key());
  const auto append = [&](std::string_view name, uint64_t number) {
    out_.append(name);
    append_number(number);
  };
  shown.expires_at_ms == kNoExpiry ? out_.append(" exp=-1") : append(" exp=", seconds_left(shown));
  if (engine_.keeps_use()) append(" la=", idle_seconds(shown));
  append(" cas=", shown.version);
  if (engine_.keeps_use()) out_.append(shown.read ? " fetch=yes" : " fetch=no");
  append(" size=", shown.bytes);
  out_.append("\r\n");
}

Change MetaOperation::stored(const Current& current, std::string_view& answer) {
  const char mode = set_mode();
  const bool extends = mode == 'A' || mode == 'P';
  const bool creates = !extends || flags_.creates;
  if (current.exists ? mode == 'E' : mode == 'R' || !creates) {
    answer = "NS";
    return Change::keep();
  }
  if (flags_.version && !current.exists) {
    answer = "NF";
    return Change::keep();
  }
  if (flags_.version && *flags_.version != current.version) {
    // What was read before the item became stale may still replace it, and is stale, too.
    if (flags_.invalidates && *flags_.version < current.version && !extends) {
      answer = "HD";
      const ItemState state{true, read_item(current.value).state.token_sent};
      return put(write_item(flags_.client, asked_.data, room_, state), current.expires_at_ms,
                 version_);
    }
    answer = "EX";
    return Change::keep();
  }
  answer = "HD";
  if (!extends || !current.exists) {
    const int64_t exptime = extends ? flags_.creates_exptime : flags_.exptime;
    return put(write_item(flags_.client, asked_.data, room_), expires_at_ms(exptime), version_);
  }
  const MemcachedItem item = read_item(current.value);
  data_.assign(mode == 'A' ? item.data : asked_.data);
  data_.append(mode == 'A' ? asked_.data : item.data);
  if (data_.size() > kMemcachedItemBytes) {
    answer = kTooLarge;
    return Change::keep();
  }
  return put(write_item(item.flags, data_, room_), current.expires_at_ms, version_);
}

// In capitals.
char MetaOperation::set_mode() const {
  return flags_.mode == 0 ? 'S' : static_cast<char>(flags_.mode & ~0x20);
}

void MetaOperation::set() {
  constexpr std::string_view kModes = "EeAaPpRrSs";
  if (flags_.mode != 0 && kModes.find(flags_.mode) == std::string_view::npos) {
    return say("CLIENT_ERROR invalid mode for ms");
  }
  const char mode = set_mode();
  prefixes().set(key());
  if (asked_.too_large) return refuse_too_large(key_, mode == 'S');
  std::string_view code;
  const Outcome outcome =
      engine_.update(key_, [&](const Current& current) { return stored(current, code); });
  count_store(outcome, code);
  if (!good(outcome)) return;
  if (flags_.version && (mode == 'S' || mode == 'R')) count_cas(code);
  if (code == "HD" && flags_.quiet) return;
  if (code.size() != 2) return say(code);
  Shown shown;
  shown.version = version_;
  answer(code, &shown);
}

// With I the item becomes stale instead.
Change MetaOperation::erased(const Current& current, std::string_view& answer) {
  answer = "NF";
  if (!current.exists) return Change::keep();
  answer = flags_.version && *flags_.version != current.version ? "EX" : "HD";
  if (answer == "EX") return Change::keep();
  if (!flags_.invalidates) return Change::erase();
  const MemcachedItem item = read_item(current.value);
  return Change::put(write_item(item.flags, item.data, room_, {.stale = true}),
                     flags_.touches ? expires_at_ms(flags_.exptime) : current.expires_at_ms);
}

void MetaOperation::erase() {
  prefixes().erase(key());
  std::string_view code;
  const Outcome outcome =
      engine_.update(key_, [&](const Current& current) { return erased(current, code); });
  if (!good(outcome)) return;
  if (code != "HD" || !flags_.invalidates) count_delete(code == "HD");
  if (code != "EX" && flags_.quiet) return;
  answer(code);
}

Change MetaOperation::counted(const Current& current, std::string_view& answer) {
  answer = "NF";
  if (!current.exists) {
    if (!flags_.creates) return Change::keep();
    answer = "HD";
    data_ = std::to_string(flags_.initial);
    return put(data_, expires_at_ms(flags_.creates_exptime), version_);
  }
  if (flags_.version && *flags_.version != current.version) {
    answer = "EX";
    return Change::keep();
  }
  const MemcachedItem item = read_item(current.value);
  uint64_t number = 0;
  if (!read_counter(item.data, number)) {
    answer = "CLIENT_ERROR cannot increment or decrement non-numeric value";
    return Change::keep();
  }
  number = counts_down() ? number - std::min(number, flags_.delta) : number + flags_.delta;
  answer = "HD";
  data_ = std::to_string(number);
  return put(write_item(item.flags, data_, room_),
             flags_.touches ? expires_at_ms(flags_.exptime) : current.expires_at_ms, version_);
}

bool MetaOperation::counts_down() const {
  return flags_.mode == 'D' || flags_.mode == 'd' || flags_.mode == '-';
}

void MetaOperation::step() {
  constexpr std::string_view kModes = "IiDd+-";
  if (flags_.mode != 0 && kModes.find(flags_.mode) == std::string_view::npos) {
    return say("CLIENT_ERROR invalid mode for ma");
  }
  Shown shown;
  std::string_view code;
  bool existed = false;
  const Outcome outcome = engine_.update(key_, [&](const Current& current) {
    existed = current.exists;
    const Change change = counted(current, code);
    shown.expires_at_ms = change.expires_at_ms;
    return change;
  });
  if (!good(outcome)) return;
  if (code.size() != 2) return say(code);
  if (code == "HD" && !existed) count("total_items");
  if (code == "NF" || (code == "HD" && existed)) count_step(!counts_down(), existed);
  if (code != "EX" && flags_.quiet) return;
  shown.version = version_;
  code == "HD" && flags_.value ? answer_value(shown, data_) : answer(code, &shown);
}

void MetaOperation::answer(std::string_view code, const Shown* shown) {
  out_.append(code);
  const Shown none;
  for (const std::string_view word : asked_.words) {
    append_flag(word[0], word, code == "HD" && shown != nullptr ? *shown : none);
  }
  if (shown != nullptr) append_state(*shown);
  out_.append("\r\n");
}

void MetaOperation::answer_value(const Shown& shown, std::string_view data) {
  out_.append("VA ");
  append_number(data.size());
  for (const std::string_view word : asked_.words) append_flag(word[0], word, shown);
  append_state(shown);
  out_.append("\r\n");
  say(data);
}

uint64_t MetaOperation::seconds_left(const Shown& shown) const {
  const int64_t left_ms = std::max(shown.expires_at_ms - server_.now_ms(), int64_t{0});
  return static_cast<uint64_t>((left_ms + kMillisPerSecond - 1) / kMillisPerSecond);
}

uint64_t MetaOperation::idle_seconds(const Shown& shown) {
  return static_cast<uint64_t>(shown.idle_ms / kMillisPerSecond);
}

void MetaOperation::append_state(const Shown& shown) {
  if (shown.won) out_.append(" W");
  if (shown.state.stale) out_.append(" X");
  if (shown.state.token_sent) out_.append(" Z");
}

void MetaOperation::append_flag(char letter, std::string_view word, const Shown& shown) {
  const auto append = [&](char name, uint64_t number) {
    out_.append({std::array{' ', name}.data(), 2});
    append_number(number);
  };
  switch (letter) {
    case 'O':
      out_.append(" ");
      out_.append(word);
      return;
    case 'k':
      out_.append(" k");
      out_.append(key());
      if (flags_.base64) out_.append(" b");
      return;
    case 'f': return append('f', shown.client);
    case 'h': return append('h', shown.read ? 1 : 0);
    case 'l': return append('l', idle_seconds(shown));
    case 'c': return append('c', shown.version);
    case 's': return append('s', shown.bytes);
    case 't':
      if (shown.expires_at_ms == kNoExpiry) return out_.append(" t-1");
      return append('t', seconds_left(shown));
    default: return;
  }
}

}  // namespace rubato::kv
