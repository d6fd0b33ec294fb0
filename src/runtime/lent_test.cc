// SPDX-License-Identifier: Apache-2.0
#include "runtime/lent.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

// Its end is a write that the checker sees.
template <class Cell>
struct Thing {
  explicit Thing(Cell& the_cell) : cell(the_cell) {}
  ~Thing() { cell = 0; }
  Cell& cell;
};

TEST(Lent, is_used_until_it_is_replaced) {
  int first = 1;
  int second = 2;
  Lent<Thing<int>> lent(std::make_unique<Thing<int>>(first));
  EXPECT_EQ(lent.use([](Thing<int>& thing) { return thing.cell; }), 1);
  lent.replace(std::make_unique<Thing<int>>(second));
  EXPECT_EQ(first, 0);
  EXPECT_EQ(lent.use([](Thing<int>& thing) { return thing.cell; }), 2);
  EXPECT_EQ(lent.owned().cell, 2);
}

// Two threads use what a third replaces. Forbidden outcomes: a use of what is gone, and an owner
// that waits for ever.
template <model::Weaken kWeaken>
model::Report used_and_replaced() {
  return model::explore(model::within(2, 2), [](model::Execution& run) {
    using Word = model::Atomic<int, kWeaken>;
    struct Object {
      explicit Object(Word& the_word) : word(the_word) {}
      ~Object() { word.store(0, std::memory_order_relaxed); }
      Word& word;
    };
    struct Scene {
      Word first{1};
      Word second{2};
      Lent<Object, model::Sync<kWeaken>> lent{std::make_unique<Object>(first)};
      bool used_after_its_end = false;
    };
    auto scene = std::make_shared<Scene>();
    for (int user = 0; user < 2; ++user) {
      run.thread([scene] {
        scene->lent.use([&](Object& object) {
          if (object.word.load(std::memory_order_relaxed) == 0) scene->used_after_its_end = true;
        });
      });
    }
    run.thread([scene] { scene->lent.replace(std::make_unique<Object>(scene->second)); });
    run.finally([scene, &run] { run.expect(!scene->used_after_its_end, "used after its end"); });
  });
}

TEST(Lent, nobody_uses_what_is_gone) {
  const model::Report report = used_and_replaced<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 20u);
}

TEST(Lent, somebody_would_without_seq_cst) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  EXPECT_NE(used_and_replaced<kSeqCst>().failure, "");
}

// For ThreadSanitizer.
TEST(Lent, threads_use_what_another_one_replaces_again_and_again) {
  std::atomic<int> alive{0};
  struct Counted {
    explicit Counted(std::atomic<int>& the_count) : count(the_count) { ++count; }
    ~Counted() {
      value = 0;
      --count;
    }
    std::atomic<int>& count;
    int value = 1;
  };
  Lent<Counted> lent(std::make_unique<Counted>(alive));
  std::atomic<bool> over{false};
  const auto use = [&] {
    while (!over) EXPECT_EQ(lent.use([](Counted& counted) { return counted.value; }), 1);
  };
  std::thread first(use), second(use);
  for (int i = 0; i < 2'000; ++i) {
    lent.replace(std::make_unique<Counted>(alive));
    EXPECT_EQ(alive, 1);
  }
  over = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace rubato
