// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/call.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "kv_server/commands/table.h"
#include "kv_server/memcached/meta.h"
#include "kv_server/memcached/operation.h"
#include "kv_server/memcached/stats.h"

namespace rubato::kv {
namespace {

std::string_view command_of(MemcachedVerb verb) {
  switch (verb) {
    case MemcachedVerb::kGet:
    case MemcachedVerb::kGets:
    case MemcachedVerb::kMetaDebug:
    case MemcachedVerb::kMetaGet: return "get";
    case MemcachedVerb::kGat:
    case MemcachedVerb::kGats: return "getex";
    case MemcachedVerb::kSet:
    case MemcachedVerb::kAdd:
    case MemcachedVerb::kReplace:
    case MemcachedVerb::kMetaSet:
    case MemcachedVerb::kCas: return "set";
    case MemcachedVerb::kAppend:
    case MemcachedVerb::kPrepend: return "append";
    case MemcachedVerb::kMetaDelete:
    case MemcachedVerb::kDelete: return "del";
    case MemcachedVerb::kMetaArithmetic:
    case MemcachedVerb::kIncr: return "incrby";
    case MemcachedVerb::kDecr: return "decrby";
    case MemcachedVerb::kTouch: return "expire";
    case MemcachedVerb::kFlushAll: return "flushall";
    case MemcachedVerb::kStats: return "info";
    case MemcachedVerb::kMetaNoop:
    case MemcachedVerb::kVersion:
    case MemcachedVerb::kVerbosity: return "ping";
    case MemcachedVerb::kQuit: return "quit";
    case MemcachedVerb::kSkipped:
    case MemcachedVerb::kBad: break;
  }
  return "";
}

bool is_control(MemcachedVerb verb) { return verb >= MemcachedVerb::kMetaNoop; }

// A request of the classic commands.
class Run : public MemcachedOperation {
 public:
  using MemcachedOperation::MemcachedOperation;

  void get(bool with_token) {
    for (const std::string_view key : asked_.keys) {
      const auto show = [&](std::string_view value) { item(key, value, nullptr); };
      const auto show_versioned = [&](std::string_view value, uint64_t version) {
        item(key, value, &version);
      };
      const Outcome outcome =
          with_token ? engine_.get_versioned(key, show_versioned) : engine_.get(key, show);
      if (!good(outcome)) return;
      count_get(outcome == Outcome::kDone);
      prefixes().get(key, outcome == Outcome::kDone);
    }
    out_.append("END\r\n");
  }

  // As get, and the items live on until the new time.
  void get_and_touch(bool with_token) {
    for (const std::string_view key : asked_.keys) {
      uint64_t version = 0;
      const Outcome outcome = engine_.update(key, [&](const Current& current) {
        if (!current.exists) return Change::keep();
        data_.assign(current.value);
        version = current.version;
        return Change::expire(expires_at_ms()).as(Change::Use::kRead);
      });
      if (!good(outcome)) return;
      count_touch(version != 0);
      prefixes().get(key, version != 0);
      if (version != 0) item(key, data_, with_token ? &version : nullptr);
    }
    out_.append("END\r\n");
  }

  void set(SetOptions::When when) {
    prefixes().set(key());
    if (asked_.too_large) return refuse_too_large(key(), when == SetOptions::When::kAlways);
    SetOptions options;
    options.when = when;
    options.expires_at_ms = expires_at_ms();
    const std::string_view value = write_item(asked_.flags, asked_.data, room_);
    const Outcome outcome = engine_.set(key(), value, options);
    count_store(outcome, {});
    if (good(outcome)) say(outcome == Outcome::kDone ? "STORED" : "NOT_STORED");
  }

  void extend(bool behind) {
    prefixes().set(key());
    if (asked_.too_large) return refuse_too_large(key(), false);
    const Outcome outcome = update([&](const MemcachedItem& item, const Current& current) {
      data_.assign(behind ? item.data : asked_.data);
      data_.append(behind ? asked_.data : item.data);
      if (data_.size() > kMemcachedItemBytes) {
        answer_ = kTooLarge;
        return Change::keep();
      }
      answer_ = "STORED";
      return Change::put(write_item(item.flags, data_, room_), current.expires_at_ms);
    }, "NOT_STORED");
    count_store(outcome, answer_);
    if (good(outcome)) say(answer_);
  }

  void compare_and_set() {
    prefixes().set(key());
    if (asked_.too_large) return refuse_too_large(key(), false);
    const Outcome outcome = update([&](const MemcachedItem&, const Current& current) {
      if (current.version != asked_.number) {
        answer_ = "EXISTS";
        return Change::keep();
      }
      answer_ = "STORED";
      return Change::put(write_item(asked_.flags, asked_.data, room_), expires_at_ms());
    }, kNotFound);
    count_store(outcome, answer_);
    if (!good(outcome)) return;
    count_cas(answer_);
    say(answer_);
  }

  void erase() {
    prefixes().erase(key());
    const Outcome outcome = engine_.erase(key());
    if (!good(outcome)) return;
    count_delete(outcome == Outcome::kDone);
    say(outcome == Outcome::kDone ? "DELETED" : kNotFound);
  }

  // Up it wraps around, down it stops at 0 (protocol.txt, "Increment/Decrement").
  void step(bool up) {
    const Outcome outcome = update([&](const MemcachedItem& item, const Current& current) {
      uint64_t number = 0;
      if (!read_counter(item.data, number)) {
        answer_ = "CLIENT_ERROR cannot increment or decrement non-numeric value";
        return Change::keep();
      }
      number = up ? number + asked_.number : number - std::min(number, asked_.number);
      answer_ = std::to_string(number);
      return Change::put(write_item(item.flags, answer_, room_), current.expires_at_ms);
    }, kNotFound);
    if (!good(outcome)) return;
    if (const bool hit = outcome == Outcome::kDone; hit || answer_ == kNotFound) {
      count_step(up, hit);
    }
    say(answer_);
  }

  void touch() {
    const Outcome outcome = update([&](const MemcachedItem&, const Current&) {
      answer_ = "TOUCHED";
      return Change::expire(expires_at_ms()).as(Change::Use::kRead);
    }, kNotFound);
    if (!good(outcome)) return;
    count_touch(answer_ != kNotFound);
    say(answer_);
  }

  // A time in the future flushes then what is here then; the last one that was asked for counts.
  void flush_all() {
    count("cmd_flush");
    server_.flush_at(asked_.exptime > 0 ? expires_at_ms() : kNoExpiry);
    if (asked_.exptime > 0 || good(engine_.flush())) say("OK");
  }

 private:
  static constexpr std::string_view kNotFound = "NOT_FOUND";

  int64_t expires_at_ms() const { return MemcachedOperation::expires_at_ms(asked_.exptime); }

  // Applies `change`, which sets answer_, to the item; answer_ is `none` if there is no item.
  template <class F>
  Outcome update(F&& change, std::string_view none) {
    return engine_.update(key(), [&](const Current& current) {
      answer_ = none;
      return current.exists ? change(read_item(current.value), current) : Change::keep();
    });
  }

  void item(std::string_view key, std::string_view value, const uint64_t* token) {
    const MemcachedItem item = read_item(value);
    out_.append("VALUE ");
    out_.append(key);
    for (const uint64_t number : {uint64_t{item.flags}, uint64_t{item.data.size()}}) {
      out_.append(" ");
      append_number(number);
    }
    if (token != nullptr) {
      out_.append(" ");
      append_number(*token);
    }
    out_.append("\r\n");
    out_.append(item.data);
    out_.append("\r\n");
  }

  std::string answer_;
};

}  // namespace

MemcachedCall::Found MemcachedCall::find(std::string_view unread) {
  Found found;
  found.length = parser_.parse(unread, asked_, found.wanted);
  const std::string_view command = command_of(asked_.verb);
  found.type = command.empty() ? kUnknownCommand : command_table().find(command);
  found.is_control = is_control(asked_.verb);
  return found;
}

void MemcachedCall::refuse(Request& request) const {
  server_.calls().refuse_unstarted(request.type);
  server_.errors().count_refusal();
  request.close_after = asked_.close;  // the stream is lost all the same
  if (!asked_.noreply) say_overloaded(request);
}

void MemcachedCall::say_overloaded(Request& request) {
  char text[20];
  const auto [end, problem] = std::to_chars(text, text + sizeof text, retry_after_ms(request));
  request.reply->append(request.job_class == JobClass::kLong
                            ? "SERVER_ERROR overloaded long retry-after-ms "
                            : "SERVER_ERROR overloaded short retry-after-ms ");
  request.reply->append({text, static_cast<size_t>(end - text)});
  request.reply->append("\r\n");
}

void MemcachedCall::run(Request& request) {
  request.close_after = asked_.close || asked_.verb == MemcachedVerb::kQuit;
  ReplyBuffer nowhere;
  Run run(server_, asked_, asked_.noreply ? nowhere : *request.reply);
  switch (asked_.verb) {
    case MemcachedVerb::kSkipped: return;
    case MemcachedVerb::kBad: return run.say(asked_.error.substr(0, asked_.error.size() - 2));
    case MemcachedVerb::kGet: return run.get(false);
    case MemcachedVerb::kGets: return run.get(true);
    case MemcachedVerb::kGat: return run.get_and_touch(false);
    case MemcachedVerb::kGats: return run.get_and_touch(true);
    case MemcachedVerb::kMetaGet:
    case MemcachedVerb::kMetaDebug:
    case MemcachedVerb::kMetaSet:
    case MemcachedVerb::kMetaDelete:
    case MemcachedVerb::kMetaArithmetic:
      return MetaOperation(server_, asked_, *request.reply).run();
    case MemcachedVerb::kMetaNoop: return run.say("MN");
    case MemcachedVerb::kSet: return run.set(SetOptions::When::kAlways);
    case MemcachedVerb::kAdd: return run.set(SetOptions::When::kIfAbsent);
    case MemcachedVerb::kReplace: return run.set(SetOptions::When::kIfPresent);
    case MemcachedVerb::kAppend: return run.extend(true);
    case MemcachedVerb::kPrepend: return run.extend(false);
    case MemcachedVerb::kCas: return run.compare_and_set();
    case MemcachedVerb::kDelete: return run.erase();
    case MemcachedVerb::kIncr: return run.step(true);
    case MemcachedVerb::kDecr: return run.step(false);
    case MemcachedVerb::kTouch: return run.touch();
    case MemcachedVerb::kFlushAll: return run.flush_all();
    case MemcachedVerb::kVersion: return run.say(std::string("VERSION ") + kMemcachedVersion);
    case MemcachedVerb::kVerbosity: return run.say("OK");
    case MemcachedVerb::kStats: return MemcachedStats(server_, asked_, *request.reply).run();
    case MemcachedVerb::kQuit: return;
  }
}

}  // namespace rubato::kv
