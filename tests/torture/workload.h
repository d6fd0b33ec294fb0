// SPDX-License-Identifier: Apache-2.0
//
// Workloads of the torture test: functions of a seed whose result must not depend on whether, where
// and how often they were interrupted, nor on which thread they went on. Ordinary code: it includes
// nothing of ours, and what it calls knows nothing of fibers. A result is a checksum of everything
// that was computed; what would only go wrong by being interrupted (a lock that let two in, a
// thread-local that changed) is part of it. Any thread; prepare_stores() once before the stores.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace torture {

struct Workload {
  std::string name;
  std::function<uint64_t(uint64_t seed)> run;
  // Relies on thread-local storage that nobody else uses meanwhile: only for fibers that have
  // their own.
  bool own_thread_locals = false;
};

std::span<const Workload> workloads();
// For the survey: foreign work of other kinds, and calls of the C++ library.
std::span<const Workload> foreign_work();
std::span<const Workload> survey_of_cpp();

// Opens the two key-value stores in `folder`, which exists and is empty, and fills them. Returns
// what went wrong, or nothing.
std::string prepare_stores(const std::string& folder);
void close_stores();

// A checksum (FNV-1a) and a source of random numbers (xorshift64*), inlined into what uses them.
class Sum {
 public:
  void add(uint64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<uint8_t>(c));
    add(text.size());
  }
  uint64_t value() const { return sum_; }

 private:
  void byte(uint8_t b) { sum_ = (sum_ ^ b) * 0x100000001b3u; }
  uint64_t sum_ = 0xcbf29ce484222325u;
};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {
    if (state_ == 0) state_ = 1;
  }
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

// By file: workloads_cpp.cc, workloads_libc.cc, workloads_locks.cc, workloads_stores.cc.
uint64_t exceptions(uint64_t seed);
uint64_t functions(uint64_t seed);
uint64_t regular_expressions(uint64_t seed);
uint64_t streams(uint64_t seed);
uint64_t formatting(uint64_t seed);
uint64_t containers(uint64_t seed);

uint64_t allocation(uint64_t seed);
uint64_t sorting(uint64_t seed);
uint64_t floating_point(uint64_t seed);
uint64_t vectors(uint64_t seed);
uint64_t thread_locals(uint64_t seed);
uint64_t error_numbers(uint64_t seed);
uint64_t locales(uint64_t seed);

uint64_t nested_locks(uint64_t seed);
uint64_t conditions(uint64_t seed);
uint64_t once(uint64_t seed);

uint64_t rocksdb(uint64_t seed);
uint64_t leveldb(uint64_t seed);

}  // namespace torture
