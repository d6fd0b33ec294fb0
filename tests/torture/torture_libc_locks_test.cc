// SPDX-License-Identifier: Apache-2.0
//
// Requests that call what allocates in libc, the loader and the C++ runtime under locks of their
// own, preempted by signals and by timers on two workers. A request that was left while it holds
// such a lock blocks the worker that runs the next one, and then nothing is answered any more: a
// watchdog says so. RUBATO_TORTURE_LIBC_ROUNDS says how many requests of each kind there are.
#include <gtest/gtest.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <future>
#include <locale>
#include <sstream>
#include <string>
#include <thread>

#include "runtime/testing/letter_app.h"

namespace torture {
namespace {

using rubato::PreemptMechanism;
using rubato::testing::LetterServer;

// For as long as a busy machine takes; a run that hangs does so for ever.
constexpr unsigned kWatchdogSeconds = 100;
constexpr uint64_t kNanosPerCall = 30'000;  // of the request's own code between two calls

// One call; true = it gave what it should.
struct Kind {
  char letter;
  const char* name;
  bool (*call)(unsigned number);
};

bool localtimes(unsigned number) {
  const time_t when = 1'000'000'000 + static_cast<time_t>(number);
  tm parts{};
  return localtime_r(&when, &parts) != nullptr && mktime(&parts) == when;
}

// Overwritten in place: another worker may be reading the environment.
bool environment(unsigned number) {
  return setenv("RUBATO_TORTURE", number % 2 == 0 ? "even" : "uneven", 1) == 0;
}

bool global_locales(unsigned number) {
  return setlocale(LC_MONETARY, number % 2 == 0 ? "C" : "C.UTF-8") != nullptr;
}

bool locales_of_its_own(unsigned) {
  const locale_t made = newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
  if (made != nullptr) freelocale(made);
  return made != nullptr;
}

bool cpp_locales(unsigned number) {
  std::ostringstream text;
  text.imbue(std::locale("C.UTF-8"));
  text << number;
  return text.str() == std::to_string(number);
}

bool conversions(unsigned number) {
  const iconv_t conversion = iconv_open("UTF-16LE", number % 2 == 0 ? "UTF-8" : "ISO-8859-15");
  if (conversion == reinterpret_cast<iconv_t>(-1)) return false;
  char from[] = "ab";
  std::array<char, 8> to{};
  char* in = from;
  char* out = to.data();
  size_t in_left = 2;
  size_t out_left = to.size();
  const bool converted = iconv(conversion, &in, &in_left, &out, &out_left) == 0;
  return iconv_close(conversion) == 0 && converted && to[0] == 'a' && to[2] == 'b';
}

bool users(unsigned) { return getpwnam("root") != nullptr; }

bool translations(unsigned number) {
  const char* folder = number % 2 == 0 ? "/usr/share/locale" : "/usr/local/share/locale";
  return bindtextdomain("rubato-torture", folder) != nullptr &&
         strcmp(dgettext("rubato-torture", "a text"), "a text") == 0;
}

bool threads(unsigned number) {
  unsigned seen = 0;
  std::thread([&] { seen = number; }).join();
  return seen == number && std::async(std::launch::async, [=] { return number; }).get() == number;
}

bool processes(unsigned number) {
  if (number % 8 != 0) return true;  // takes milliseconds
  FILE* pipe = popen("exit 3", "r");
  return pipe != nullptr && WEXITSTATUS(pclose(pipe)) == 3;
}

bool lines(unsigned) {
  char text[] = "one\ntwo\n";
  FILE* file = fmemopen(text, sizeof(text) - 1, "r");
  char* line = nullptr;
  size_t room = 0;
  int count = 0;
  while (file != nullptr && getline(&line, &room, file) > 0) ++count;
  free(line);
  return file != nullptr && fclose(file) == 0 && count == 2;
}

constexpr std::array kKinds = std::to_array<Kind>({
    {'a', "mktime", localtimes},
    {'b', "setenv", environment},
    {'c', "setlocale", global_locales},
    {'d', "newlocale", locales_of_its_own},
    {'e', "std::locale", cpp_locales},
    {'f', "iconv_open", conversions},
    {'g', "getpwnam", users},
    {'h', "bindtextdomain", translations},
    {'i', "std::thread", threads},
    {'j', "popen", processes},
    {'k', "getline", lines},
});

// Code of the program's own, where it may be preempted at any instruction.
void compute() {
  const rubato::Instant began = rubato::now();
  volatile uint64_t sum = 0;
  while (rubato::now() - began < rubato::Nanos(kNanosPerCall)) {
    for (uint64_t i = 0; i < 500; ++i) sum = sum + i;
  }
}

void on_watchdog(int) {
  constexpr std::string_view kWhat = "no answer any more: a worker waits for a lock of libc's\n";
  static_cast<void>(!write(STDERR_FILENO, kWhat.data(), kWhat.size()));
  _exit(1);
}

class Watchdog {
 public:
  Watchdog() {
    std::signal(SIGALRM, on_watchdog);
    alarm(kWatchdogSeconds);
  }
  ~Watchdog() { alarm(0); }
};

uint64_t rounds() {
  const char* text = std::getenv("RUBATO_TORTURE_LIBC_ROUNDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 60;
}

class TortureOfLibcLocks : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  static constexpr unsigned kCalls = 8;  // of a request
  static constexpr uint32_t kFlows = 8;
  static constexpr size_t kAhead = 3;
  static constexpr size_t kLineBytes = 2;

  struct Flow {
    uint64_t id = 0;
    std::string unanswered;
  };

  void prepare() {
    server_.options.preempt = GetParam();
    server_.options.policy_settings = {{"quantum", "60us"}};
    server_.options.stack_bytes = size_t{256} * 1024;
    setenv("RUBATO_TORTURE", "prepared", 1);
    for (const Kind& kind : kKinds) {
      server_.app.on(kind.letter) = [this, &kind](rubato::Request&) {
        for (unsigned i = 0; i < kCalls; ++i) {
          compute();
          if (!kind.call(i)) ++wrong_[static_cast<size_t>(&kind - kKinds.data())];
        }
      };
    }
  }

  // All kinds in turn, so that at every moment several requests wait.
  void serve() {
    std::array<Flow, kFlows> flows;
    for (uint32_t i = 0; i < kFlows; ++i) flows[i].id = server_.connect(i % 2);
    for (uint64_t i = 0; i < rounds() * kKinds.size(); ++i) {
      Flow& flow = flows[i % kFlows];
      if (flow.unanswered.size() == kAhead * kLineBytes) receive_from(flow);
      const std::string line{kKinds[i % kKinds.size()].letter, '\n'};
      flow.unanswered += line;
      server_.submit(flow.id, line);
    }
    for (Flow& flow : flows) {
      while (!flow.unanswered.empty() && !HasFatalFailure()) receive_from(flow);
    }
  }

  // One line at least.
  void receive_from(Flow& flow) {
    const std::string answer = server_.receive(flow.id, kLineBytes);
    ASSERT_TRUE(answer.size() >= kLineBytes && flow.unanswered.starts_with(answer)) << answer;
    flow.unanswered.erase(0, answer.size());
  }

  LetterServer server_{"ps", 2};
  std::array<std::atomic<uint64_t>, kKinds.size()> wrong_{};
};

TEST_P(TortureOfLibcLocks, everything_is_answered) {
  if (const rubato::Status has = rubato::available(GetParam()); !has.ok()) {
    GTEST_SKIP() << has.error();
  }
  const Watchdog watchdog;
  prepare();
  server_.start();
  serve();
  EXPECT_TRUE(server_.stop());
  for (size_t i = 0; i < kKinds.size(); ++i) EXPECT_EQ(wrong_[i], 0u) << kKinds[i].name;
  const auto stats = server_.runtime->stats();
  printf("%lu preemptions, %lu put off\n", stats.preemptions, stats.preemptions_deferred);
  EXPECT_GT(stats.preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(By, TortureOfLibcLocks,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& with) { return rubato::to_string(with.param); });

}  // namespace
}  // namespace torture
