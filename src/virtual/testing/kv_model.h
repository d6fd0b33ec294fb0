// SPDX-License-Identifier: Apache-2.0
//
// What clients of a key-value server do, and what they should see: models of one key and of two
// keys that are written together, for linearizable.h. Replies are noted in the form of RESP,
// whatever the client speaks. For tests. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "virtual/testing/linearizable.h"

namespace rubato::virt::testing {

struct Operation {
  std::string command;
  std::string argument = {};
  std::string seen = {};   // what the client has read before, and the command depends on
  std::string reply = {};  // as it came
};

using History = std::vector<Recorded<Operation>>;

inline std::string bulk(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}
inline std::string integer(int64_t value) { return ":" + std::to_string(value) + "\r\n"; }
inline constexpr const char* kNothing = "$-1\r\n";
inline constexpr const char* kOk = "+OK\r\n";
inline constexpr const char* kNotExecuted = "*-1\r\n";  // EXEC, as a watched key has changed

// A value after a mark; empty = there is no such key.
using Value = std::string;

inline bool set(Value& value, const std::string& to) {
  value = "=" + to;
  return true;
}
inline std::string shown(const Value& value) {
  return value.empty() ? kNothing : bulk(value.substr(1));
}

// One key. The state is its value.
struct KeyModel {
  static bool step(std::string& state, const Operation& operation, bool unknown) {
    const std::string expected = apply(state, operation);
    return unknown || operation.reply == expected;
  }

 private:
  static std::string apply(Value& value, const Operation& operation) {
    const bool exists = !value.empty();
    const Value before = value;
    const std::string& command = operation.command;
    if (command == "GET") return shown(before);
    if (command == "SET") return set(value, operation.argument) ? kOk : "";
    if (command == "GETSET") return set(value, operation.argument) ? shown(before) : "";
    if (command == "SETNX") return integer(!exists && set(value, operation.argument) ? 1 : 0);
    if (command == "APPEND") {
      value = (exists ? before : "=") + operation.argument;
      return integer(static_cast<int64_t>(value.size()) - 1);
    }
    if (command == "INCR") return count(value, exists);
    if (command == "DEL") {
      value.clear();
      return integer(exists ? 1 : 0);
    }
    return apply_to_existing(value, operation);
  }

  static std::string count(Value& value, bool exists) {
    const int64_t sum = (exists ? std::stoll(value.substr(1)) : 0) + 1;
    set(value, std::to_string(sum));
    return integer(sum);
  }

  // Commands of memcached, which do nothing to a key that is not there. No two writes of a key
  // bring the same value, so a token stands for a value.
  static std::string apply_to_existing(Value& value, const Operation& operation) {
    if (value.empty()) return kNothing;
    if (operation.command == "incr") return count(value, true);
    if (operation.command == "append") {
      value += operation.argument;
      return kOk;
    }
    const bool unchanged = shown(value) == operation.seen;  // cas
    return integer(unchanged && set(value, operation.argument) ? 1 : 0);
  }
};

// The keys `left` and `right`, which some commands write both of. The state is their values.
struct PairModel {
  static bool step(std::string& state, const Operation& operation, bool unknown) {
    const size_t between = state.find(kBetween);
    Value left = state.substr(0, between);
    Value right = between == std::string::npos ? "" : state.substr(between + 1);
    const std::string expected = apply(left, right, operation);
    state = left + kBetween + right;
    return unknown || operation.reply == expected;
  }

 private:
  static constexpr char kBetween = '|';

  static std::string apply(Value& left, Value& right, const Operation& operation) {
    const std::string& command = operation.command;
    if (command == "GET left") return shown(left);
    if (command == "GET right") return shown(right);
    if (command == "EXEC GET") return "*2\r\n" + shown(left) + shown(right);
    if (command == "EXEC SET") return execute(left, right, operation);
    if (command == "SET left") return set(left, operation.argument) ? kOk : "";
    if (command == "SET right") return set(right, operation.argument) ? kOk : "";
    if (command == "EXEC MSET") {
      static const std::string kNone = "*1\r\n-OOM";
      if (operation.reply.starts_with(kNone)) return operation.reply;
      set(left, operation.argument);
      set(right, operation.argument);
      return std::string("*1\r\n") + kOk;
    }
    if (command == "EXEC IF") {
      // A value that has come back is another version.
      if (operation.reply == kNotExecuted) return kNotExecuted;
      const bool unchanged = operation.seen.empty() || shown(left) == operation.seen;
      return unchanged ? execute(left, right, operation) : kNotExecuted;
    }
    if (command == "MSETNX" && (!left.empty() || !right.empty())) return integer(0);
    if (command == "MSET" || command == "MSETNX") {
      set(left, operation.argument);
      set(right, operation.argument);
      return command == "MSET" ? kOk : integer(1);
    }
    Value& from = command == "RENAME left right" ? left : right;
    Value& to = command == "RENAME left right" ? right : left;
    if (from.empty()) return "-ERR no such key\r\n";
    to = std::exchange(from, {});
    return kOk;
  }

  // One of the two may have found no memory.
  static std::string execute(Value& left, Value& right, const Operation& operation) {
    static const std::string kHead = "*2\r\n";
    static const std::string kRefused = "-OOM";
    std::string expected = kHead;
    for (Value* value : {&left, &right}) {
      const size_t at = expected.size();
      if (operation.reply.size() > at && operation.reply.substr(at).starts_with(kRefused)) {
        expected += operation.reply.substr(at, operation.reply.find('\n', at) + 1 - at);
        continue;
      }
      set(*value, operation.argument);
      expected += kOk;
    }
    return expected;
  }
};

}  // namespace rubato::virt::testing
