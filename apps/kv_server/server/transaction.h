// SPDX-License-Identifier: Apache-2.0
//
// Transaction: the commands that a connection has queued since MULTI. Owned by its session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_account.h"

namespace rubato::kv {

class Transaction {
 public:
  static constexpr size_t kMostCommands = 10'000;

  // Takes its memory of `account`, which may be null.
  explicit Transaction(MemoryAccount* account) : share_(account) {}

  // Copies the words of a command. False: there are too many, or no memory for them.
  bool add(uint32_t type, std::span<const std::string_view> argv);

  // EXEC is to fail: a command was wrong or refused, or MULTI itself was.
  void abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }
  // MULTI was refused: the commands behind it are not even queued.
  void reject() { rejected_ = aborted_ = true; }
  bool rejected() const { return rejected_; }

  // One of the commands may grow the data.
  bool grows() const;

  size_t size() const { return commands_.size(); }
  // Calls f(type, argv) for each in its order.
  template <class F>
  void for_each(F&& f) const {
    std::vector<std::string_view> argv;
    for (const Command& command : commands_) {
      argv.assign(command.words.begin(), command.words.end());
      f(command.type, std::span<const std::string_view>(argv));
    }
  }

 private:
  struct Command {
    uint32_t type = 0;
    std::vector<std::string> words;
  };

  std::vector<Command> commands_;
  MemoryShare share_;
  size_t bytes_ = 0;
  bool aborted_ = false;
  bool rejected_ = false;
};

// What WATCH has seen of a key.
struct Watched {
  std::string key;
  bool exists = false;
  uint64_t version = 0;  // of a key that was not there: Current::creations
  int64_t expires_at_ms = 0;
};

}  // namespace rubato::kv
