// SPDX-License-Identifier: Apache-2.0
//
// Foreign work: what takes locks of its own inside the C library, the loader and the C++ runtime,
// and the C++ library's ways to wait. The folder `foreign` has the libraries.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <iomanip>
#include <latch>
#include <locale>
#include <map>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <random>
#include <regex>
#include <semaphore>
#include <shared_mutex>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/torture/foreign_work.h"


namespace torture {
namespace {

std::vector<Workload>& all() {
  static std::vector<Workload> list;
  return list;
}

// ---- Locks inside the C library, the loader and the C++ runtime ---------------------------------

uint64_t localtimes(uint64_t seed) {
  const auto when = static_cast<time_t>(1'000'000'000 + seed * 7'919);
  tm parts{};
  localtime_r(&when, &parts);
  std::array<char, 64> text{};
  const size_t bytes = strftime(text.data(), text.size(), "%c %Z", &parts);
  return sum_of({text.data(), bytes}) + (mktime(&parts) == when ? 1u : 0u);
}

// Overwritten in place: another request may be reading the environment.
uint64_t environment(uint64_t seed) {
  const char* text = seed % 2 == 0 ? "even" : "uneven";
  const int rc = setenv("RUBATO_TORTURE", text, 1);
  return static_cast<uint64_t>(rc + 1) + (getenv("RUBATO_TORTURE") != nullptr ? seed : 0);
}

uint64_t global_locales(uint64_t seed) {
  return setlocale(LC_MONETARY, seed % 2 == 0 ? "C" : "C.UTF-8") != nullptr ? seed : 0;
}

uint64_t locales_of_its_own(uint64_t seed) {
  const locale_t made = newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
  if (made == nullptr) return 0;
  const locale_t before = uselocale(made);
  std::array<wchar_t, 8> wide{};
  const size_t characters = mbstowcs(wide.data(), "a\xc3\xa9z", wide.size());
  uselocale(before);
  freelocale(made);
  return characters * 1000 + seed;
}

uint64_t cpp_locales(uint64_t seed) {
  std::ostringstream text;
  text.imbue(std::locale("C.UTF-8"));
  text << seed << ' ' << std::put_time(std::localtime(std::array<time_t, 1>{}.data()), "%Y");
  return sum_of(std::to_string(seed)) + (text.str().empty() ? 0u : 1u);
}

uint64_t conversions(uint64_t seed) {
  const iconv_t conversion = iconv_open("UTF-16LE", seed % 2 == 0 ? "UTF-8" : "ISO-8859-15");
  if (conversion == reinterpret_cast<iconv_t>(-1)) return 0;
  std::string from = std::to_string(seed) + "ab";
  std::array<char, 64> to{};
  char* in = from.data();
  char* out = to.data();
  size_t in_left = from.size();
  size_t out_left = to.size();
  const size_t rc = iconv(conversion, &in, &in_left, &out, &out_left);
  iconv_close(conversion);
  return sum_of({to.data(), to.size() - out_left}) + rc;
}

uint64_t users(uint64_t seed) {
  std::array<char, 1024> room{};
  passwd entry{};
  passwd* found = nullptr;
  const int rc = getpwnam_r("root", &entry, room.data(), room.size(), &found);
  return getpwnam("root") != nullptr && rc == 0 && found != nullptr ? entry.pw_uid + seed : 0;
}

uint64_t translations(uint64_t seed) {
  const char* folder = seed % 2 == 0 ? "/usr/share/locale" : "/usr/local/share/locale";
  if (bindtextdomain("rubato-torture", folder) == nullptr) return 0;
  return sum_of(dgettext("rubato-torture", "a text")) + seed;
}

uint64_t threads(uint64_t seed) {
  uint64_t seen = 0;
  std::thread([&] { seen = seed; }).join();
  std::jthread stopped([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  return seen + 1;
}

uint64_t asynchronous_calls(uint64_t seed) {
  auto call = std::async(std::launch::async, [=] { return seed * 3; });
  std::promise<uint64_t> promise;
  std::thread fulfils([&] { promise.set_value(seed); });
  const uint64_t sum = call.get() + promise.get_future().get();
  fulfils.join();
  return sum;
}

// (Takes milliseconds.)
uint64_t processes(uint64_t seed) {
  if (seed % 8 != 0) return seed;
  FILE* pipe = popen("exit 3", "r");
  return pipe == nullptr ? 0 : static_cast<uint64_t>(WEXITSTATUS(pclose(pipe))) + seed;
}

uint64_t lines(uint64_t seed) {
  std::string text = text_of(seed, 300);
  FILE* file = fmemopen(text.data(), text.size(), "r");
  if (file == nullptr) return 0;
  char* line = nullptr;
  size_t room = 0;
  Sum sum;
  while (getline(&line, &room, file) > 0) sum.add(std::string_view(line));
  free(line);
  fclose(file);
  return sum.value();
}

uint64_t memory_streams(uint64_t seed) {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* file = open_memstream(&text, &bytes);
  for (uint64_t i = 0; i < 50; ++i) fprintf(file, "%lu %a ", seed + i, 1.0 / double(i + 1));
  fclose(file);
  const uint64_t sum = sum_of({text, bytes});
  free(text);
  return sum;
}

uint64_t addresses(uint64_t seed) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(1 + seed);
  if (getaddrinfo("127.0.0.1", port.c_str(), &hints, &found) != 0) return 0;
  std::array<char, 64> host{};
  getnameinfo(found->ai_addr, found->ai_addrlen, host.data(), host.size(), nullptr, 0,
              NI_NUMERICHOST);
  freeaddrinfo(found);
  return sum_of(host.data()) + seed;
}

uint64_t loading(uint64_t seed) {
  void* object = dlopen("libm.so.6", RTLD_NOW);
  if (object == nullptr) return 0;
  using Function = double (*)(double);
  const auto root = reinterpret_cast<Function>(dlsym(object, "sqrt"));
  const double value = root(static_cast<double>(seed * seed));
  const bool missing = dlsym(object, "no_such_function") == nullptr && dlerror() != nullptr;
  dlclose(object);
  return static_cast<uint64_t>(value) + (missing ? 1000u : 0u);
}

uint64_t posix_expressions(uint64_t seed) {
  regex_t expression;
  if (regcomp(&expression, "([a-z]+) ([0-9]+)", REG_EXTENDED) != 0) return 0;
  const std::string text = text_of(seed, 200);
  std::array<regmatch_t, 3> found{};
  Sum sum;
  const char* at = text.c_str();
  for (int i = 0; i < 10 && regexec(&expression, at, 3, found.data(), 0) == 0; ++i) {
    sum.add(std::string_view(at + found[2].rm_so, at + found[2].rm_eo));
    at += found[0].rm_eo;
  }
  regfree(&expression);
  return sum.value();
}

uint64_t globs(uint64_t seed) {
  glob_t found{};
  const int rc = glob("/usr/lib/os-rel*", 0, nullptr, &found);
  globfree(&found);
  return static_cast<uint64_t>(rc == 0 || rc == GLOB_NOMATCH) + seed +
         static_cast<uint64_t>(fnmatch("*[0-9]x", "a7x", 0));
}

uint64_t files(uint64_t seed) {
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return 0;
  const std::string text = text_of(seed, 9'000);
  std::fwrite(text.data(), 1, text.size(), file);
  std::rewind(file);
  std::string back(text.size(), '\0');
  const size_t bytes = std::fread(back.data(), 1, back.size(), file);
  std::fclose(file);
  return back == text ? bytes + seed : 0;
}

uint64_t folders(uint64_t seed) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "rubato-folders-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return 0;
  const fs::path root(name);
  fs::create_directories(root / "a" / "b");
  std::ofstream(root / "a" / "file") << seed;
  Sum sum;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    sum.add(entry.is_directory() ? 1 : 2);
  }
  sum.add(fs::file_size(root / "a" / "file"));
  sum.add(fs::remove_all(root));
  return sum.value();
}

uint64_t pipes(uint64_t seed) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return 0;
  const std::string text = text_of(seed, 500);
  std::string back(text.size(), '\0');
  const ssize_t written = write(ends[1], text.data(), text.size());
  const ssize_t got = read(ends[0], back.data(), back.size());
  close(ends[0]);
  close(ends[1]);
  return written == got && back == text ? sum_of(text) : 0;
}

uint64_t mappings(uint64_t seed) {
  constexpr size_t kBytes = 64 * 1024;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  memset(memory, static_cast<int>(seed), kBytes);
  const uint64_t sum = sum_of({static_cast<char*>(memory), 100});
  return munmap(memory, kBytes) == 0 ? sum : 0;
}

uint64_t hash_tables(uint64_t seed) {
  hsearch_data table{};
  if (hcreate_r(64, &table) == 0) return 0;
  std::array<std::string, 30> keys;
  Sum sum;
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::to_string(seed * i);
    ENTRY* found = nullptr;
    hsearch_r({keys[i].data(), nullptr}, ENTER, &found, &table);
    sum.add(std::string_view(found->key));
  }
  hdestroy_r(&table);
  return sum.value();
}

// ---- The C++ library ----------------------------------------------------------------------------

uint64_t random_numbers(uint64_t seed) {
  std::random_device device;
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::array<char, 8> entropy{};
  Sum sum;
  sum.add(getrandom(entropy.data(), entropy.size(), 0) == 8 && device.entropy() >= 0 ? 1 : 0);
  for (int i = 0; i < 200; ++i) sum.add(static_cast<uint64_t>(normal(engine) * 1e6 + 1e9));
  return sum.value();
}

uint64_t characters(uint64_t seed) {
  std::array<char, 64> text{};
  Sum sum;
  for (uint64_t i = 1; i < 60; ++i) {
    const double value = static_cast<double>(seed + i) / static_cast<double>(i);
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
    double back = 0;
    std::from_chars(text.data(), end.ptr, back);
    sum.add({text.data(), static_cast<size_t>(end.ptr - text.data())});
    sum.add(back == value ? 1 : 0);
  }
  return sum.value();
}

uint64_t memory_resources(uint64_t seed) {
  std::pmr::synchronized_pool_resource pool;
  std::pmr::map<uint64_t, std::pmr::string> map(&pool);
  Random random(seed);
  for (int i = 0; i < 100; ++i) {
    const uint64_t key = random.below(40);
    map[key] += std::to_string(i) + " some text that is not short";
  }
  Sum sum;
  for (const auto& [key, text] : map) sum.add(text);
  return sum.value();
}

struct Turns {
  std::atomic<int> taken{0};
  std::binary_semaphore semaphore{1};
  std::atomic_flag spin;
  std::shared_mutex shared;
  std::mutex mutex;
  std::condition_variable_any changed;
  uint64_t first = 0;
  uint64_t second = 0;

  uint64_t inside() {
    const uint64_t seen = first++;
    for (int i = 0; i < 300; ++i) asm volatile("" : : "r"(i));
    return seen == second++ ? 0 : 1;
  }
};
Turns g_atomic, g_semaphore, g_spin, g_any;

uint64_t atomic_waits(uint64_t seed) {
  uint64_t wrong = 0;
  for (int i = 0; i < 20; ++i) {
    int free = 0;
    while (!g_atomic.taken.compare_exchange_strong(free, 1)) {
      g_atomic.taken.wait(1);
      free = 0;
    }
    wrong += g_atomic.inside();
    g_atomic.taken = 0;
    g_atomic.taken.notify_one();
  }
  return seed + wrong;
}

uint64_t semaphores(uint64_t seed) {
  uint64_t wrong = 0;
  for (int i = 0; i < 20; ++i) {
    g_semaphore.semaphore.acquire();
    wrong += g_semaphore.inside();
    g_semaphore.semaphore.release();
  }
  return seed + wrong;
}

// A lock of the program's own, which nobody sees.
uint64_t spinning(uint64_t seed) {
  uint64_t wrong = 0;
  for (int i = 0; i < 2; ++i) {
    while (g_spin.spin.test_and_set(std::memory_order_acquire)) {
    }
    wrong += g_spin.inside();
    g_spin.spin.clear(std::memory_order_release);
  }
  return seed + wrong;
}

uint64_t any_conditions(uint64_t seed) {
  std::unique_lock lock(g_any.shared);
  const uint64_t wrong = g_any.inside();
  g_any.changed.notify_all();
  g_any.changed.wait_for(lock, std::chrono::microseconds(10));
  return seed + wrong;
}

uint64_t latches_and_barriers(uint64_t seed) {
  std::latch begun(2);
  std::barrier rounds(2);
  uint64_t sum = 0;
  std::thread other([&] {
    begun.arrive_and_wait();
    for (int i = 0; i < 3; ++i) rounds.arrive_and_wait();
  });
  begun.arrive_and_wait();
  for (int i = 0; i < 3; ++i) {
    rounds.arrive_and_wait();
    sum += seed;
  }
  other.join();
  return sum + 1;
}

uint64_t posix_barriers(uint64_t seed) {
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, 2);
  std::thread other([&] { pthread_barrier_wait(&barrier); });
  pthread_barrier_wait(&barrier);
  other.join();
  pthread_barrier_destroy(&barrier);
  return seed + 1;
}

const Registered kHere[] = {
    {"mktime", localtimes},
    {"setenv", environment},
    {"setlocale", global_locales},
    {"newlocale", locales_of_its_own},
    {"std::locale", cpp_locales},
    {"iconv", conversions},
    {"getpwnam", users},
    {"bindtextdomain", translations},
    {"std::thread", threads},
    {"std::async", asynchronous_calls},
    {"popen", processes},
    {"getline", lines},
    {"open_memstream", memory_streams},
    {"getaddrinfo", addresses},
    {"dlopen", loading},
    {"regcomp", posix_expressions},
    {"glob", globs},
    {"tmpfile", files},
    {"std::filesystem", folders},
    {"pipe", pipes},
    {"mmap", mappings},
    {"hsearch_r", hash_tables},
    {"<random>", random_numbers},
    {"<charconv>", characters},
    {"<memory_resource>", memory_resources},
    {"std::atomic::wait", atomic_waits},
    {"std::binary_semaphore", semaphores},
    {"a spin lock", spinning},
    {"std::condition_variable_any", any_conditions},
    {"std::latch and std::barrier", latches_and_barriers},
    {"pthread_barrier", posix_barriers},
};

}  // namespace

std::span<const Workload> foreign_work() { return all(); }

Registered::Registered(const char* name, uint64_t (*run)(uint64_t seed)) {
  all().push_back({name, run});
}

}  // namespace torture
