// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/transaction.h"

#include <algorithm>

#include "kv_server/commands/table.h"

namespace rubato::kv {

bool Transaction::add(uint32_t type, std::span<const std::string_view> argv) {
  if (commands_.size() >= kMostCommands) return false;
  size_t bytes = bytes_ + sizeof(Command);
  for (const std::string_view word : argv) bytes += sizeof(std::string) + word.size();
  if (!share_.resize(bytes)) return false;
  bytes_ = bytes;
  commands_.push_back({type, {argv.begin(), argv.end()}});
  return true;
}

bool Transaction::grows() const {
  return std::any_of(commands_.begin(), commands_.end(), [](const Command& command) {
    return (command_table()[command.type].flags & kDenyOom) != 0;
  });
}

}  // namespace rubato::kv
