// SPDX-License-Identifier: Apache-2.0
//
// What queueing theory says of simulated systems, in exact form: closed formulas, and for
// deterministic service a stationary distribution that is computed to rounding. The oracle of the
// simulator's tests. Time is counted in mean service times, `rho` is the load per worker (below 1).
// Pure functions and plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace rubato::sim::theory {

// The probability that an arrival of M/M/k waits: Erlang's C, through the recursion for his B
// (Erlang 1917; the recursion is stable for every k).
double erlang_c(uint32_t workers, double rho);

// Where a falling tail function P(T > t) reaches `share` (0.001 for the 99.9th percentile).
double quantile(const std::function<double(double)>& tail, double share);

// M/M/k, first come first served.
class MMk {
 public:
  MMk(uint32_t workers, double rho);
  double waits() const { return waits_; }  // probability
  double mean_wait() const { return waits_ / spare_; }
  double wait_tail(double t) const;
  double sojourn_tail(double t) const;

 private:
  double waits_;
  double spare_;  // k (1 - rho): the rate at which a backlog drains
};

// M/D/k. The number in system, seen once per service time, is a Markov chain (Crommelin 1932),
// iterated here until it stands still; from it the distribution of waits by the formula of Franx
// ("A simple solution for the M/D/c waiting time distribution", 2001), which has no negative terms.
class MDk {
 public:
  MDk(uint32_t workers, double rho);
  double waits() const;
  double mean_wait() const;
  double wait_tail(double t) const;

 private:
  uint32_t workers_;
  double rate_;              // arrivals per service time
  std::vector<double> in_system_;   // probabilities
  std::vector<double> queued_;      // probability of at most i queued
};

// The mean wait of M/G/1 (Pollaczek 1930, Khinchine 1932). `scv` is the squared coefficient of
// variation of the service time.
double pollaczek_khinchine(double rho, double scv);

// M/H2/1: a share `p` of exponential services of mean m1, the others of mean m2, where
// p m1 + (1 - p) m2 = 1. The wait is a mixture of two exponentials: partial fractions of the
// Pollaczek-Khinchine transform.
class MH21 {
 public:
  MH21(double p, double m1, double m2, double rho);
  double wait_tail(double t) const;

 private:
  double rates_[2];
  double weights_[2];
};

// A class of requests of a system with priorities; the first class is the most urgent one.
struct Class {
  double load;    // its part of rho
  double mean;    // of its service time
  double second;  // E[S^2] of its service time
};

// Mean wait per class of M/G/1 with priorities and without preemption (Cobham 1954).
std::vector<double> cobham(std::span<const Class> classes);

// Mean sojourn per class of M/G/1 where urgent requests preempt and the others resume later
// (Conway, Maxwell and Miller, "Theory of Scheduling", 1967, section 8-6).
std::vector<double> preemptive_resume(std::span<const Class> classes);

// The same two for k workers and one exponential service time of mean 1 for all classes. Without
// preemption by Cobham; with it, the classes up to any one are an M/M/k that sees no others.
std::vector<double> cobham(uint32_t workers, std::span<const double> loads);
std::vector<double> preemptive_resume(uint32_t workers, std::span<const double> loads);

}  // namespace rubato::sim::theory
