// SPDX-License-Identifier: Apache-2.0
//
// KvCalls: what a client of a key-value server in a world asks for, drawn at random, in the words
// of RESP. For tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"
#include "virtual/testing/kv_model.h"

namespace rubato::virt::testing {

struct KvClientSetting {
  enum class Kind : uint8_t {
    kPair,
    kWatchedPair,
    kCounter,
    kString,
    kPresence,
    kNewKeys,
    kCompared,  // all clients speak memcached
  };
  static constexpr uint32_t kKinds = 7;

  uint32_t batches = 1;
  bool resets = false;
  bool hot = false;           // clients do not rest, and most of what they do is of one kind:
  Kind hot_on = Kind::kPair;
  bool quiet = false;         // one call at a time, with rests
  bool memory_fails = false;  // commands may be answered so
  bool is_refused = false;    // they may be answered that the server is overloaded
};

// One operation, and how it is asked for.
struct Call {
  enum class Answer : uint8_t { kResp, kLine, kItem, kQuiet };

  std::string key;  // empty = its reply is not looked at
  Operation operation = {};
  std::vector<std::string> commands = {};  // the last one's reply is the operation's
  Answer answer = Answer::kResp;           // of each command
  size_t end = 0;                          // of its bytes in the batch
  Instant called = {};
};

class KvCalls {
 public:
  KvCalls(const KvClientSetting& setting, Prng& prng, uint32_t number)
      : setting_(setting), prng_(prng), number_(number) {}

  Call draw() {
    const uint32_t draw = prng_.below(16);
    if (setting_.hot && draw > 3) return draw_hot();
    if (draw == 0) {
      static constexpr const char* kLong[] = {"KEYS *", "SCAN 0 COUNT 100", "CLIENT LIST"};
      return {.key = "", .commands = {kLong[prng_.below(std::size(kLong))]}};
    }
    if (draw == 1) return discarded_transaction();
    if (draw == 2) return of_new_keys();
    return draw <= 5 ? of_pair() : of_key(draw <= 8);
  }

  std::string key(bool counter) {
    return (counter ? "n" : "s") + std::to_string(setting_.hot ? 0 : prng_.below(3));
  }

  // Short values and a few that fill windows; each once.
  std::string value() {
    std::string text = "v" + std::to_string(number_) + "." + std::to_string(next_value_++);
    if (prng_.below(20) == 0) text.append(prng_.below(20'000), 'x');
    return text;
  }

 private:
  // Of few kinds, as what two clients do must meet within a few steps of each.
  Call draw_hot() {
    using Kind = KvClientSetting::Kind;
    static constexpr const char* kPresence[] = {"GET", "SETNX", "DEL"};
    static constexpr const char* kWatched[] = {"EXEC IF", "MSET"};
    switch (setting_.hot_on) {
      case Kind::kPair: break;
      case Kind::kWatchedPair: return of_pair(kWatched[prng_.below(std::size(kWatched))]);
      case Kind::kCounter: return of_key(true);
      case Kind::kString:
      case Kind::kCompared: return of_key(false);
      case Kind::kPresence:
        return do_with(key(false), kPresence[prng_.below(std::size(kPresence))]);
      case Kind::kNewKeys: return of_new_keys();
    }
    return of_pair();
  }

  Call of_key(bool counter) {
    static constexpr const char* kCommands[] = {"GET",   "GET", "SET",   "GETSET",
                                                "SETNX", "DEL", "APPEND"};
    const std::string of = key(counter);
    return do_with(of, counter ? "INCR" : kCommands[prng_.below(std::size(kCommands))]);
  }

  Call do_with(const std::string& of, const char* what) {
    Call call;
    call.key = of;
    call.operation.command = what;
    std::string command = call.operation.command + " " + call.key;
    if (!takes_nothing(call.operation.command)) {
      call.operation.argument = value();
      command += " " + call.operation.argument;
    }
    call.commands = {command};
    return call;
  }

  static bool takes_nothing(const std::string& command) {
    return command == "GET" || command == "DEL" || command == "INCR";
  }

  // The key that it would set stays unset: the last reply is that of a GET.
  static Call discarded_transaction() {
    return {.key = "never",
            .operation = {"GET"},
            .commands = {"MULTI", "SET never x", "DISCARD", "GET never"}};
  }

  // Keys that are new each time, so that the store grows while there is no memory. One of several
  // that are set together is looked at, most of those soon.
  Call of_new_keys() {
    constexpr uint32_t kTogether = 16;
    if (!set_.empty() && prng_.below(2) == 0) {
      const auto all = static_cast<uint32_t>(set_.size());
      const std::string& key = prng_.below(2) == 0 ? set_.back() : set_[prng_.below(all)];
      return {.key = key, .operation = {"GET"}, .commands = {"GET " + key}};
    }
    const std::string name = std::to_string(number_) + "." + std::to_string(next_value_++);
    const uint32_t noted = prng_.below(kTogether);
    std::string command = "MSET";
    for (uint32_t i = 0; i < kTogether; ++i) {
      const std::string key = "new" + std::to_string(i) + "." + name;
      command += " " + key + " v" + name;
      if (i == noted) set_.push_back(key);
    }
    return {.key = set_.back(), .operation = {"SET", "v" + name}, .commands = {command}};
  }

  Call of_pair() {
    static constexpr const char* kCommands[] = {
        "GET left", "GET right",         "MSET",     "MSETNX",   "RENAME left right",
        "EXEC GET", "RENAME right left", "EXEC SET", "EXEC IF",  "EXEC MSET"};
    return of_pair(kCommands[prng_.below(std::size(kCommands))]);
  }

  Call of_pair(const std::string& command) {
    Call call{.key = "pair", .operation = {command}, .commands = {command}};
    if (command == "EXEC GET") call.commands = {"MULTI", "GET left", "GET right", "EXEC"};
    if (command.starts_with("GET") || command.starts_with("RENAME") || command == "EXEC GET") {
      return call;
    }
    const std::string both = call.operation.argument = value();
    if (command.starts_with("MSET")) {
      call.commands = {command + " left " + both + " right " + both};
      return call;
    }
    if (command == "EXEC MSET") {
      call.commands = {"MULTI", "MSET left " + both + " right " + both, "EXEC"};
      return call;
    }
    call.commands = {"MULTI", "SET left " + both, "SET right " + both, "EXEC"};
    if (command == "EXEC SET") return call;
    call.commands.insert(call.commands.begin(), {"WATCH left", "GET left"});
    return call;
  }

  const KvClientSetting& setting_;
  Prng& prng_;
  const uint32_t number_;
  uint32_t next_value_ = 0;
  std::vector<std::string> set_;  // new keys that it has asked to be set
};

}  // namespace rubato::virt::testing
