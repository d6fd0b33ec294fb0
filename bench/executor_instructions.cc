// SPDX-License-Identifier: Apache-2.0
//
// What executor_instructions.py counts the instructions of: the steps of a task's life in an
// executor that lives in this program's loop, each in a function of its own, so that callgrind can
// tell them apart. The program has one thread and waits for nothing.
//
//   executor_instructions BATCHES      prints the number of tasks, yields and messages
#include <rubato/executor.hpp>
#include <rubato/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "datapath/push_list.h"

namespace {

constexpr int kBatch = 64;
constexpr int kWaits = 64;  // of a task
constexpr int64_t kLong = 1'000'000'000;

struct Node {
  Node* next_in_list = nullptr;
};

int64_t ended = 0;

int nothing(void*) { return RUBATO_OK; }
void count_end(void*, int, int64_t) { ++ended; }

int yields(void*) {
  for (int i = 0; i < kWaits; ++i) rubato_yield();
  return RUBATO_OK;
}

// Until nothing is to be run.
inline void run_all(rubato_executor* executor) {
  while (rubato_executor_run(executor, kLong) == RUBATO_LOOP_MORE) continue;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "executor_instructions: %s\n", what);
  std::exit(1);
}

}  // namespace

// Their names are what callgrind looks for.
extern "C" {

[[gnu::noinline]] void count_push(rubato::PushList<Node>& list, Node* nodes) {
  for (int i = 0; i < kBatch; ++i) list.push(nodes[i]);
}

[[gnu::noinline]] void count_submit(rubato_executor* executor) {
  for (int i = 0; i < kBatch; ++i) {
    if (rubato_executor_submit(executor, nullptr, nothing, count_end, nullptr) != RUBATO_OK) {
      fail("a task was refused");
    }
  }
}

[[gnu::noinline]] void count_first(rubato_executor* executor) {
  if (rubato_executor_submit(executor, nullptr, nothing, count_end, nullptr) != RUBATO_OK) {
    fail("a task was refused");
  }
}

[[gnu::noinline]] void count_execute(rubato::Executor& executor) {
  for (int i = 0; i < kBatch; ++i) {
    if (!executor.execute([] { ++ended; })) fail("a task was refused");
  }
}

[[gnu::noinline]] void count_attributes(rubato::Executor& executor) {
  for (int i = 0; i < kBatch; ++i) {
    if (!executor.execute([] { ++ended; }, {.type = 1, .is_long = true})) {
      fail("a task was refused");
    }
  }
}

[[gnu::noinline]] void count_try(rubato::Executor& executor) {
  for (int i = 0; i < kBatch; ++i) {
    if (executor.try_execute([] { ++ended; })) fail("a task was refused");
  }
}

[[gnu::noinline]] void count_future(rubato::Executor& executor, std::future<void>* futures) {
  for (int i = 0; i < kBatch; ++i) futures[i] = executor.submit([] { ++ended; });
}

[[gnu::noinline]] void count_run(rubato_executor* executor) { run_all(executor); }
[[gnu::noinline]] void count_yields(rubato_executor* executor) { run_all(executor); }
}

int main(int count, char** arguments) {
  const int batches = count == 2 ? std::atoi(arguments[1]) : 0;
  if (batches < 1) fail("usage: executor_instructions BATCHES");
  auto created = rubato::Executor::create({.scheduler = {.workers = 1}, .in_loop = true});
  if (!created) fail(created.error().c_str());
  rubato_executor* const executor = created->c();

  rubato::PushList<Node> list;
  Node nodes[kBatch];
  std::future<void> futures[kBatch];
  for (int batch = 0; batch < batches; ++batch) {
    count_push(list, nodes);
    static_cast<void>(list.take_all_in_order());
    for (Node& node : nodes) node.next_in_list = nullptr;
    count_first(executor);
    run_all(executor);
    count_submit(executor);
    count_run(executor);
    count_execute(*created);
    run_all(executor);
    count_attributes(*created);
    run_all(executor);
    count_try(*created);
    run_all(executor);
    count_future(*created, futures);
    run_all(executor);
    for (int i = 0; i < 2; ++i) {
      rubato_executor_submit(executor, nullptr, yields, count_end, nullptr);
    }
    count_yields(executor);
  }
  if (ended != int64_t{batches} * (5 * kBatch + 3)) fail("not every task has ended");
  std::printf("{\"tasks\": %d, \"batches\": %d, \"yields\": %d}\n", batches * kBatch, batches,
              batches * 2 * kWaits);
}
