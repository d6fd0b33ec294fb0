// SPDX-License-Identifier: Apache-2.0
//
// Breakpoints: interrupts whoever executes one of many instructions, chosen at random, of objects
// that are loaded: the program's libraries as the distribution built them. An instruction is chosen
// by writing a breakpoint over its first byte; who comes there traps, the byte is put back, others
// are chosen, and the trap is handed to the interrupt handler of mechanism/preempt/signal.h, which
// finds in it a thread that was stopped before that very instruction. One costs some microseconds,
// where single steps cost 10 us each.
//
// First every instruction has one, so that all that are executed are met once. Later ones are
// chosen among those that have been met; rarely where an interrupt is only put off (code_map.h).
//
// One at a time. The signal SIGTRAP is taken meanwhile, and must not be blocked by code of these
// objects. Where instructions begin is asked of objdump.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torture {

class Breakpoints {
 public:
  struct Object {
    std::string name;
    uint64_t instructions = 0;
    uint64_t met = 0;  // of these
  };

  // In the loaded objects whose file names begin like this.
  explicit Breakpoints(std::span<const std::string_view> objects);
  ~Breakpoints();
  Breakpoints(const Breakpoints&) = delete;
  Breakpoints& operator=(const Breakpoints&) = delete;

  // Empty, or why none can be set.
  const std::string& trouble() const { return trouble_; }

  // From here on whoever runs is interrupted: once at every instruction, and then again and again.
  void set(uint64_t seed);
  // Some more. To be called now and then by who is not interrupted, lest all that are chosen are
  // where nobody comes any more.
  void choose(uint32_t count);
  // No more. Threads may still be on their way out of one.
  void clear();

  uint64_t interrupts() const { return hits_.load(std::memory_order_relaxed); }
  // Of these, where a request is at work that may be left there: in no region, and in safe code.
  uint64_t free_interrupts() const { return free_hits_.load(std::memory_order_relaxed); }
  std::vector<Object> objects() const;

 private:
  struct Text {  // of one object
    std::string name;
    bool is_unsafe = false;
    uintptr_t low = 0;
    uintptr_t high = 0;
    size_t first = 0;  // its instructions in addresses_
    size_t end = 0;
  };
  static void on_trap(int number, siginfo_t* info, void* context);

  void read_instructions(Text& text, const std::string& path, uintptr_t base);
  bool make_writable(const Text& text);
  size_t find(uintptr_t address) const;
  bool hit(size_t index);
  size_t draw(uint64_t random) const;

  static constexpr uint32_t kChosen = 4096;  // at a time, of those that have been met
  static constexpr uint32_t kRecent = 4096;

  const pid_t process_;
  struct sigaction interrupt_handler_ {};  // the runtime's
  std::vector<Text> texts_;
  std::vector<uintptr_t> addresses_;  // of instructions, ascending
  std::vector<uint8_t> originals_;    // their first bytes
  std::vector<uint8_t> is_unsafe_;
  std::vector<std::atomic<uint8_t>> met_flags_;
  std::vector<std::atomic<uint32_t>> met_;  // indices, in the order in which they were met
  std::atomic<uint32_t> met_count_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> free_hits_{0};
  std::array<std::atomic<uint32_t>, kChosen> chosen_{};  // index + 1
  std::atomic<uint64_t> choices_{0};
  std::array<std::atomic<uint32_t>, kRecent> recent_{};  // where requests were interrupted lately
  std::atomic<bool> on_{false};
  uint64_t seed_ = 0;
  std::string trouble_;
};

}  // namespace torture
