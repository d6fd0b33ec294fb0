// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <rubato/completions.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include <rubato/rubato.hpp>

namespace {

int add_one(void* to) {
  static_cast<std::atomic<int>*>(to)->fetch_add(1);
  return RUBATO_OK;
}
int fail(void*) { return RUBATO_ERROR; }

class Completions : public ::testing::Test {
 protected:
  ~Completions() override {
    executor_ = nullptr;
    rubato_completions_destroy(completions_);
  }
  bool readable(int limit_ms) const {
    pollfd event{rubato_completions_fd(completions_), POLLIN, 0};
    return ::poll(&event, 1, limit_ms) == 1;
  }
  rubato_completion next() const {
    rubato_completion completion{};
    EXPECT_TRUE(readable(-1));
    EXPECT_EQ(rubato_completions_next(completions_, &completion, 1), 1u);
    return completion;
  }

  rubato_completions* const completions_ = rubato_completions_create();
  std::unique_ptr<rubato::Executor> executor_ =
      std::make_unique<rubato::Executor>(std::move(*rubato::Executor::create()));
};

TEST_F(Completions, tell_the_end_of_each_task_by_its_name) {
  std::atomic<int> sum{0};
  EXPECT_FALSE(readable(0));
  rubato_completions_submit(completions_, executor_->c(), nullptr, &add_one, &sum, 7);
  const rubato_completion good = next();
  EXPECT_EQ(good.id, 7u);
  EXPECT_EQ(good.outcome, RUBATO_TASK_FINISHED);
  EXPECT_FALSE(readable(0));
  rubato_completions_submit(completions_, executor_->c(), nullptr, &fail, nullptr, 8);
  EXPECT_EQ(next().outcome, RUBATO_TASK_FAILED);
  EXPECT_EQ(sum, 1);
}

TEST_F(Completions, none_is_lost_among_threads_and_the_descriptor_is_readable_until_all_are_taken) {
  constexpr uint64_t kEach = 2000;
  std::atomic<int> sum{0};
  const auto submit = [&](uint64_t first) {
    for (uint64_t id = first; id < first + kEach; ++id) {
      while (rubato_completions_submit(completions_, executor_->c(), nullptr, &add_one, &sum, id) !=
             RUBATO_OK) {
        std::this_thread::yield();
      }
    }
  };
  std::thread one(submit, 0);
  std::thread two(submit, kEach);
  std::set<uint64_t> seen;
  std::array<rubato_completion, 16> ended;
  while (seen.size() < 2 * kEach && readable(-1)) {
    const size_t taken = rubato_completions_next(completions_, ended.data(), ended.size());
    for (size_t i = 0; i < taken; ++i) EXPECT_TRUE(seen.insert(ended[i].id).second);
  }
  one.join();
  two.join();
  EXPECT_EQ(sum, static_cast<int>(2 * kEach));
  EXPECT_FALSE(readable(0));
}

TEST_F(Completions, what_is_not_submitted_is_not_told) {
  rubato::ExecutorOptions one_task;
  one_task.max_tasks = 1;
  auto full = rubato::Executor::create(one_task);
  ASSERT_TRUE(full.ok());
  std::atomic<bool> goes_on{true};
  ASSERT_TRUE(full->execute([&] {
    while (goes_on) rubato::checkpoint();
  }));
  EXPECT_EQ(rubato_completions_submit(completions_, full->c(), nullptr, &fail, nullptr, 1),
            RUBATO_ERROR);
  goes_on = false;
  EXPECT_FALSE(readable(0));
}

}  // namespace
