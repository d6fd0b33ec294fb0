// SPDX-License-Identifier: Apache-2.0
//
// DeskCredits: the CreditSource of a server that speaks Rubato RPC. Borrows its desk. Any thread.
#pragma once

#include "rpc/desk.h"
#include "runtime/credit_source.h"

namespace rubato {

class DeskCredits final : public CreditSource {
 public:
  explicit DeskCredits(rpc::CreditDesk& desk) : desk_(desk) {}

  int64_t drained() const override { return desk_.pool().drained(); }
  int64_t sessions() const override { return desk_.pool().sessions(); }
  int64_t outstanding() const override { return desk_.pool().issued() - desk_.pool().pending(); }
  void withhold(int64_t credits) override { desk_.pool().withhold(credits); }
  void give_back(int64_t credits) override { desk_.pool().give_back(credits); }
  CreditReport report() const override;

 private:
  rpc::CreditDesk& desk_;
};

}  // namespace rubato
