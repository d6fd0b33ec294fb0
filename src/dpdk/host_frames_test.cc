// SPDX-License-Identifier: Apache-2.0
#include "dpdk/host_frames.h"

#include <gtest/gtest.h>
#include <rte_ip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace rubato::dpdk {
namespace {

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at + 1 < text.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(at, 2)), nullptr, 16));
  }
  return bytes;
}

struct Exchange {
  const char* name;
  std::string asked;
  std::string answer;
};

// Between 10.77.0.2 or fd77::2 and the host 10.77.0.1 or fd77::1; another program computed the
// checksums.
const std::vector<Exchange>& exchanges() {
  static const std::vector<Exchange> kAll = {
      {"arp", from_hex("ffffffffffff020000000002080600010800060400010200000000020a4d0002"
                       "0000000000000a4d0001"),
       from_hex("020000000002020000000001080600010800060400020200000000010a4d0001"
                "0200000000020a4d0002")},
      {"echo", from_hex("0200000000010200000000020800450000210001400007015f3f0a4d00020a4d0001"
                        "0800b4250007000168656c6c6f"),
       from_hex("020000000002020000000001080045000021000140004001263f0a4d00010a4d0002"
                "0000bc250007000168656c6c6f")},
      {"tagged echo",
       from_hex("020000000001020000000002810000050800450000210001400007015f3f0a4d00020a4d0001"
                "0800b4250007000168656c6c6f"),
       from_hex("02000000000202000000000181000005080045000021000140004001263f0a4d00010a4d0002"
                "0000bc250007000168656c6c6f")},
      {"echo of IPv6",
       from_hex("02000000000102000000000286dd60000000000d3a09fd77000000000000000000000000"
                "0002fd770000000000000000000000000001800040eb0007000168656c6c6f"),
       from_hex("02000000000202000000000186dd60000000000d3a40fd77000000000000000000000000"
                "0001fd77000000000000000000000000000281003feb0007000168656c6c6f")},
      {"solicitation",
       from_hex("3333ff00000102000000000286dd6000000000203afffd77000000000000000000000000"
                "0002ff0200000000000000000001ff00000187007ca900000000fd770000000000000000"
                "0000000000010101020000000002"),
       from_hex("02000000000202000000000186dd6000000000203afffd77000000000000000000000000"
                "0001fd770000000000000000000000000002" "88001b3760000000fd7700000000000000"
                "00000000000001" "0201020000000001")},
      {"solicitation of who has no address",
       from_hex("3333ff00000102000000000286dd6000000000183aff0000000000000000000000000000"
                "0000ff0200000000000000000001ff00000187007d2e00000000fd770000000000000000"
                "000000000001"),
       from_hex("33330000000102000000000186dd6000000000203afffd77000000000000000000000000"
                "0001ff020000000000000000000000000001880059ad20000000fd770000000000000000"
                "0000000000010201020000000001")},
  };
  return kAll;
}

HostAddress host_for(bool ipv6) {
  HostAddress host = host_of(resolve(ipv6 ? "fd77::1" : "10.77.0.1", 7777).value());
  host.mac = {2, 0, 0, 0, 0, 1};
  return host;
}

// The answer by a host of either family; empty = there is none.
std::string answer_to(std::string frame) {
  std::string answer;
  for (const bool ipv6 : {false, true}) {
    std::string bytes = frame + std::string(kMostAnswerGrowth, 0);
    SortedFrame sorted;
    sort_frame(bytes.data(), frame.size(), host_for(ipv6), sorted);
    if (sorted.kind == FrameKind::kAnswer) answer += bytes.substr(0, sorted.answer_bytes);
  }
  return answer;
}

FrameKind kind_of(std::string bytes, bool ipv6 = false) {
  bytes.resize(bytes.size() + kMostAnswerGrowth);
  SortedFrame sorted;
  sort_frame(bytes.data(), bytes.size() - kMostAnswerGrowth, host_for(ipv6), sorted);
  return sorted.kind;
}

std::string datagram(bool ipv6, uint16_t to_port = 7777, uint8_t from = 2) {
  DatagramPeer server;
  server.ipv6 = ipv6;
  server.address = host_for(ipv6).ip;
  server.local = server.address;
  server.local[ipv6 ? 15 : 3] = from;
  server.port = to_port;
  server.local_port = 40000;
  server.mac = {2, 0, 0, 0, 0, 1};
  server.local_mac = {2, 0, 0, 0, 0, 2};
  std::string bytes(xdp::kMostHeaderBytes, 0);
  bytes += "request";
  char* const payload = bytes.data() + xdp::kMostHeaderBytes;
  return bytes.substr(
      static_cast<size_t>(xdp::write_headers(payload, 7, server) - bytes.data()));
}

TEST(HostFrames, a_host_answers) {
  for (const Exchange& exchange : exchanges()) {
    EXPECT_EQ(answer_to(exchange.asked), exchange.answer) << exchange.name;
    EXPECT_EQ(answer_to(exchange.answer), "") << exchange.name;
  }
}

TEST(HostFrames, padding_is_not_sent_back) {
  for (const Exchange& exchange : exchanges()) {
    EXPECT_EQ(answer_to(exchange.asked + std::string(20, 'x')), exchange.answer) << exchange.name;
  }
}

// Each byte is part of an address, a checksum or of what makes it this request, but for those that
// an answer copies.
TEST(HostFrames, a_changed_byte_is_noticed) {
  const auto changed = [](const std::string& frame, size_t at) {
    std::string bytes = frame;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x11);
    return bytes;
  };
  for (const Exchange& exchange : exchanges()) {
    const size_t headers = exchange.asked[12] == '\x81' ? 18 : 14;
    const size_t first = exchange.name == std::string("arp") ? headers : headers + 6;
    for (size_t at = first; at < exchange.asked.size(); ++at) {
      const bool copied = exchange.name == std::string("arp") && at >= 22 && at < 38;
      const bool hops = at == headers + 7 && exchange.name == std::string("echo of IPv6");
      if (copied || hops) continue;
      EXPECT_NE(answer_to(changed(exchange.asked, at)), exchange.answer)
          << exchange.name << " byte " << at;
    }
    EXPECT_EQ(answer_to(changed(exchange.asked, exchange.asked.size() - 1)), "") << exchange.name;
  }
}

// Of a message whose checksum comes out as zero, which ICMPv6 sends as it is (only UDP does not).
TEST(HostFrames, a_checksum_of_zero_is_one) {
  const Exchange& echo = exchanges()[3];
  ASSERT_EQ(echo.name, std::string("echo of IPv6"));
  std::string asked = echo.asked;
  const auto put = [&asked](size_t at, unsigned word) {
    asked[at] = static_cast<char>(word >> 8);
    asked[at + 1] = static_cast<char>(word);
  };
  // The checksum's bits move to the identifier: the sum stays.
  put(58, 0x40eb + 0x0007);
  put(56, 0);
  const std::string answer = answer_to(asked);
  ASSERT_EQ(answer.size(), echo.answer.size());
  EXPECT_EQ(answer.substr(58), asked.substr(58));
}

// Such a source is no host that could be told.
TEST(HostFrames, solicitations_from_groups_and_loopback_are_not_answered) {
  const std::string& asked = exchanges()[4].asked;
  ASSERT_FALSE(answer_to(asked).empty());
  const auto changed_source = [&asked](std::array<uint8_t, 16> source, unsigned checksum) {
    std::string bytes = asked;
    std::copy(source.begin(), source.end(), bytes.begin() + 22);
    bytes[56] = static_cast<char>(checksum >> 8);
    bytes[57] = static_cast<char>(checksum);
    return bytes;
  };
  // fd77::2 adds fd77 + 2 to the sum, of which 7ca9 is the complement.
  EXPECT_EQ(answer_to(changed_source({0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
                                     0x7ca9 + 0xfd79 - 0xff03)),
            "");
  EXPECT_EQ(answer_to(changed_source({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
                                     0x7ca9 + 0xfd79 - 1 - 0xffff)),
            "");
}

TEST(HostFrames, what_comes_from_a_group_is_not_answered) {
  for (const Exchange& exchange : exchanges()) {
    std::string asked = exchange.asked;
    asked[6] = static_cast<char>(asked[6] | 1);
    EXPECT_EQ(answer_to(asked), "") << exchange.name;
  }
  std::string frame = datagram(false);
  frame[6] = 1;
  EXPECT_EQ(kind_of(frame), FrameKind::kOther);
}

TEST(HostFrames, what_is_cut_off_is_not_answered) {
  for (const Exchange& exchange : exchanges()) {
    for (size_t size = 0; size < exchange.asked.size(); ++size) {
      EXPECT_EQ(answer_to(exchange.asked.substr(0, size)), "") << exchange.name << " " << size;
    }
  }
}

TEST(HostFrames, a_host_answers_who_asks_for_it) {
  for (const bool ipv6 : {false, true}) {
    const HostAddress asked = host_for(ipv6);
    HostAddress asker = asked;
    asker.ip[ipv6 ? 15 : 3] = 2;
    asker.mac = {2, 0, 0, 0, 0, 2};
    std::array<char, kMostQuestionBytes + kMostAnswerGrowth> frame{};
    const size_t size = ask_for_neighbour(frame.data(), asker, asked.ip);
    ASSERT_LE(size, kMostQuestionBytes);
    const std::string question(frame.data(), size);
    SortedFrame sorted;
    sort_frame(frame.data(), size, asked, sorted);
    ASSERT_EQ(sorted.kind, FrameKind::kAnswer);
    const std::string answer(frame.data(), sorted.answer_bytes);
    sort_frame(frame.data(), answer.size(), asker, sorted);
    ASSERT_EQ(sorted.kind, FrameKind::kNeighbour);
    EXPECT_EQ(sorted.datagram.peer.address, asked.ip);
    EXPECT_EQ(sorted.datagram.peer.mac, asked.mac);
    EXPECT_EQ(sorted.datagram.peer.ipv6, ipv6);
    // Nor is it for another host, nor answered once more.
    std::string again = answer + std::string(kMostAnswerGrowth, 0);
    sort_frame(again.data(), answer.size(), asked, sorted);
    EXPECT_EQ(sorted.kind, FrameKind::kOther);
    EXPECT_EQ(answer_to(question), answer);
  }
}

TEST(HostFrames, a_host_of_several_ports_takes_no_others) {
  HostAddress host = host_for(false);
  host.ports = 3;
  for (const auto& [port, kind] : {std::pair(7776, FrameKind::kOther),
                                   std::pair(7777, FrameKind::kDatagram),
                                   std::pair(7779, FrameKind::kDatagram),
                                   std::pair(7780, FrameKind::kOther)}) {
    std::string bytes = datagram(false, static_cast<uint16_t>(port));
    SortedFrame sorted;
    sort_frame(bytes.data(), bytes.size(), host, sorted);
    EXPECT_EQ(sorted.kind, kind) << port;
  }
}

TEST(HostFrames, datagrams_for_the_server_are_told_from_others) {
  for (const bool ipv6 : {false, true}) {
    EXPECT_EQ(kind_of(datagram(ipv6), ipv6), FrameKind::kDatagram);
    EXPECT_EQ(kind_of(datagram(ipv6), !ipv6), FrameKind::kOther);
    EXPECT_EQ(kind_of(datagram(ipv6, 7778), ipv6), FrameKind::kOther);
    EXPECT_EQ(kind_of(datagram(ipv6, 7777, 1), ipv6), FrameKind::kOther) << "from the host itself";
    std::string another = datagram(ipv6);
    another[5] = 9;
    EXPECT_EQ(kind_of(another, ipv6), FrameKind::kOther);
    std::string by_a_group = datagram(ipv6);
    by_a_group[6] = 3;
    EXPECT_EQ(kind_of(by_a_group, ipv6), FrameKind::kOther);
    const std::string short_one = datagram(ipv6);
    EXPECT_EQ(kind_of(short_one.substr(0, short_one.size() - 1), ipv6), FrameKind::kMalformed);
  }
}

TEST(HostFrames, fragments_are_told_from_malformed_datagrams) {
  std::string frame = datagram(false);
  frame[20] = 0x20;
  EXPECT_EQ(kind_of(frame), FrameKind::kFragment);
  frame = datagram(false);
  frame[25] = static_cast<char>(frame[25] + 1);
  EXPECT_EQ(kind_of(frame), FrameKind::kMalformed);
  frame = datagram(true);
  frame[20] = 44;
  EXPECT_EQ(kind_of(frame, true), FrameKind::kFragment);
}

// What is left to hardware is what DPDK leaves to it, and what is not is what DPDK computes.
TEST(HostFrames, checksums_are_those_of_dpdk) {
  constexpr uint64_t kByCard = RTE_MBUF_F_TX_UDP_CKSUM;
  for (const bool ipv6 : {false, true}) {
    DatagramPeer peer;
    peer.ipv6 = ipv6;
    peer.port = 40000;
    peer.local_port = 7777;
    for (size_t i = 0; i < 16; ++i) {
      peer.address[i] = static_cast<uint8_t>(0xf1 + i);
      peer.local[i] = static_cast<uint8_t>(0xa7 * i + 3);
    }
    for (const auto how : {xdp::UdpChecksum::kWhole, xdp::UdpChecksum::kPseudoHeader}) {
      alignas(8) std::array<char, 256> bytes{};
      char* const payload = bytes.data() + 128;
      std::memcpy(payload, "payload", 7);
      char* const ip = xdp::write_headers(payload, 7, peer, how) + 14;
      uint16_t written = 0;
      std::memcpy(&written, payload - 2, 2);
      const auto& ip4 = *reinterpret_cast<const rte_ipv4_hdr*>(ip);
      const auto& ip6 = *reinterpret_cast<const rte_ipv6_hdr*>(ip);
      if (how == xdp::UdpChecksum::kPseudoHeader) {
        EXPECT_EQ(written, ipv6 ? rte_ipv6_phdr_cksum(&ip6, kByCard)
                                : rte_ipv4_phdr_cksum(&ip4, kByCard));
      } else {
        std::memset(payload - 2, 0, 2);
        EXPECT_EQ(written, ipv6 ? rte_ipv6_udptcp_cksum(&ip6, payload - 8)
                                : rte_ipv4_udptcp_cksum(&ip4, payload - 8));
      }
    }
  }
}

}  // namespace
}  // namespace rubato::dpdk
