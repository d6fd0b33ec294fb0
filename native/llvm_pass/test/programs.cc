// SPDX-License-Identifier: Apache-2.0
//
// Features that are hard for compilers, in one program: exceptions, jumps out of frames,
// variable-length arrays, computed gotos, coroutines, vector loops, variadic functions. Prints a
// checksum per part, which must be the same with checkpoints compiled in and with every one of them
// taken; the slow path then overwrites every register that an ordinary call may overwrite.
#include <alloca.h>
#include <setjmp.h>

#include <array>
#include <coroutine>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "mechanism/preempt/checkpoint.h"

namespace {

uint64_t g_taken = 0;

RUBATO_NO_PREEMPT bool overwrite_registers() {
  ++g_taken;
  asm volatile(
      "mov $0x5a5a5a5a5a5a5a5a, %%rax\n mov %%rax, %%rcx\n mov %%rax, %%rdx\n"
      "mov %%rax, %%rsi\n mov %%rax, %%rdi\n mov %%rax, %%r8\n mov %%rax, %%r9\n"
      "mov %%rax, %%r10\n mov %%rax, %%r11\n pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n"
      "pcmpeqd %%xmm2, %%xmm2\n pcmpeqd %%xmm3, %%xmm3\n pcmpeqd %%xmm4, %%xmm4\n"
      "pcmpeqd %%xmm5, %%xmm5\n pcmpeqd %%xmm6, %%xmm6\n pcmpeqd %%xmm7, %%xmm7\n"
      "pcmpeqd %%xmm8, %%xmm8\n pcmpeqd %%xmm9, %%xmm9\n pcmpeqd %%xmm10, %%xmm10\n"
      "pcmpeqd %%xmm11, %%xmm11\n pcmpeqd %%xmm12, %%xmm12\n pcmpeqd %%xmm13, %%xmm13\n"
      "pcmpeqd %%xmm14, %%xmm14\n pcmpeqd %%xmm15, %%xmm15\n" ::
          : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
            "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
            "xmm13", "xmm14", "xmm15", "cc");
  if (__builtin_cpu_supports("avx")) asm volatile(".byte 0xc5, 0xf8, 0x77" ::: "memory");
  rubato::checkpoint_budget_set(0);
  return false;
}

uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3; }

struct Guard {
  explicit Guard(uint64_t& count) : count_(count) {}
  ~Guard() { ++count_; }
  uint64_t& count_;
};

__attribute__((noinline)) int depth_charge(int depth, uint64_t& unwound) {
  const Guard guard(unwound);
  if (depth == 0) throw std::out_of_range("deep enough");
  return depth_charge(depth - 1, unwound) + 1;
}

uint64_t exceptions() {
  uint64_t hash = 1, unwound = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      depth_charge(i % 20, unwound);
    } catch (const std::out_of_range& error) {
      for (const char c : std::string(error.what())) hash = mix(hash, static_cast<uint8_t>(c));
      try {
        throw i;
      } catch (int number) {
        for (int j = 0; j < number; ++j) hash = mix(hash, static_cast<uint64_t>(j));
      }
    }
  }
  return mix(hash, unwound);
}

jmp_buf g_back;

__attribute__((noinline)) void jump_after(int steps) {
  for (volatile int i = 0; i < steps; i = i + 1) {
    if (i == steps - 1) longjmp(g_back, i + 1);
  }
}

uint64_t long_jumps() {
  volatile uint64_t hash = 2;
  for (volatile int i = 1; i < 100; i = i + 1) {
    const int came_with = setjmp(g_back);
    if (came_with == 0) jump_after(i);
    hash = mix(hash, static_cast<uint64_t>(came_with));
  }
  return hash;
}

uint64_t variable_arrays() {
  uint64_t hash = 3;
  for (size_t size = 1; size < 200; ++size) {
    auto* words = static_cast<uint64_t*>(alloca(size % 50 * sizeof(uint64_t) + 8));
    for (size_t i = 0; i <= size % 50; ++i) words[i] = hash + i;
    for (size_t i = 0; i <= size % 50; ++i) hash = mix(hash, words[size % 50 - i]);
  }
  return hash;
}

uint64_t computed_jumps() {
  static const std::array<uint8_t, 8> program{0, 1, 2, 1, 0, 3, 2, 0};
  static void* const targets[] = {&&add, &&shift, &&flip, &&skip};
  uint64_t value = 4;
  size_t at = 0, steps = 0;
next:
  if (++steps > 5000) return value;
  goto* targets[program[at++ % program.size()]];
add:
  value += steps;
  goto next;
shift:
  value = value << 3 | value >> 61;
  goto next;
flip:
  value ^= 0x123456789;
  goto next;
skip:
  at += value % 3;
  goto next;
}

uint64_t vectors() {
  std::vector<float> a(5000), b(5000);
  std::vector<int16_t> small(5000);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 97);
    b[i] = static_cast<float>(i % 89) / 7;
    small[i] = static_cast<int16_t>(i * 31);
  }
  float sum = 0, product = 1;
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < a.size(); ++i) b[i] = a[i] * 0.5f + b[i];
    for (size_t i = a.size(); i-- > 0;) sum += a[i] > 40 ? b[i] : -b[i];
    for (size_t i = 0; i < a.size(); i += 3) product = product * 0.99f + b[i];
    for (auto& each : small) each = static_cast<int16_t>(each * 3 + round);
  }
  uint64_t hash = 0;
  for (const int16_t each : small) hash += static_cast<uint16_t>(each);
  uint32_t bits[2];
  memcpy(&bits[0], &sum, 4);
  memcpy(&bits[1], &product, 4);
  return mix(mix(hash, bits[0]), bits[1]);
}

__attribute__((noinline)) double add_all(int count, ...) {
  va_list arguments;
  va_start(arguments, count);
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += i % 2 == 0 ? va_arg(arguments, double) : va_arg(arguments, int);
  }
  va_end(arguments);
  return sum;
}

uint64_t variadic() {
  double sum = 0;
  for (int i = 0; i < 50; ++i) sum += add_all(8, 1.5, i, 2.25, i * 2, 0.125, 7, i / 3.0, -i);
  uint64_t bits;
  memcpy(&bits, &sum, 8);
  return bits;
}

struct Numbers {
  struct promise_type {
    uint64_t value = 0;
    Numbers get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(uint64_t now) {
      value = now;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> handle;
};

Numbers squares(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t square = 0;
    for (uint64_t j = 0; j < i; ++j) square += i;
    co_yield square;
  }
}

uint64_t coroutines() {
  Numbers numbers = squares(60);
  uint64_t hash = 5;
  while (numbers.handle.resume(), !numbers.handle.done()) {
    hash = mix(hash, numbers.handle.promise().value);
  }
  numbers.handle.destroy();
  return hash;
}

uint64_t copies() {
  std::vector<uint8_t> bytes(200'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
  uint64_t hash = 6;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16384}, size_t{16385}, size_t{99'999}}) {
    memcpy(bytes.data() + 100'001, bytes.data(), size);
    memmove(bytes.data() + 3, bytes.data(), size);
    memmove(bytes.data(), bytes.data() + 5, size);
    memset(bytes.data() + 150'000, static_cast<int>(size), size / 2);
    for (const uint8_t byte : bytes) hash = mix(hash, byte);
  }
  return hash;
}

uint64_t library() {
  std::ostringstream out;
  for (int i = 0; i < 100; ++i) out << i << ' ' << i / 7.0 << '\n';
  uint64_t hash = 7;
  for (const char c : out.str()) hash = mix(hash, static_cast<uint8_t>(c));
  return hash;
}

}  // namespace

// With an argument, every checkpoint is taken.
int main(int argc, char**) {
  if (argc > 1) {
    rubato::checkpoint_set_handler(&overwrite_registers);
    rubato::checkpoint_budget_set(0);
  }
  const struct {
    const char* name;
    uint64_t (*run)();
  } parts[] = {{"exceptions", exceptions}, {"long jumps", long_jumps},
               {"variable arrays", variable_arrays}, {"computed jumps", computed_jumps},
               {"vectors", vectors}, {"variadic", variadic}, {"coroutines", coroutines},
               {"copies", copies}, {"library", library}};
  for (const auto& part : parts) {
    std::printf("%s %016llx\n", part.name, static_cast<unsigned long long>(part.run()));
  }
  std::fprintf(stderr, "%llu\n", static_cast<unsigned long long>(g_taken));
  return 0;
}
