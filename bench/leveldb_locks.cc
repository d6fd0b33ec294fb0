// SPDX-License-Identifier: Apache-2.0
//
// For how long LevelDB holds its locks: the critical sections of src/sim/costs.h, for a GET of a
// key drawn at random and a SCAN of all 1000. One thread, so that nothing waits. The store is
// filled and read (from its memtable), then opened again and read (from a table).
//
//   leveldb_locks [operations]
//
// Prints medians, which a busy machine leaves alone: the time of an operation, how often it takes
// the lock of the store, which is the first that it takes, and others, and for how long in all,
// less a reading of the clock each time. This program's pthread_mutex_lock and pthread_mutex_unlock
// take the place of libc's.
#include <dlfcn.h>
#include <leveldb/db.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

constexpr uint32_t kKeys = 1000;
constexpr size_t kValueBytes = 100;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

struct Section {
  const void* mutex;
  int64_t begun_ns;
  int64_t held_ns = -1;  // it is not over
};

// Of the thread that measures, in the order of their beginnings; null = nobody measures.
thread_local std::vector<Section>* sections = nullptr;

using MutexCall = int(pthread_mutex_t*);
MutexCall* real(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<MutexCall*>(found);
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static MutexCall* const lock = real("pthread_mutex_lock");
  const int result = lock(mutex);
  if (sections != nullptr) sections->push_back({mutex, now_ns()});
  return result;
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static MutexCall* const unlock = real("pthread_mutex_unlock");
  if (sections != nullptr) {
    const int64_t ended_ns = now_ns();
    const auto open = std::find_if(sections->rbegin(), sections->rend(), [&](const Section& s) {
      return s.mutex == mutex && s.held_ns < 0;
    });
    if (open != sections->rend()) open->held_ns = ended_ns - open->begun_ns;
  }
  return unlock(mutex);
}

namespace {

template <class T>
T median(std::vector<T> values) {
  if (values.empty()) return T();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a section seems to last in which nothing is done.
int64_t reading_ns() {
  std::vector<Section> found;
  found.reserve(1000);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  sections = &found;
  for (int i = 0; i < 1000; ++i) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  sections = nullptr;
  std::vector<int64_t> held_ns;
  for (const Section& section : found) held_ns.push_back(section.held_ns);
  return median(held_ns);
}

struct Figures {
  std::vector<int64_t> service_ns, store_locks, store_held_ns, other_locks, other_held_ns;

  void add(int64_t lasted_ns, const std::vector<Section>& found, int64_t empty_ns) {
    int64_t of_store = 0;
    int64_t store_ns = 0;
    int64_t other_ns = 0;
    for (const Section& section : found) {
      const bool stores = section.mutex == found.front().mutex;
      of_store += stores ? 1 : 0;
      (stores ? store_ns : other_ns) += section.held_ns - empty_ns;
    }
    service_ns.push_back(lasted_ns);
    store_locks.push_back(of_store);
    store_held_ns.push_back(store_ns);
    other_locks.push_back(static_cast<int64_t>(found.size()) - of_store);
    other_held_ns.push_back(other_ns);
  }
};

std::string key_of(uint32_t number) { return "key" + std::to_string(1'000'000 + number); }

void measure(const char* what, int operations, const std::function<void()>& operate) {
  static const int64_t empty_ns = reading_ns();
  Figures figures;
  std::vector<Section> found;
  found.reserve(10 * kKeys);
  for (int i = 0; i < operations; ++i) {
    const int64_t begun_ns = now_ns();
    operate();
    const int64_t lasted_ns = now_ns() - begun_ns;
    found.clear();
    sections = &found;
    operate();
    sections = nullptr;
    figures.add(lasted_ns, found, empty_ns);
  }
  std::printf("%-22s %8lld ns  the store's lock %2lld times, %4lld ns in all  others %3lld times, "
              "%4lld ns in all\n",
              what, static_cast<long long>(median(figures.service_ns)),
              static_cast<long long>(median(figures.store_locks)),
              static_cast<long long>(median(figures.store_held_ns)),
              static_cast<long long>(median(figures.other_locks)),
              static_cast<long long>(median(figures.other_held_ns)));
}

std::unique_ptr<leveldb::DB> opened(const std::filesystem::path& folder) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, folder.string(), &db);
  if (status.ok()) return std::unique_ptr<leveldb::DB>(db);
  std::fprintf(stderr, "leveldb_locks: %s\n", status.ToString().c_str());
  std::exit(1);
}

void require(bool done) {
  if (done) return;
  std::fprintf(stderr, "leveldb_locks: the store has lost a key\n");
  std::exit(1);
}

void read(leveldb::DB& db, const std::string& from, int operations) {
  std::mt19937 random(1);
  std::string value;
  measure(("GET from " + from).c_str(), operations, [&] {
    require(db.Get({}, key_of(static_cast<uint32_t>(random() % kKeys)), &value).ok());
  });
  measure(("SCAN from " + from).c_str(), operations / 10, [&] {
    const std::unique_ptr<leveldb::Iterator> it(db.NewIterator({}));
    uint32_t keys = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++keys;
    require(keys == kKeys);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int operations = argc > 1 ? std::atoi(argv[1]) : 20'000;
  if (argc > 2 || operations < 10) {
    std::fprintf(stderr, "leveldb_locks: takes the number of operations, 10 or more\n");
    return 2;
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("leveldb_locks." + std::to_string(getpid()));
  {
    const std::unique_ptr<leveldb::DB> db = opened(folder);
    for (uint32_t key = 0; key < kKeys; ++key) {
      require(db->Put({}, key_of(key), std::string(kValueBytes, 'v')).ok());
    }
    read(*db, "the memtable", operations);
  }
  read(*opened(folder), "a table", operations);
  std::filesystem::remove_all(folder);
  return 0;
}
