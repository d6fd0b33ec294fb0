// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/breakpoints.h"

#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/preempt/signal.h"
#include "runtime/current_worker.h"

namespace torture {
namespace {

constexpr uint8_t kBreakpoint = 0xcc;  // int3
constexpr uint32_t kChosenPerHit = 3;
constexpr size_t kNear = 64;

std::atomic<Breakpoints*> g_breakpoints{nullptr};

uint8_t exchange_byte(uintptr_t address, uint8_t byte) {
  return __atomic_exchange_n(reinterpret_cast<uint8_t*>(address), byte, __ATOMIC_ACQ_REL);
}

uint8_t byte_at(uintptr_t address) {
  return __atomic_load_n(reinterpret_cast<const uint8_t*>(address), __ATOMIC_ACQUIRE);
}

uint64_t mixed(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

struct Loaded {
  std::string path;
  uintptr_t base = 0;
};

int note_object(dl_phdr_info* object, size_t, void* argument) {
  static_cast<std::vector<Loaded>*>(argument)->push_back({object->dlpi_name, object->dlpi_addr});
  return 0;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_padding(std::string_view instruction) {
  constexpr std::array kPadding{"nop",   "int3",  "cs nopw", "data16", "xchg   %ax,%ax",
                                "(bad)", ".byte"};
  return std::any_of(kPadding.begin(), kPadding.end(),
                     [&](const char* start) { return instruction.starts_with(start); });
}

// As the kernel calls it for a signal that the thread has sent to itself: here the frame of the
// trap is the one that the interrupted code goes on from.
void interrupt_self(const struct sigaction& handler, pid_t process, void* context) {
  siginfo_t info{};
  info.si_signo = rubato::interrupt_signal();
  info.si_code = SI_TKILL;
  info.si_pid = process;
  handler.sa_sigaction(info.si_signo, &info, context);
}

}  // namespace

Breakpoints::Breakpoints(std::span<const std::string_view> objects) : process_(getpid()) {
  std::vector<Loaded> loaded;
  dl_iterate_phdr(note_object, &loaded);
  std::sort(loaded.begin(), loaded.end(),
            [](const Loaded& a, const Loaded& b) { return a.base < b.base; });
  for (const Loaded& object : loaded) {
    const std::string name = file_name(object.path);
    const bool wanted =
        std::any_of(objects.begin(), objects.end(),
                    [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (!wanted) continue;
    Text text{.name = name, .is_unsafe = rubato::is_unsafe_object(name)};
    read_instructions(text, object.path, object.base);
    if (text.first == text.end) {
      trouble_ = "objdump says nothing of " + object.path;
      return;
    }
    if (!make_writable(text)) {
      trouble_ = "the code of " + name + " cannot be written: " + std::strerror(errno);
      return;
    }
    texts_.push_back(std::move(text));
  }
  met_flags_ = std::vector<std::atomic<uint8_t>>(addresses_.size());
  met_ = std::vector<std::atomic<uint32_t>>(addresses_.size());
}

Breakpoints::~Breakpoints() {
  clear();
  g_breakpoints = nullptr;
}

// Lines of objdump: spaces, the address, a colon, a tab, the instruction.
void Breakpoints::read_instructions(Text& text, const std::string& path, uintptr_t base) {
  text.first = text.end = addresses_.size();
  const std::string command = "objdump -d -j .text --no-show-raw-insn '" + path + "' 2>/dev/null";
  FILE* lines = popen(command.c_str(), "r");
  if (lines == nullptr) return;
  std::array<char, 512> line;
  while (fgets(line.data(), line.size(), lines) != nullptr) {
    char* colon = nullptr;
    const uintptr_t offset = std::strtoull(line.data(), &colon, 16);
    if (colon == line.data() || colon[0] != ':' || colon[1] != '\t' || is_padding(colon + 2)) {
      continue;
    }
    addresses_.push_back(base + offset);
    originals_.push_back(byte_at(base + offset));
  }
  pclose(lines);
  text.end = addresses_.size();
  if (text.first == text.end) return;
  is_unsafe_.resize(addresses_.size(), text.is_unsafe ? 1 : 0);
  text.low = addresses_[text.first];
  text.high = addresses_.back() + 1;
}

bool Breakpoints::make_writable(const Text& text) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t low = text.low / page * page;
  return mprotect(reinterpret_cast<void*>(low), text.high - low,
                  PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

void Breakpoints::set(uint64_t seed) {
  seed_ = seed;
  on_ = true;
  g_breakpoints = this;
  struct sigaction action {};
  action.sa_sigaction = &Breakpoints::on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(rubato::interrupt_signal(), nullptr, &interrupt_handler_);
  sigaction(SIGTRAP, &action, nullptr);
  for (const uintptr_t address : addresses_) exchange_byte(address, kBreakpoint);
}

// Who sets one meanwhile has seen on_; hence twice.
void Breakpoints::clear() {
  if (!on_.exchange(false)) return;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < addresses_.size(); ++i) exchange_byte(addresses_[i], originals_[i]);
    usleep(10'000);
  }
}

size_t Breakpoints::find(uintptr_t address) const {
  const auto at = std::lower_bound(addresses_.begin(), addresses_.end(), address);
  const bool found = at != addresses_.end() && *at == address;
  return found ? static_cast<size_t>(at - addresses_.begin()) : addresses_.size();
}

// In a signal handler of any thread. The interrupt may switch, and return on another thread.
void Breakpoints::on_trap(int, siginfo_t*, void* context) {
  auto& rip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const auto address = static_cast<uintptr_t>(--rip);
  Breakpoints* self = g_breakpoints.load(std::memory_order_acquire);
  const size_t index = self != nullptr ? self->find(address) : 0;
  if (self == nullptr || index == self->addresses_.size()) {
    if (byte_at(address) == kBreakpoint) abort();  // the program's own
  } else if (self->hit(index)) {
    interrupt_self(self->interrupt_handler_, self->process_, context);
  }
}

// Two threads may have come to the same one: the first to put the byte back counts it. False: a
// thread of a store, not a worker.
bool Breakpoints::hit(size_t index) {
  if (exchange_byte(addresses_[index], originals_[index]) == kBreakpoint &&
      met_flags_[index].exchange(1, std::memory_order_relaxed) == 0) {
    const uint32_t place = met_count_.fetch_add(1, std::memory_order_relaxed);
    met_[place].store(static_cast<uint32_t>(index), std::memory_order_relaxed);
  }
  if (rubato::current_worker() == nullptr) return false;
  hits_.fetch_add(1, std::memory_order_relaxed);
  if (!rubato::preemption_disabled() && is_unsafe_[index] == 0) {
    const uint64_t number = free_hits_.fetch_add(1, std::memory_order_relaxed);
    recent_[number % kRecent].store(static_cast<uint32_t>(index), std::memory_order_relaxed);
  }
  choose(kChosenPerHit);
  return true;
}

// One near where a request was interrupted lately, for there others will come soon; now and then
// any that was met at all.
size_t Breakpoints::draw(uint64_t random) const {
  const uint32_t met = met_count_.load(std::memory_order_relaxed);
  const uint64_t recent = std::min<uint64_t>(free_interrupts(), kRecent);
  const uint64_t place = random >> 16;
  if (recent == 0 || random % 8 == 0) return met_[place % met].load(std::memory_order_relaxed);
  const size_t near = recent_[place % recent].load(std::memory_order_relaxed);
  return std::min(near + (random >> 8) % kNear, addresses_.size() - 1);
}

// The oldest choice makes room for the newest, so that what is rarely executed does not use them
// all up. A place that is counted but not yet written names the first instruction of all, which
// does no harm.
void Breakpoints::choose(uint32_t count) {
  if (met_count_.load(std::memory_order_relaxed) == 0) return;
  for (; count > 0 && on_.load(std::memory_order_relaxed); --count) {
    const uint64_t number = choices_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t random = mixed(seed_ ^ mixed(number));
    const size_t index = draw(random);
    if (is_unsafe_[index] != 0 && random >> 60 != 0) continue;
    exchange_byte(addresses_[index], kBreakpoint);
    const uint32_t before = chosen_[number % kChosen].exchange(static_cast<uint32_t>(index + 1));
    if (before != 0) exchange_byte(addresses_[before - 1], originals_[before - 1]);
  }
}

std::vector<Breakpoints::Object> Breakpoints::objects() const {
  std::vector<Object> all;
  for (const Text& text : texts_) {
    const auto begin = met_flags_.begin();
    const auto met = std::count_if(begin + static_cast<ptrdiff_t>(text.first),
                                   begin + static_cast<ptrdiff_t>(text.end),
                                   [](const auto& flag) { return flag.load() != 0; });
    all.push_back({text.name, text.end - text.first, static_cast<uint64_t>(met)});
  }
  return all;
}

}  // namespace torture
