// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/uintr.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "mechanism/cpu/features.h"
#include "mechanism/preempt/entry.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/preempt/uintr_abi.h"

#if defined(__x86_64__)

namespace rubato {
namespace {

// The processor tells the handler a number below 64, and nothing else.
constexpr int kReceiversMax = 64;

// By number. Written by its thread before it allows interrupts, read by its handler.
std::array<std::atomic<InterruptTarget*>, kReceiversMax> g_targets{};

// Written as bytes, because some assemblers do not know these instructions.
void allow_interrupts() { asm volatile(".byte 0xf3, 0x0f, 0x01, 0xef" : : : "memory"); }   // stui
void forbid_interrupts() { asm volatile(".byte 0xf3, 0x0f, 0x01, 0xee" : : : "memory"); }  // clui
void send_to(uint64_t receiver) {  // senduipi rax
  asm volatile(".byte 0xf3, 0x0f, 0xc7, 0xf0" : : "a"(receiver) : "memory");
}

std::string because(const char* what) {
  return std::string(RUBATO_UINTR_DEVICE) + ": " + what + ": " + std::strerror(errno);
}

// Opened once and never closed; negative: not opened yet.
std::atomic<int> g_device{-1};

Status open_device() {
  if (g_device.load(std::memory_order_acquire) >= 0) return Done{};
  static std::atomic_flag opening;
  while (opening.test_and_set(std::memory_order_acquire)) opening.wait(true);
  if (g_device.load(std::memory_order_acquire) < 0) {
    g_device.store(::open(RUBATO_UINTR_DEVICE, O_RDWR | O_CLOEXEC), std::memory_order_release);
  }
  const int because_of = errno;
  opening.clear(std::memory_order_release);
  opening.notify_one();
  if (g_device.load(std::memory_order_acquire) >= 0) return Done{};
  errno = because_of;
  if (errno != ENOENT) return Error{because("cannot be opened")};
  return Error{std::string("neither the kernel nor a module gives access: no ") +
               RUBATO_UINTR_DEVICE};
}

long ask(unsigned long request, unsigned long argument = 0) {
  return ::ioctl(g_device.load(std::memory_order_acquire), request, argument);
}

// True if the thread, or the fiber with thread-local storage of its own, may send. Fibers move
// between receivers only, which are all senders, so it is never true where it must not be.
thread_local bool g_sends_here = false;

class UintrLine final : public InterruptLine {
 public:
  explicit UintrLine(int receiver) : receiver_(receiver) {}

  // Runs on the receiver's thread: no interrupt arrives after it. The thread may still send.
  ~UintrLine() override {
    forbid_interrupts();
    ask(RUBATO_UINTR_LEAVE);
    g_targets[static_cast<size_t>(receiver_)].store(nullptr, std::memory_order_release);
    ask(RUBATO_UINTR_SEND);
  }

  void send() override {
    if (!g_sends_here) g_sends_here = ask(RUBATO_UINTR_SEND) == 0;
    if (g_sends_here) send_to(static_cast<uint64_t>(receiver_));
  }

 private:
  const int receiver_;
};

}  // namespace

extern "C" {
void rubato_user_interrupt_entry();

// Called by the entry, with interrupts forbidden; they are allowed again once the region keeps them
// from doing anything, for the target may switch to a fiber that must be interrupted.
void rubato_user_interrupted(uint64_t vector, uintptr_t pc) {
  preempt_disable();
  allow_interrupts();
  const int saved = errno;
  InterruptTarget* target = g_targets[vector % kReceiversMax].load(std::memory_order_acquire);
  if (target != nullptr) target->interrupted(pc, false);
  errno = saved;
  preempt_enable_no_resched();
}
}

Status uintr_available() {
  if (!cpu_features().uintr) return Error{"the processor has no user interrupts"};
  if (Status device = open_device(); !device.ok()) return device;
  return prepare_interrupt_entry();
}

Result<std::unique_ptr<InterruptLine>> open_uintr_line(InterruptTarget& target) {
  if (Status good = uintr_available(); !good.ok()) return Error{good.error()};
  const auto entry = reinterpret_cast<uintptr_t>(&rubato_user_interrupt_entry);
  const long receiver = ask(RUBATO_UINTR_RECEIVE, entry);
  if (receiver < 0) return Error{because("takes no receiver")};
  if (receiver >= kReceiversMax || ask(RUBATO_UINTR_SEND) != 0) {
    ask(RUBATO_UINTR_LEAVE);
    return Error{"no more than " + std::to_string(kReceiversMax) +
                 " threads can have user interrupts"};
  }
  g_sends_here = true;
  g_targets[static_cast<size_t>(receiver)].store(&target, std::memory_order_release);
  allow_interrupts();
  return std::unique_ptr<InterruptLine>(std::make_unique<UintrLine>(static_cast<int>(receiver)));
}

}  // namespace rubato

#else

namespace rubato {

Status uintr_available() { return Error{"the processor has no user interrupts"}; }

Result<std::unique_ptr<InterruptLine>> open_uintr_line(InterruptTarget&) {
  return Error{uintr_available().error()};
}

}  // namespace rubato

#endif
