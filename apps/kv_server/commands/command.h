// SPDX-License-Identifier: Apache-2.0
//
// Command: one row of the command table. Rows are constants, made once, read by every worker.
//
// Context: everything that a handler may touch while it runs one request. Made on the stack of the
// fiber; lives as long as the handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "datapath/request.h"
#include "kv_server/engine/engine.h"
#include "kv_server/resp/reply.h"

namespace rubato::kv {

class Server;
class KvSession;
struct Command;

inline constexpr std::string_view kNoMemoryForReply =
    "OOM no memory for the reply or the command.";
inline constexpr std::string_view kNoMemoryForData =
    "OOM command not allowed when used memory > 'maxmemory'.";

struct Context {
  Server& server;
  Engine& engine;
  KvSession& session;
  Request& request;
  const Command& command;
  const uint32_t type;  // the command's number; that of the request, but inside EXEC
  std::span<const std::string_view> argv;
  Reply reply;

  // Answers with an error, counted for INFO errorstats and as a failed call.
  void error(std::string_view text);
  // The same for a call that has done nothing, which counts as refused.
  void refuse(std::string_view text);
  // True if the outcome is kDone or kNone; else the error has been answered.
  bool good(Outcome outcome);
};

using Handler = void (*)(Context&);

enum CommandFlag : uint32_t {
  kWrite = 1U << 0,
  kReadOnly = 1U << 1,
  kDenyOom = 1U << 2,   // may grow the data set
  kAdmin = 1U << 3,
  kFast = 1U << 4,      // constant or logarithmic time
  kNoAuth = 1U << 5,    // allowed before AUTH
  kControl = 1U << 6,   // control plane: served from the reserved share of a loaded server
  kDangerous = 1U << 7,
  kLoading = 1U << 8,
  kNoScript = 1U << 9,
  kRunsInMulti = 1U << 10,   // runs at once between MULTI and EXEC
  kDebug = 1U << 12,         // of DEBUG, see KvOptions::debug_command
  kNotInMulti = 1U << 11,    // takes too long to hold up all others, or ends the server
};

enum class Group : uint8_t { kString, kGeneric, kConnection, kServer, kTransactions };

struct KeyPositions {
  int first = 0;  // 0 = no keys
  int last = 0;   // -1 = the last argument
  int step = 0;
};

struct Command {
  std::string_view name;    // lower case; of a subcommand without its parent
  int arity = 0;            // arguments with the name; negative: at least that many
  uint32_t flags = 0;       // of CommandFlag
  KeyPositions keys;
  Handler handler = nullptr;  // null: a container, whose subcommands do the work
  Group group = Group::kGeneric;
  std::string_view since;
  std::string_view summary;
  std::string_view parent;  // of a subcommand: the name of its container
};

inline bool arity_fits(const Command& command, size_t argc) {
  const auto given = static_cast<int>(argc);
  return command.arity >= 0 ? given == command.arity : given >= -command.arity;
}

// The rows of each family.
std::span<const Command> string_commands();
std::span<const Command> counter_commands();
std::span<const Command> generic_commands();
std::span<const Command> expiry_commands();
std::span<const Command> range_commands();
std::span<const Command> connection_commands();
std::span<const Command> client_commands();
std::span<const Command> config_commands();
std::span<const Command> server_commands();
std::span<const Command> introspection_commands();
std::span<const Command> observability_commands();
std::span<const Command> transaction_commands();

}  // namespace rubato::kv
