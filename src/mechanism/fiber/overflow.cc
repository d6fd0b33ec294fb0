// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/overflow.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>

#include "base/check.h"
#include "mechanism/fiber/sanitizer.h"

namespace rubato {
namespace {

constexpr size_t kSignalStackBytes = size_t{64} * 1024;
// A frame of the kernel's that does not fit the stack is no fault at an address: the stack pointer
// tells. It takes up to 11 KiB of vector state.
constexpr size_t kSignalFrameBytes = size_t{16} * 1024;

// Written under g_mutex; the handler reads. `low` is stored last, with release.
struct Known {
  std::atomic<uintptr_t> low{0};  // 0 = free
  std::atomic<size_t> stride_bytes{0};
  std::atomic<size_t> guard_bytes{0};
  std::atomic<size_t> count{0};
};
std::array<Known, 64> g_known;
std::mutex g_mutex;
struct sigaction g_before {};
std::atomic<AskForWork> g_ask{nullptr};

// The stack bytes of the region; 0 = it is no overflow.
size_t overflowed_stack(uintptr_t address, uintptr_t stack_pointer) {
  for (const Known& known : g_known) {
    const StackRegion region{known.low.load(std::memory_order_acquire), known.stride_bytes,
                             known.guard_bytes, known.count};
    if (region.low == 0 || region.stride_bytes == 0) continue;
    if (region.is_overflow(address) || region.is_overflow(stack_pointer, kSignalFrameBytes)) {
      return region.stride_bytes - region.guard_bytes;
    }
  }
  return 0;
}

uintptr_t stack_pointer_of(const void* context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#else
  return static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.sp);
#endif
}

// A line that is put together in a signal handler; what does not fit is left out.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t bytes = std::min(text.size(), text_.size() - used_);
    std::copy_n(text.data(), bytes, text_.data() + used_);
    used_ += bytes;
    return *this;
  }
  Line& operator<<(uint64_t number) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    return *this << std::string_view(digits.data(), static_cast<size_t>(end.ptr - digits.data()));
  }
  void print() const { static_cast<void>(!::write(STDERR_FILENO, text_.data(), used_)); }

 private:
  std::array<char, 512> text_{};
  size_t used_ = 0;
};

void report(size_t stack_bytes) {
  Line line;
  RunningWork work;
  const AskForWork ask = g_ask.load(std::memory_order_acquire);
  if (ask != nullptr && ask(work)) {
    line << "rubato: a request of type " << uint64_t{work.type};
    if (!work.type_name.empty()) line << " (" << work.type_name << ")";
    line << " of connection " << work.connection;
  } else {
    line << "rubato: a fiber";
  }
  line << " has overflowed its stack of " << uint64_t{stack_bytes / 1024}
       << " KiB; the option `stack` sets it\n";
  line.print();
}

// Returns to the instruction that faults, which then faults under the handler before.
void on_fault(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (const size_t bytes = overflowed_stack(address, stack_pointer_of(context)); bytes != 0) {
    report(bytes);
    struct sigaction ends {};
    ends.sa_handler = SIG_DFL;
    ::sigaction(number, &ends, nullptr);
    return;
  }
  ::sigaction(number, &g_before, nullptr);
  if (info->si_code <= 0) ::raise(number);  // somebody has sent it: nothing faults again
}

}  // namespace

void note_stack_region(const StackRegion& region) {
  const std::scoped_lock lock(g_mutex);
  for (Known& known : g_known) {
    if (known.low.load(std::memory_order_relaxed) != 0) continue;
    known.stride_bytes = region.stride_bytes;
    known.guard_bytes = region.guard_bytes;
    known.count = region.count;
    known.low.store(region.low, std::memory_order_release);
    return;
  }
}

void forget_stack_region(uintptr_t low) {
  const std::scoped_lock lock(g_mutex);
  for (Known& known : g_known) {
    if (known.low.load(std::memory_order_relaxed) == low) known.low = 0;
  }
}

void report_stack_overflows(AskForWork ask) {
  if (sanitizer::kPresent) return;
  const std::scoped_lock lock(g_mutex);
  if (g_ask.exchange(ask, std::memory_order_release) != nullptr) return;
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  RUBATO_CHECK(::sigaction(SIGSEGV, &action, &g_before) == 0);
}

SignalStack::SignalStack() {
  stack_t before{};
  if (::sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
  void* memory = ::mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = memory;
  stack_t ours{};
  ours.ss_sp = memory_;
  ours.ss_size = kSignalStackBytes;
  RUBATO_CHECK(::sigaltstack(&ours, nullptr) == 0);
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t present{};
  const bool ours = ::sigaltstack(nullptr, &present) == 0 && present.ss_sp == memory_;
  if (!ours) return;  // of another thread, which may still use it
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  RUBATO_CHECK(::sigaltstack(&none, nullptr) == 0);
  ::munmap(memory_, kSignalStackBytes);
}

}  // namespace rubato
