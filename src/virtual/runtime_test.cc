// SPDX-License-Identifier: Apache-2.0
//
// Every policy that serves live, in virtual time: 1 to 64 workers, its settings at random, with
// faults and without: of the world, full queues, too few fibers, no memory for stacks, clients
// that leave, a request without checkpoints, stops under load. No request is lost or done twice,
// each flow sees its replies in order, none waits longer than a bound or beside a worker that
// sleeps, the counters add up, fibers are used again, and a stop ends soon.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "policy/testing/replay.h"
#include "runtime/shutdown.h"
#include "runtime/testing/letter_app.h"
#include "runtime/testing/live_policies.h"
#include "virtual/testing/compute.h"
#include "virtual/testing/cores.h"
#include "virtual/testing/each_seed.h"
#include "virtual/testing/waiting_work.h"
#include "virtual/testing/watch.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using testing::LetterServer;
using testing::LivePolicy;
using testing::PolicySettings;
using virt::testing::Cores;

constexpr Nanos kShort = Nanos::micros(1);
constexpr Nanos kLong = Nanos::micros(200);
// What the requests of a round may take beyond twice their service, if none of them waits beside a
// worker that sleeps: less than the millisecond after which the watchdog makes up for a missed
// wake-up.
constexpr Nanos kSlack = Nanos::micros(300);
constexpr Nanos kSlackPerReply = Nanos::micros(10);

// How long all workers may wait beside a request; where cores come and go they come back slowly,
// and those of the next policy wait for the last of the one before.
constexpr Nanos kIdleBound = Nanos::micros(200);
constexpr Nanos kIdleBoundOfCores = Nanos::millis(10);
// How long one worker may beside a request that any may run: the watchdog looks every millisecond,
// and for workers that are all asleep every three.
constexpr Nanos kWatchdogBound = Nanos::millis(5);
// The same beside one that this worker alone may run.
constexpr Nanos kOwnBound = Nanos::millis(1);
// A request without a checkpoint, which other workers serve around.
constexpr Nanos kStuck = Nanos::millis(20);

// Of a queue, more than clients ever send ahead; the usual one takes long to make.
constexpr uint32_t kRoomForAll = 1024;

// One run, drawn from its seed.
struct Setting {
  static constexpr uint32_t kMixed = 20;

  Setting(const LivePolicy& live, Prng& prng)
      : policy(live),
        workers(1u << prng.below(7)),
        clock(prng.below(3) == 0 ? PreemptionClock::kTimerCore : PreemptionClock::kSelf),
        classify(static_cast<Classify>(prng.below(3))),
        options(prng.below(2) == 0 ? PolicySettings{} : policy.draw_settings(prng)),
        flows(1 + prng.below(24)),
        rounds(1 + prng.below(1 + prng.below(20))),
        idle_spin(prng.below(2) == 0 ? Nanos::micros(50) : Nanos(prng.below(5000))) {
    world.seed = prng.next();
    by_net_worker = world.seed % 8 == 0;
    world.end = Nanos::seconds(60);
    if (workers > 1 && prng.below(3) == 0) cores = Cores::draw(prng, workers);
    by_net_worker &= !cores.come_and_go();
    if (prng.below(3) == 0) kinds = 3 + prng.below(5);
    if (prng.below(8) == 0) flows += 24;
    if (prng.below(4) == 0) queue_capacity = 2u << prng.below(4);
    if (prng.below(4) == 0) max_fibers = workers + 1 + prng.below(8);
    if (prng.below(4) == 0) no_memory_one_in = 1 + prng.below(4);
    refuses = prng.below(4) == 0;
    refuses_by = prng.below(5);
    leaves = prng.below(4) == 0;
    stops_under_load = prng.below(4) == 0;
    if (workers <= 16 && prng.below(4) == 0) changes = 1 + prng.below(3);
    if (prng.below(3) == 0) {
      faulty = true;
      world.stall_places_one_in = 1u << prng.below(3);
      return;
    }
    if (prng.below(2) == 0) return;
    faulty = true;
    if (prng.below(4) == 0) world.clock_jump_one_in = 1'000u << prng.below(5);
    if (prng.below(2) == 0) {
      world.stall_one_in = 2'000u << prng.below(6);
      world.late_wake_up_one_in = 4;
      world.spurious_wake_up_one_in = 8;
    } else {
      world.write_stall_one_in = 10u << prng.below(6);
      world.plain_stall_one_in = 1000u << prng.below(6);
    }
  }

  // Drawn settings may be such that the policy does little but switch; cores come back slowly.
  // So does a policy that follows, and nothing is done while one follows another.
  bool may_be_slow() const { return !options.empty() || cores.come_and_go() || changes > 0; }
  // Other workers serve around a stuck one.
  bool helps() const { return policy.helps && workers > 1 && !may_be_slow() && !faulty; }

  std::string describe() const {
    const auto if_set = [](const char* what, uint32_t value) {
      return value > 0 ? ", " + std::string(what) + " " + std::to_string(value) : "";
    };
    return policy.name + (", " + std::to_string(workers)) + " workers, " +
           (clock == PreemptionClock::kSelf ? "self" : "timer core") + ", classify " +
           std::to_string(static_cast<int>(classify)) + (faulty ? ", faults" : "") +
           (by_net_worker ? ", net worker" : "") + cores.describe() +
           if_set("queues of", queue_capacity) + if_set("fibers", max_fibers) +
           if_set("no memory one in", no_memory_one_in) +
           (refuses ? ", refuses by " + std::to_string(refuses_by) : "") +
           if_set("changes", changes) + (leaves ? ", clients leave" : "") +
           (stops_under_load ? ", stop under load" : "") +
           testing::as_arguments(options);
  }

  LivePolicy policy;
  uint32_t workers;
  PreemptionClock clock;
  Classify classify;
  PolicySettings options;
  Cores cores = {};
  bool by_net_worker = false;
  uint32_t flows;
  uint32_t rounds;
  uint32_t kinds = kMixed;  // of lines; three of them are not short
  uint32_t queue_capacity = 0;  // 0 = as many as there are
  uint32_t max_fibers = 0;      // 0 = enough
  uint32_t no_memory_one_in = 0;
  uint32_t changes = 0;  // of the policy, while it serves
  bool refuses = false;
  uint32_t refuses_by = 0;  // which control
  bool leaves = false;
  bool stops_under_load = false;
  Nanos idle_spin;
  bool faulty = false;
  virt::WorldOptions world;
};

void compute(Nanos time) { virt::testing::compute(time, Nanos(250)); }

// The line number `i` of a flow: most are short, some long, a few control plane.
std::string line(Prng& prng, uint32_t kinds, size_t i) {
  const uint32_t draw = prng.below(kinds);
  const char letter = draw == 0 ? 'L' : draw == 1 ? 'C' : draw == 2 ? 'X' : 'S';
  return std::string(1, letter) + std::to_string(i) + "\n";
}

// Short gaps are about as many as long ones, from a few accesses to longer than workers spin.
Nanos draw_gap(Prng& prng) { return Nanos(50) * (int64_t{1} << prng.below(12)); }

// The server and its clients, which send in rounds, with and without waiting for the replies in
// between.
class Service {
 public:
  Service(const Setting& setting, Prng& prng)
      : setting_(setting),
        prng_(prng),
        server_(setting.policy.name, setting.workers),
        changes_left_(setting.changes) {
    set_up();
    server_.app.on('S') = [](Request&) { virt::spend(kShort); };
    server_.app.on('X') = [](Request&) { compute(kLong); };
    server_.app.on('L') = [](Request&) {
      long_begin();
      compute(kLong);
      long_end();
    };
    server_.app.on('K') = [](Request&) { virt::spend(kStuck); };
    watch_ = std::make_unique<Watch>(rules());
    server_.loop = [this] {
      watch_->note_worker();
      while (Request* request = recv()) {
        server_.app.handle(*request);
        send(*request);
      }
    };
  }

  void serve() {
    server_.start();
    waiting_.emplace(*server_.runtime, server_.served(), setting_.policy);
    for (uint32_t f = 0; f < setting_.flows; ++f) {
      flows_.push_back({server_.connect(f % setting_.workers), {}, {}});
    }
    watch_->fail_memory(setting_.no_memory_one_in);
    for (uint32_t i = 0; i < setting_.rounds; ++i) round();
    if (!setting_.stops_under_load) receive_all();
    if (setting_.helps() && prng_.below(2) == 0) serve_around_a_stuck_one();
    stop();
    check_counts();
  }

 private:
  using Watch = virt::testing::Watch;

  struct Flow {
    uint64_t id;
    std::vector<std::string> sent;
    std::string received;
  };

  void set_up() {
    server_.by_net_worker = setting_.by_net_worker;
    RuntimeOptions& options = server_.options;
    options.preemption_clock = setting_.clock;
    options.classify = setting_.classify;
    options.policy_settings.insert(setting_.options.begin(), setting_.options.end());
    options.max_fibers = setting_.max_fibers > 0 ? setting_.max_fibers : kFibers;
    options.idle_spin = setting_.idle_spin;
    const uint32_t capacity = setting_.queue_capacity > 0 ? setting_.queue_capacity : kRoomForAll;
    options.inbox_capacity = options.shared_capacity = server_.typed_capacity = capacity;
    if (setting_.refuses) {
      constexpr Overload kControls[] = {Overload::kAqm, Overload::kGradient, Overload::kCinnamon,
                                        Overload::kDagor, Overload::kGradient2};
      options.overload = kControls[setting_.refuses_by];
      if (options.overload == Overload::kDagor) options.overload_settings = {{"window", "50us"}};
      if (options.overload == Overload::kGradient2) {
        options.overload_settings = {{"update_every", "50us"}, {"least", "2"}, {"most", "8"}};
      }
      options.refusal_rule.target_delay = Nanos::micros(20);
      options.refusal_rule.patience = Nanos::micros(100);
    }
    setting_.cores.add_to(options);
  }

  Watch::Rules rules() {
    Watch::Rules rules;
    rules.workers = setting_.workers;
    const bool quick = !setting_.cores.come_and_go() && setting_.changes == 0;
    rules.bound = quick ? kIdleBound : kIdleBoundOfCores;
    rules.work_since = [this] {
      const bool any = !lost_some_ && submitted_ > ended();
      return any ? Instant(submitted_last_ns_) : Instant::never();
    };
    rules.bound_of_each = kWatchdogBound;
    rules.bound_of_own = kOwnBound;
    if (quick) rules.has_own_work = [this](uint32_t worker) { return has_own_work(worker); };
    if (!setting_.may_be_slow()) {
      rules.any_may_run = [this] { return waiting_->is_for_all(); };
    }
    return rules;
  }

  // Only for that worker.
  bool has_own_work(uint32_t worker) {
    if (!waiting_) return false;
    return waiting_->has_come(worker) ||
           (!setting_.may_be_slow() && waiting_->is_queued(worker));
  }

  uint64_t ended() const { return server_.app.handled() + server_.app.refused(); }

  void submit(Flow& flow, const std::string& text) {
    flow.sent.push_back(text);
    outstanding_ += text[0] == 'L' || text[0] == 'X' ? kLong : text[0] == 'K' ? kStuck : kShort;
    server_.submit(flow.id, text);
    submitted_last_ns_ = now().ns();
    ++submitted_;
  }

  // Another policy, its settings at random.
  void change() {
    static const std::vector<LivePolicy> all = testing::all_live();
    const LivePolicy& next = all[prng_.below(static_cast<uint32_t>(all.size()))];
    SchedulerOptions options = server_.runtime->scheduler_options();
    options.policy = next.name;
    options.policy_settings.clear();
    for (const auto& [name, value] : next.draw_settings(prng_)) {
      options.policy_settings[name] = value;
    }
    const Status changed = server_.runtime->change(options);
    if (setting_.no_memory_one_in == 0) {
      EXPECT_TRUE(changed.ok());
    }
  }

  void round() {
    if (changes_left_ > 0 && prng_.below(4) == 0) {
      --changes_left_;
      change();
    }
    for (size_t f = 0; f < flows_.size(); ++f) {
      if (setting_.leaves && prng_.below(16) == 0) leave(f);
      submit(flows_[f], line(prng_, setting_.kinds, flows_[f].sent.size()));
      if (prng_.below(2) == 0) virt::spend(draw_gap(prng_));
    }
    if (prng_.below(2) == 0) receive_all();
    // Long enough that workers fall asleep.
    if (prng_.below(4) == 0) virt::spend(Nanos::millis(1 + prng_.below(300)));
  }

  // A client is gone, with requests on their way, and another one comes.
  void leave(size_t f) {
    lost_some_ = true;
    server_.datapath->forget(flows_[f].id);
    flows_[f] = {server_.connect(static_cast<uint32_t>(f) % setting_.workers), {}, {}};
  }

  void receive(Flow& flow) {
    while (static_cast<size_t>(std::count(flow.received.begin(), flow.received.end(), '\n')) <
           flow.sent.size()) {
      const std::string more = server_.receive(flow.id, 1);
      if (more.empty()) break;
      flow.received += more;
    }
    EXPECT_EQ(check_replies(flow), flow.sent.size());
  }

  void receive_all() {
    const Instant begin = now();
    const Nanos before = faults_;
    const Nanos left = std::max(virt::faults_over() - begin, Nanos());
    for (Flow& flow : flows_) receive(flow);
    const Nanos took = now() - begin;  // the clock may jump at this reading
    const int64_t switches = setting_.kinds < Setting::kMixed ? 2 : 1;  // many long ones take turns
    const Nanos bound = std::exchange(outstanding_, Nanos()) * (1 + switches) + kSlack +
                        kSlackPerReply * static_cast<int64_t>(flows_.size()) +
                        (virt::faults_so_far() - before + left) * 3;
    faults_ = virt::faults_so_far();
    if (!setting_.may_be_slow()) {
      EXPECT_LT(took.count(), bound.count());
    }
  }

  // The replies of a flow come in the order of its requests, each once. Returns how many came.
  static size_t check_replies(const Flow& flow) {
    std::istringstream lines(flow.received);
    size_t count = 0;
    for (std::string text; std::getline(lines, text); ++count) {
      if (text == "refused") continue;
      EXPECT_EQ(text + "\n", count < flow.sent.size() ? flow.sent[count] : "");
    }
    return count;
  }

  // The requests that came to the same worker are answered long before the stuck one.
  void serve_around_a_stuck_one() {
    if (setting_.stops_under_load) receive_all();
    Flow stuck{server_.connect(0), {}, {}};
    submit(stuck, "K0\n");
    virt::spend(draw_gap(prng_));
    const Instant begin = now();
    for (Flow& flow : flows_) submit(flow, "S" + std::to_string(flow.sent.size()) + "\n");
    for (Flow& flow : flows_) receive(flow);
    EXPECT_LT((now() - begin).count(), kWatchdogBound.count());
    receive(stuck);
  }

  void stop() {
    watch_->stop();
    const Instant begin = now();
    const Nanos before = virt::faults_so_far();
    const Nanos left = std::max(virt::faults_over() - begin, Nanos());
    EXPECT_TRUE(server_.stop());
    const Nanos took = now() - begin;
    const Nanos faults = virt::faults_so_far() - before + left;
    const Nanos bound = kStopBound + (outstanding_ + faults) * 2;
    if (!setting_.may_be_slow() || outstanding_ == Nanos()) {
      EXPECT_LT(took.count(), bound.count());
    }
    for (Flow& flow : flows_) {
      server_.datapath->take(flow.id, flow.received);
      check_replies(flow);
    }
  }

  void check_counts() const {
    const RuntimeStats stats = server_.runtime->stats();
    const bool nets = server_.net_worker != nullptr;
    EXPECT_EQ(stats.requests, server_.app.handled());
    EXPECT_EQ(stats.refused + (nets ? server_.net_worker->refused() : 0), server_.app.refused());
    check_groups(stats);
    uint64_t by_reason = 0;
    for (const auto& refusals : stats.refusals) by_reason += refusals[0] + refusals[1];
    EXPECT_EQ(stats.refused, by_reason);
    EXPECT_LE(ended(), submitted_);
    if (!lost_some_ && !setting_.stops_under_load) {
      EXPECT_EQ(ended(), submitted_);
    }
    if (setting_.queue_capacity == 0 && !setting_.refuses && !lost_some_) {
      EXPECT_EQ(stats.refused, 0u);
    }
    // Requests do not take as long as a change of the policy may.
    if (virt::faults_so_far() < Shutdown::kHoldLimit / 2) {
      EXPECT_EQ(stats.changes_given_up, 0u);
    }
    EXPECT_EQ(stats.preemptions, stats.resumed);
    EXPECT_LE(stats.fibers, server_.options.max_fibers);
    // Each worker runs one and may keep kParkedHere; each flow may have left one.
    constexpr uint32_t kParkedHere = 16;
    if (!lost_some_) {
      EXPECT_LE(stats.fibers, setting_.workers + (setting_.workers - 1) * kParkedHere +
                                  setting_.flows + 1);
    }
    for (const QueueDepth& queue : server_.runtime->queue_depths()) EXPECT_EQ(queue.depth, 0u);
  }

  // What is counted by group, and by type, is all that is counted; what has come has ended.
  void check_groups(const RuntimeStats& stats) const {
    GroupFigures all;
    for (uint32_t group = 0; group < limits::kGroups; ++group) {
      const GroupFigures figures = server_.runtime->group(group);
      all.arrived += figures.arrived;
      all.refused += figures.refused;
      all.finished += figures.finished;
    }
    EXPECT_EQ(all.finished, stats.requests);
    EXPECT_EQ(all.refused, stats.refused);
    EXPECT_EQ(all.arrived, stats.requests + stats.refused);
    uint64_t by_type = 0;
    for (uint32_t letter = 'A'; letter <= 'Z'; ++letter) {
      by_type += server_.runtime->latency(letter).count();
    }
    EXPECT_EQ(by_type, stats.requests);
  }

  static constexpr uint32_t kFibers = 128;
  static constexpr Nanos kStopBound = Nanos::millis(5);

  const Setting& setting_;
  Prng& prng_;
  LetterServer server_;
  uint32_t changes_left_;
  std::vector<Flow> flows_;
  Nanos outstanding_;
  Nanos faults_;  // by the end of the last round
  std::atomic<uint64_t> submitted_{0};
  std::atomic<int64_t> submitted_last_ns_{0};
  std::atomic<bool> lost_some_{false};
  std::optional<virt::testing::WaitingWork> waiting_;
  std::unique_ptr<Watch> watch_;
};

class VirtualRuntime : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualRuntime, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualRuntime, answers_each_request_once_in_order_and_soon) {
  virt::testing::each_seed(200, [](uint64_t seed) {
    Prng prng = virt::testing::prng_of(seed, GetParam().name);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { Service(setting, prng).serve(); });
  });
}

// Its helper neither pauses before nor looks elsewhere.
void help_a_stuck_worker() {
  LetterServer server("cfcfs", 2);
  server.options.idle = Idle::kSpin;
  std::atomic<bool> runs{false};
  std::atomic<int64_t> began_ns{0};
  server.app.on('K') = [&](Request&) {
    runs = true;
    virt::spend(kStuck);
  };
  server.app.on('S') = [&](Request&) { began_ns = now().ns(); };
  server.start();
  const uint64_t stuck = server.occupy("K\n", runs);
  virt::spend(Nanos::millis(1));
  const uint64_t flow = server.connect(server.runtime->activity().at(0).busy ? 0 : 1);
  server.submit(flow, "S\n");
  while (server.runtime->stats().helped == 0) virt::spend(Nanos::micros(1));
  const Instant brought = now();
  EXPECT_EQ(server.receive(flow, 2), "S\n");
  EXPECT_LT(began_ns - brought.ns(), Nanos::micros(50).count());
  EXPECT_EQ(server.receive(stuck, 2), "K\n");
  EXPECT_TRUE(server.stop());
}

TEST(VirtualRuntimeHelp, a_request_of_a_stuck_worker_runs_as_soon_as_it_is_brought) {
  EXPECT_TRUE(virt::apart([] {
    virt::WorldOptions world;
    world.pause = Nanos::micros(500);
    virt::run(world, help_a_stuck_worker);
    return !HasFailure();
  }));
}

// What ran before, and where it has left memory, makes no difference.
TEST(VirtualRuntimeReplay, a_seed_gives_the_same_execution_in_every_process) {
  const LivePolicy policy = testing::all_live().front();
  auto* digests = static_cast<uint64_t*>(::mmap(nullptr, 2 * sizeof(uint64_t),
                                                PROT_READ | PROT_WRITE,
                                                MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<std::string> clutter;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(virt::apart([&] {
      Prng prng(3);
      const Setting setting(policy, prng);
      digests[i] = virt::run(setting.world, [&] { Service(setting, prng).serve(); }).digest;
      return !HasFailure();
    }));
    for (size_t k = 0; k < 100; ++k) clutter.emplace_back(40 + k, 'x');
  }
  EXPECT_NE(digests[0], 0u);
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace rubato
