// SPDX-License-Identifier: Apache-2.0
//
// An arena of oneTBB, in executor_pools. Arenas count the thread that made them, which has no slot
// here.
#include <tbb/task_arena.h>

#include "executor_pools.h"

namespace rubato::bench {
namespace {

class TbbPool final : public Pool {
 public:
  explicit TbbPool(const Settings& settings) : arena_(static_cast<int>(settings.workers), 0) {}
  void submit(const Job& job) override {
    arena_.enqueue([job] { job.run(); });
  }

 private:
  tbb::task_arena arena_;
};

const Registered kTbb(contender<TbbPool>("tbb"));

}  // namespace
}  // namespace rubato::bench
