// SPDX-License-Identifier: Apache-2.0
//
// CreditSource: the credits that a server's clients hold, as the allocation of cores sees them
// (overload/cores/contract.h, IdleHost). The server that hands out credits lends it to the runtime
// for its life. Any thread, at any time.
#pragma once

#include <cstdint>

namespace rubato {

class CreditSource {
 public:
  virtual ~CreditSource() = default;

  virtual int64_t drained() const = 0;      // sessions told zero credits
  virtual int64_t sessions() const = 0;     // open ones
  virtual int64_t outstanding() const = 0;  // credits told, not in use by a request at the server
  virtual void withhold(int64_t credits) = 0;
  virtual void give_back(int64_t credits) = 0;
};

// Of a CreditPool whose counters are atomic.
template <class Pool>
class PoolCredits final : public CreditSource {
 public:
  explicit PoolCredits(Pool& pool) : pool_(pool) {}

  int64_t drained() const override { return pool_.drained(); }
  int64_t sessions() const override { return pool_.sessions(); }
  int64_t outstanding() const override { return pool_.issued() - pool_.pending(); }
  void withhold(int64_t credits) override { pool_.withhold(credits); }
  void give_back(int64_t credits) override { pool_.give_back(credits); }

 private:
  Pool& pool_;
};

}  // namespace rubato
