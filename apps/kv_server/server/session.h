// SPDX-License-Identifier: Apache-2.0
//
// KvSession: one client connection: its parser, its protocol version, whether it has authenticated,
// its name. Used by the flow's owner of the moment; the fields that CLIENT LIST reads from other
// threads are atomic or under a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "datapath/request.h"
#include "kv_server/commands/table.h"
#include "kv_server/resp/parser.h"
#include "kv_server/resp/reply.h"
#include "kv_server/server/options.h"
#include "kv_server/server/transaction.h"

namespace rubato::kv {

class Server;

// CLIENT REPLY.
enum class Replies : uint8_t { kOn, kOff, kSkipNext };

class KvSession : public Session {
 public:
  KvSession(Server& server, const Peer& peer, Speaks speaks = Speaks::kResp);

  Speaks speaks() const { return speaks_; }

  Frame frame(std::string_view unread, Request& request) override;
  void refuse(Request& request) override;

  // The request that frame() has found last; valid until the next call.
  std::span<const std::string_view> argv() const { return parser_.argv(); }
  // The protocol error of this request; empty = none.
  std::string_view protocol_error() const { return protocol_error_; }

  RespVersion version() const { return version_; }
  bool authenticated() const;
  uint64_t id() const { return id_; }
  const std::string& address() const { return address_; }

  Replies replies() const { return replies_; }
  void set_replies(Replies replies) { replies_ = replies; }

  // What was queued since MULTI; null outside of a transaction.
  Transaction* transaction() const { return transaction_.get(); }
  Transaction& begin_transaction();
  std::unique_ptr<Transaction> end_transaction() { return std::move(transaction_); }
  // The keys of WATCH. False = there is no memory for another.
  bool watch(const Watched& key);
  std::vector<Watched> take_watched();

  void set_version(RespVersion version);
  void set_authenticated(bool yes) { authenticated_ = yes; }
  // Resets the state of HELLO, AUTH and the like to that of a new connection.
  void reset();

  // For CLIENT LIST; any thread.
  std::string name() const;
  void set_name(std::string_view name);
  void set_library(std::string_view name_or_empty, std::string_view version_or_empty);
  std::pair<std::string, std::string> library() const;
  void set_no_evict(bool on) { no_evict_.store(on, std::memory_order_relaxed); }
  bool no_evict() const { return no_evict_.load(std::memory_order_relaxed); }
  void note_command(uint32_t number) { last_command_.store(number, std::memory_order_relaxed); }
  uint32_t last_command() const { return last_command_.load(std::memory_order_relaxed); }
  uint8_t shown_version() const { return shown_version_.load(std::memory_order_relaxed); }

  // The limit on one list in a reply.
  virtual uint64_t max_reply_bytes() const;

 protected:
  // A command was refused before it could be queued or, if it is MULTI, begin to queue.
  void note_refused_command(uint32_t type);
  Server& server() const { return *server_; }

  // As frame(), of bytes that are to be one request and nothing else.
  void take_whole(std::string_view bytes, Request& request);
  // argv() is empty from now on.
  void forget_request();

 private:
  bool muted();

  Server* server_;
  const Speaks speaks_;
  const CommandTable* table_;
  RequestParser parser_;
  uint64_t id_;
  std::string address_;
  RespVersion version_ = RespVersion::k2;
  Replies replies_ = Replies::kOn;
  bool authenticated_ = false;
  std::unique_ptr<Transaction> transaction_;
  std::vector<Watched> watched_;
  MemoryShare watched_share_;
  size_t watched_bytes_ = 0;
  bool done_ = false;    // argv() belongs to a request that frame() has handed out
  std::string_view protocol_error_;  // of that request

  std::atomic<uint32_t> last_command_{kUnknownCommand};
  std::atomic<uint8_t> shown_version_{2};
  std::atomic<bool> no_evict_{false};
  mutable std::mutex mutex_;  // guards the strings below
  std::string name_;
  std::string library_name_;
  std::string library_version_;
};

}  // namespace rubato::kv
