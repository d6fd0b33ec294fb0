// SPDX-License-Identifier: Apache-2.0
#include "policy/archetype.h"

#include <gtest/gtest.h>

#include <array>

#include "policy/all.h"

namespace rubato {
namespace {

// The least a policy may be; the policies below each get one thing wrong.
struct Least {
  static constexpr const char* kName = "least";
  static constexpr const char* kSummary = "";
  static constexpr const char* kSource = "";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kOwner},
  }};
  using Config = None;
  using Worker = None;
  using Central = None;
  using Plan = None;
  explicit constexpr Least(Config) {}

  template <class H>
  Job* next(Worker&, WorkerId, H&) const {
    return nullptr;
  }
};

struct WithoutNext : Least {
  using Least::Least;
  void next() const;
};

struct RouteOfOldTimes : Least {
  using Least::Least;
  template <class H>
  QueueRef route(WorkerId, H&) const;
};

struct OrdersAnInbox : Least {
  using Least::Least;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "inbox", .scope = Scope::kPerWorker, .sharing = Sharing::kStealable,
       .order = Order::kByWord},
  }};
};

struct OrdersByWordAndAge : Least {
  using Least::Least;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "all", .scope = Scope::kGlobal, .sharing = Sharing::kShared, .aged = true,
       .order = Order::kByWord},
  }};
};

struct WritesItsWord : Least {
  using Least::Least;
  template <class H>
  QueueRef route(Job& job, WorkerId, H&) const {
    job.policy_word = 1;
    return {};
  }
};

struct QuantumWritesToo : Least {
  using Least::Least;
  template <class H>
  Nanos quantum(const Worker&, Job&, H&) const;
};

struct BeginsNowhere : Least {
  using Least::Least;
  template <class H>
  void begins(Worker&, const Job&, H&) const;
};

struct ExpiredSaysBool : Least {
  using Least::Least;
  template <class H>
  bool expired(const Job&, WorkerId, H&) const;
};

struct ExpiredSeesNoJob : Least {
  using Least::Least;
  template <class H>
  SliceDecision expired(WorkerId, H&) const;
};

struct FinishedIsNotConst : Least {
  using Least::Least;
  void finished(Worker&, const Job&, Nanos);
};

struct ExplainsToNobody : Least {
  using Least::Least;
  void explain(const Plan&, uint32_t) const;
};

struct OfHardware : Least {
  using Least::Least;
  static constexpr bool kSimulatedOnly = true;
};

struct HostWithoutPut {
  Instant now();
};

static_assert(kHooksFit<Least>);
static_assert(!kHooksFit<WithoutNext>);
static_assert(!kHooksFit<RouteOfOldTimes>);
static_assert(Policy<Least> && !kOrders<Least>);
static_assert(!Policy<OrdersAnInbox>);
static_assert(!Policy<OrdersByWordAndAge>);
static_assert(kHooksFit<WritesItsWord>);
static_assert(!kHooksFit<QuantumWritesToo>);
static_assert(!kHooksFit<BeginsNowhere>);
static_assert(!kHooksFit<ExpiredSaysBool>);
static_assert(!kHooksFit<ExpiredSeesNoJob>);
static_assert(!kHooksFit<FinishedIsNotConst>);
static_assert(!kHooksFit<ExplainsToNobody>);
static_assert(!Host<HostWithoutPut, None>);
static_assert(!ManagedHost<ArchetypeHost<Least>> && !SteeringHost<ArchetypeHost<Least>>);
static_assert(ManagedHost<ArchetypeHost<Altocumulus>> && !SteeringHost<ArchetypeHost<Altocumulus>>);
static_assert(SteeringHost<ArchetypeHost<Sbb>> && !ManagedHost<ArchetypeHost<Sbb>>);
static_assert(kServesLive<Least>);
static_assert(!kServesLive<OfHardware>);

TEST(Archetype, every_hook_of_every_policy_compiles_with_nothing_but_the_contract) {
  int policies = 0;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    static_assert(kHooksFit<P>);
    const auto hooks = instantiate_hooks<P>();
    EXPECT_NE(std::get<1>(hooks), nullptr) << P::kName;
    ++policies;
  });
  EXPECT_EQ(policies, static_cast<int>(AllPolicies::kSize));
}

TEST(ArchetypeDeathTest, may_not_be_called) {
  ArchetypeHost<Least> host;
  EXPECT_DEATH(host.now(), "archetype was called");
}

}  // namespace
}  // namespace rubato
