// SPDX-License-Identifier: Apache-2.0
//
// librubato-rocksdb: the hook that RocksDB 9.9 and later calls at every deleted or hidden key that
// an iterator passes and at every batch of a MultiGet. In a program that links the library (or
// preloads it) such a step is preempted and cancelled, with RocksDB as it is; a cancelled one ends
// with Status::Aborted. A loop over keys that exist needs checkpoints of its own, between the
// calls: <rubato/store_iterator.hpp>, or the compiler's. Outside of tasks the hook does nothing.
//
// A MultiGet holds on to what belongs to its thread (RocksDB's ReturnAndCleanupSuperVersion), so
// nothing but an iterator is preempted: who calls is told by the names that RocksDB exports. Of a
// RocksDB that is linked statically these are known if the program is linked with -rdynamic.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include <rubato/executor.h>

namespace {

// The places that call the hook, of which RocksDB has two or three; each compiled copy of a
// template is one of them. A slot is written once, by whoever comes first, and then only read: no
// other data hangs on it, so relaxed accesses do.
class Callers {
 public:
  // Whether the code at `address` may be left in the middle.
  bool is_iterator(const void* address) {
    const auto place = reinterpret_cast<uintptr_t>(address);
    for (std::atomic<uintptr_t>& slot : slots_) {
      const uintptr_t known = slot.load(std::memory_order_relaxed);
      if ((known & ~kIterator) == place << 1) return (known & kIterator) != 0;
      if (known == 0) return learn(slot, address);
    }
    return named_iterator(address);
  }

 private:
  static constexpr uintptr_t kIterator = 1;  // beside the address, shifted by one

  static bool learn(std::atomic<uintptr_t>& slot, const void* address) {
    const bool iterator = named_iterator(address);
    uintptr_t empty = 0;
    slot.compare_exchange_strong(
        empty, reinterpret_cast<uintptr_t>(address) << 1 | (iterator ? kIterator : 0),
        std::memory_order_relaxed);
    return iterator;
  }
  static bool named_iterator(const void* address) {
    Dl_info info;
    return ::dladdr(address, &info) != 0 && info.dli_sname != nullptr &&
           std::strstr(info.dli_sname, "7rocksdb6DBIter") != nullptr;
  }

  std::array<std::atomic<uintptr_t>, 8> slots_{};
};

constinit Callers g_callers;

}  // namespace

// RocksDB declares it so (port/port.h). True: the query is to end.
extern "C" [[gnu::visibility("default")]] bool RocksDbThreadYieldAndCheckAbort() {
  if (!g_callers.is_iterator(__builtin_return_address(0))) return rubato_task_cancelled() != 0;
  return rubato_checkpoint() != 0;
}
