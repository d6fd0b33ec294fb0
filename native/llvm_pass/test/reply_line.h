// SPDX-License-Identifier: Apache-2.0
//
// reply_line(): the next line that a client of the loopback receives, without its end. Waits for
// it; empty if the server is gone. One thread per client.
#pragma once

#include <rubato/rubato.hpp>

#include <string>

inline std::string reply_line(rubato::LoopbackClient& client) {
  std::string text;
  for (std::string byte = client.receive(1); !byte.empty() && byte != "\n";
       byte = client.receive(1)) {
    if (byte != "\r") text += byte;
  }
  return text;
}
