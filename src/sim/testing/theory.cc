// SPDX-License-Identifier: Apache-2.0
#include "sim/testing/theory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace rubato::sim::theory {
namespace {

constexpr double kNegligible = 1e-15;

// Poisson probabilities from 0 up to where they no longer matter.
std::vector<double> poisson(double mean) {
  std::vector<double> p;
  for (double n = 0; n < mean || p.back() > kNegligible; ++n) {
    p.push_back(std::exp(n * std::log(mean) - mean - std::lgamma(n + 1)));
  }
  return p;
}

}  // namespace

double erlang_c(uint32_t workers, double rho) {
  const double offered = rho * workers;
  double blocked = 1;  // Erlang's B
  for (uint32_t k = 1; k <= workers; ++k) blocked = offered * blocked / (k + offered * blocked);
  return blocked / (1 - rho * (1 - blocked));
}

double quantile(const std::function<double(double)>& tail, double share) {
  if (tail(0) <= share) return 0;
  double low = 0, high = 1;
  while (tail(high) > share) low = high, high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (tail(middle) > share ? low : high) = middle;
  }
  return high;
}

MMk::MMk(uint32_t workers, double rho)
    : waits_(erlang_c(workers, rho)), spare_(workers * (1 - rho)) {}

double MMk::wait_tail(double t) const { return waits_ * std::exp(-spare_ * t); }

// Wait and service are independent, so this is their convolution.
double MMk::sojourn_tail(double t) const {
  const double served = std::exp(-t);
  if (std::abs(spare_ - 1) < 1e-9) return served * (1 + waits_ * t);
  const double both = (spare_ * served - std::exp(-spare_ * t)) / (spare_ - 1);
  return (1 - waits_) * served + waits_ * both;
}

MDk::MDk(uint32_t workers, double rho) : workers_(workers), rate_(rho * workers) {
  const std::vector<double> arrivals = poisson(rate_);
  // Beyond k the probabilities fall at least as fast as those of M/M/k, by rho each.
  const size_t states =
      workers + arrivals.size() + static_cast<size_t>(std::log(kNegligible) / std::log(rho));
  std::vector<double>& p = in_system_;
  p.assign(states, 0);
  p[static_cast<size_t>(rate_)] = 1;
  std::vector<double> after(states);
  for (double change = 1; change > 1e-13;) {
    std::fill(after.begin(), after.end(), 0);
    for (size_t i = 0; i < states; ++i) {
      if (p[i] < 1e-30) continue;
      const size_t kept = i > workers ? i - workers : 0;
      const size_t most = std::min(arrivals.size(), states - kept);
      for (size_t n = 0; n < most; ++n) after[kept + n] += p[i] * arrivals[n];
    }
    const double total = std::accumulate(after.begin(), after.end(), 0.0);
    change = 0;
    for (size_t i = 0; i < states; ++i) {
      change = std::max(change, std::abs(after[i] / total - p[i]));
      p[i] = after[i] / total;
    }
  }
  double sum = std::accumulate(p.begin(), p.begin() + workers, 0.0);
  for (size_t i = workers; i < states; ++i) queued_.push_back(sum += p[i]);
}

double MDk::waits() const {
  return 1 - std::accumulate(in_system_.begin(), in_system_.begin() + workers_, 0.0);
}

double MDk::mean_wait() const {
  double queued = 0;
  for (size_t i = workers_; i < in_system_.size(); ++i) {
    queued += static_cast<double>(i - workers_) * in_system_[i];
  }
  return queued / rate_;  // Little
}

double MDk::wait_tail(double t) const {
  const double m = std::floor(t) + 1;
  const double mean = rate_ * (m - t);
  const size_t terms = static_cast<size_t>(m) * workers_;
  const std::vector<double> p = poisson(mean);
  double served = 0;
  for (size_t j = 0; j < std::min(terms, p.size()); ++j) {
    const size_t at_most = terms - 1 - j;
    served += (at_most < queued_.size() ? queued_[at_most] : 1) * p[j];
  }
  return 1 - served;
}

double pollaczek_khinchine(double rho, double scv) { return rho * (1 + scv) / (2 * (1 - rho)); }

MH21::MH21(double p, double m1, double m2, double rho) {
  RUBATO_CHECK(std::abs(p * m1 + (1 - p) * m2 - 1) < 1e-9);
  const double a = 1 / m1, b = 1 / m2;
  // Poles of (1-rho)(s+a)(s+b) / (s^2 + (a+b-rho) s + ab(1-rho)).
  const double half = (a + b - rho) / 2;
  const double root = std::sqrt(half * half - a * b * (1 - rho));
  rates_[0] = half - root;
  rates_[1] = half + root;
  for (int i = 0; i < 2; ++i) {
    const double r = rates_[i], other = rates_[1 - i];
    weights_[i] = (1 - rho) * (a - r) * (b - r) / (other - r) / r;
  }
}

double MH21::wait_tail(double t) const {
  return weights_[0] * std::exp(-rates_[0] * t) + weights_[1] * std::exp(-rates_[1] * t);
}

std::vector<double> cobham(std::span<const Class> classes) {
  double residual = 0;
  for (const Class& c : classes) residual += c.load / c.mean * c.second / 2;
  std::vector<double> waits;
  double above = 0;
  for (const Class& c : classes) {
    waits.push_back(residual / (1 - above) / (1 - above - c.load));
    above += c.load;
  }
  return waits;
}

std::vector<double> preemptive_resume(std::span<const Class> classes) {
  std::vector<double> sojourns;
  double above = 0, residual = 0;
  for (const Class& c : classes) {
    residual += c.load / c.mean * c.second / 2;
    const double wait = residual / (1 - above) / (1 - above - c.load);
    sojourns.push_back(c.mean / (1 - above) + wait);
    above += c.load;
  }
  return sojourns;
}

std::vector<double> cobham(uint32_t workers, std::span<const double> loads) {
  const double rho = std::accumulate(loads.begin(), loads.end(), 0.0);
  const double start = erlang_c(workers, rho) / workers;
  std::vector<double> waits;
  double above = 0;
  for (const double load : loads) {
    waits.push_back(start / (1 - above) / (1 - above - load));
    above += load;
  }
  return waits;
}

std::vector<double> preemptive_resume(uint32_t workers, std::span<const double> loads) {
  std::vector<double> sojourns;
  double above = 0, in_system_above = 0;
  for (const double load : loads) {
    above += load;
    const double in_system = workers * above * (1 + MMk(workers, above).mean_wait());
    sojourns.push_back((in_system - in_system_above) / (workers * load));
    in_system_above = in_system;
  }
  return sojourns;
}

}  // namespace rubato::sim::theory
