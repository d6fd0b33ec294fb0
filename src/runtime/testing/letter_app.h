// SPDX-License-Identifier: Apache-2.0
//
// For runtime tests: a line protocol whose first letter is the request's type ('C' is control
// plane), an application whose behaviour per letter a test sets, and a runtime on a loopback
// datapath that runs in a thread of its own until the end of the test. Settings are made before
// start(); handlers run on the workers.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "datapath/loopback.h"
#include "datapath/net_worker.h"
#include "runtime/runtime.h"

namespace rubato::testing {

class LetterSession final : public Session {
 public:
  explicit LetterSession(std::atomic<uint64_t>& refused) : refused_(refused) {}
  Frame frame(std::string_view unread, Request& request) override {
    const size_t end = unread.find('\n');
    if (end == std::string_view::npos) return {};
    request.type = static_cast<uint8_t>(unread[0]);
    if (unread[0] == 'C') request.group = kControlGroup;
    return {FrameState::kComplete, end + 1};
  }
  void refuse(Request& request) override {
    refused_.fetch_add(1, std::memory_order_relaxed);
    request.reply->append("refused\n");
  }

 private:
  std::atomic<uint64_t>& refused_;
};

class LetterApp final : public Application, public Protocol {
 public:
  using Handler = std::function<void(Request&)>;

  // The handler that requests of this letter run before they are echoed.
  Handler& on(char letter) { return handlers_[static_cast<uint8_t>(letter)]; }

  std::unique_ptr<Session> open(const Peer&) override {
    return std::make_unique<LetterSession>(refused_);
  }

  void handle(Request& request) override {
    if (const Handler& handler = handlers_[request.type]) handler(request);
    request.reply->append(request.payload);
    Count& mine = handled_[std::hash<std::thread::id>()(std::this_thread::get_id()) % kCounts];
    mine.value.fetch_add(1, std::memory_order_relaxed);
  }

  void slow(const Request& request, const Completion& completion) override {
    const std::scoped_lock lock(mutex_);
    slow_.emplace_back(static_cast<char>(request.type), completion);
  }

  std::vector<std::pair<char, Completion>> slow_ones() {
    const std::scoped_lock lock(mutex_);
    return slow_;
  }

  // Requests so far, each done to the end.
  uint64_t handled() const {
    uint64_t all = 0;
    for (const Count& count : handled_) all += count.value.load(std::memory_order_relaxed);
    return all;
  }
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  // By thread, so that threads which count share no cache line, unless they happen to.
  struct alignas(limits::kCacheLineBytes) Count {
    std::atomic<uint64_t> value{0};
  };
  static constexpr size_t kCounts = 256;

  std::array<Count, kCounts> handled_;
  std::atomic<uint64_t> refused_{0};
  std::array<Handler, 256> handlers_;
  std::mutex mutex_;  // guards slow_
  std::vector<std::pair<char, Completion>> slow_;
};

// Spins through checkpoints until `done` says so.
template <class F>
void checkpoints_until(F&& done) {
  while (!done()) checkpoint();
}

class LetterServer {
 public:
  explicit LetterServer(std::string policy, uint32_t workers = 1) {
    options.policy = std::move(policy);
    options.workers = workers;
  }
  ~LetterServer() {
    if (thread_.joinable()) stop();
  }

  void start() {
    LoopbackOptions wire;
    wire.queues = options.workers;
    datapath = std::make_unique<LoopbackDatapath>(wire, app);
    if (by_net_worker) net_worker = NetWorkerDatapath::open(*datapath, typed_capacity).value();
    auto made = Runtime::create(options, served(), app);
    RUBATO_CHECK(made.ok());
    runtime = std::move(*made);
    if (loop) runtime->set_server_loop(loop);
    thread_ = std::thread([this] { drained_ = runtime->run(); });
  }

  // True = everything in flight was answered.
  bool stop() {
    runtime->stop();
    thread_.join();
    return drained_;
  }

  // What the workers see.
  Datapath& served() const {
    return by_net_worker ? static_cast<Datapath&>(*net_worker) : *datapath;
  }
  uint64_t connect(uint32_t worker = 0) { return datapath->connect(WorkerId{worker}); }
  void submit(uint64_t flow, std::string_view bytes) {
    RUBATO_CHECK(datapath->submit(flow, bytes));
  }
  // Patient: under a sanitizer on a busy machine each of thousands of preemptions takes long.
  std::string receive(uint64_t flow, size_t bytes) {
    return datapath->receive(flow, bytes, Nanos::seconds(60));
  }
  // Sends a line on a connection of its own and waits until its handler has set `runs`; the
  // connection.
  uint64_t occupy(std::string_view line, const std::atomic<bool>& runs) {
    const uint64_t flow = connect();
    submit(flow, line);
    while (!runs) std::this_thread::yield();
    return flow;
  }
  std::string call(uint64_t flow, std::string_view line) {
    submit(flow, line);
    return receive(flow, line.size());
  }

  RuntimeOptions options;
  LetterApp app;
  std::function<void()> loop;
  bool by_net_worker = false;  // it receives, so many unfinished requests of a type:
  uint32_t typed_capacity = NetWorkerDatapath::kTypedCapacity;
  std::unique_ptr<LoopbackDatapath> datapath;
  std::unique_ptr<NetWorkerDatapath> net_worker;
  std::unique_ptr<Runtime> runtime;

 private:
  std::thread thread_;
  bool drained_ = false;
};

}  // namespace rubato::testing
