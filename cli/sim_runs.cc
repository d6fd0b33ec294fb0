// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace rubato::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRedraw{250};
constexpr double kShowAfterSeconds = 1.0;  // short runs need no progress

// The runs, taken in order by whoever is free. Each task has one owner; `done_of` is relaxed, as
// are `stop` and `failed_`: nothing else is read because of them.
class Pool {
 public:
  Pool(const SimOptions& options, sim::Trace* trace, const std::atomic<bool>& stop)
      : options_(options),
        trace_(trace),
        stop_(stop),
        count_(options.loads.size() * options.seeds),
        done_of_(std::make_unique<std::atomic<double>[]>(count_)),
        results_(count_) {}

  // Blocks until all is done; calls `tick` now and then meanwhile.
  template <class F>
  void run(F&& tick) {
    std::vector<std::jthread> threads;
    const size_t wanted = std::min<size_t>(options_.threads, count_);
    for (size_t i = 0; i < wanted; ++i) threads.emplace_back([this] { work(); });
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kRedraw, [&] { return ended_ == wanted; })) tick(share_done());
  }

  // After run().
  Result<std::vector<sim::SimReport>> reports() {
    for (const auto& result : results_) {
      if (result && !result->ok()) return Error{result->error()};
    }
    std::vector<sim::SimReport> reports;
    for (size_t first = 0; first < count_; first += options_.seeds) {
      std::vector<sim::SimReport> seeds;
      for (size_t i = first; i < first + options_.seeds; ++i) {
        if (results_[i]) seeds.push_back(std::move(results_[i]->value()));
      }
      if (seeds.empty()) break;
      reports.push_back(sim::average(seeds));
      if (seeds.size() < options_.seeds) mark_stopped(reports.back());
    }
    return reports;
  }

 private:
  static void mark_stopped(sim::SimReport& report) {
    report.run.valid = false;
    report.run.invalid_reason = sim::kStoppedEarly;
  }

  void work() {
    for (size_t i = 0; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      // The first run is begun in any case, so that there is something to print.
      if (i > 0 && given_up()) break;
      simulate(i);
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }

  void simulate(size_t i) {
    const double load = options_.loads[i / options_.seeds];
    const sim::Setup setup = setup_at(options_, load, static_cast<uint32_t>(i % options_.seeds));
    sim::Watch watch;
    watch.trace = trace_;
    watch.progress = [this, i](double done) {
      done_of_[i].store(done, std::memory_order_relaxed);
      return !given_up() && (trace_ == nullptr || !trace_->failed());
    };
    Result<sim::Outcome> outcome = sim::simulate(options_.policy, options_.settings, setup, watch);
    if (outcome) {
      results_[i].emplace(sim::make_report(setup, *outcome));
    } else {
      results_[i].emplace(Error{outcome.error()});
      failed_.store(true, std::memory_order_relaxed);
    }
    done_of_[i].store(1, std::memory_order_relaxed);
  }

  bool given_up() const {
    return stop_.load(std::memory_order_relaxed) || failed_.load(std::memory_order_relaxed);
  }

  double share_done() const {
    double sum = 0;
    for (size_t i = 0; i < count_; ++i) sum += done_of_[i].load(std::memory_order_relaxed);
    return sum / static_cast<double>(count_);
  }

  const SimOptions& options_;
  sim::Trace* trace_;
  const std::atomic<bool>& stop_;
  size_t count_;
  std::unique_ptr<std::atomic<double>[]> done_of_;
  std::vector<std::optional<Result<sim::SimReport>>> results_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ended_ = 0;
};

std::string time_left(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// One line, drawn over itself and wiped at the end.
class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }

  void draw(double done) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    if (!shown_ || elapsed < kShowAfterSeconds) return;
    drawn_ = true;
    std::string line = fmt::format("\r\033[K{:3.0f} %", 100 * done);
    if (done > 0) line += ", about " + time_left(elapsed * (1 - done) / done) + " left";
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  bool shown_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Result<std::vector<sim::SimReport>> run_simulations(const SimOptions& options, sim::Trace* trace,
                                                    bool progress,
                                                    const std::atomic<bool>& stop) {
  Pool pool(options, trace, stop);
  Progress line(progress);
  pool.run([&](double done) { line.draw(done); });
  return pool.reports();
}

}  // namespace rubato::cli
