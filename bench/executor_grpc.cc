// SPDX-License-Identifier: Apache-2.0
//
// Calls of gRPC's callback API as tasks of an executor, beside the same handlers in a plain pool of
// as many threads, and on the threads that gRPC calls them on (of its choosing, two on two CPUs),
// in turns: a server and a client on loopback; 1 % of the calls take 5 ms.
//
//   throughput  64 calls underway
//   beside      an open loop at half of what the pool gave in that round: the latency of a short
//               call, from the time it was due
//
//   executor_grpc [--rounds N] [--seconds S] [--workers N] [--policy NAME]
//
// Prints for each server the median of the rounds and their range. A call that fails ends it.
#include <work.grpc.pb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <rubato/grpc.hpp>

#include "base/prng.h"
#include "plain_pools.h"
#include "pool_figures.h"

namespace {

using namespace rubato::bench;
using namespace rubato_examples;
using std::chrono::nanoseconds;

constexpr nanoseconds kLong{5'000'000};
constexpr double kLongShare = 0.01;

// Steps of work, not time, which would pass while a call is preempted.
void spin(uint64_t steps) {
  volatile uint64_t value = 1;
  for (uint64_t i = 0; i < steps; ++i) {
    value = value * 6364136223846793005u + 1;
    rubato::checkpoint();
  }
}

uint64_t steps_of_long() {
  static const uint64_t steps = [] {
    constexpr uint64_t kTried = 5'000'000;
    const auto begin = Clock::now();
    spin(kTried);
    const nanoseconds took = Clock::now() - begin;
    return kTried * static_cast<uint64_t>(kLong.count()) / static_cast<uint64_t>(took.count());
  }();
  return steps;
}

grpc::Status compute() {
  spin(steps_of_long());
  return grpc::Status::OK;
}

class Inline final : public Work::CallbackService {
 public:
  explicit Inline(const Settings&) {}
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text*,
                                 Text*) override {
    return finished(context, grpc::Status::OK);
  }
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* context, const Steps*,
                                    Result*) override {
    return finished(context, compute());
  }

 private:
  static grpc::ServerUnaryReactor* finished(grpc::CallbackServerContext* context,
                                            const grpc::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
};

class Posted final : public Work::CallbackService {
 public:
  explicit Posted(const Settings& settings) : pool_(settings) {}
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text*,
                                 Text*) override {
    return posted(context, false);
  }
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* context, const Steps*,
                                    Result*) override {
    return posted(context, true);
  }

 private:
  struct Job {
    grpc::ServerUnaryReactor* reactor;
    bool is_long;

    void run() const { reactor->Finish(is_long ? compute() : grpc::Status::OK); }
  };

  grpc::ServerUnaryReactor* posted(grpc::CallbackServerContext* context, bool is_long) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    pool_.submit({reactor, is_long});
    return reactor;
  }

  MutexPool<Job> pool_;
};

class Tasks final : public Work::CallbackService {
 public:
  explicit Tasks(const Settings& settings) : executor_(make_executor(settings)) {}
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text*,
                                 Text*) override {
    return rubato::run_unary(executor_, context, {}, [] { return grpc::Status::OK; });
  }
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* context, const Steps*,
                                    Result*) override {
    return rubato::run_unary(executor_, context, {}, [] { return compute(); });
  }

 private:
  rubato::Executor executor_;
};

// A call on its way; deletes itself.
struct Call {
  grpc::ClientContext context;
  Text text;
  Steps steps;
  Result result;
  Clock::time_point due;
  nanoseconds* latency;
  std::atomic<int64_t>* underway;

  void ended() {
    if (latency != nullptr) *latency = Clock::now() - due;
    underway->fetch_sub(1, std::memory_order_release);
    delete this;
  }
};

template <class Service>
class Served {
 public:
  explicit Served(const Settings& settings) : settings_(settings), service_(settings) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = Work::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                              grpc::InsecureChannelCredentials()));
  }
  ~Served() { server_->Shutdown(); }

  double throughput() {
    const auto begin = Clock::now();
    uint64_t sent = 0;
    for (; Clock::now() - begin < std::chrono::duration<double>(settings_.seconds); ++sent) {
      wait_until_below(underway_, 64);
      send(begin, nullptr);
    }
    wait_until_below(underway_, 1);
    const std::chrono::duration<double> took = Clock::now() - begin;
    return static_cast<double>(sent) / took.count();
  }

  // Of the short calls, sorted.
  std::vector<nanoseconds> latencies(double rate) {
    std::vector<nanoseconds> latencies(static_cast<size_t>(settings_.seconds * rate),
                                       nanoseconds(-1));
    Clock::time_point due = Clock::now();
    for (nanoseconds& latency : latencies) {
      due += nanoseconds(static_cast<int64_t>(-std::log(1 - dice_.uniform()) / rate * 1e9));
      std::this_thread::sleep_until(due);
      send(due, &latency);
    }
    wait_until_below(underway_, 1);
    std::erase(latencies, nanoseconds(-1));
    std::sort(latencies.begin(), latencies.end());
    return latencies;
  }

 private:
  void send(Clock::time_point due, nanoseconds* latency) {
    const bool is_long = dice_.uniform() < kLongShare;
    auto* const call = new Call{{}, {}, {}, {}, due, is_long ? nullptr : latency, &underway_};
    underway_.fetch_add(1, std::memory_order_relaxed);
    const auto ended = [call](const grpc::Status& status) {
      if (!status.ok()) std::abort();
      call->ended();
    };
    if (is_long) stub_->async()->Compute(&call->context, &call->steps, &call->result, ended);
    else stub_->async()->Echo(&call->context, &call->text, &call->text, ended);
  }

  const Settings& settings_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Work::Stub> stub_;
  rubato::Prng dice_{1};
  std::atomic<int64_t> underway_{0};
};

struct Figures {
  std::vector<double> per_second, p50_us, p99_us;

  void add(double throughput, const std::vector<nanoseconds>& latencies) {
    per_second.push_back(throughput);
    p50_us.push_back(percentile_us(latencies, 0.5));
    p99_us.push_back(percentile_us(latencies, 0.99));
  }
  void show(const char* name) const {
    std::printf("%-8s", name);
    print("short p50/us", p50_us);
    print("p99", p99_us);
    print("calls/s", per_second);
    std::printf("\n");
  }
};

// Its throughput; the latencies are those at a rate, 0 = half of that throughput.
template <class Service>
double measure(const Settings& settings, Figures& figures, double rate) {
  Served<Service> served(settings);
  const double most = served.throughput();
  figures.add(most, served.latencies(rate > 0 ? rate : most / 2));
  return most;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.workers = 2;
  if (!read(argc, argv, settings)) return 2;
  steps_of_long();
  Figures rubato, pool, own;
  for (int round = 0; round < settings.rounds; ++round) {
    const double most = measure<Posted>(settings, pool, 0);
    measure<Inline>(settings, own, most / 2);
    measure<Tasks>(settings, rubato, most / 2);
  }
  rubato.show("rubato");
  pool.show("pool");
  own.show("inline");
}
