// SPDX-License-Identifier: Apache-2.0
//
// For the tests of the parsers of replies.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "load/testing/check_cuts.h"

namespace rubato::load {

// Each is one reply, none of them before its last byte, however all of them are cut.
template <typename Parser>
void expect_replies_however_cut(const std::vector<std::string>& replies) {
  std::string all;
  for (const std::string& reply : replies) {
    EXPECT_EQ(count_replies<Parser>(reply, reply.size()), 1) << reply;
    EXPECT_EQ(count_replies<Parser>(reply.substr(0, reply.size() - 1), 1000), 0) << reply;
    all += reply;
  }
  for (size_t piece : {1u, 2u, 3u, 7u, 64u, 100000u}) {
    EXPECT_EQ(count_replies<Parser>(all, piece), static_cast<int>(replies.size())) << piece;
  }
}

}  // namespace rubato::load
