// SPDX-License-Identifier: Apache-2.0
#include "xdp/frame_headers.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "base/prng.h"

namespace rubato::xdp {
namespace {

std::string from_hex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

// From 10.77.0.2:40000 to 10.77.0.1:7777, "ping"; another program computed the checksums.
const std::string kIpv4 = from_hex(
    "020000000001 020000000002 0800"
    "4500 0020 0001 4000 4011 2630 0a4d0002 0a4d0001"
    "9c40 1e61 000c 51c7 70696e67");

std::string answer_to(const ParsedFrame& asked, std::string_view text) {
  std::array<char, kMostHeaderBytes + kMaxDatagramPayload> bytes{};
  char* const payload = bytes.data() + kMostHeaderBytes;
  text.copy(payload, text.size());
  const char* const first = write_headers(payload, text.size(), asked.peer);
  return {first, static_cast<size_t>(payload + text.size() - first)};
}

std::string with_tag(std::string frame) { return frame.insert(12, from_hex("8100 0005")); }

std::string ipv6(std::string_view payload) {
  ParsedFrame asked;
  asked.peer.ipv6 = true;
  asked.peer.address[15] = 1;
  asked.peer.local[15] = 2;
  asked.peer.port = 7777;
  asked.peer.local_port = 40000;
  return answer_to(asked, payload);
}

TEST(FrameHeaders, a_frame_is_taken_apart) {
  ParsedFrame parsed;
  ASSERT_TRUE(parse_frame(kIpv4, parsed));
  EXPECT_EQ(parsed.payload, "ping");
  EXPECT_EQ(parsed.peer.local_port, 7777);
  EXPECT_EQ(to_text(parsed.peer), "10.77.0.2:40000");
  EXPECT_EQ(parsed.peer.mac[5], 2);
  EXPECT_EQ(parsed.peer.vlan, 0);
  const std::string tagged = with_tag(kIpv4);  // a payload is in its frame
  ASSERT_TRUE(parse_frame(tagged, parsed));
  EXPECT_EQ(parsed.peer.vlan, 5);
  EXPECT_EQ(parsed.payload, "ping");
  const std::string six = ipv6("six");
  ASSERT_TRUE(parse_frame(six, parsed));
  EXPECT_EQ(to_text(parsed.peer), "[::2]:40000");
  EXPECT_EQ(parsed.payload, "six");
}

TEST(FrameHeaders, an_answer_goes_back_the_same_way) {
  for (const std::string& frame : {kIpv4, with_tag(kIpv4), ipv6("a"), with_tag(ipv6("b"))}) {
    ParsedFrame asked;
    ASSERT_TRUE(parse_frame(frame, asked));
    const std::string answer = answer_to(asked, "pong");
    EXPECT_EQ(answer.size(), header_bytes(asked.peer) + 4);
    ParsedFrame back;
    ASSERT_TRUE(parse_frame(answer, back));
    EXPECT_EQ(back.payload, "pong");
    EXPECT_EQ(back.peer.port, asked.peer.local_port);
    EXPECT_EQ(back.peer.local_port, asked.peer.port);
    EXPECT_EQ(back.peer.address, asked.peer.local);
    EXPECT_EQ(back.peer.mac, asked.peer.local_mac);
    EXPECT_EQ(back.peer.vlan, asked.peer.vlan);
  }
}

// The answer to the one who would have sent the frame is that frame again but for its
// identification.
TEST(FrameHeaders, checksums_are_right) {
  ParsedFrame asked;
  ASSERT_TRUE(parse_frame(kIpv4, asked));
  std::swap(asked.peer.address, asked.peer.local);
  std::swap(asked.peer.mac, asked.peer.local_mac);
  std::swap(asked.peer.port, asked.peer.local_port);
  std::string expected = kIpv4;
  expected[19] = 0;     // identification
  ++expected[25];       // so the checksum is larger by one
  EXPECT_EQ(answer_to(asked, "ping"), expected);
}

TEST(FrameHeaders, what_is_no_whole_datagram_is_not_taken) {
  ParsedFrame parsed;
  for (const std::string& frame : {kIpv4, with_tag(kIpv4), ipv6("six")}) {
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_FALSE(parse_frame(std::string_view(frame).substr(0, size), parsed)) << size;
    }
    ASSERT_TRUE(parse_frame(frame + "padding", parsed));
    EXPECT_LE(parsed.payload.size(), 4u);
  }
  const auto with = [](size_t at, uint8_t byte) {
    std::string frame = kIpv4;
    frame[at] = static_cast<char>(byte);
    return frame;
  };
  EXPECT_FALSE(parse_frame(with(14, 0x46), parsed));  // options
  EXPECT_FALSE(parse_frame(with(14, 0x65), parsed));
  EXPECT_FALSE(parse_frame(with(17, 0xff), parsed));  // longer than the frame
  EXPECT_FALSE(parse_frame(with(17, 0x13), parsed));  // shorter than its header
  EXPECT_FALSE(parse_frame(with(20, 0x20), parsed));  // a fragment
  EXPECT_FALSE(parse_frame(with(21, 0x01), parsed));
  EXPECT_FALSE(parse_frame(with(23, 6), parsed));     // TCP
  EXPECT_FALSE(parse_frame(with(25, 0), parsed));     // a wrong checksum
  EXPECT_FALSE(parse_frame(with(39, 0xff), parsed));  // UDP's length
  EXPECT_FALSE(parse_frame(with(39, 7), parsed));
  EXPECT_FALSE(parse_frame(with(12, 0x86), parsed));
  std::string to_none = kIpv4;  // port 0
  to_none[36] = to_none[37] = 0;
  EXPECT_FALSE(parse_frame(to_none, parsed));
}

// The right one; none, over IPv4; and that of the pseudo header, which a virtual link leaves.
TEST(FrameHeaders, of_all_checksums_of_udp_few_are_taken) {
  const std::string six = ipv6("ping");
  for (const auto& [frame, field, taken] :
       {std::tuple{kIpv4, 40, 3}, std::tuple{six, 14 + 40 + 6, 2}}) {
    std::vector<uint32_t> good;
    std::string tried = frame;
    ParsedFrame parsed;
    for (uint32_t sum = 0; sum <= 0xffff; ++sum) {
      tried[static_cast<size_t>(field)] = static_cast<char>(sum >> 8);
      tried[static_cast<size_t>(field) + 1] = static_cast<char>(sum);
      if (parse_frame(tried, parsed)) good.push_back(sum);
    }
    EXPECT_EQ(good.size(), static_cast<size_t>(taken));
    EXPECT_EQ(good.front() == 0, taken == 3);
  }
  // 10.77.0.2 and 10.77.0.1, UDP, 12 bytes: 0a4d + 0002 + 0a4d + 0001 + 0011 + 000c.
  std::string partial = kIpv4;
  partial[40] = 0x14;
  partial[41] = static_cast<char>(0xba);
  ParsedFrame parsed;
  EXPECT_TRUE(parse_frame(partial, parsed));
}

TEST(FrameHeaders, whatever_comes_stays_inside_the_frame) {
  Prng dice(1);
  const std::vector<std::string> seeds = {kIpv4, with_tag(kIpv4), ipv6("six")};
  for (int round = 0; round < 100'000; ++round) {
    std::string frame = seeds[dice.below(3)];
    for (uint32_t edits = 1 + dice.below(4); edits > 0; --edits) {
      frame[dice.below(static_cast<uint32_t>(frame.size()))] = static_cast<char>(dice.next());
    }
    frame.resize(dice.below(static_cast<uint32_t>(frame.size() + 1)));
    ParsedFrame parsed;
    if (!parse_frame(frame, parsed)) continue;
    ASSERT_LE(parsed.payload.data() + parsed.payload.size(), frame.data() + frame.size());
  }
}

}  // namespace
}  // namespace rubato::xdp
