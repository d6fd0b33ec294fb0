// SPDX-License-Identifier: Apache-2.0
//
// Credentials: the kernel keeps user and groups by thread. setuid, setgroups and their like (POSIX
// wants them by process) have the C library signal every thread, and wait until each has answered
// with a mark in its own thread control block. A worker that has that of a fiber would mark that
// one, and the caller wait for ever; so a worker announces its own, and the signal is answered as
// that thread. A fiber that calls them is no thread to the kernel either: it calls as its worker.
//
// Thread safety: any thread; each object belongs to the thread that makes and destroys it.
#pragma once

#include <cstdint>
#include <memory>

#include "mechanism/preempt/thread_table.h"

namespace rubato {

// While it exists, changes of credentials reach the calling thread whatever its thread pointer is.
class CredentialsOfThread {
 public:
  // The thread pointer is the thread's own, and the process has had a second thread. Null: too many
  // threads.
  static std::unique_ptr<CredentialsOfThread> announce();
  ~CredentialsOfThread();
  CredentialsOfThread(const CredentialsOfThread&) = delete;
  CredentialsOfThread& operator=(const CredentialsOfThread&) = delete;

 private:
  using Entry = ThreadTable<uintptr_t>::Entry;
  explicit CredentialsOfThread(Entry& entry) : entry_(entry) {}

  Entry& entry_;
};

// Makes the call with the calling thread's own thread pointer. `call` switches no fiber, and is not
// preempted.
void call_as_thread(void (*call)(void*), void* argument);

}  // namespace rubato
