// SPDX-License-Identifier: Apache-2.0
//
// The key-value server in virtual time: the memory engine, TCP, clients of RESP, memcached and
// Rubato RPC that pipeline, read slowly and are reset in the middle of a request, a stop while they
// do, memory that runs out. What they saw is checked: each key is linearizable, and so are two keys
// that are written together; transactions are done as a whole or not at all, and a command for
// which there is no memory is not done; replies come in order, refusals are counted, no credit is
// lost, workers do not sleep while a client waits, and the server ends soon.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "datapath/tcp.h"
#include "kv_server/commands/table.h"
#include "kv_server/engine/memory/memory_engine.h"
#include "kv_server/server/application.h"
#include "mechanism/clock/clock.h"
#include "policy/testing/replay.h"
#include "process/kv_services.h"
#include "rpc/admission.h"
#include "runtime/runtime.h"
#include "runtime/testing/live_policies.h"
#include "virtual/testing/credits.h"
#include "virtual/testing/each_seed.h"
#include "virtual/testing/kv_client.h"
#include "virtual/testing/waiting_work.h"
#include "virtual/testing/watch.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using testing::LivePolicy;
using virt::testing::Histories;
using virt::testing::KvClient;
using virt::testing::WaitingWork;
using virt::testing::Watch;

// ---- One run --------------------------------------------------------------------------------

struct Setting {
  static constexpr uint32_t kFibers = 128;

  Setting(const LivePolicy& live, Prng& prng)
      : policy(live),
        workers(1u << prng.below(5)),
        clients(2 + prng.below(5)),
        stops_under_load(prng.below(3) == 0),
        refuses(prng.below(3) == 0) {
    client.batches = 2 + prng.below(8);
    client.resets = prng.below(2) == 0;
    world.seed = prng.next();
    world.latency = Nanos::micros(1 + prng.below(50));
    world.end = Nanos::seconds(60);
    if (prng.below(4) == 0) max_fibers = workers + 1 + prng.below(8);
    if (prng.below(4) == 0) no_memory_one_in = 1u << prng.below(8);
    if (prng.below(3) == 0) other_keys = 200u << prng.below(4);
    client.hot = prng.below(2) == 0;
    if (client.hot) {
      world.latency = Nanos(500);
      client.resets = false;  // too many orders of what was lost to be looked through
    }
    using Client = virt::testing::KvClientSetting;
    client.hot_on = static_cast<Client::Kind>(prng.below(Client::kKinds));
    if (prng.below(4) == 0 && other_keys == 0) max_bytes = uint64_t{32} * 1024 << prng.below(4);
    client.memory_fails = no_memory_one_in > 0 || max_bytes > 0;
    client.is_refused = refuses;
    if (prng.below(4) == 0) be_quiet(prng);
    if (prng.below(8) == 0) max_flows = 1 + prng.below(clients);
    if (prng.below(2) == 0) idle_spin = Nanos(prng.below(5000));
    for (uint32_t i = 0; i < clients; ++i) {
      const uint32_t draw = prng.below(4);
      const bool compared = client.hot && client.hot_on == Client::Kind::kCompared;
      speaks.push_back(draw == 2 || compared ? kv::Speaks::kMemcached
                       : draw < 2            ? kv::Speaks::kResp
                                             : kv::Speaks::kRpc);
    }
    if (prng.below(3) == 0) {
      faulty = true;
      world.stall_places_one_in = 1u << prng.below(3);
      return;
    }
    if (prng.below(2) == 0) return;
    faulty = true;
    if (prng.below(4) == 0) world.clock_jump_one_in = 1'000u << prng.below(5);
    world.window = size_t{64} << prng.below(10);
    world.cut_one_in = 3;
    world.no_descriptor_one_in = 8;
    world.late_wake_up_one_in = 8;
    world.spurious_wake_up_one_in = 8;
    if (prng.below(2) == 0) {
      world.stall_one_in = 4'000u << prng.below(4);
    } else {
      world.write_stall_one_in = 50u << prng.below(4);
      world.plain_stall_one_in = 500u << prng.below(6);
    }
  }

  // So that a wake-up that is missed is not made up for by the next request.
  void be_quiet(Prng& prng) {
    client.quiet = true;
    client.hot = false;
    clients = 1 + prng.below(2);
    client.batches = 5 + prng.below(30);
  }

  // Of bytes, and with them of what they have the peer send.
  Nanos longest_on_the_way() const {
    constexpr int64_t kLatencies = 12;
    return world.latency * kLatencies + (world.cut_one_in > 0 ? world.late_most * 2 : Nanos());
  }

  std::string describe() const {
    const auto if_set = [](const char* what, uint64_t value) {
      return value > 0 ? ", " + std::string(what) + " " + std::to_string(value) : "";
    };
    return policy.name + (", " + std::to_string(workers)) + " workers, " + std::to_string(clients) +
           " clients" + (faulty ? ", faults" : "") + (stops_under_load ? ", stop under load" : "") +
           (client.resets ? ", resets" : "") + (refuses ? ", refuses" : "") +
           (client.hot ? ", hot" : "") + (client.quiet ? ", quiet" : "") +
           if_set("fibers", max_fibers) + if_set("no memory one in", no_memory_one_in) +
           if_set("window", faulty ? world.window : 0) +
           if_set("latency", static_cast<uint64_t>(world.latency.count())) +
           if_set("other keys", other_keys) + if_set("maxmemory", max_bytes) +
           if_set("connections", max_flows);
  }

  LivePolicy policy;
  uint32_t workers;
  uint32_t clients;
  std::vector<kv::Speaks> speaks = {};  // by client
  virt::testing::KvClientSetting client = {};
  bool stops_under_load;
  bool refuses;
  uint32_t max_fibers = 0;  // 0 = enough
  uint32_t no_memory_one_in = 0;
  uint64_t max_bytes = 0;
  uint32_t other_keys = 0;  // for KEYS and SCAN to go through
  uint32_t max_flows = 0;   // 0 = enough
  Nanos idle_spin = Nanos::micros(50);
  bool faulty = false;
  virt::WorldOptions world;
};

class KvServer {
 public:
  KvServer(const Setting& setting, uint64_t seed, Watch& watch)
      : admission_(admission_options(setting)) {
    kv::EngineOptions engine;
    engine.checkpoint = [] { return checkpoint(); };
    engine.hash_seed = seed | 1;
    engine.maxmemory_bytes = setting.max_bytes;
    engine_ = std::make_unique<kv::MemoryEngine>(engine);
    for (uint32_t i = 0; i < setting.other_keys; ++i) {
      EXPECT_EQ(engine_->set("other" + std::to_string(i), "", {}), kv::Outcome::kDone);
    }
    kv::KvOptions own;
    own.ports = {kv::Speaks::kResp, kv::Speaks::kMemcached, kv::Speaks::kRpc};
    application_ = std::make_unique<kv::KvApplication>(*engine_, own, &admission_);
    TcpOptions tcp;
    tcp.queues = setting.workers;
    tcp.kernel_timestamps = false;
    tcp.over_limit_reply = "-ERR max number of clients reached\r\n";
    tcp.more_ports = {{0, "SERVER_ERROR max number of clients reached\r\n"}, {}};
    if (setting.max_flows > 0) tcp.max_flows = setting.max_flows;
    datapath_ = TcpDatapath::open(tcp, *application_).value();
    attachment_ = std::make_unique<rpc::AdmissionAttachment>(admission_, *datapath_);
    RuntimeOptions options;
    options.policy = setting.policy.name;
    options.workers = setting.workers;
    options.max_fibers = setting.max_fibers > 0 ? setting.max_fibers : Setting::kFibers;
    options.credits = &admission_;
    options.idle_spin = setting.idle_spin;
    if (setting.refuses) {
      options.overload = Overload::kAqm;
      options.refusal_rule.target_delay = Nanos::micros(20);
    }
    runtime_ = Runtime::create(options, *datapath_, *application_).value();
    services_ = std::make_unique<kv::KvServices>(*runtime_, *datapath_, nullptr, *datapath_,
                                                 *application_, nullptr, &admission_);
    runtime_->set_server_loop([this, &watch] {
      watch.note_worker();
      while (Request* request = recv()) {
        application_->handle(*request);
        send(*request);
      }
    });
    thread_ = std::thread([this] { drained_ = runtime_->run(); });
  }

  uint16_t port(kv::Speaks speaks) const {
    return datapath_->ports()[static_cast<size_t>(speaks)];
  }
  virt::testing::WaitingWork waiting(const LivePolicy& policy) {
    return {*runtime_, *datapath_, policy};
  }
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
    traffic_ = datapath_->stats();
    const auto errors = application_->server().errors().snapshot();
    const auto refused = errors.find("OVERLOADED");
    refusals_shown_ = refused != errors.end() ? refused->second : 0;
    for (uint32_t command = 0; command < kv::command_table().size(); ++command) {
      rejected_ += application_->server().calls().refused(command);
    }
    for (const QueueDepth& queue : runtime_->queue_depths()) EXPECT_EQ(queue.depth, 0u);
    runtime_.reset();
    attachment_.reset();
    datapath_.reset();
    engine_->check();
    admission_.tick(now());
    EXPECT_TRUE(virt::testing::all_credits_are_back(admission_));
  }
  const RuntimeStats& stats() const { return stats_; }
  const DatapathStats& traffic() const { return traffic_; }
  uint64_t refusals_shown() const { return refusals_shown_; }
  uint64_t rejected() const { return rejected_; }
  uint64_t used_bytes() const { return engine_->stats().used_bytes; }

 private:
  static rpc::AdmissionOptions admission_options(const Setting& setting) {
    rpc::AdmissionOptions options;
    options.workers = setting.workers;
    return options;
  }

  rpc::AdmissionController admission_;
  std::unique_ptr<kv::MemoryEngine> engine_;
  std::unique_ptr<kv::KvApplication> application_;
  std::unique_ptr<TcpDatapath> datapath_;
  std::unique_ptr<rpc::AdmissionAttachment> attachment_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<kv::KvServices> services_;
  RuntimeStats stats_;
  DatapathStats traffic_;
  uint64_t refusals_shown_ = 0;
  uint64_t rejected_ = 0;  // calls, by command: refusals, and errors before they ran
  std::thread thread_;
  bool drained_ = false;
};

// How long all workers may wait beside a client that waits, if no bytes are on their way.
constexpr Nanos kIdleBound = Nanos::micros(300);
// How long one worker may beside a request that any may run; as in virtual_runtime_test.
constexpr Nanos kWatchdogBound = Nanos::millis(5);
// The same beside what this worker alone may run.
constexpr Nanos kOwnBound = Nanos::millis(1);
constexpr Nanos kStopBound = Nanos::millis(50);
// Of the bound: tables grow for keys that are allowed.
constexpr uint64_t kOvershoot = uint64_t{64} * 1024;

std::unique_ptr<KvClient> make_client(const Setting& setting, uint32_t number, uint64_t seed,
                                      const KvServer& server, Histories& seen) {
  using namespace virt::testing;
  const kv::Speaks speaks = setting.speaks[number];
  const uint16_t port = server.port(speaks);
  const KvClientSetting& client = setting.client;
  switch (speaks) {
    case kv::Speaks::kResp: break;
    case kv::Speaks::kMemcached:
      return std::make_unique<MemcachedClient>(client, number, seed, port, seen);
    case kv::Speaks::kRpc: return std::make_unique<RpcKvClient>(client, number, seed, port, seen);
  }
  return std::make_unique<RespClient>(client, number, seed, port, seen);
}

void check_counts(const Setting& setting, const KvServer& server, const Histories& seen) {
  const RuntimeStats& stats = server.stats();
  EXPECT_EQ(stats.preemptions, stats.resumed);
  EXPECT_GE(server.refusals_shown(), seen.refused);
  EXPECT_GE(server.rejected(), server.refusals_shown());
  EXPECT_GE(server.traffic().flows_refused, seen.turned_away);
  if (setting.stops_under_load) return;
  const DatapathStats& traffic = server.traffic();
  if (!setting.client.resets) {
    EXPECT_EQ(traffic.flows_accepted + traffic.flows_refused, seen.connections);
  }
  if (seen.lost_some) return;
  EXPECT_EQ(stats.refused, server.refusals_shown());
  EXPECT_EQ(server.refusals_shown(), seen.refused);
  EXPECT_EQ(stats.requests + server.refusals_shown(), seen.answered);
}

void serve(const Setting& setting, Prng& prng) {
  Histories seen;
  std::unique_ptr<KvServer> server;
  std::optional<WaitingWork> waiting;
  std::atomic<bool> is_made{false};
  Watch watch({.workers = setting.workers,
               .bound = kIdleBound + setting.longest_on_the_way(),
               .work_since = [&seen] { return seen.wait_since(); },
               .any_may_run = [&] { return is_made && waiting->is_for_all(); },
               .bound_of_each = kWatchdogBound,
               .has_own_work =
                   [&](uint32_t worker) {
                     return is_made && (waiting->has_come(worker) || waiting->is_queued(worker));
                   },
               .bound_of_own = kOwnBound});
  server = std::make_unique<KvServer>(setting, prng.next(), watch);
  waiting.emplace(server->waiting(setting.policy));
  is_made = true;
  watch.fail_memory(setting.no_memory_one_in);
  std::vector<std::unique_ptr<KvClient>> clients;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < setting.clients; ++i) {
    clients.push_back(make_client(setting, i, prng.next(), *server, seen));
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
  EXPECT_TRUE(server->stop());
  const Nanos took = now() - stops;  // the clock may jump at this reading
  EXPECT_LT(took.count(), (kStopBound + (virt::faults_so_far() - faults) * 2).count());
  virt::fail_memory(0);
  const uint64_t max_bytes = setting.max_bytes > 0 ? setting.max_bytes + kOvershoot : UINT64_MAX;
  EXPECT_LE(server->used_bytes(), max_bytes);
  server->close();
  if (setting.stops_under_load) join_all();
  check_counts(setting, *server, seen);
  EXPECT_TRUE(seen.linearizable());
}

class VirtualKv : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualKv, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualKv, what_clients_see_is_linearizable) {
  virt::testing::each_seed(10, [](uint64_t seed) {
    Prng prng = virt::testing::prng_of(seed, GetParam().name);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { serve(setting, prng); });
  });
}

}  // namespace
}  // namespace rubato
