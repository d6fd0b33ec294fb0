// SPDX-License-Identifier: Apache-2.0
//
// For tests and benches: one connection to a key-value application without sockets, runtime or
// threads, and stand-ins for what a host lends. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kv_server/engine/engine.h"
#include "kv_server/server/application.h"
#include "mechanism/clock/clock.h"

namespace rubato::kv::testing {

class ManualClock final : public Clock {
 public:
  int64_t now_ms() override { return now_ms_; }
  void advance(int64_t ms) { now_ms_ += ms; }

 private:
  int64_t now_ms_ = 1'700'000'000'000;
};

class FakeLatency final : public LatencySource {
 public:
  Histogram total_time(uint32_t type) override { return times[type]; }
  Nanos service_time(uint32_t) override { return Nanos::micros(10); }
  void reset() override { times.clear(); }

  std::map<uint32_t, Histogram> times;
};

class FakeControl final : public ServerControl {
 public:
  Lines scheduler_info() override { return {{"policy", "synergy"}}; }
  Lines overload_info() override { return {{"overload_state", "calm"}}; }
  Lines scheduler_options() override {
    return {{"policy", "synergy"}, {"target-delay", target_delay}};
  }
  Status set_scheduler_options(const Lines& wanted) override {
    for (const auto& [name, value] : wanted) {
      if (name == "policy" && value != "synergy") return Error{"policy: no such policy"};
    }
    for (const auto& [name, value] : wanted) {
      if (name == "target-delay") target_delay = value;
    }
    return Done{};
  }
  void set_slow_threshold(Nanos threshold) override { slow_threshold = threshold; }
  void set_max_flows(uint32_t flows) override { max_flows = flows; }
  void set_idle_timeout(Nanos limit) override { idle_timeout = limit; }
  bool run_aside(std::function<void()> work) override {
    if (aside_is_busy) return false;
    work();
    return true;
  }
  void shut_down() override { down = true; }

  Nanos slow_threshold;
  std::string target_delay = "3ms";
  uint32_t max_flows = 0;
  Nanos idle_timeout;
  bool aside_is_busy = false;
  bool down = false;
};

// Shows the flows it was told of.
class FakeDatapath final : public Datapath {
 public:
  uint32_t queues() const override { return 0; }
  DatapathQueue& queue(WorkerId) override { check_failed(__FILE__, __LINE__, "no queues here"); }
  void drain() override {}
  uint64_t in_flight() const override { return 0; }
  DatapathStats stats() const override { return {}; }
  void for_each_flow(const std::function<void(const FlowInfo&)>& visit) override {
    for (const FlowInfo& flow : flows) visit(flow);
  }
  bool close_flow(uint64_t flow) override {
    closed.push_back(flow);
    return true;
  }

  std::vector<FlowInfo> flows;
  std::vector<uint64_t> closed;
};

// One client connection.
class Client {
 public:
  Client(KvApplication& app, uint64_t flow, uint32_t port = 0) : app_(&app) {
    Peer peer;
    peer.flow = flow;
    peer.port = port;
    peer.address = "10.0.0.1:" + std::to_string(1000 + flow);
    session_ = app.open(peer);
  }
  // Of a port that the application does not open itself.
  Client(KvApplication& app, std::unique_ptr<Session> session)
      : app_(&app), session_(std::move(session)) {}

  // Gives bytes; returns the replies to all requests that are complete.
  std::string send(std::string_view bytes) {
    input_ += bytes;
    while (!input_.empty() && !closed_) {
      Request request;
      request.arrived = rubato::now();
      const Frame frame = session_->frame(input_, request);
      if (frame.state == FrameState::kIncomplete) break;
      run(request, frame.length_bytes);
    }
    std::string out(reply_.unsent());
    reply_.consume(out.size());
    return out;
  }

  // One request of these words.
  std::string call(const std::vector<std::string>& words) {
    std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) {
      bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    }
    return send(bytes);
  }

  bool closed() const { return closed_; }
  // Told to the application about the next requests, if at least a threshold.
  void set_times(const Completion& times) { times_ = &times; }
  void refuse_next() { refuse_ = true; }

 private:
  void run(Request& request, size_t length) {
    const std::string bytes = input_.substr(0, length);
    request.payload = bytes;
    request.session = session_.get();
    request.reply = &reply_;
    if (refuse_) {
      session_->refuse(request);
      refuse_ = false;
    } else {
      app_->handle(request);
      if (times_ != nullptr) app_->slow(request, *times_);
    }
    closed_ = request.close_after;
    input_.erase(0, length);
  }

  KvApplication* app_;
  std::unique_ptr<Session> session_;
  ReplyBuffer reply_;
  std::string input_;
  const Completion* times_ = nullptr;
  bool refuse_ = false;
  bool closed_ = false;
};

// A server with the memory engine, all stand-ins, and one client.
struct Harness {
  explicit Harness(const KvOptions& options = {}, rpc::AdmissionController* admission = nullptr)
      : engine(make_engine(clock)), app(*engine, options, admission), client(app, 1) {
    Host host;
    host.clock = &clock;
    host.datapath = &datapath;
    host.latency = &latency;
    host.control = &control;
    app.connect(host);
  }

  static std::unique_ptr<Engine> make_engine(Clock& clock) {
    EngineOptions options;
    options.clock = &clock;
    options.hash_seed = 1;
    auto engine = open_memory_engine(options);
    RUBATO_CHECK(engine.ok());
    return std::move(engine.value());
  }

  std::string call(const std::vector<std::string>& words) { return client.call(words); }

  ManualClock clock;
  FakeLatency latency;
  FakeControl control;
  FakeDatapath datapath;
  std::unique_ptr<Engine> engine;
  KvApplication app;
  Client client;
};

inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

}  // namespace rubato::kv::testing
