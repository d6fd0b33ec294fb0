// SPDX-License-Identifier: Apache-2.0
//
// What the server answers without memory: the account is used up, or the heap fails at any one
// allocation that a request makes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "kv_server/server/memory_rules.h"
#include "kv_server/testing/harness.h"

namespace {

// How many more allocations of this thread succeed; negative = all.
thread_local int64_t t_left = -1;
thread_local bool t_failed = false;

bool fails() {
  if (t_left < 0) return false;
  if (t_left > 0) {
    --t_left;
    return false;
  }
  t_left = -1;  // this one alone
  t_failed = true;
  return true;
}

void* allocate(size_t size) { return fails() ? nullptr : std::malloc(size); }

}  // namespace

void* operator new(size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace rubato::kv {
namespace {

using testing::Client;

class WithoutMemory : public ::testing::Test {
 protected:
  WithoutMemory() {
    options_.memory = &account_;
    options_.engine = "memory";
    options_.ports = {Speaks::kResp, Speaks::kMemcached};
    engine_ = std::move(open_engine(options_, nullptr).value());
    app_ = std::make_unique<KvApplication>(*engine_, options_);
  }

  MemoryAccount account_;
  KvOptions options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<KvApplication> app_;
};

TEST_F(WithoutMemory, a_failed_allocation_is_an_error_and_harms_nothing) {
  const std::vector<std::vector<std::string>> commands = {
      {"SET", "a", "1"}, {"GET", "a"}, {"SET", "big", std::string(5000, 'x')}, {"GET", "big"},
      {"MSET", "a", "2", "b", "3", "c", std::string(2000, 'c')}, {"MGET", "a", "b", "c", "d"},
      {"APPEND", "a", std::string(3000, 'y')}, {"SETRANGE", "big", "10000", "end"},
      {"SET", "a", "5", "GET"}, {"GETDEL", "a"}, {"INCR", "n"}, {"INCRBYFLOAT", "n", "0.5"},
      {"KEYS", "*"}, {"SCAN", "0"}, {"DEL", "b", "c"}, {"RENAME", "big", "bigger"},
      {"COPY", "bigger", "copy"}, {"RANDOMKEY"}, {"EXPIRE", "copy", "100"}, {"INFO"},
      {"CONFIG", "GET", "*"}, {"CONFIG", "SET", "maxmemory", "1gb"}, {"COMMAND"}, {"DBSIZE"},
      {"SLOWLOG", "GET"}, {"CLIENT", "LIST"}, {"NOSUCH", "command"}, {"FLUSHALL"},
  };
  for (const std::vector<std::string>& command : commands) {
    for (int64_t after = 0;; ++after) {
      Client client(*app_, 1);
      client.call({"SET", "n", "7"});
      std::string bytes = "*" + std::to_string(command.size()) + "\r\n";
      for (const std::string& word : command) {
        bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
      }
      std::string answer;
      t_failed = false;
      t_left = after;
      try {
        answer = client.send(bytes);
      } catch (const std::bad_alloc&) {
        answer = "lost";  // in framing, where a connection ends, or in the client itself
      }
      t_left = -1;
      if (!t_failed) break;
      EXPECT_FALSE(answer.empty()) << command[0] << " after " << after;
      Client other(*app_, 2);
      ASSERT_EQ(other.call({"SET", "z", "zz"}), "+OK\r\n") << command[0] << " after " << after;
      ASSERT_EQ(other.call({"GET", "z"}), "$2\r\nzz\r\n") << command[0] << " after " << after;
      ASSERT_EQ(other.call({"DEL", "a", "b", "c", "d", "n", "z"}).substr(0, 1), ":");
    }
  }
}

TEST_F(WithoutMemory, memcached_answers_an_error) {
  for (const char* command : {"set k 0 0 3\r\nabc\r\n", "append k 0 0 3\r\nabc\r\n", "gets k\r\n",
                              "mg k v f t\r\n", "incr n 1\r\n", "stats\r\n"}) {
    for (int64_t after = 0;; ++after) {
      Client client(*app_, 1, 1);
      t_failed = false;
      t_left = after;
      std::string answer;
      try {
        answer = client.send(command);
      } catch (const std::bad_alloc&) {
        answer = "lost";
      }
      t_left = -1;
      if (!t_failed) break;
      EXPECT_FALSE(answer.empty());
      if (answer == "lost") continue;
      EXPECT_EQ(client.send("version\r\n"), "VERSION 1.6.18\r\n");
    }
  }
}

TEST(MemoryRules, texts_are_those_of_redis) {
  EXPECT_EQ(parse_eviction("ALLKEYS-LRU").value(), Eviction::kLru);
  EXPECT_EQ(to_string(parse_eviction("volatile-ttl").value()), "volatile-ttl");
  EXPECT_FALSE(parse_eviction("allkeys-lfu").ok());
  const auto limits = parse_output_limits("normal 1mb 500kb 60 replica 1 2 3");
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(to_string(limits.value()),
            "normal 1048576 512000 60 slave 1 2 3 pubsub 33554432 8388608 60");
  EXPECT_EQ(to_string(parse_output_limits("pubsub 0 0 0", limits.value()).value()),
            "normal 1048576 512000 60 slave 1 2 3 pubsub 0 0 0");
  EXPECT_EQ(parse_output_limits("normal 1 2").error(),
            "Wrong number of arguments in buffer limit configuration.");
  EXPECT_EQ(parse_output_limits("masters 1 2 3").error(),
            "Invalid client class specified in buffer limit configuration.");
  EXPECT_EQ(parse_output_limits("normal 1 2 -3").error(),
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
}

}  // namespace
}  // namespace rubato::kv
