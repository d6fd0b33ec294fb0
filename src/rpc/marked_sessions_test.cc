// SPDX-License-Identifier: Apache-2.0
//
// Here, as src/overload knows no threads.
#include "overload/marked_sessions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "mechanism/queue/testing/model.h"
#include "overload/admission_state.h"

namespace rubato::overload {
namespace {

struct ModelPlatform {
  template <class T>
  class Cell : public model::Atomic<T> {
   public:
    using model::Atomic<T>::Atomic;

    T load() const { return model::Atomic<T>::load(kOrder); }
    void store(T value) { model::Atomic<T>::store(value, kOrder); }
    T exchange(T value) { return model::Atomic<T>::exchange(value, kOrder); }
    T fetch_add(T value) { return model::Atomic<T>::fetch_add(value, kOrder); }
    bool compare_exchange_weak(T& expected, T desired) {
      return model::Atomic<T>::compare_exchange_weak(expected, desired, kOrder);
    }

   private:
    static constexpr std::memory_order kOrder = std::memory_order_seq_cst;
  };
};

using Session = AdmissionSession<ModelPlatform>;

// Two sessions of a worker and what update() knows of them.
struct Scene {
  WorkerLedger<ModelPlatform> ledger;
  PublishedAdmission<ModelPlatform> published;
  Session first{1}, other{2};
  int64_t listed = -1;  // what `first` had queued when it was looked at last

  void drain(Session& session, int64_t demand) {
    WorkerCreditAccount<ModelPlatform> account(ledger, published, 1);
    session.demand = demand;
    account.drain(session, Instant());
  }
  void undrain(Session& session) {
    WorkerCreditAccount<ModelPlatform>(ledger, published, 1).undrain(session);
  }
  void look() {
    ledger.marked.take_all([this](Session& session) {
      if (&session == &first) listed = session.drained_demand.load();
    });
  }
};

// The owner tells a session zero, hears of a request of it and tells it zero again, beside a look.
// Forbidden outcome: the next look does not know that the session waits for a credit.
TEST(MarkedSessions, one_that_is_drained_beside_a_look_is_known_after_the_next) {
  const model::Report report = model::explore(model::within(3, 0), [](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    run.thread([scene] {
      scene->drain(scene->first, 2);
      scene->drain(scene->other, 1);
      scene->undrain(scene->first);
      scene->drain(scene->first, 3);
    });
    run.thread([scene] { scene->look(); });
    run.finally([scene, &run] {
      scene->look();
      run.expect(scene->listed == 3, "a drained session is not listed");
      run.expect(scene->ledger.drained.load() == 2, "drained sessions are counted wrong");
    });
  });
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 10u);
}

}  // namespace
}  // namespace rubato::overload
