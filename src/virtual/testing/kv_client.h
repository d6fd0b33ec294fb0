// SPDX-License-Identifier: Apache-2.0
//
// Clients of a key-value server in a world, of each protocol that it speaks: they send batches of
// calls, at times only a part of one before they reset the connection, read slowly, and note what
// they saw. A client is one thread. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/prng.h"
#include "mechanism/clock/clock.h"
#include "rpc/client_session.h"
#include "virtual/testing/connection.h"
#include "virtual/testing/kv_calls.h"
#include "virtual/testing/kv_model.h"
#include "virtual/testing/watch.h"
#include "virtual/world.h"

namespace rubato::virt::testing {

// What all clients saw, by key. Each connection is a client of its own.
struct Histories {
  static constexpr uint32_t kClientsMax = 8;
  // Of clients whose connection was served before.
  std::array<Awaiting, kClientsMax> awaiting{};

  Instant wait_since() const {
    Instant since = Instant::never();
    for (const Awaiting& client : awaiting) since = std::min(since, client.since());
    return since;
  }

  std::mutex mutex;  // guards the others
  std::map<std::string, std::map<uint32_t, History>> of_key;
  uint64_t answered = 0;     // requests
  uint64_t refused = 0;      // of these, for overload
  uint64_t connections = 0;
  uint64_t turned_away = 0;  // of these, over the limit
  bool lost_some = false;    // requests

  static std::string show(const std::map<uint32_t, History>& by_client) {
    constexpr size_t kMost = 40;
    std::ostringstream text;
    for (const auto& [client, history] : by_client) {
      for (const Recorded<Operation>& one : history) {
        const Operation& operation = one.operation;
        text << "\n  client " << client << " at " << one.called.ns() << " to "
             << (one.unknown() ? int64_t{-1} : one.returned.ns()) << ": " << operation.command
             << " " << operation.argument.substr(0, kMost)
             << (operation.seen.empty() ? "" : " seen " + operation.seen.substr(0, kMost)) << " -> "
             << operation.reply.substr(0, kMost);
      }
    }
    return text.str();
  }

  bool linearizable() const {
    bool all = true;
    for (const auto& [key, by_client] : of_key) {
      std::vector<History> histories;
      for (const auto& [client, history] : by_client) histories.push_back(history);
      const bool good = key == "pair" ? testing::linearizable<PairModel>(histories)
                                      : testing::linearizable<KeyModel>(histories);
      EXPECT_TRUE(good) << key << show(by_client);
      all &= good;
    }
    return all;
  }
};

class KvClient {
 public:
  KvClient(const KvClientSetting& setting, uint32_t number, uint64_t seed, uint16_t port,
           Histories& seen)
      : setting_(setting),
        prng_(seed),
        calls_(setting, prng_, number),
        port_(port),
        seen_(seen),
        number_(number) {}
  virtual ~KvClient() = default;
  KvClient(const KvClient&) = delete;
  KvClient& operator=(const KvClient&) = delete;

  // Returns early when the server is gone.
  void run() {
    for (uint32_t i = 0; i < setting_.batches; ++i) {
      if (connection_ == nullptr && !connect()) break;
      if (!exchange()) connection_.reset();
      const bool rests = setting_.quiet || (!setting_.hot && prng_.below(3) == 0);
      if (rests) virt::spend(Nanos::micros(1 + prng_.below(setting_.quiet ? 300 : 2000)));
    }
    leave();
  }

 protected:
  // Sends a batch and takes its replies. False = the connection is gone.
  virtual bool exchange() = 0;
  virtual void leave() {}

  std::vector<Call> draw_batch() {
    std::vector<Call> batch(setting_.quiet ? 1 : 1 + prng_.below(6));
    for (Call& call : batch) call = draw();
    return batch;
  }
  virtual Call draw() { return calls_.draw(); }

  // The replies to its commands, in the form of RESP, have come. False = what follows on this
  // connection may be queued for a transaction that does not end.
  bool conclude(Call& call, const std::vector<std::string>& replies) {
    for (const std::string& reply : replies) note_answer(reply);
    if (call.answer == Call::Answer::kQuiet) note_answer("");
    const std::string& last = replies.back();
    const bool ends = call.commands.size() < 3 || call.commands[2] != "DISCARD" ||
                      !replies[2].starts_with("-O");
    for (const char* refused : {"-OVERLOADED", "-EXECABORT", "-OOM", "-ERR not run"}) {
      if (last.starts_with(refused)) return ends;
    }
    if (!ends) return lost({call});
    if (call.key.empty()) {
      EXPECT_EQ(last[0], call.commands[0] == "CLIENT LIST" ? '$' : '*');
      return true;
    }
    if (call.operation.command == "EXEC IF") {
      const bool watched = replies[0][0] == '+' && replies[1][0] == '$';
      call.operation.seen = watched ? replies[1] : "";
    }
    call.operation.reply = last;
    add(call, now());
    return true;
  }

  // They were done or not, from that one on.
  bool lost(const std::vector<Call>& batch, size_t from = 0) {
    note_lost();
    for (size_t i = from; i < batch.size(); ++i) {
      if (!batch[i].key.empty()) add_lost(batch[i]);
    }
    return false;
  }
  virtual bool may_be_refused() const { return setting_.memory_fails || setting_.is_refused; }

  Awaiting& awaiting() { return seen_.awaiting.at(number_); }
  Connection& connection() { return *connection_; }
  bool is_connected() const { return connection_ != nullptr; }
  uint32_t number() const { return number_; }

  void note_turned_away() {
    const std::scoped_lock lock(seen_.mutex);
    ++seen_.turned_away;
  }

  const KvClientSetting& setting_;
  Prng prng_;
  KvCalls calls_;
  bool was_served_ = false;  // on this connection

 private:
  bool connect() {
    connection_ = std::make_unique<Connection>(port_);
    was_served_ = false;
    ++connections_;
    if (!connection_->connected()) return false;
    const std::scoped_lock lock(seen_.mutex);
    ++seen_.connections;
    return true;
  }

  void note_lost() {
    const std::scoped_lock lock(seen_.mutex);
    seen_.lost_some = true;
  }

  void note_answer(const std::string& reply) {
    const std::scoped_lock lock(seen_.mutex);
    ++seen_.answered;
    if (reply.starts_with("-OVERLOADED")) ++seen_.refused;
    EXPECT_TRUE(setting_.memory_fails || !reply.starts_with("-OOM"));
  }

  void add(const Call& call, Instant returned) {
    const std::scoped_lock lock(seen_.mutex);
    const uint32_t identity = number_ * 1000 + connections_;
    seen_.of_key[call.key][identity].push_back(
        {call.operation, call.called, returned, may_be_refused()});
  }
  // Of a transaction's writes one may have found no memory.
  void add_lost(Call call) {
    std::string& command = call.operation.command;
    if (!setting_.memory_fails || (command != "EXEC SET" && command != "EXEC IF")) {
      return add(call, Instant::never());
    }
    for (const char* part : {"SET left", "SET right"}) {
      command = part;
      add(call, Instant::never());
    }
  }

  const uint16_t port_;
  Histories& seen_;
  const uint32_t number_;
  std::unique_ptr<Connection> connection_;
  uint32_t connections_ = 0;
};

// One that speaks RESP, in lines.
class RespClient : public KvClient {
 public:
  using KvClient::KvClient;

 protected:
  bool exchange() override {
    std::vector<Call> batch = draw_batch();
    std::string bytes;
    for (Call& call : batch) {
      for (const std::string& command : call.commands) bytes += command + "\r\n";
      call.end = bytes.size();
    }
    if (setting_.resets && prng_.below(6) == 0) return send_and_reset(batch, bytes);
    for (Call& call : batch) call.called = now();
    if (!connection().send(bytes)) return lost(batch);
    const bool reads_late = !setting_.hot && !setting_.quiet && prng_.below(4) == 0;
    if (reads_late) virt::spend(Nanos::micros(1 + prng_.below(1000)));
    for (size_t i = 0; i < batch.size(); ++i) {
      std::vector<std::string> replies;
      while (replies.size() < batch[i].commands.size()) {
        std::optional<std::string> reply = await_reply(batch[i]);
        if (!reply) return lost(batch, i);
        replies.push_back(std::move(*reply));
      }
      if (!conclude(batch[i], replies)) return lost(batch, i + 1);
    }
    return true;
  }

  // In the form of RESP; nothing = the connection ended before.
  virtual std::optional<std::string> read_reply(const Call&) { return connection().reply(); }

  std::optional<std::string> await_reply(const Call& call) {
    if (was_served_) awaiting().begin();
    std::optional<std::string> reply = read_reply(call);
    awaiting().end();
    if (reply && !was_served_ && reply->find(kTurnedAway) != std::string::npos) {
      note_turned_away();
      return std::nullopt;
    }
    was_served_ = reply.has_value();
    return reply;
  }

 private:
  bool send_and_reset(std::vector<Call> batch, const std::string& bytes) {
    const size_t cut = prng_.below(static_cast<uint32_t>(bytes.size()) + 1);
    for (Call& call : batch) call.called = now();
    std::erase_if(batch, [cut](const Call& call) { return call.end > cut; });
    connection().send(std::string_view(bytes).substr(0, cut));
    if (prng_.below(2) == 0) virt::spend(Nanos::micros(prng_.below(100)));
    connection().reset_at_close();
    return lost(batch);
  }

  static constexpr const char* kTurnedAway = "max number of clients";
};

// One that speaks memcached's protocol, classic commands and meta ones.
class MemcachedClient final : public RespClient {
 public:
  using RespClient::RespClient;

 protected:
  bool exchange() override {
    const bool compares = setting_.hot && setting_.hot_on == KvClientSetting::Kind::kCompared;
    if (!compares) return prng_.below(6) == 0 ? compare_and_set() : RespClient::exchange();
    // As many as a batch has calls, so that those of two clients meet.
    for (uint32_t left = 1 + prng_.below(16); left > 0; --left) {
      if (!compare_and_set()) return false;
    }
    return RespClient::exchange();
  }

  Call draw() override {
    Call call;
    Operation& operation = call.operation;
    const bool counter = setting_.hot ? setting_.hot_on == KvClientSetting::Kind::kCounter
                                      : prng_.below(4) == 0;
    const bool presence = setting_.hot && setting_.hot_on == KvClientSetting::Kind::kPresence;
    call.key = calls_.key(counter);
    call.answer = Call::Answer::kLine;
    const std::string& key = call.key;
    const bool meta = prng_.below(2) == 0;
    if (counter) {
      operation.command = meta ? "INCR" : "incr";
      call.answer = meta ? Call::Answer::kItem : Call::Answer::kLine;
      call.commands = {meta ? "ma " + key + " N0 J1 v" : "incr " + key + " 1"};
      return call;
    }
    static constexpr const char* kCommands[] = {"GET", "SETNX", "DEL", "GET", "SET", "append"};
    operation.command = kCommands[prng_.below(presence ? 3 : std::size(kCommands))];
    if (operation.command == "GET") {
      call.answer = Call::Answer::kItem;
      call.commands = {meta ? "mg " + key + " v" : "get " + key};
    } else if (operation.command == "DEL") {
      call.commands = {(meta ? "md " : "delete ") + key};
    } else {
      operation.argument = calls_.value();
      store(call, meta);
    }
    return call;
  }

  // A number for a counter, an item for a read, else a code.
  std::optional<std::string> read_reply(const Call& call) override {
    std::optional<std::string> line = connection().line();
    if (line && call.answer == Call::Answer::kQuiet) return after_quiet(*line);
    if (!line || line->starts_with("SERVER_ERROR")) return line ? error(*line) : line;
    if (line->starts_with("VA ") || line->starts_with("VALUE ")) return item(call, *line);
    if (call.operation.command == "incr") {
      return *line == "NOT_FOUND\r\n" ? kNothing : ":" + *line;
    }
    static const std::map<std::string, std::string> kCodes = {
        {"STORED", "1"}, {"HD", "1"}, {"DELETED", "1"},    {"NOT_STORED", "0"}, {"NS", "0"},
        {"EXISTS", "0"}, {"EX", "0"}, {"NOT_FOUND", "0"},  {"NF", "0"},         {"EN", "0"},
        {"END", "0"}};
    const auto known = kCodes.find(line->substr(0, line->size() - 2));
    if (known == kCodes.end()) return line;  // fits no operation
    return in_resp(call.operation.command, known->second == "1", *line);
  }

 private:
  void store(Call& call, bool meta) {
    const Operation& operation = call.operation;
    const std::string size = std::to_string(operation.argument.size());
    const std::string data = "\r\n" + operation.argument;
    const std::string& command = operation.command;
    const char* const mode = command == "SETNX" ? " ME" : command == "append" ? " MA" : "";
    const char* const verb = command == "SETNX" ? "add" : command == "append" ? "append" : "set";
    if (!meta) {
      call.commands = {verb + (" " + call.key) + " 0 0 " + size + data};
      return;
    }
    // A quiet one is answered only where it fails; what follows shows that it has been done.
    const bool quiet = command == "SET" && prng_.below(2) == 0;
    call.answer = quiet ? Call::Answer::kQuiet : call.answer;
    call.commands = {"ms " + call.key + " " + size + mode + (quiet ? " q" : "") + data +
                     (quiet ? "\r\nmn" : "")};
  }

  static std::string in_resp(const std::string& command, bool done, const std::string& line) {
    if (command == "GET") return kNothing;
    if (command == "SET") return done ? kOk : line;
    if (command == "append") return done ? kOk : kNothing;
    if (command == "cas") return line == "NOT_FOUND\r\n" ? kNothing : integer(done ? 1 : 0);
    return integer(done ? 1 : 0);
  }

  static std::string error(const std::string& line) {
    return line.find("overloaded") != std::string::npos ? "-OVERLOADED\r\n"
           : line.find("memory") != std::string::npos   ? "-OOM\r\n"
                                                        : line;
  }

  std::optional<std::string> after_quiet(std::string line) {
    std::string reply = kOk;
    if (line != "MN\r\n") {
      reply = error(line);
      const std::optional<std::string> next = connection().line();
      if (!next) return next;
      line = *next;
    }
    return line == "MN\r\n" ? reply : line;
  }

  // The token of the item that was read last, if it shows one.
  std::optional<std::string> item(const Call& call, const std::string& head) {
    const bool meta = head.starts_with("VA ");
    std::istringstream words(head);
    std::string word;
    size_t size = 0;
    if (meta) {
      words >> word >> size;
    } else {
      words >> word >> word >> word >> size >> token_;
      EXPECT_EQ(head.find(call.key), head.find(' ') + 1);
    }
    const std::optional<std::string> data = connection().bytes(size + 2);
    if (!data) return data;
    if (!meta) {
      const std::optional<std::string> end = connection().line();
      if (!end || *end != "END\r\n") return end;
    }
    const std::string value = data->substr(0, size);
    return call.operation.command == "INCR" ? ":" + value + "\r\n" : bulk(value);
  }

  bool compare_and_set() {
    Call read{.key = calls_.key(false), .operation = {"GET"}};
    read.answer = Call::Answer::kItem;
    read.commands = {"gets " + read.key};
    token_.clear();
    std::optional<std::string> seen = ask(read);
    if (!seen || token_.empty() || (*seen)[0] != '$') return seen.has_value();
    Call write{.key = read.key, .operation = {"cas", calls_.value(), *seen}};
    write.answer = Call::Answer::kLine;
    const std::string& data = write.operation.argument;
    write.commands = {"cas " + write.key + " 0 0 " + std::to_string(data.size()) + " " + token_ +
                      "\r\n" + data};
    return ask(write).has_value();
  }

  std::optional<std::string> ask(Call& call) {
    call.called = now();
    std::optional<std::string> reply;
    if (connection().send(call.commands[0] + "\r\n")) reply = await_reply(call);
    if (reply) {
      static_cast<void>(conclude(call, {*reply}));
    } else {
      lost({call});
    }
    return reply;
  }

  std::string token_;
};

// One that speaks Rubato RPC: a command in each request.
class RpcKvClient final : public KvClient, public rpc::ClientEvents {
 public:
  RpcKvClient(const KvClientSetting& setting, uint32_t number, uint64_t seed, uint16_t port,
              Histories& seen)
      : KvClient(setting, number, seed, port, seen) {
    rpc::ClientOptions options;
    options.session = number + 1;
    options.queue = 64;
    options.expire = Nanos();
    options.answer_within = Nanos();
    session_ = std::make_unique<rpc::ClientSession>(options, *this);
  }

 protected:
  bool exchange() override {
    std::vector<Call> batch = draw_batch();
    replies_.clear();
    lost_ = 0;
    size_t asked = 0;
    for (Call& call : batch) {
      call.called = now();
      for (const std::string& command : call.commands) {
        session_->submit(asked++, command + "\r\n", now());
      }
    }
    const bool breaks = setting_.resets && prng_.below(6) == 0;
    if (breaks) send_part();
    while (replies_.size() + lost_ < asked) {
      if (breaks || !go_on()) session_->abandon();
    }
    awaiting().end();
    size_t first = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const size_t end = first + batch[i].commands.size();
      if (end > replies_.size()) return lost(batch, i);
      std::vector<std::string> replies;
      for (; first < end; ++first) replies.push_back(replies_.at(first));
      if (!conclude(batch[i], replies)) return lost(batch, i + 1);
    }
    return true;
  }

  // Its credits may be used up.
  bool may_be_refused() const override { return true; }
  void leave() override {
    if (!is_connected()) return;
    std::string bye;
    session_->leave(bye);
    static_cast<void>(connection().send(bye));
  }

 private:
  void on_end(const rpc::Ended& request) override {
    switch (request.ending) {
      case rpc::Ending::kReply: replies_[request.tag] = request.body; return;
      case rpc::Ending::kRefused: replies_[request.tag] = "-OVERLOADED\r\n"; return;
      default: ++lost_;
    }
  }

  // False = the connection is gone.
  bool go_on() {
    std::string frames;
    while (session_->next_frame(frames, now())) {
    }
    if (!connection().send(frames)) return false;
    if (was_served_ && session_->outstanding() > 0) awaiting().begin();
    const bool came = connection().receive();
    awaiting().end();
    if (!came) return false;
    was_served_ = true;
    return session_->receive(connection().take(), now()).ok();
  }

  // In the middle of a frame, perhaps.
  void send_part() {
    std::string frames;
    while (session_->next_frame(frames, now())) {
    }
    const auto size = static_cast<uint32_t>(frames.size());
    static_cast<void>(connection().send(frames.substr(0, prng_.below(size + 1))));
    connection().reset_at_close();
  }

  std::unique_ptr<rpc::ClientSession> session_;
  std::map<uint64_t, std::string> replies_;  // of the batch, by tag
  size_t lost_ = 0;
};

}  // namespace rubato::virt::testing
