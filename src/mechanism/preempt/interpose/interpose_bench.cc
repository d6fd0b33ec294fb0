// SPDX-License-Identifier: Apache-2.0
//
// The cost of the interposers for a lock that no other thread wants: libc's own functions, called
// past them, against the interposed ones on a plain thread (before and after a runtime has
// attached) and on a fiber with a TLS block of its own.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <thread>

#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/interpose/hooks.h"

namespace rubato {
namespace {

template <class Function>
Function* libc(const char* name) {
  void* object = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(object, name));
}

enum class Way { kLibc, kPlain, kPlainAttached, kFiber };

void prepare(Way way) {
  rubato_interpose_thread(RUBATO_INTERPOSE_PLAIN);
  rubato_interpose_attach(nullptr);
  if (way != Way::kPlainAttached && way != Way::kFiber) return;
  static_cast<void>(interposers_attach());
  if (way == Way::kFiber) interposers_mark_thread(ThreadKind::kOwnsTls);
}

template <Way kWay>
void mutex(benchmark::State& state) {
  auto* lock = kWay == Way::kLibc ? libc<int(pthread_mutex_t*)>("pthread_mutex_lock")
                                  : &pthread_mutex_lock;
  auto* unlock = kWay == Way::kLibc ? libc<int(pthread_mutex_t*)>("pthread_mutex_unlock")
                                    : &pthread_mutex_unlock;
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  prepare(kWay);
  for (auto _ : state) {
    lock(&m);
    unlock(&m);
  }
  prepare(Way::kLibc);
}

template <Way kWay>
void allocation(benchmark::State& state) {
  auto* allocate = kWay == Way::kLibc ? libc<void*(size_t)>("malloc") : &malloc;
  auto* release = kWay == Way::kLibc ? libc<void(void*)>("free") : &free;
  prepare(kWay);
  for (auto _ : state) {
    void* memory = allocate(64);
    benchmark::DoNotOptimize(memory);
    release(memory);
  }
  prepare(Way::kLibc);
}

// libc avoids the locked instruction in processes that never had a second thread.
const bool g_threaded = [] {
  std::thread([] {}).join();
  return true;
}();

BENCHMARK(mutex<Way::kLibc>);
BENCHMARK(mutex<Way::kPlain>);
BENCHMARK(mutex<Way::kPlainAttached>);
BENCHMARK(mutex<Way::kFiber>);
BENCHMARK(allocation<Way::kLibc>);
BENCHMARK(allocation<Way::kPlain>);
BENCHMARK(allocation<Way::kPlainAttached>);
BENCHMARK(allocation<Way::kFiber>);

}  // namespace
}  // namespace rubato
