// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_route.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <utility>

#include "datapath/stream_flow.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

constexpr int kQueues = 3;
constexpr int kNone = -1;

TEST(FlowRoute, starts_at_home_and_knows_whether_it_is_away) {
  std::array<FlowHost, 2> hosts;
  FlowRoute<> route(hosts[0]);
  EXPECT_TRUE(route.settled());
  EXPECT_FALSE(route.want(hosts[0]));
  EXPECT_TRUE(route.want(hosts[1]));
  EXPECT_FALSE(route.want(hosts[1]));
  EXPECT_FALSE(route.settled());
  EXPECT_FALSE(route.migrated());
  route.arrive(hosts[1]);
  EXPECT_TRUE(route.settled());
  EXPECT_TRUE(route.migrated());
  EXPECT_EQ(&route.owner_queue(), &hosts[0]);
}

TEST(FlowRoute, closed_flow_visits_each_queue_that_it_left_once) {
  std::array<FlowHost, 3> hosts;
  FlowRoute<> route(hosts[0]);
  EXPECT_EQ(route.next_stop(), nullptr);
  for (const size_t to : {1u, 0u, 1u, 2u, 1u, 0u, 2u}) {
    EXPECT_TRUE(route.want(hosts[to]));
    route.arrive(hosts[to]);
  }
  std::set<FlowHost*> visited{route.next_stop(), route.next_stop()};
  EXPECT_EQ(visited, (std::set<FlowHost*>{&hosts[0], &hosts[1]}));
  EXPECT_EQ(route.next_stop(), nullptr);
}

TEST(FlowRoute, wish_that_cannot_be_met_is_given_up_unless_there_is_a_newer_one) {
  std::array<FlowHost, 3> hosts;
  FlowRoute<> route(hosts[0]);
  EXPECT_TRUE(route.want(hosts[1]));
  route.abort(hosts[1]);
  EXPECT_TRUE(route.settled());
  EXPECT_TRUE(route.want(hosts[1]));
  EXPECT_TRUE(route.want(hosts[2]));
  route.abort(hosts[1]);
  EXPECT_EQ(&route.wanted(), &hosts[2]);
}

struct Plan {
  int sends = 0;                         // bytes that the peer sends
  std::vector<std::vector<int>> wishes;  // per steering thread: the queues it asks for, in turn
  bool sweeps = false;                   // home looks at the flow once
  bool closes = false;                   // the owner closes the flow after the last byte
};

// One flow, its socket, the event sets of three queues and their pollers, steering threads, a sweep
// and the owner, each a list of atomic steps as in stream_flow.cc. The gate and the route are real.
class World {
 public:
  explicit World(const Plan& plan) : plan_(plan), asked_(plan.wishes.size()) { in_set_[0] = true; }

  // One step of one actor; false = it has none to take now, and nothing has changed.
  bool step(int actor) {
    if (actor == 0) return send();
    if (actor == 1) return sweep();
    if (actor == 2) return own();
    const int rest = actor - 3;
    if (rest < kQueues) return events(rest);
    if (rest < 2 * kQueues) return lists(rest - kQueues);
    return steer(static_cast<size_t>(rest - 2 * kQueues));
  }
  int actors() const { return 3 + 2 * kQueues + static_cast<int>(plan_.wishes.size()); }

  std::vector<int> key() const {
    std::vector<int> key{sent_,    in_socket_, received_, static_cast<int>(owner_), target_,
                         yielded_, closed_,    swept_,    freed_,  left_mask_,
                         static_cast<int>(ownership_.state()), at(), index_of(route_.wanted())};
    for (size_t q = 0; q < kQueues; ++q) {
      key.insert(key.end(), {in_set_[q], ready_[q], remembered_[q]});
    }
    for (const Asked& asked : asked_) key.insert(key.end(), {asked.next, asked.mid});
    return key;
  }

  void expect_all_is_well() const {
    EXPECT_EQ(received_, plan_.sends);
    EXPECT_EQ(freed_, plan_.closes);
    EXPECT_EQ(yielded_, kNone);
    EXPECT_EQ(closed_, kNone);
    if (plan_.closes) return;
    EXPECT_EQ(ownership_.state(), FlowState::kIdle);
    EXPECT_TRUE(route_.settled());
    for (int q = 0; q < kQueues; ++q) EXPECT_EQ(in_set_[size_t(q)], q == at());
    bool was_asked_for = false;
    for (const auto& wishes : plan_.wishes) was_asked_for |= wishes.back() == at();
    EXPECT_TRUE(was_asked_for || plan_.wishes.empty());
  }

 private:
  enum class Owner : uint8_t {
    kNobody, kLook, kReceive, kRelease, kMigrate, kLeave, kArrive, kPush, kSwept, kClose, kClosed
  };
  struct Asked {
    int next = 0;
    bool mid = false;  // the wish is stored, the event not yet brought
  };

  int at() const { return index_of(route_.at()); }
  int index_of(const FlowHost& host) const { return static_cast<int>(&host - hosts_.data()); }
  FlowHost& host(int q) { return hosts_[size_t(q)]; }

  void own_from(Owner step) {
    EXPECT_EQ(owner_, Owner::kNobody);
    EXPECT_EQ(yielded_, kNone);
    EXPECT_EQ(closed_, kNone);
    EXPECT_FALSE(freed_);
    owner_ = step;
  }

  bool send() {
    if (sent_ == plan_.sends) return false;
    ++sent_;
    ++in_socket_;
    for (size_t q = 0; q < kQueues; ++q) ready_[q] |= in_set_[q];
    return true;
  }

  bool sweep() {
    if (!plan_.sweeps || swept_) return false;
    swept_ = true;
    if (!freed_ && ownership_.claim()) own_from(Owner::kSwept);
    return true;
  }

  // A poller takes an event from the kernel, or tells the gate of one that it took.
  bool events(int queue) {
    const auto q = size_t(queue);
    if (!remembered_[q]) {
      remembered_[q] = std::exchange(ready_[q], false);
      return remembered_[q];
    }
    remembered_[q] = false;
    EXPECT_FALSE(freed_) << "an event names a freed flow";
    if (ownership_.event()) own_from(queue == at() ? Owner::kLook : Owner::kMigrate);
    return true;
  }

  // A poller goes on with a flow that yielded, or reaps a closed one.
  bool lists(int queue) {
    const auto q = size_t(queue);
    if (yielded_ == queue) {
      yielded_ = kNone;
      own_from(Owner::kLook);
      return true;
    }
    if (closed_ != queue || remembered_[q] || (!route_.has_left() && somebody_is_asking())) {
      return false;
    }
    if (queue == at()) in_set_[q] = ready_[q] = false;
    FlowHost* next = route_.next_stop();
    closed_ = next == nullptr ? kNone : index_of(*next);
    if (next == nullptr) {
      freed_ = true;
    } else {
      left_mask_ &= ~(1 << closed_);
    }
    return true;
  }

  // The mutex of the index holds freeing off in the middle.
  bool somebody_is_asking() const {
    return std::any_of(asked_.begin(), asked_.end(), [](const Asked& asked) { return asked.mid; });
  }

  bool steer(size_t thread) {
    Asked& asked = asked_[thread];
    const std::vector<int>& wishes = plan_.wishes[thread];
    if (asked.mid) {
      asked.mid = false;
      if (ownership_.event()) own_from(Owner::kMigrate);
      return true;
    }
    if (size_t(asked.next) == wishes.size()) return false;
    const int to = wishes[size_t(asked.next++)];
    if (!freed_ && ownership_.state() != FlowState::kClosing) asked.mid = route_.want(host(to));
    return true;
  }

  bool own() {
    switch (owner_) {
      case Owner::kNobody: return false;
      case Owner::kLook:
        owner_ = route_.settled() ? Owner::kReceive : Owner::kMigrate;
        return true;
      case Owner::kReceive:
        received_ += std::exchange(in_socket_, 0);
        owner_ = plan_.closes && received_ == plan_.sends ? Owner::kClose : Owner::kRelease;
        return true;
      case Owner::kRelease:
        owner_ = ownership_.release() ? Owner::kNobody : Owner::kLook;
        return true;
      case Owner::kSwept:
        owner_ = ownership_.release() ? Owner::kNobody : Owner::kMigrate;
        return true;
      default: return go();
    }
  }

  bool go() {
    switch (owner_) {
      case Owner::kMigrate:
        target_ = index_of(route_.wanted());
        owner_ = target_ == at() ? Owner::kPush : Owner::kLeave;
        // Joining reports what is there already.
        if (target_ != at()) in_set_[size_t(target_)] = ready_[size_t(target_)] = true;
        return true;
      case Owner::kLeave:
        in_set_[size_t(at())] = ready_[size_t(at())] = false;
        owner_ = Owner::kArrive;
        return true;
      case Owner::kArrive:
        left_mask_ = (left_mask_ | 1 << at()) & ~(1 << target_);
        route_.arrive(host(target_));
        owner_ = Owner::kPush;
        return true;
      case Owner::kPush:
        yielded_ = at();
        target_ = kNone;
        owner_ = Owner::kNobody;
        return true;
      case Owner::kClose:
        for (size_t q = 0; q < kQueues; ++q) ready_[q] |= in_set_[q];
        ownership_.close();
        owner_ = Owner::kClosed;
        return true;
      default:
        closed_ = at();
        owner_ = Owner::kNobody;
        return true;
    }
  }

  const Plan& plan_;
  std::array<FlowHost, kQueues> hosts_;
  FlowOwnership<> ownership_;
  FlowRoute<> route_{hosts_[0]};
  int sent_ = 0;
  int in_socket_ = 0;
  int received_ = 0;
  std::array<bool, kQueues> in_set_{};
  std::array<bool, kQueues> ready_{};
  std::array<bool, kQueues> remembered_{};
  int yielded_ = kNone;  // the queue that has the flow in this list
  int closed_ = kNone;
  Owner owner_ = Owner::kNobody;
  int target_ = kNone;
  bool swept_ = false;
  bool freed_ = false;
  int left_mask_ = 0;  // what the route keeps to itself
  std::vector<Asked> asked_;
};

// Runs every order of steps, each state once; a world is rebuilt by its path, as it has atomics.
class Exploration {
 public:
  explicit Exploration(const Plan& plan) : plan_(plan) { walk({}); }
  size_t states() const { return seen_.size(); }
  int ends() const { return ends_; }

 private:
  void walk(std::vector<int> path) {
    if (::testing::Test::HasFailure()) return;
    auto world = world_after(path);
    const int actors = world->actors();
    bool ended = true;
    for (int actor = 0; actor < actors; ++actor) {
      if (!world->step(actor)) continue;
      ended = false;
      if (seen_.insert(world->key()).second) {
        path.push_back(actor);
        walk(path);
        path.pop_back();
      }
      world = world_after(path);
    }
    if (!ended) return;
    ++ends_;
    world->expect_all_is_well();
  }

  std::unique_ptr<World> world_after(const std::vector<int>& path) const {
    auto world = std::make_unique<World>(plan_);
    for (const int step : path) world->step(step);
    return world;
  }

  const Plan& plan_;
  std::set<std::vector<int>> seen_;
  int ends_ = 0;
};

void explore(const Plan& plan, size_t at_least) {
  const Exploration all(plan);
  EXPECT_GT(all.states(), at_least);
  EXPECT_GT(all.ends(), 0);
}

TEST(FlowRoute, no_interleaving_of_moves_and_traffic_loses_a_byte_or_a_wish) {
  explore({2, {{1}}, false, false}, 100);
  explore({2, {{1, 2, 0}}, false, false}, 1000);
}

TEST(FlowRoute, no_interleaving_of_two_who_steer_loses_a_byte_or_a_wish) {
  explore({1, {{1, 0}, {2}}, false, false}, 1000);
}

TEST(FlowRoute, no_interleaving_with_a_sweep_loses_a_byte_or_a_wish) {
  explore({2, {{1, 0}}, true, false}, 1000);
}

TEST(FlowRoute, no_interleaving_frees_a_flow_that_an_event_may_name_or_frees_it_twice) {
  explore({1, {{1, 2}}, false, true}, 1000);
  explore({2, {{1, 0}}, true, true}, 1000);
}

// Two threads that ask for a move beside a poller with an event, under the model checker, which
// also tries stale values. Whoever owns the flow moves it where it is wanted. Forbidden outcomes: a
// wish that is not met, or two owners at once (the plain cell).
template <model::Weaken kWeaken>
model::Report two_wishes_and_an_event() {
  using Sync = model::Sync<kWeaken>;
  struct Scene {
    explicit Scene(std::array<FlowHost, 3>& hosts) : route(hosts[0]) {}
    void event() {
      if (!ownership.event()) return;
      do {
        moves = moves + 1;
        if (!route.settled()) route.arrive(route.wanted());
      } while (!ownership.release());
    }
    FlowOwnership<Sync> ownership;
    FlowRoute<Sync> route;
    model::Plain<int> moves;
  };
  std::array<FlowHost, 3> hosts;
  return model::explore(model::within(2, 1), [&hosts](model::Execution& run) {
    auto scene = std::make_shared<Scene>(hosts);
    for (const size_t to : {1u, 2u}) {
      run.thread([scene, to, &hosts] {
        if (scene->route.want(hosts[to])) scene->event();
      });
    }
    run.thread([scene] { scene->event(); });
    run.finally([scene, &run] {
      run.expect(scene->route.settled() && scene->route.migrated(), "a wish that is not met");
      run.expect(scene->ownership.state() == FlowState::kIdle, "an owner that is gone");
    });
  });
}

TEST(FlowRoute, no_stale_value_loses_a_wish) {
  const model::Report report = two_wishes_and_an_event<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 50u);
}

TEST(FlowRoute, a_wish_would_be_lost_without_acquire_or_release) {
  constexpr model::Weaken kExchanges{.exchanges = true};
  constexpr model::Weaken kLoads{.loads = true};
  EXPECT_NE(two_wishes_and_an_event<kExchanges>().failure, "");
  EXPECT_NE(two_wishes_and_an_event<kLoads>().failure, "");
}

}  // namespace
}  // namespace rubato
