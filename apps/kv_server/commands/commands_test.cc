// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv_server/server/transaction.h"
#include "kv_server/testing/harness.h"

namespace rubato::kv {
namespace {

using testing::bulk;
using testing::Harness;
using Words = std::vector<std::string>;

constexpr const char* kOk = "+OK\r\n";
constexpr const char* kNull = "$-1\r\n";
constexpr const char* kSyntax = "-ERR syntax error\r\n";
constexpr const char* kNotInt = "-ERR value is not an integer or out of range\r\n";

TEST(Strings, set_obeys_its_conditions) {
  Harness h;
  EXPECT_EQ(h.call({"SET", "a", "1", "XX"}), kNull);
  EXPECT_EQ(h.call({"SET", "a", "1", "NX"}), kOk);
  EXPECT_EQ(h.call({"SET", "a", "2", "NX"}), kNull);
  EXPECT_EQ(h.call({"SET", "a", "2", "NX", "GET"}), bulk("1"));
  EXPECT_EQ(h.call({"SET", "a", "3", "GET"}), bulk("1"));
  EXPECT_EQ(h.call({"SET", "b", "3", "GET"}), kNull);
  EXPECT_EQ(h.call({"SET", "a", "3", "NX", "XX"}), kSyntax);
  EXPECT_EQ(h.call({"SET", "a", "3", "EX"}), kSyntax);
  EXPECT_EQ(h.call({"SET", "a", "3", "EX", "1", "PX", "1"}), kSyntax);
  EXPECT_EQ(h.call({"SET", "a", "3", "KEEPTTL", "EX", "1"}), kSyntax);
}

TEST(Strings, set_expiry_is_checked_and_kept) {
  Harness h;
  EXPECT_EQ(h.call({"SET", "a", "1", "EX", "0"}),
            "-ERR invalid expire time in 'set' command\r\n");
  EXPECT_EQ(h.call({"SET", "a", "1", "EX", "9223372036854775807"}),
            "-ERR invalid expire time in 'set' command\r\n");
  EXPECT_EQ(h.call({"SET", "a", "1", "EX", "x"}), kNotInt);
  EXPECT_EQ(h.call({"SETEX", "a", "-1", "x"}), "-ERR invalid expire time in 'setex' command\r\n");
  EXPECT_EQ(h.call({"SET", "a", "1", "EX", "100"}), kOk);
  EXPECT_EQ(h.call({"SET", "a", "2", "KEEPTTL"}), kOk);
  EXPECT_EQ(h.call({"TTL", "a"}), ":100\r\n");
  h.clock.advance(100'001);
  EXPECT_EQ(h.call({"GET", "a"}), kNull);
  EXPECT_EQ(h.call({"TTL", "a"}), ":-2\r\n");
}

TEST(Strings, getex_and_getdel_change_what_they_read) {
  Harness h;
  h.call({"SET", "a", "1"});
  EXPECT_EQ(h.call({"GETEX", "a", "PX", "1500"}), bulk("1"));
  EXPECT_EQ(h.call({"PTTL", "a"}), ":1500\r\n");
  EXPECT_EQ(h.call({"GETEX", "a", "PERSIST"}), bulk("1"));
  EXPECT_EQ(h.call({"TTL", "a"}), ":-1\r\n");
  EXPECT_EQ(h.call({"GETEX", "none", "EX", "bad"}), kNull);
  EXPECT_EQ(h.call({"GETEX", "a", "EX", "bad"}), kNotInt);
  EXPECT_EQ(h.call({"GETEX", "a", "NX"}), kSyntax);
  EXPECT_EQ(h.call({"GETDEL", "a"}), bulk("1"));
  EXPECT_EQ(h.call({"GETDEL", "a"}), kNull);
}

TEST(Strings, ranges_clip_as_in_redis) {
  Harness h;
  h.call({"SET", "a", "Hello World"});
  EXPECT_EQ(h.call({"GETRANGE", "a", "0", "3"}), bulk("Hell"));
  EXPECT_EQ(h.call({"GETRANGE", "a", "-3", "-1"}), bulk("rld"));
  EXPECT_EQ(h.call({"GETRANGE", "a", "5", "3"}), bulk(""));
  EXPECT_EQ(h.call({"GETRANGE", "a", "-100", "100"}), bulk("Hello World"));
  EXPECT_EQ(h.call({"GETRANGE", "none", "0", "-1"}), bulk(""));
  EXPECT_EQ(h.call({"SETRANGE", "a", "6", "Redis"}), ":11\r\n");
  EXPECT_EQ(h.call({"SETRANGE", "n", "3", "x"}), ":4\r\n");
  EXPECT_EQ(h.call({"GET", "n"}), bulk(std::string_view("\0\0\0x", 4)));
  EXPECT_EQ(h.call({"SETRANGE", "none", "5", ""}), ":0\r\n");
  EXPECT_EQ(h.call({"SETRANGE", "a", "-1", "x"}), "-ERR offset is out of range\r\n");
  EXPECT_EQ(h.call({"SETRANGE", "a", "536870912", "x"}),
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
}

TEST(Strings, append_makes_and_extends) {
  Harness h;
  EXPECT_EQ(h.call({"APPEND", "a", "x"}), ":1\r\n");
  EXPECT_EQ(h.call({"APPEND", "a", "yz"}), ":3\r\n");
  EXPECT_EQ(h.call({"GET", "a"}), bulk("xyz"));
  EXPECT_EQ(h.call({"APPEND", "e", ""}), ":0\r\n");
  EXPECT_EQ(h.call({"EXISTS", "e"}), ":1\r\n");
}

TEST(Strings, many_keys_at_once) {
  Harness h;
  EXPECT_EQ(h.call({"MSET", "a", "1", "b", "2", "a", "3"}), kOk);
  EXPECT_EQ(h.call({"MGET", "a", "none", "b"}), "*3\r\n$1\r\n3\r\n$-1\r\n$1\r\n2\r\n");
  EXPECT_EQ(h.call({"MSETNX", "c", "1", "a", "2"}), ":0\r\n");
  EXPECT_EQ(h.call({"MSETNX", "c", "1", "d", "2"}), ":1\r\n");
  EXPECT_EQ(h.call({"MSET", "a"}), "-ERR wrong number of arguments for 'mset' command\r\n");
  EXPECT_EQ(h.call({"MSET", "a", "1", "b"}),
            "-ERR wrong number of arguments for 'mset' command\r\n");
  Words words{"MSET"};
  for (int i = 0; i < 200; ++i) words.insert(words.end(), {"k" + std::to_string(i), "v"});
  EXPECT_EQ(h.call(words), kOk);
  Words keys{"DEL"};
  for (int i = 0; i < 200; ++i) keys.push_back("k" + std::to_string(i));
  EXPECT_EQ(h.call(keys), ":200\r\n");
}

TEST(Counters, integers_count_and_do_not_wrap) {
  Harness h;
  EXPECT_EQ(h.call({"INCR", "a"}), ":1\r\n");
  EXPECT_EQ(h.call({"DECRBY", "a", "3"}), ":-2\r\n");
  h.call({"SET", "a", "9223372036854775807", "EX", "50"});
  EXPECT_EQ(h.call({"INCR", "a"}), "-ERR increment or decrement would overflow\r\n");
  EXPECT_EQ(h.call({"DECR", "a"}), ":9223372036854775806\r\n");
  EXPECT_EQ(h.call({"TTL", "a"}), ":50\r\n");
  EXPECT_EQ(h.call({"DECRBY", "a", "-9223372036854775808"}),
            "-ERR decrement would overflow\r\n");
  h.call({"SET", "s", " 1"});
  EXPECT_EQ(h.call({"INCR", "s"}), kNotInt);
}

TEST(Counters, floats_are_written_as_redis_does) {
  Harness h;
  h.call({"SET", "f", "10.50"});
  EXPECT_EQ(h.call({"INCRBYFLOAT", "f", "0.1"}), bulk("10.6"));
  h.call({"SET", "f", "5.0e3"});
  EXPECT_EQ(h.call({"INCRBYFLOAT", "f", "2.0e2"}), bulk("5200"));
  EXPECT_EQ(h.call({"INCRBYFLOAT", "f", "x"}), "-ERR value is not a valid float\r\n");
  EXPECT_EQ(h.call({"INCRBYFLOAT", "f", "inf"}),
            "-ERR increment would produce NaN or Infinity\r\n");
}

TEST(Expiry, options_compare_with_the_present_expiry) {
  Harness h;
  h.call({"SET", "a", "1"});
  EXPECT_EQ(h.call({"EXPIRE", "a", "10", "XX"}), ":0\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "10", "GT"}), ":0\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "10", "LT"}), ":1\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "20", "NX"}), ":0\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "20", "GT"}), ":1\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "20", "NX", "GT"}),
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "20", "GT", "LT"}),
            "-ERR GT and LT options at the same time are not compatible\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "20", "AB"}), "-ERR Unsupported option AB\r\n");
  EXPECT_EQ(h.call({"EXPIRE", "a", "9223372036854775807"}),
            "-ERR invalid expire time in 'expire' command\r\n");
  EXPECT_EQ(h.call({"PERSIST", "a"}), ":1\r\n");
  EXPECT_EQ(h.call({"PERSIST", "a"}), ":0\r\n");
  EXPECT_EQ(h.call({"EXPIRETIME", "a"}), ":-1\r\n");
}

TEST(Expiry, a_time_in_the_past_removes_the_key) {
  Harness h;
  h.call({"SET", "a", "1"});
  EXPECT_EQ(h.call({"EXPIRE", "a", "-1"}), ":1\r\n");
  EXPECT_EQ(h.call({"EXISTS", "a"}), ":0\r\n");
  h.call({"SET", "a", "1"});
  EXPECT_EQ(h.call({"EXPIREAT", "a", "1700000100"}), ":1\r\n");
  EXPECT_EQ(h.call({"EXPIRETIME", "a"}), ":1700000100\r\n");
  EXPECT_EQ(h.call({"PEXPIRETIME", "a"}), ":1700000100000\r\n");
  EXPECT_EQ(h.call({"TTL", "a"}), ":100\r\n");
}

TEST(Generic, rename_and_copy_carry_the_expiry) {
  Harness h;
  EXPECT_EQ(h.call({"RENAME", "a", "b"}), "-ERR no such key\r\n");
  h.call({"SET", "a", "1", "EX", "100"});
  EXPECT_EQ(h.call({"RENAME", "a", "a"}), kOk);
  EXPECT_EQ(h.call({"RENAME", "a", "b"}), kOk);
  EXPECT_EQ(h.call({"TTL", "b"}), ":100\r\n");
  EXPECT_EQ(h.call({"COPY", "b", "c"}), ":1\r\n");
  EXPECT_EQ(h.call({"COPY", "b", "c"}), ":0\r\n");
  EXPECT_EQ(h.call({"COPY", "b", "c", "REPLACE"}), ":1\r\n");
  EXPECT_EQ(h.call({"COPY", "b", "b"}),
            "-ERR source and destination objects are the same\r\n");
  EXPECT_EQ(h.call({"RENAMENX", "b", "c"}), ":0\r\n");
  EXPECT_EQ(h.call({"RENAMENX", "b", "d"}), ":1\r\n");
  EXPECT_EQ(h.call({"TYPE", "d"}), "+string\r\n");
  EXPECT_EQ(h.call({"TYPE", "b"}), "+none\r\n");
}

TEST(Ranges, keys_match_patterns_and_come_in_order) {
  Harness h;
  h.call({"MSET", "user:2", "b", "user:1", "a", "other", "c"});
  EXPECT_EQ(h.call({"KEYS", "user:*"}), "*2\r\n$6\r\nuser:1\r\n$6\r\nuser:2\r\n");
  EXPECT_EQ(h.call({"KEYS", "*"}), "*3\r\n$5\r\nother\r\n$6\r\nuser:1\r\n$6\r\nuser:2\r\n");
  EXPECT_EQ(h.call({"KEYS", "nothing"}), "*0\r\n");
  EXPECT_EQ(h.call({"KEYS", "other"}), "*1\r\n$5\r\nother\r\n");
  EXPECT_EQ(h.call({"DBSIZE"}), ":3\r\n");
}

TEST(Ranges, range_reads_between_its_ends) {
  Harness h;
  h.call({"MSET", "a", "1", "b", "2", "c", "3"});
  EXPECT_EQ(h.call({"RANGE", "a", "b"}), "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
  EXPECT_EQ(h.call({"RANGE", "-", "+", "LIMIT", "1"}), "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
  EXPECT_EQ(h.call({"RANGE", "b", "+"}), "*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n");
  EXPECT_EQ(h.call({"RANGE", "-", "+", "LIMIT", "0"}), "*0\r\n");
  EXPECT_EQ(h.call({"RANGE", "-", "+", "LIMIT"}), kSyntax);
  EXPECT_EQ(h.call({"RANGECOUNT", "a", "b"}), ":2\r\n");
  EXPECT_EQ(h.call({"RANGECOUNT", "-", "+"}), ":3\r\n");
}

TEST(Ranges, scan_visits_every_key_once) {
  Harness h;
  for (int i = 0; i < 500; ++i) h.call({"SET", "k" + std::to_string(i), "v"});
  std::string cursor = "0";
  size_t keys = 0;
  int calls = 0;
  do {
    const std::string reply = h.call({"SCAN", cursor, "MATCH", "k*", "COUNT", "50"});
    const size_t begin = reply.find("\r\n", 4) + 2;
    cursor = reply.substr(begin, reply.find("\r\n", begin) - begin);
    for (size_t at = reply.find("\r\nk"); at != std::string::npos; at = reply.find("\r\nk", at + 1))
      ++keys;
    ASSERT_LT(++calls, 1000);
  } while (cursor != "0");
  EXPECT_EQ(keys, 500U);
  EXPECT_EQ(h.call({"SCAN", "x"}), "-ERR invalid cursor\r\n");
  EXPECT_EQ(h.call({"SCAN", "0", "COUNT", "0"}), kSyntax);
  EXPECT_EQ(h.call({"SCAN", "0", "COUNT", "x"}), kNotInt);
  EXPECT_EQ(h.call({"SCAN", "0", "TYPE"}), kSyntax);
}

TEST(Ranges, a_reply_past_the_limit_is_an_error) {
  KvOptions options;
  options.max_reply_bytes = 64;
  Harness h(options);
  for (int i = 0; i < 50; ++i) h.call({"SET", "key" + std::to_string(i), "v"});
  EXPECT_EQ(h.call({"KEYS", "*"}).substr(0, 31), "-ERR the reply would exceed max");
}

TEST(Server, flush_empties) {
  Harness h;
  h.call({"SET", "a", "1"});
  EXPECT_EQ(h.call({"FLUSHALL", "ASYNC"}), kOk);
  EXPECT_EQ(h.call({"DBSIZE"}), ":0\r\n");
  EXPECT_EQ(h.call({"FLUSHDB", "LATER"}), kSyntax);
}

TEST(Server, writes_past_maxmemory_are_refused) {
  Harness h;
  h.call({"SET", "a", "1"});
  h.call({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(h.call({"SET", "b", std::string(1000, 'x')}),
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
  EXPECT_EQ(h.call({"DEL", "a"}), ":1\r\n");
}

TEST(Server, encodings_are_what_redis_would_say) {
  Harness h;
  h.call({"MSET", "i", "12", "s", "abc", "l", std::string(45, 'x')});
  EXPECT_EQ(h.call({"OBJECT", "ENCODING", "i"}), bulk("int"));
  EXPECT_EQ(h.call({"OBJECT", "ENCODING", "s"}), bulk("embstr"));
  EXPECT_EQ(h.call({"OBJECT", "ENCODING", "l"}), bulk("raw"));
  EXPECT_EQ(h.call({"OBJECT", "ENCODING", "none"}), kNull);
}

TEST(Server, idle_time_is_since_the_last_use) {
  Harness h;
  h.call({"SET", "a", "1"});
  h.clock.advance(5000);
  EXPECT_EQ(h.call({"OBJECT", "IDLETIME", "a"}), ":5\r\n");
  h.call({"TTL", "a"});  // looks, and does not use
  h.call({"EXISTS", "a"});
  EXPECT_EQ(h.call({"OBJECT", "IDLETIME", "a"}), ":5\r\n");
  for (const char* use : {"GET", "STRLEN", "TOUCH"}) {
    h.clock.advance(3000);
    h.call({use, "a"});
    EXPECT_EQ(h.call({"OBJECT", "IDLETIME", "a"}), ":0\r\n") << use;
  }
  EXPECT_EQ(h.call({"OBJECT", "IDLETIME", "none"}), kNull);
}

TEST(Server, every_container_has_help) {
  Harness h;
  for (const char* name : {"CONFIG", "CLIENT", "COMMAND", "OBJECT", "SLOWLOG", "LATENCY",
                           "MEMORY", "DEBUG"}) {
    EXPECT_EQ(h.call({name, "HELP"})[0], '*') << name;
  }
}

// The client of a harness is on another machine.
TEST(Server, debug_is_for_whom_the_option_says) {
  for (const Allowed allowed : {Allowed::kNobody, Allowed::kLocal, Allowed::kAll}) {
    KvOptions options;
    options.debug_command = allowed;
    Harness h(options);
    const std::string answer = h.call({"DEBUG", "JMAP"});
    if (allowed == Allowed::kAll) {
      EXPECT_EQ(answer, kOk);
    } else {
      EXPECT_EQ(answer.substr(0, 31), "-ERR DEBUG command not allowed.");
    }
  }
}

constexpr const char* kQueued = "+QUEUED\r\n";
constexpr const char* kAborted =
    "-EXECABORT Transaction discarded because of previous errors.\r\n";

TEST(Transactions, what_is_queued_runs_at_exec) {
  Harness h;
  testing::Client other(h.app, 2);
  EXPECT_EQ(h.client.send("MULTI\r\nSET tx 1\r\nINCR tx\r\nGET tx\r\n"),
            std::string(kOk) + kQueued + kQueued + kQueued);
  EXPECT_EQ(other.call({"GET", "tx"}), kNull);
  EXPECT_EQ(h.call({"EXEC"}), "*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n");
  EXPECT_EQ(other.call({"GET", "tx"}), bulk("2"));
  EXPECT_EQ(h.client.send("MULTI\r\nEXEC\r\n"), std::string(kOk) + "*0\r\n");
}

TEST(Transactions, an_error_at_exec_is_one_of_its_replies) {
  Harness h;
  h.call({"SET", "text", "a"});
  h.client.send("MULTI\r\nINCR text\r\nSET b 1\r\n");
  EXPECT_EQ(h.call({"EXEC"}),
            "*2\r\n-ERR value is not an integer or out of range\r\n+OK\r\n");
  EXPECT_EQ(h.call({"GET", "b"}), bulk("1"));
}

TEST(Transactions, an_error_before_exec_ends_it) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"NOSUCH"}, {"GET"}, {"KEYS", "*"}, {"FLUSHALL"},
        {"DEBUG", "SLEEP", "0"}}) {
    Harness h;
    h.client.send("MULTI\r\nSET a 1\r\n");
    EXPECT_EQ(h.call(wrong)[0], '-') << wrong[0];
    EXPECT_EQ(h.call({"SET", "b", "1"}), kQueued);
    EXPECT_EQ(h.call({"EXEC"}), kAborted);
    EXPECT_EQ(h.call({"DBSIZE"}), ":0\r\n");
  }
}

TEST(Transactions, a_full_store_is_told_before_anything_runs) {
  constexpr std::string_view kFull = "OOM command not allowed when used memory > 'maxmemory'.\r\n";
  Harness h;
  h.call({"SET", "a", "1"});
  h.client.send("MULTI\r\nSET b 1\r\n");
  testing::Client(h.app, 2).call({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(h.call({"EXEC"}),
            "-EXECABORT Transaction discarded because of: " + std::string(kFull));
  h.call({"MULTI"});
  EXPECT_EQ(h.call({"SET", "c", "1"}), "-" + std::string(kFull));
  EXPECT_EQ(h.call({"DISCARD"}), kOk);
  h.client.send("MULTI\r\nGET a\r\n");
  EXPECT_EQ(h.call({"EXEC"}), "*1\r\n$1\r\n1\r\n");
}

TEST(Transactions, a_long_command_is_refused_by_name) {
  Harness h;
  h.call({"MULTI"});
  EXPECT_EQ(h.call({"KEYS", "*"}),
            "-ERR Command not allowed inside a transaction, as all other requests would wait for "
            "it\r\n");
}

TEST(Transactions, watched_keys_that_change_end_it) {
  struct Case {
    std::vector<std::string> before, change;
    bool runs;
    std::vector<std::string> change_back = {"PING"};
  };
  const Case cases[] = {
      {{"SET", "w", "1"}, {"SET", "w", "1"}, false},
      {{"SET", "w", "1"}, {"DEL", "w"}, false},
      {{"SET", "w", "1"}, {"EXPIRE", "w", "100"}, false},
      {{"DEL", "w"}, {"SET", "w", "1"}, false},
      {{"SET", "w", "1"}, {"FLUSHALL"}, false},
      {{"SET", "w", "1"}, {"SET", "other", "1"}, true},
      {{"SET", "w", "1"}, {"GET", "w"}, true},
      {{"DEL", "w"}, {"FLUSHALL"}, true},
      {{"DEL", "w"}, {"SET", "w", "1"}, false, {"DEL", "w"}},
      {{"DEL", "w"}, {"SET", "w", "1"}, false, {"FLUSHALL"}},
      {{"DEL", "w"}, {"SET", "w", "1", "PX", "10"}, false, {"RENAME", "w", "other"}},
      {{"DEL", "w"}, {"DEL", "w"}, true},
  };
  for (const Case& c : cases) {
    Harness h;
    testing::Client other(h.app, 2);
    h.call(c.before);
    EXPECT_EQ(h.call({"WATCH", "w", "w", "unused"}), kOk);
    other.call(c.change);
    other.call(c.change_back);
    h.client.send("MULTI\r\nSET done 1\r\n");
    EXPECT_EQ(h.call({"EXEC"}), c.runs ? "*1\r\n+OK\r\n" : "*-1\r\n") << c.change[0];
    EXPECT_EQ(h.call({"EXISTS", "done"}), c.runs ? ":1\r\n" : ":0\r\n");
    // What was watched is so no more.
    other.call({"SET", "w", "2"});
    h.client.send("MULTI\r\nSET done 1\r\n");
    EXPECT_EQ(h.call({"EXEC"}), "*1\r\n+OK\r\n");
  }
}

TEST(Transactions, own_writes_count_as_changes_and_an_expiry_does_too) {
  Harness h;
  h.call({"SET", "w", "1"});
  h.call({"WATCH", "w"});
  h.call({"SET", "w", "2"});
  h.client.send("MULTI\r\nGET w\r\n");
  EXPECT_EQ(h.call({"EXEC"}), "*-1\r\n");
  h.call({"SET", "w", "1", "PX", "10"});
  h.call({"WATCH", "w"});
  h.clock.advance(20);
  h.client.send("MULTI\r\nGET w\r\n");
  EXPECT_EQ(h.call({"EXEC"}), "*-1\r\n");
}

TEST(Transactions, discard_reset_and_unwatch_forget) {
  Harness h;
  for (const char* ends : {"DISCARD", "RESET"}) {
    h.call({"WATCH", "w"});
    h.client.send("MULTI\r\nSET a 1\r\n");
    EXPECT_EQ(h.call({ends})[0], '+');
    EXPECT_EQ(h.call({"EXISTS", "a"}), ":0\r\n");
    h.call({"SET", "w", ends});
    h.client.send("MULTI\r\nPING\r\n");
    EXPECT_EQ(h.call({"EXEC"}), "*1\r\n+PONG\r\n");
  }
  h.call({"WATCH", "w"});
  h.call({"SET", "w", "new"});
  EXPECT_EQ(h.call({"UNWATCH"}), kOk);
  h.client.send("MULTI\r\nPING\r\n");
  EXPECT_EQ(h.call({"EXEC"}), "*1\r\n+PONG\r\n");
}

TEST(Transactions, its_marks_in_the_wrong_place_are_errors) {
  Harness h;
  EXPECT_EQ(h.call({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(h.call({"DISCARD"}), "-ERR DISCARD without MULTI\r\n");
  EXPECT_EQ(h.call({"MULTI", "x"}), "-ERR wrong number of arguments for 'multi' command\r\n");
  h.call({"MULTI"});
  EXPECT_EQ(h.call({"MULTI"}), "-ERR MULTI calls can not be nested\r\n");
  EXPECT_EQ(h.call({"WATCH", "a"}), "-ERR WATCH inside MULTI is not allowed\r\n");
  EXPECT_EQ(h.call({"EXEC"}), "*0\r\n");
  h.call({"MULTI"});
  EXPECT_EQ(h.call({"EXEC", "x"}).substr(0, 10), "-EXECABORT");
  EXPECT_EQ(h.call({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  h.call({"MULTI"});
  EXPECT_EQ(h.call({"QUIT"}), kOk);
  EXPECT_TRUE(h.client.closed());
}

TEST(Transactions, a_refused_command_and_a_refused_multi_let_nothing_run) {
  Harness h;
  h.client.send("MULTI\r\nSET a 1\r\n");
  h.client.refuse_next();
  EXPECT_EQ(h.call({"SET", "b", "1"})[0], '-');
  EXPECT_EQ(h.call({"EXEC"}), kAborted);
  h.client.refuse_next();
  EXPECT_EQ(h.call({"MULTI"})[0], '-');
  EXPECT_EQ(h.call({"SET", "a", "1"}),
            "-ERR not run: MULTI was refused; EXEC or DISCARD ends it\r\n");
  EXPECT_EQ(h.call({"EXEC"}), kAborted);
  h.client.send("MULTI\r\nSET a 1\r\n");
  h.client.refuse_next();
  EXPECT_EQ(h.call({"EXEC"})[0], '-');
  EXPECT_EQ(h.call({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(h.call({"DBSIZE"}), ":0\r\n");
}

TEST(Transactions, there_may_be_so_many_commands_in_one) {
  Harness h;
  h.call({"MULTI"});
  for (size_t i = 0; i < Transaction::kMostCommands; ++i) h.call({"PING"});
  EXPECT_EQ(h.call({"PING"}).substr(0, 5), "-OOM ");
  EXPECT_EQ(h.call({"EXEC"}), kAborted);
}

TEST(Transactions, one_is_of_one_connection_and_of_its_protocol_version) {
  Harness h;
  testing::Client other(h.app, 2);
  h.call({"HELLO", "3"});
  h.call({"MULTI"});
  EXPECT_EQ(other.call({"SET", "a", "1"}), kOk);
  EXPECT_EQ(h.call({"GET", "none"}), kQueued);
  EXPECT_EQ(h.call({"EXEC"}), "*1\r\n_\r\n");
  h.call({"WATCH", "a"});
  h.call({"SET", "a", "2"});
  h.call({"MULTI"});
  EXPECT_EQ(h.call({"EXEC"}), "_\r\n");
}

TEST(Transactions, multi_needs_the_password_first) {
  KvOptions options;
  options.requirepass = "secret";
  Harness h(options);
  EXPECT_EQ(h.call({"MULTI"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(h.call({"EXEC"}), "-NOAUTH Authentication required.\r\n");
}

TEST(Introspection, command_replies_are_well_formed) {
  Harness h;
  EXPECT_EQ(h.call({"COMMAND", "INFO", "get"}).substr(0, 23), "*1\r\n*10\r\n$3\r\nget\r\n:2\r\n*");
  EXPECT_EQ(h.call({"COMMAND", "INFO", "nope"}), "*1\r\n$-1\r\n");
  EXPECT_EQ(h.call({"COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"}),
            "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
  EXPECT_EQ(h.call({"COMMAND", "DOCS", "nope"}), "*0\r\n");
  EXPECT_EQ(h.call({"COMMAND", "LIST", "FILTERBY", "PATTERN", "rang*"}),
            "*2\r\n$5\r\nrange\r\n$10\r\nrangecount\r\n");
}

TEST(Backup, of_what_is_kept_nowhere_is_refused_and_so_is_a_second_one_meanwhile) {
  Harness harness;
  EXPECT_EQ(harness.call({"BACKUP", "b"}),
            "-ERR no backup: the memory engine keeps nothing, so there is no backup of it\r\n");
  harness.control.aside_is_busy = true;
  EXPECT_EQ(harness.call({"BACKUP", "b"}), "-ERR another backup is being made\r\n");
}

}  // namespace
}  // namespace rubato::kv
