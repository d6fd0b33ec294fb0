// SPDX-License-Identifier: Apache-2.0
#include "kv_server/commands/table.h"

#include <cstring>

#include "base/check.h"
#include "kv_server/text/words.h"

namespace rubato::kv {
namespace {

constexpr Command kUnknown{"unknown", -1, 0, {}, nullptr, Group::kServer, {}, {}, {}};

// Command names are letters only, and a letter with this bit set is its lower case; no other byte
// becomes a letter by it.
constexpr uint64_t kLowerCaseBits = 0x2020202020202020;

}  // namespace

CommandTable::CommandTable() {
  rows_.push_back({.command = &kUnknown, .full_name = "unknown", .subcommands = {}});
  for (const auto family :
       {string_commands(), counter_commands(), generic_commands(), expiry_commands(),
        range_commands(), connection_commands(), client_commands(), config_commands(),
        server_commands(), introspection_commands(), observability_commands(),
        transaction_commands()}) {
    for (const Command& command : family) add(command);
  }
}

void CommandTable::add(const Command& command) {
  const uint32_t number = size();
  Row row{.command = &command, .full_name = std::string(command.name), .subcommands = {}};
  if (command.parent.empty()) {
    rows_.push_back(std::move(row));
    index(number);
    return;
  }
  row.parent = find(command.parent);
  RUBATO_CHECK(row.parent != kUnknownCommand);
  row.full_name = std::string(command.parent) + "|" + row.full_name;
  rows_[row.parent].container = true;
  rows_[row.parent].subcommands.push_back(number);
  rows_.push_back(std::move(row));
}

void CommandTable::index(uint32_t number) {
  const std::string_view name = rows_[number].command->name;
  RUBATO_CHECK(!name.empty() && name.size() <= kMaxNameBytes);
  const Key key = fold(name);
  size_t slot = slot_of(key, name.size());
  while (slots_[slot].number != kUnknownCommand) slot = (slot + 1) % kSlots;
  slots_[slot] = {key, number, static_cast<uint32_t>(name.size())};
}

CommandTable::Key CommandTable::fold(std::string_view name) {
  Key key;
  const char* bytes = name.data();
  const size_t size = name.size();
  if (size >= sizeof(uint64_t)) {
    std::memcpy(&key.head, bytes, sizeof(uint64_t));
    std::memcpy(&key.tail, bytes + size - sizeof(uint64_t), sizeof(uint64_t));
  } else if (size >= sizeof(uint32_t)) {
    uint32_t head = 0;
    uint32_t tail = 0;
    std::memcpy(&head, bytes, sizeof head);
    std::memcpy(&tail, bytes + size - sizeof tail, sizeof tail);
    key.head = head;
    key.tail = tail;
  } else {
    for (size_t i = 0; i < size; ++i) {
      key.head |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
  }
  key.head |= kLowerCaseBits;
  key.tail |= kLowerCaseBits;
  return key;
}

size_t CommandTable::slot_of(const Key& key, size_t length) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  constexpr int kSlotBits = 9;
  static_assert(size_t{1} << kSlotBits == kSlots);
  const uint64_t mixed = (key.head ^ (key.tail >> 3) ^ length) * kMix;
  return mixed >> (64 - kSlotBits);
}

uint32_t CommandTable::find(std::string_view name) const {
  if (name.empty() || name.size() > kMaxNameBytes) return kUnknownCommand;
  const Key key = fold(name);
  for (size_t slot = slot_of(key, name.size());; slot = (slot + 1) % kSlots) {
    const Slot& candidate = slots_[slot];
    if (candidate.number == kUnknownCommand) return kUnknownCommand;
    if (candidate.length == name.size() && candidate.key == key) return candidate.number;
  }
}

uint32_t CommandTable::find_subcommand(uint32_t parent, std::string_view name) const {
  for (const uint32_t number : rows_[parent].subcommands) {
    if (same_word(rows_[number].command->name, name)) return number;
  }
  return kUnknownCommand;
}

const CommandTable& command_table() {
  static const CommandTable table;
  return table;
}

}  // namespace rubato::kv
