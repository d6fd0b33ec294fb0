// SPDX-License-Identifier: Apache-2.0
//
// CommandTable: every command and subcommand under a small number, which is also Request::type.
// Number 0 is the unknown command. Made once per process, constant afterwards, safe on every
// thread; a lookup allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv_server/commands/command.h"

namespace rubato::kv {

inline constexpr uint32_t kUnknownCommand = 0;

class CommandTable {
 public:
  CommandTable();

  // Case-insensitive; kUnknownCommand if there is none.
  uint32_t find(std::string_view name) const;
  // The subcommand of container `parent`, or kUnknownCommand.
  uint32_t find_subcommand(uint32_t parent, std::string_view name) const;
  // The number of a request: a command, a subcommand, or the container of an unknown subcommand.
  uint32_t resolve(std::span<const std::string_view> argv) const {
    const uint32_t found = find(argv[0]);
    if (!rows_[found].container || argv.size() < 2) return found;
    const uint32_t sub = find_subcommand(found, argv[1]);
    return sub == kUnknownCommand ? found : sub;
  }

  const Command& operator[](uint32_t number) const { return *rows_[number].command; }
  // "get", "config|get"; "unknown" for 0.
  const std::string& full_name(uint32_t number) const { return rows_[number].full_name; }
  bool is_container(uint32_t number) const { return rows_[number].container; }
  bool is_subcommand(uint32_t number) const { return rows_[number].parent != 0; }
  const std::vector<uint32_t>& subcommands(uint32_t number) const {
    return rows_[number].subcommands;
  }
  // Numbers run from 0 to size()-1.
  uint32_t size() const { return static_cast<uint32_t>(rows_.size()); }

 private:
  struct Row {
    const Command* command = nullptr;
    std::string full_name;
    uint32_t parent = 0;
    bool container = false;
    std::vector<uint32_t> subcommands;
  };
  // The folded name as two overlapping words: names have at most kMaxNameBytes.
  struct Key {
    uint64_t head = 0;
    uint64_t tail = 0;
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    uint32_t number = 0;
    uint32_t length = 0;
  };

  static constexpr size_t kMaxNameBytes = 16;
  static constexpr size_t kSlots = 512;

  static Key fold(std::string_view name);
  static size_t slot_of(const Key& key, size_t length);
  void add(const Command& command);
  void index(uint32_t number);

  std::vector<Row> rows_;
  std::array<Slot, kSlots> slots_{};
};

// The table of this process.
const CommandTable& command_table();

}  // namespace rubato::kv
