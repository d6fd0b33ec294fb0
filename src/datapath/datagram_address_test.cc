// SPDX-License-Identifier: Apache-2.0
#include "datapath/datagram_address.h"

#include <gtest/gtest.h>

#include "datapath/tcp_socket.h"

namespace rubato {
namespace {

TEST(DatagramAddress, only_that_of_one_host_is_one) {
  for (const char* one : {"10.0.0.1", "fd77::1", "fe80::1"}) {
    EXPECT_TRUE(is_of_one_host(resolve(one, 1)->storage)) << one;
  }
  for (const char* no : {"127.0.0.1", "0.0.0.0", "239.1.1.1", "255.255.255.255", "::", "::1",
                         "ff02::1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_of_one_host(resolve(no, 1)->storage)) << no;
  }
}

}  // namespace
}  // namespace rubato
