// SPDX-License-Identifier: Apache-2.0
#include "naive_sim.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "metrics/histogram.h"
#include "workload/sampling.h"

namespace rubato::bench {
namespace {

struct NaiveRequest {
  double arrived = 0, left = 0;
};

class NaiveSimulator {
 public:
  NaiveSimulator(NaivePolicy policy, const NaiveWork& work)
      : policy_(policy),
        work_(work),
        random_(work.seed),
        gap_(work.load * work.workers / static_cast<double>(kNaiveServiceNs)),
        service_(1.0 / static_cast<double>(kNaiveServiceNs)),
        workers_(work.workers) {}

  NaiveResult run() {
    schedule_arrival();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.worker == kArrival ? arrive() : end_slice(event.worker);
    }
    std::sort(latencies_.begin(), latencies_.end());
    double sum = 0;
    for (const double latency : latencies_) sum += latency;
    const auto n = static_cast<double>(latencies_.size());
    return {sum / n, latencies_[static_cast<size_t>(n * 0.99)]};
  }

 private:
  static constexpr uint32_t kArrival = UINT32_MAX;

  struct Event {
    double at;
    uint32_t worker;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  struct Worker {
    std::deque<NaiveRequest> queue;
    NaiveRequest running;
    double slice = 0;
    bool busy = false;
  };

  bool central() const {
    return policy_ == NaivePolicy::kCfcfs || policy_ == NaivePolicy::kPs ||
           policy_ == NaivePolicy::kJbsq;
  }

  void schedule_arrival() {
    if (arrived_++ < work_.requests) events_.push({now_ + gap_(random_), kArrival});
  }

  void arrive() {
    const NaiveRequest request{now_, service_(random_)};
    schedule_arrival();
    if (!central()) {
      const auto to = static_cast<uint32_t>(random_() % work_.workers);
      workers_[to].queue.push_back(request);
      if (!workers_[to].busy) return next(to);
      if (policy_ == NaivePolicy::kSteal) wake_thief();
      return;
    }
    central_.push_back(request);
    policy_ == NaivePolicy::kJbsq ? hand_out() : wake_idle();
  }

  void wake_idle() {
    for (uint32_t w = 0; w < work_.workers; ++w) {
      if (!workers_[w].busy) return next(w);
    }
  }
  void wake_thief() {
    for (uint32_t w = 0; w < work_.workers; ++w) {
      if (!workers_[w].busy) return next(w);
    }
  }

  // To the worker with the fewest requests, while it has fewer than the bound.
  void hand_out() {
    while (!central_.empty()) {
      uint32_t best = 0;
      size_t fewest = SIZE_MAX;
      for (uint32_t w = 0; w < work_.workers; ++w) {
        const size_t held = workers_[w].queue.size() + (workers_[w].busy ? 1 : 0);
        if (held < fewest) {
          fewest = held;
          best = w;
        }
      }
      if (fewest >= kNaiveBound) return;
      workers_[best].queue.push_back(central_.front());
      central_.pop_front();
      if (!workers_[best].busy) next(best);
    }
  }

  void end_slice(uint32_t w) {
    Worker& worker = workers_[w];
    worker.busy = false;
    worker.running.left -= worker.slice;
    if (worker.running.left <= 0) {
      latencies_.push_back(now_ - worker.running.arrived);
    } else {
      central_.push_back(worker.running);
    }
    if (policy_ == NaivePolicy::kJbsq) hand_out();
    if (!worker.busy) next(w);
  }

  void next(uint32_t w) {
    std::deque<NaiveRequest>* const queue = queue_of(w);
    if (queue == nullptr) return;
    Worker& worker = workers_[w];
    worker.running = queue->front();
    queue->pop_front();
    worker.busy = true;
    worker.slice = policy_ == NaivePolicy::kPs
                       ? std::min(worker.running.left, static_cast<double>(kNaiveQuantumNs))
                       : worker.running.left;
    events_.push({now_ + worker.slice, w});
  }

  std::deque<NaiveRequest>* queue_of(uint32_t w) {
    if (policy_ == NaivePolicy::kCfcfs || policy_ == NaivePolicy::kPs) {
      return central_.empty() ? nullptr : &central_;
    }
    if (!workers_[w].queue.empty()) return &workers_[w].queue;
    if (policy_ != NaivePolicy::kSteal) return nullptr;
    for (Worker& victim : workers_) {
      if (!victim.queue.empty()) return &victim.queue;
    }
    return nullptr;
  }

  NaivePolicy policy_;
  NaiveWork work_;
  std::mt19937_64 random_;
  std::exponential_distribution<double> gap_, service_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Worker> workers_;
  std::deque<NaiveRequest> central_;
  std::vector<double> latencies_;
  double now_ = 0;
  uint64_t arrived_ = 0;
};

}  // namespace

NaiveResult simulate_naively(NaivePolicy policy, const NaiveWork& work) {
  return NaiveSimulator(policy, work).run();
}

NaiveResult simulate_floor(const NaiveWork& work) {
  constexpr double kService = static_cast<double>(kNaiveServiceNs);
  struct Busy {
    int64_t until, arrived;
  };
  const auto later = [](const Busy& a, const Busy& b) { return a.until > b.until; };
  Prng random(work.seed);
  const double gap = kService / (work.load * work.workers);
  std::vector<Busy> busy;  // a heap
  busy.reserve(work.workers);
  std::vector<int64_t> waiting(1u << 20);
  uint64_t put = 0, taken = 0;
  const uint64_t mask = waiting.size() - 1;
  Histogram latencies;
  const auto start = [&](int64_t now, int64_t arrived) {
    const auto service = static_cast<int64_t>(kService * sample_exponential(random)) + 1;
    busy.push_back({now + service, arrived});
    std::push_heap(busy.begin(), busy.end(), later);
  };
  double next = 0;
  for (uint64_t arrived = 0; arrived < work.requests || !busy.empty();) {
    if (arrived < work.requests && (busy.empty() || next < static_cast<double>(busy[0].until))) {
      ++arrived;
      const auto now = static_cast<int64_t>(next);
      next += gap * sample_exponential(random);
      if (busy.size() < work.workers) {
        start(now, now);
      } else {
        waiting[put++ & mask] = now;
      }
      continue;
    }
    const Busy done = busy.front();
    std::pop_heap(busy.begin(), busy.end(), later);
    busy.pop_back();
    latencies.record(Nanos(done.until - done.arrived));
    if (taken != put) start(done.until, waiting[taken++ & mask]);
  }
  return {latencies.mean_ns(), static_cast<double>(latencies.percentile(99).count())};
}

}  // namespace rubato::bench
