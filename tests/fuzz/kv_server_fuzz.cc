// SPDX-License-Identifier: Apache-2.0
//
// A whole server: loopback datapath of two queues, clients that speak RESP, memcached's text
// protocol and Rubato RPC. It is compiled once for each of these:
//
//   kv_server_fuzz          memory engine under a small bound, all in one thread
//   kv_server_rocksdb_fuzz  rocksdb engine on a simulated disk, the server in one thread
//   kv_server_workers_fuzz  memory engine, a runtime with two workers. These run while the program
//                           goes on, so a finding need not come again at once.
//
// The input is a program of steps, each a letter and the client that it is about:
//
//   c n        a client of protocol n connects          x   it is gone, as by a reset
//   s n BYTES  it sends n bytes                         k   the server closes it
//   e          it sends no more, but reads              v   its flow moves to the other queue
//   r          it reads what has come                   u   it is pushed to
//   p n        the server takes up to n requests per queue, and those behind them in the
//              same pipeline; with the highest bit of n set it refuses them. Workers of a runtime
//              get some time, more for a higher n
//   f n        the n-th change of the disk from now on fails
//   t n        n seconds pass, and keys expire
//   d n BYTES  a datagram of n bytes comes to the port of memcached over UDP and is answered; no
//              reply to it is a request
//
// What a wire would lose, delay or reorder, another program leaves out or sends elsewhere.
//
// At the end all clients go, and nothing may be left: no request in service, no buffer. What is
// read of RESP must be RESP. The store on a disk is opened again, and has the keys that it had.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "datapath/datagram_datapath.h"
#include "datapath/loopback.h"
#include "datapath/testing/memory_wire.h"
#include "kv_server/engine/rocksdb/rocksdb_engine.h"
#include "kv_server/engine/rocksdb/testing/simulated_disk.h"
#include "kv_server/memcached/datagrams.h"
#include "kv_server/server/application.h"
#include "load/reply_parser.h"
#include "mechanism/clock/clock.h"
#include "rpc/admission.h"
#include "runtime/runtime.h"

namespace rubato::kv {
namespace {

constexpr uint32_t kQueues = 2;
constexpr uint32_t kClients = 8;
constexpr size_t kBurst = 4;  // requests polled at once
constexpr size_t kWireBytes = 4096;  // so that replies wait, too
constexpr size_t kWriteBufferBytes = 64 << 10;
constexpr bool kOnDisk = RUBATO_FUZZ_ON_DISK;
constexpr uint64_t kMaxMemory = kOnDisk ? kMinRocksMemoryBytes : 1 << 20;
constexpr bool kHasWorkers = RUBATO_FUZZ_WORKERS;
constexpr auto kTurn = std::chrono::microseconds(20);  // that workers get for each unit of p n

std::atomic<int64_t> g_now_ms = 0;

Instant fuzz_now() { return Instant(g_now_ms * 1'000'000); }

class StepClock final : public Clock {
 public:
  int64_t now_ms() override { return g_now_ms; }
};

// The loopback datapath has one port: here each flow is told which protocol it speaks.
class ByChoice final : public Protocol {
 public:
  explicit ByChoice(KvApplication& app) : app_(app) {}
  std::unique_ptr<Session> open(const Peer& peer) override {
    Peer chosen = peer;
    {
      const std::scoped_lock lock(mutex_);
      chosen.port = ports_[peer.flow];
    }
    return app_.open(chosen);
  }
  void choose(uint64_t flow, uint32_t port) {
    const std::scoped_lock lock(mutex_);
    ports_[flow] = port;
  }

 private:
  KvApplication& app_;
  std::mutex mutex_;                    // guards the next one
  std::map<uint64_t, uint32_t> ports_;  // by flow
};

KvOptions fuzz_options(MemoryAccount& account) {
  KvOptions options;
  options.ports = {Speaks::kResp, Speaks::kMemcached, Speaks::kRpc};
  options.engine = kOnDisk ? "rocksdb" : "memory";
  options.memory = &account;
  options.maxmemory_bytes = kMaxMemory;
  options.debug_command = Allowed::kNobody;  // DEBUG SLEEP
  return options;
}

LoopbackOptions wire_options(MemoryAccount& account) {
  LoopbackOptions options;
  options.queues = kQueues;
  options.wire_bytes = kWireBytes;
  options.limits.memory = &account;
  if (!kHasWorkers) options.now = &fuzz_now;
  return options;
}

// What the server keeps its keys in.
class Store {
 public:
  Store() { open(); }

  Engine& engine() { return *engine_; }
  Clock& clock() { return clock_; }
  MemoryAccount& account() { return account_; }

  void fail_change(uint32_t number) {
    if (!kOnDisk) return;
    failed_ = true;
    testing::DiskFaults faults;
    faults.fail_at = number;
    disk_->set(faults);
  }

  // Nobody uses it. A write that failed may be there or not.
  void open_again() {
    if (!kOnDisk) return;
    const std::map<std::string, std::string> before = content();
    engine_.reset();
    disk_->set({});
    open();
    RUBATO_CHECK(failed_ || content() == before);
  }

 private:
  void open() {
    EngineOptions options;
    options.clock = &clock_;
    options.hash_seed = 1;
    options.maxmemory_bytes = kMaxMemory;
    options.account = &account_;
    options.dir = "/db";
    auto engine = kOnDisk ? RocksEngine::open(options, {disk_, kWriteBufferBytes})
                          : open_memory_engine(options);
    RUBATO_CHECK(engine.ok());
    engine_ = std::move(engine.value());
  }

  std::map<std::string, std::string> content() {
    std::map<std::string, std::string> all;
    const auto keep = [&](std::string_view key, std::string_view value) {
      all.emplace(key, value);
      return true;
    };
    RUBATO_CHECK(engine_->range({"", std::nullopt, true}, UINT64_MAX, keep) == Outcome::kDone);
    return all;
  }

  StepClock clock_;
  MemoryAccount account_;
  std::shared_ptr<testing::SimulatedDisk> disk_ = std::make_shared<testing::SimulatedDisk>(1);
  std::unique_ptr<Engine> engine_;
  bool failed_ = false;
};

// The runtime runs in a thread of its own as long as this exists.
class Workers {
 public:
  Workers(Datapath& datapath, Application& app) {
    RuntimeOptions options;
    options.workers = kQueues;
    options.stack_bytes = 1 << 20;
    options.max_fibers = 64;
    auto made = Runtime::create(options, datapath, app);
    RUBATO_CHECK(made.ok());
    runtime_ = std::move(made.value());
    thread_ = std::thread([this] { drained_ = runtime_->run(); });
  }
  ~Workers() {
    runtime_->stop();
    thread_.join();
    RUBATO_CHECK(drained_);
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

 private:
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  bool drained_ = false;
};

struct FuzzClient {
  uint64_t flow = 0;  // 0 = none
  bool speaks_resp = false;
  load::ReplyParser parser;
  std::string unread;
};

class FuzzedServer {
 public:
  explicit FuzzedServer(Store& store)
      : store_(store),
        admission_(rpc::AdmissionOptions{}),
        app_(store.engine(), fuzz_options(store.account()), &admission_),
        protocol_(app_),
        wire_(wire_options(store.account()), protocol_),
        port_(app_.server()) {
    auto wire = std::make_unique<rubato::testing::MemoryWire>(1, rubato::testing::WireFaults{}, 1);
    datagrams_ = wire.get();
    datagram_path_ = DatagramDatapath::open(std::move(wire), port_, port_).value();
    Host host;
    host.datapath = &wire_;
    host.clock = &store.clock();
    app_.connect(host);
    if (kHasWorkers) workers_.emplace(wire_, app_);
  }

  void run(std::string_view program) {
    while (!program.empty()) {
      const char what = take_byte(program);
      step(what, program);
    }
    end();
  }

 private:
  static char take_byte(std::string_view& from) {
    if (from.empty()) return 0;
    const char byte = from.front();
    from.remove_prefix(1);
    return byte;
  }

  void step(char what, std::string_view& rest) {
    if (what == 'p') return serve(static_cast<uint8_t>(take_byte(rest)));
    if (what == 't') return pass_time(static_cast<uint8_t>(take_byte(rest)));
    if (what == 'f') return store_.fail_change(static_cast<uint8_t>(take_byte(rest)));
    FuzzClient& client = clients_[static_cast<uint8_t>(take_byte(rest)) % kClients];
    switch (what) {
      case 'c': return connect(client, static_cast<uint8_t>(take_byte(rest)) % 3);
      case 's': return send(client, rest);
      case 'd': return exchange(rest);
      case 'e': wire_.finish_sending(client.flow); return;
      case 'r': return read(client);
      case 'x': return forget(client);
      case 'k': wire_.close_flow(client.flow); return;
      case 'v': wire_.steer(client.flow, WorkerId{1}); return;
      case 'u': wire_.request_push(client.flow); return;
      default: return;
    }
  }

  void connect(FuzzClient& client, uint32_t port) {
    forget(client);
    client = {};
    client.speaks_resp = port == 0;
    protocol_.choose(connected_ + 1, port);  // before a worker looks
    client.flow = wire_.connect();
    RUBATO_CHECK(client.flow == ++connected_);
  }

  void send(const FuzzClient& client, std::string_view& rest) {
    const auto wanted = static_cast<uint8_t>(take_byte(rest));
    const size_t length = std::min<size_t>(wanted, rest.size());
    wire_.submit(client.flow, rest.substr(0, length));
    rest.remove_prefix(length);
  }

  void exchange(std::string_view& rest) {
    const auto wanted = static_cast<uint8_t>(take_byte(rest));
    const std::string_view bytes = rest.substr(0, wanted);
    rest.remove_prefix(bytes.size());
    const std::vector<std::string> replies = answers_to(bytes);
    for (size_t i = 0; i < replies.size(); ++i) check_reply(bytes, replies, i);
    for (const std::string& reply : replies) RUBATO_CHECK(answers_to(reply).empty());
  }

  std::vector<std::string> answers_to(std::string_view bytes) {
    DatagramPeer peer;
    peer.address = {127, 0, 0, 1};
    peer.port = 1;
    datagrams_->put({peer, std::string(bytes)});
    DatapathQueue& queue = datagram_path_->queue(WorkerId{0});
    for (uint32_t n = queue.poll(polled_); n > 0; --n) {
      app_.handle(*polled_[n - 1]);
      polled_[n - 1]->datapath->finish(*polled_[n - 1]);
    }
    queue.push();
    std::vector<std::string> replies;
    for (std::string reply; datagrams_->take(peer.port, reply);) replies.push_back(reply);
    RUBATO_CHECK(datagrams_->lent == 0);
    return replies;
  }

  // The id of the request, the datagram's number, their count, zero.
  static void check_reply(std::string_view request, const std::vector<std::string>& replies,
                          size_t number) {
    std::string header(request.substr(0, 2));
    for (const size_t word : {number, replies.size(), size_t{0}}) {
      header.push_back(static_cast<char>(word >> 8));
      header.push_back(static_cast<char>(word));
    }
    RUBATO_CHECK(replies[number].starts_with(header));
    RUBATO_CHECK(replies[number].size() <= kMaxDatagramPayload);
  }

  void forget(FuzzClient& client) {
    if (client.flow != 0) wire_.forget(client.flow);
    client.flow = 0;
  }

  void pass_time(uint8_t seconds) {
    g_now_ms += int64_t{seconds} * 1000;
    while (app_.expire_some(1000)) {
    }
  }

  // Serves requests in turns; finish may give the next one of the same flow.
  void serve(uint8_t how) {
    if (kHasWorkers) return std::this_thread::sleep_for(how * kTurn);
    const bool refuses = (how & 0x80) != 0;
    const std::span<Request*> room = std::span(polled_).first(std::min<size_t>(how & 0x7f, kBurst));
    for (uint32_t i = 0; i < kQueues; ++i) {
      DatapathQueue& queue = wire_.queue(WorkerId{i});
      const uint32_t count = queue.poll(room);
      for (uint32_t n = 0; n < count; ++n) {
        for (Request* request = polled_[n]; request != nullptr;) {
          if (refuses) {
            request->session->refuse(*request);
          } else {
            app_.handle(*request);
          }
          request = queue.finish(*request);
        }
      }
    }
  }

  void read(FuzzClient& client) {
    wire_.take(client.flow, client.unread);
    if (client.speaks_resp) check_replies(client);
    client.unread.clear();
  }

  // The bytes are replies and nothing else.
  void check_replies(FuzzClient& client) {
    for (std::string_view rest = client.unread; !rest.empty();) {
      size_t used = 0;
      const auto status = client.parser.feed(rest.data(), rest.size(), used);
      RUBATO_CHECK(status != load::ReplyParser::Status::kBroken);
      rest.remove_prefix(used);
    }
  }

  void end() {
    for (FuzzClient& client : clients_) {
      read(client);
      forget(client);
    }
    // Where there are workers, the fuzzer's limit of time ends what hangs.
    for (int i = 0; (kHasWorkers || i < 1000) && !is_empty(); ++i) serve(0x7f);
    RUBATO_CHECK(is_empty());
  }

  bool is_empty() const {
    // The one request of the datagrams keeps as much.
    const uint64_t kept = store_.account().buffers();
    const DatapathStats flows = wire_.stats();  // a worker may not have accepted the last ones
    return wire_.in_flight() == 0 && flows.flows_accepted == connected_ && flows.flows_open == 0 &&
           datagram_path_->in_flight() == 0 && (kept == 0 || kept == ReplyBuffer::kFirstCapacity);
  }

  Store& store_;
  rpc::AdmissionController admission_;
  KvApplication app_;
  ByChoice protocol_;
  LoopbackDatapath wire_;
  MemcachedDatagramPort port_;
  rubato::testing::MemoryWire* datagrams_ = nullptr;
  std::unique_ptr<DatagramDatapath> datagram_path_;
  std::array<FuzzClient, kClients> clients_;
  std::array<Request*, kBurst> polled_{};
  uint64_t connected_ = 0;  // flows so far; their numbers begin at 1
  std::optional<Workers> workers_;
};

}  // namespace
}  // namespace rubato::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rubato::kv::g_now_ms = 1'000'000'000'000;
  rubato::kv::Store store;
  rubato::kv::FuzzedServer(store).run({reinterpret_cast<const char*>(data), size});
  store.open_again();
  return 0;
}
