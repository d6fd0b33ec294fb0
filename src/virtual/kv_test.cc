// SPDX-License-Identifier: Apache-2.0
//
// The key-value server in virtual time: the memory engine, TCP, clients that pipeline, read slowly
// and are reset in the middle of a request, a stop while they do, memory that runs out. What they
// saw is checked: each key is linearizable, and so are two keys that are written together; what a
// discarded MULTI covers is not done, nor is a command for which there is no memory; replies come
// in order, refusals are counted, the workers do not all sleep while a client waits, and the server
// ends soon.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "datapath/tcp.h"
#include "kv_server/engine/memory/memory_engine.h"
#include "kv_server/server/application.h"
#include "mechanism/clock/clock.h"
#include "policy/testing/replay.h"
#include "process/kv_services.h"
#include "runtime/runtime.h"
#include "runtime/testing/live_policies.h"
#include "virtual/testing/connection.h"
#include "virtual/testing/each_seed.h"
#include "virtual/testing/linearizable.h"
#include "virtual/testing/watch.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using testing::LivePolicy;
using virt::testing::Awaiting;
using virt::testing::Connection;
using virt::testing::Recorded;
using virt::testing::Watch;

// ---- What is stored -------------------------------------------------------------------------

struct Operation {
  std::string command;
  std::string argument;
  std::string reply;  // as it came
};

std::string bulk(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}
std::string integer(int64_t value) { return ":" + std::to_string(value) + "\r\n"; }

// A value after a mark; empty = there is no such key.
using Value = std::string;

bool set(Value& value, const std::string& to) {
  value = "=" + to;
  return true;
}
std::string shown(const Value& value) { return value.empty() ? "$-1\r\n" : bulk(value.substr(1)); }

// One key. The state is its value.
struct KeyModel {
  static bool step(std::string& state, const Operation& operation, bool unknown) {
    const std::string expected = apply(state, operation);
    return unknown || operation.reply == expected;
  }

  static std::string apply(Value& value, const Operation& operation) {
    const bool exists = !value.empty();
    const Value before = value;
    const std::string& command = operation.command;
    if (command == "GET") return shown(before);
    if (command == "SET") return set(value, operation.argument) ? "+OK\r\n" : "";
    if (command == "GETSET") return set(value, operation.argument) ? shown(before) : "";
    if (command == "SETNX") return integer(!exists && set(value, operation.argument) ? 1 : 0);
    if (command == "APPEND") {
      value = (exists ? before : "=") + operation.argument;
      return integer(static_cast<int64_t>(value.size()) - 1);
    }
    if (command == "INCR") {
      const int64_t sum = (exists ? std::stoll(before.substr(1)) : 0) + 1;
      set(value, std::to_string(sum));
      return integer(sum);
    }
    value.clear();  // DEL
    return integer(exists ? 1 : 0);
  }
};

// The keys `left` and `right`, which some commands write both of. The state is their values.
struct PairModel {
  static constexpr char kBetween = '|';

  static bool step(std::string& state, const Operation& operation, bool unknown) {
    const size_t between = state.find(kBetween);
    Value left = state.substr(0, between);
    Value right = between == std::string::npos ? "" : state.substr(between + 1);
    const std::string expected = apply(left, right, operation);
    state = left + kBetween + right;
    return unknown || operation.reply == expected;
  }

  static std::string apply(Value& left, Value& right, const Operation& operation) {
    const std::string& command = operation.command;
    if (command == "GET left") return shown(left);
    if (command == "GET right") return shown(right);
    if (command == "MSETNX" && (!left.empty() || !right.empty())) return integer(0);
    if (command == "MSET" || command == "MSETNX") {
      set(left, operation.argument);
      set(right, operation.argument);
      return command == "MSET" ? "+OK\r\n" : integer(1);
    }
    Value& from = command == "RENAME left right" ? left : right;
    Value& to = command == "RENAME left right" ? right : left;
    if (from.empty()) return "-ERR no such key\r\n";
    to = std::exchange(from, {});
    return "+OK\r\n";
  }
};

using History = std::vector<Recorded<Operation>>;

// ---- One run --------------------------------------------------------------------------------

struct Setting {
  static constexpr uint32_t kFibers = 128;

  Setting(const LivePolicy& policy, Prng& prng)
      : name(policy.name),
        workers(1u << prng.below(5)),
        clients(2 + prng.below(5)),
        batches(2 + prng.below(8)),
        stops_under_load(prng.below(3) == 0),
        resets(prng.below(2) == 0),
        refuses(prng.below(3) == 0) {
    world.seed = prng.next();
    world.latency = Nanos::micros(1 + prng.below(50));
    world.end = Nanos::seconds(60);
    if (prng.below(4) == 0) max_fibers = workers + 1 + prng.below(8);
    if (prng.below(4) == 0) no_memory_one_in = 1 + prng.below(8);
    if (prng.below(3) == 0) other_keys = 200u << prng.below(4);
    hot = prng.below(3) == 0;
    if (hot) world.latency = Nanos(500);
    if (prng.below(4) == 0 && other_keys == 0) max_bytes = uint64_t{32} * 1024 << prng.below(4);
    if (prng.below(3) == 0) {
      faulty = true;
      world.stall_places_one_in = 1u << prng.below(3);
      return;
    }
    if (prng.below(2) == 0) return;
    faulty = true;
    if (prng.below(4) == 0) world.clock_jump_one_in = 1'000 << prng.below(5);
    world.window = size_t{64} << prng.below(10);
    world.cut_one_in = 3;
    world.no_descriptor_one_in = 8;
    world.late_wake_up_one_in = 8;
    world.spurious_wake_up_one_in = 8;
    if (prng.below(2) == 0) {
      world.stall_one_in = 4'000 << prng.below(4);
    } else {
      world.write_stall_one_in = 50 << prng.below(4);
      world.plain_stall_one_in = 500 << prng.below(6);
    }
  }

  std::string describe() const {
    return name + ", " + std::to_string(workers) + " workers, " + std::to_string(clients) +
           " clients" + (faulty ? ", faults" : "") + (stops_under_load ? ", stop under load" : "") +
           (resets ? ", resets" : "") + (refuses ? ", refuses" : "") +
           (max_fibers < kFibers ? ", fibers " + std::to_string(max_fibers) : "") +
           (no_memory_one_in > 0 ? ", no memory one in " + std::to_string(no_memory_one_in) : "") +
           (other_keys > 0 ? ", other keys " + std::to_string(other_keys) : "") +
           (hot ? ", hot" : "") +
           (max_bytes > 0 ? ", maxmemory " + std::to_string(max_bytes) : "");
  }

  std::string name;
  uint32_t workers;
  uint32_t clients;
  uint32_t batches;
  bool stops_under_load;
  bool resets;
  bool refuses;
  uint32_t max_fibers = kFibers;
  uint32_t no_memory_one_in = 0;
  uint64_t max_bytes = 0;
  uint32_t other_keys = 0;  // for KEYS and SCAN to go through
  bool hot = false;         // clients do not rest, and have few keys
  bool faulty = false;
  virt::WorldOptions world;
};

class KvServer {
 public:
  KvServer(const Setting& setting, uint64_t seed, Watch& watch) {
    kv::EngineOptions engine;
    engine.checkpoint = [] { return checkpoint(); };
    engine.hash_seed = seed | 1;
    engine.maxmemory_bytes = setting.max_bytes;
    engine_ = std::make_unique<kv::MemoryEngine>(engine);
    for (uint32_t i = 0; i < setting.other_keys; ++i) {
      EXPECT_EQ(engine_->set("other" + std::to_string(i), "", {}), kv::Outcome::kDone);
    }
    application_ = std::make_unique<kv::KvApplication>(*engine_, kv::KvOptions{});
    TcpOptions tcp;
    tcp.queues = setting.workers;
    tcp.kernel_timestamps = false;
    datapath_ = TcpDatapath::open(tcp, *application_).value();
    RuntimeOptions options;
    options.policy = setting.name;
    options.workers = setting.workers;
    options.max_fibers = setting.max_fibers;
    if (setting.refuses) {
      options.overload = Overload::kAqm;
      options.refusal_rule.target_delay = Nanos::micros(20);
    }
    runtime_ = Runtime::create(options, *datapath_, *application_).value();
    services_ = std::make_unique<kv::KvServices>(*runtime_, *datapath_, *application_);
    runtime_->set_server_loop([this, &watch] {
      watch.note_worker();
      while (Request* request = recv()) {
        application_->handle(*request);
        send(*request);
      }
    });
    thread_ = std::thread([this] { drained_ = runtime_->run(); });
  }

  uint16_t port() const { return datapath_->port(); }
  // True = everything in flight was answered.
  bool stop() {
    runtime_->stop();
    thread_.join();
    return drained_;
  }
  // As at the end of the process: connections that are left are closed.
  void close() {
    services_.reset();
    stats_ = runtime_->stats();
    for (const QueueDepth& queue : runtime_->queue_depths()) EXPECT_EQ(queue.depth, 0u);
    runtime_.reset();
    datapath_.reset();
    engine_->check();
  }
  const RuntimeStats& stats() const { return stats_; }
  uint64_t used_bytes() const { return engine_->stats().used_bytes; }

 private:
  std::unique_ptr<kv::MemoryEngine> engine_;
  std::unique_ptr<kv::KvApplication> application_;
  std::unique_ptr<TcpDatapath> datapath_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<kv::KvServices> services_;
  RuntimeStats stats_;
  std::thread thread_;
  bool drained_ = false;
};

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
  uint64_t refused = 0;
};

class Client {
 public:
  Client(const Setting& setting, uint32_t number, uint64_t seed, uint16_t port, Histories& seen)
      : setting_(setting), number_(number), prng_(seed), port_(port), seen_(seen) {}

  // False = the server is gone.
  void run() {
    for (uint32_t i = 0; i < setting_.batches; ++i) {
      if (connection_ == nullptr && !connect()) return;
      if (!exchange()) connection_.reset();
      const bool rests = !setting_.hot && prng_.below(3) == 0;
      if (rests) virt::spend(Nanos::micros(1 + prng_.below(2000)));
    }
  }

 private:
  struct Sent {
    std::string key;  // empty = its reply is not looked at
    Operation operation = {};
    std::string bytes = {};
    uint32_t replies = 1;
    size_t end = 0;  // of its bytes in the batch
    Instant called = {};
  };

  bool connect() {
    connection_ = std::make_unique<Connection>(port_);
    was_served_ = false;
    ++connections_;
    return connection_->connected();
  }
  uint32_t identity() const { return number_ * 1000 + connections_; }

  // False = the connection is gone.
  bool exchange() {
    std::vector<Sent> batch;
    std::string bytes = {};
    for (uint32_t i = 1 + prng_.below(6); i > 0; --i) {
      batch.push_back(draw());
      bytes += batch.back().bytes;
      batch.back().end = bytes.size();
    }
    if (setting_.resets && prng_.below(6) == 0) return send_and_reset(batch, bytes);
    for (Sent& sent : batch) sent.called = now();
    if (!connection_->send(bytes)) return lost(batch);
    const bool reads_late = !setting_.hot && prng_.below(4) == 0;
    if (reads_late) virt::spend(Nanos::micros(1 + prng_.below(1000)));
    for (size_t i = 0; i < batch.size(); ++i) {
      std::optional<std::string> reply;
      for (uint32_t k = 0; k < batch[i].replies; ++k) {
        reply = await_reply();
        if (reply && reply->starts_with("-OVERLOADED")) note_refused();
        if (!reply) return lost({batch.begin() + static_cast<ptrdiff_t>(i), batch.end()});
      }
      note(batch[i], *reply);
    }
    return true;
  }

  std::optional<std::string> await_reply() {
    Awaiting& awaiting = seen_.awaiting.at(number_);
    if (was_served_) awaiting.begin();
    std::optional<std::string> reply = connection_->reply();
    awaiting.end();
    was_served_ = reply.has_value();
    return reply;
  }

  bool send_and_reset(std::vector<Sent> batch, const std::string& bytes) {
    const size_t cut = prng_.below(static_cast<uint32_t>(bytes.size()) + 1);
    for (Sent& sent : batch) sent.called = now();
    std::erase_if(batch, [cut](const Sent& sent) { return sent.end > cut; });
    connection_->send(std::string_view(bytes).substr(0, cut));
    if (prng_.below(2) == 0) virt::spend(Nanos::micros(prng_.below(100)));
    connection_->reset_at_close();
    return lost(batch);
  }

  // They were done or not.
  bool lost(const std::vector<Sent>& batch) {
    for (const Sent& sent : batch) {
      if (!sent.key.empty()) add(sent, Instant::never());
    }
    return false;
  }

  void note(Sent& sent, const std::string& reply) {
    if (reply.starts_with("-OVERLOADED")) return;
    if (reply.starts_with("-OOM")) {
      EXPECT_TRUE(setting_.no_memory_one_in > 0 || setting_.max_bytes > 0);
      return;
    }
    if (sent.key.empty()) {
      EXPECT_EQ(reply[0], '*');
      return;
    }
    sent.operation.reply = reply;
    add(sent, now());
  }

  void note_refused() {
    const std::scoped_lock lock(seen_.mutex);
    ++seen_.refused;
  }

  void add(const Sent& sent, Instant returned) {
    const std::scoped_lock lock(seen_.mutex);
    seen_.of_key[sent.key][identity()].push_back({sent.operation, sent.called, returned});
  }

  // Short values and a few that fill windows.
  std::string value() {
    std::string text = "v" + std::to_string(number_) + "." + std::to_string(next_value_++);
    if (prng_.below(20) == 0) text.append(prng_.below(20'000), 'x');
    return text;
  }

  Sent draw() {
    const uint32_t draw = prng_.below(16);
    if (draw == 0) {
      const char* const command = prng_.below(2) == 0 ? "KEYS *\r\n" : "SCAN 0 COUNT 100\r\n";
      return {.key = "", .operation = {}, .bytes = command};
    }
    if (draw == 1) return discarded_transaction();
    if (draw <= 5 || (setting_.hot && draw <= 12)) return of_pair();
    static constexpr const char* kCommands[] = {"GET", "GET", "SET", "GETSET", "SETNX", "DEL",
                                                "APPEND"};
    const bool counter = draw <= 8;
    Sent sent;
    sent.key = (counter ? "n" : "s") + std::to_string(prng_.below(3));
    sent.operation.command = counter ? "INCR" : kCommands[prng_.below(7)];
    sent.bytes = sent.operation.command + " " + sent.key;
    if (!counter && sent.operation.command != "GET" && sent.operation.command != "DEL") {
      sent.operation.argument = value();
      sent.bytes += " " + sent.operation.argument;
    }
    sent.bytes += "\r\n";
    return sent;
  }

  // The key that it would set stays unset: the last reply is that of a GET.
  static Sent discarded_transaction() {
    return {.key = "never",
            .operation = {"GET", "", ""},
            .bytes = "MULTI\r\nSET never x\r\nDISCARD\r\nGET never\r\n",
            .replies = 4};
  }

  Sent of_pair() {
    static constexpr const char* kCommands[] = {"GET left", "GET right", "MSET", "MSETNX",
                                                "RENAME left right", "RENAME right left"};
    const std::string command = kCommands[prng_.below(6)];
    if (!command.starts_with("MSET")) {
      return {.key = "pair", .operation = {command, "", ""}, .bytes = command + "\r\n"};
    }
    const std::string both = value();
    return {.key = "pair",
            .operation = {command, both, ""},
            .bytes = command + " left " + both + " right " + both + "\r\n"};
  }

  const Setting& setting_;
  const uint32_t number_;
  Prng prng_;
  const uint16_t port_;
  Histories& seen_;
  std::unique_ptr<Connection> connection_;
  bool was_served_ = false;
  uint32_t connections_ = 0;
  uint32_t next_value_ = 0;
};

// How long all workers may wait beside a client that waits, and the bytes that are on their way.
constexpr Nanos kIdleBound = Nanos::millis(2);
constexpr int64_t kLatencies = 100;
constexpr Nanos kStopBound = Nanos::millis(50);
// Of the bound: tables grow for keys that are allowed.
constexpr uint64_t kOvershoot = uint64_t{64} * 1024;

void serve(const Setting& setting, Prng& prng) {
  Histories seen;
  Watch watch({.workers = setting.workers,
               .bound = kIdleBound + setting.world.latency * kLatencies,
               .work_since = [&seen] { return seen.wait_since(); },
               .any_may_run = {},
               .bound_of_each = {}});
  KvServer server(setting, prng.next(), watch);
  watch.fail_memory(setting.no_memory_one_in);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < setting.clients; ++i) {
    clients.push_back(std::make_unique<Client>(setting, i, prng.next(), server.port(), seen));
    threads.emplace_back([&client = *clients.back()] { client.run(); });
  }
  const auto join_all = [&threads] {
    for (std::thread& thread : threads) thread.join();
  };
  if (setting.stops_under_load) {
    virt::spend(Nanos::micros(1 + prng.below(3000)));
  } else {
    join_all();
    clients.clear();
  }
  watch.stop();
  const Instant stops = now();
  const Nanos faults = virt::faults_so_far() - std::max(virt::faults_over() - stops, Nanos());
  EXPECT_TRUE(server.stop());
  EXPECT_LT((now() - stops).count(), (kStopBound + (virt::faults_so_far() - faults) * 2).count());
  virt::fail_memory(0);
  const uint64_t max_bytes = setting.max_bytes > 0 ? setting.max_bytes + kOvershoot : UINT64_MAX;
  EXPECT_LE(server.used_bytes(), max_bytes);
  server.close();
  if (setting.stops_under_load) join_all();
  const RuntimeStats& stats = server.stats();
  EXPECT_EQ(stats.preemptions, stats.resumed);
  EXPECT_GE(stats.refused, seen.refused);
  if (!setting.resets && !setting.stops_under_load) {
    EXPECT_EQ(stats.refused, seen.refused);
  }
  for (const auto& [key, by_client] : seen.of_key) {
    std::vector<History> histories;
    for (const auto& [client, history] : by_client) histories.push_back(history);
    EXPECT_TRUE(key == "pair" ? virt::testing::linearizable<PairModel>(histories)
                              : virt::testing::linearizable<KeyModel>(histories))
        << key;
  }
}

class VirtualKv : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualKv, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualKv, what_clients_see_is_linearizable) {
  virt::testing::each_seed(10, [](uint64_t seed) {
    Prng prng(seed);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { serve(setting, prng); });
  });
}

}  // namespace
}  // namespace rubato
