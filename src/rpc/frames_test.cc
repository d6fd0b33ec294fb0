// SPDX-License-Identifier: Apache-2.0
#include "rpc/frames.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rubato::rpc {
namespace {

std::string framed(const Message& message) {
  std::string bytes;
  encode(bytes, message);
  return bytes;
}

Fault fault_of(std::string_view bytes, Side from = Side::kClient, size_t max = kMaxBodyBytes) {
  const Decoded found = decode(bytes, from, max);
  return found.state == Decoded::State::kMalformed ? found.fault : Fault::kNone;
}

TEST(Frames, what_is_encoded_is_decoded) {
  const Message message{Kind::kRequest, 7, 3, 0x1122334455667788, "body"};
  const std::string bytes = framed(message);
  EXPECT_EQ(bytes.size(), kHeaderBytes + 4);
  const std::string received = bytes + "more";
  const Decoded found = decode(received, Side::kClient);
  ASSERT_EQ(found.state, Decoded::State::kComplete);
  EXPECT_EQ(found.length, bytes.size());
  EXPECT_EQ(found.message.kind, Kind::kRequest);
  EXPECT_EQ(found.message.session, 7u);
  EXPECT_EQ(found.message.amount, 3u);
  EXPECT_EQ(found.message.id, 0x1122334455667788u);
  EXPECT_EQ(found.message.body, "body");
}

TEST(Frames, a_part_asks_for_the_rest) {
  const std::string bytes = framed({Kind::kRequest, 1, 0, 1, "body"});
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Decoded found = decode(std::string_view(bytes).substr(0, size), Side::kClient);
    ASSERT_EQ(found.state, Decoded::State::kIncomplete) << size;
    EXPECT_EQ(found.length, size < 8 ? 0 : bytes.size());
  }
}

TEST(Frames, another_protocol_shows_at_its_first_byte) {
  EXPECT_EQ(fault_of("GET / HTTP/1.1"), Fault::kMagic);
  EXPECT_EQ(fault_of("*"), Fault::kMagic);
  EXPECT_EQ(fault_of("Rx"), Fault::kMagic);
  EXPECT_EQ(fault_of("RB\x02"), Fault::kVersion);
}

TEST(Frames, a_side_sends_only_what_is_its_to_send) {
  for (int kind = 0; kind < 256; ++kind) {
    const std::string start = std::string("RB\x01") + static_cast<char>(kind);
    const bool client = kind >= 0x01 && kind <= 0x06;
    const bool server = kind >= 0x81 && kind <= 0x88;
    EXPECT_EQ(fault_of(start, Side::kClient) == Fault::kNone, client) << kind;
    EXPECT_EQ(fault_of(start, Side::kServer) == Fault::kNone, server) << kind;
  }
}

TEST(Frames, a_length_is_judged_before_the_body_comes) {
  std::string bytes = framed({Kind::kRequest, 1, 0, 1, "12345"});
  EXPECT_EQ(fault_of(bytes.substr(0, 8), Side::kClient, 4), Fault::kTooLarge);
  EXPECT_EQ(fault_of(bytes, Side::kClient, 5), Fault::kNone);
  bytes[4] = '\xff';
  EXPECT_EQ(fault_of(bytes), Fault::kTooLarge);
}

TEST(Frames, ids_and_bodies_stand_where_they_belong) {
  EXPECT_EQ(fault_of(framed({Kind::kHello, 1, 0, 0, {}})), Fault::kNone);
  EXPECT_EQ(fault_of(framed({Kind::kHello, 1, 0, 1, "first"})), Fault::kNone);
  EXPECT_EQ(fault_of(framed({Kind::kHello, 1, 0, 0, "x"})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kRequest, 1, 0, 0, "x"})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kDemand, 1, 5, 1, {}})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kGoodbye, 1, 0, 0, "x"})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kRefusal, 1, 0, 1, "1234567"}), Side::kServer), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kError, 1, 9, 0, std::string(257, 'x')}), Side::kServer),
            Fault::kFields);
}

TEST(Frames, a_rank_is_before_a_body_and_within_its_ranges) {
  char rank[kRankBytes];
  encode_rank(rank, {7, 127});
  const std::string body = std::string(rank, sizeof rank) + "GET";
  EXPECT_EQ(fault_of(framed({Kind::kRankedRequest, 1, 0, 1, body})), Fault::kNone);
  EXPECT_EQ(fault_of(framed({Kind::kRankedRequest, 1, 0, 0, body})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kRankedRequest, 1, 0, 1, "abc"})), Fault::kFields);
  const std::optional<Rank> found = decode_rank(body);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->priority, 7);
  EXPECT_EQ(found->cohort, 127);
  EXPECT_FALSE(decode_rank(std::string("\x08\0\0\0", 4)));
  EXPECT_FALSE(decode_rank(std::string("\0\x80\0\0", 4)));
}

TEST(Frames, a_probe_and_its_answer_have_an_id) {
  char load[kLoadBytes];
  encode_load(load, {1234});
  const std::string body(load, sizeof load);
  EXPECT_EQ(decode_load(body).latency_us, 1234u);
  EXPECT_EQ(fault_of(framed({Kind::kProbe, 1, 0, 9, {}})), Fault::kNone);
  EXPECT_EQ(fault_of(framed({Kind::kProbe, 1, 0, 0, {}})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kProbe, 1, 0, 9, "x"})), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kLoad, 1, 3, 9, body}), Side::kServer), Fault::kNone);
  EXPECT_EQ(fault_of(framed({Kind::kLoad, 1, 3, 0, body}), Side::kServer), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kLoad, 1, 3, 9, "x"}), Side::kServer), Fault::kFields);
  EXPECT_EQ(fault_of(framed({Kind::kLevel, 1, 3, 0, {}}), Side::kServer), Fault::kNone);
  EXPECT_EQ(fault_of(framed({Kind::kLevel, 1, 3, 1, {}}), Side::kServer), Fault::kFields);
}

TEST(Frames, a_reject_says_why_and_when_again) {
  char body[kRefusalBytes];
  encode_refusal(body, {Reason::kOverCredit, 2, 123456});
  const RefusalBody refuse = decode_refusal({body, sizeof body});
  EXPECT_EQ(refuse.reason, Reason::kOverCredit);
  EXPECT_EQ(refuse.of_class, 2);
  EXPECT_EQ(refuse.retry_after_us, 123456u);
}

TEST(Frames, any_bytes_are_judged_the_same_however_they_are_cut) {
  Prng dice(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = framed({Kind::kRequest, 1, 2, 3, "body"});
    for (uint32_t edits = dice.below(6); edits > 0; --edits) {
      bytes[dice.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(dice.next());
    }
    const Decoded whole = decode(bytes, Side::kClient, 64);
    for (size_t size = 0; size <= bytes.size(); ++size) {
      const Decoded part = decode(std::string_view(bytes).substr(0, size), Side::kClient, 64);
      if (part.state == Decoded::State::kIncomplete) continue;
      ASSERT_EQ(part.state, whole.state);
      ASSERT_EQ(part.fault, whole.fault);
      break;
    }
  }
}

// The example of the page: `side name hex hex ...`.
struct Example {
  Side side = Side::kClient;
  std::string name, bytes;
};

std::vector<Example> page() {
  std::ifstream file(RUBATO_RPC_PAGE);
  std::vector<Example> found;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "<!-- frames -->") inside = true;
    if (!inside || (!line.starts_with("client") && !line.starts_with("server"))) {
      if (inside && line == "```" && !found.empty()) break;
      continue;
    }
    std::istringstream words(line);
    std::string side, hex;
    Example example;
    words >> side >> example.name;
    example.side = side == "client" ? Side::kClient : Side::kServer;
    while (words >> hex) {
      for (size_t i = 0; i < hex.size(); i += 2) {
        example.bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
      }
    }
    found.push_back(example);
  }
  return found;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kHello: return "hello";
    case Kind::kRequest: return "request";
    case Kind::kDemand: return "demand";
    case Kind::kGoodbye: return "goodbye";
    case Kind::kRankedRequest: return "ranked";
    case Kind::kProbe: return "probe";
    case Kind::kWelcome: return "welcome";
    case Kind::kResponse: return "response";
    case Kind::kCredit: return "credit";
    case Kind::kRefusal: return "refusal";
    case Kind::kError: return "error";
    case Kind::kToken: return "token";
    case Kind::kLoad: return "load";
    case Kind::kLevel: return "level";
  }
  return "?";
}

TEST(Frames, the_example_of_the_page_is_what_is_sent) {
  const std::vector<Example> examples = page();
  ASSERT_EQ(examples.size(), 15u);
  for (const Example& example : examples) {
    const Decoded found = decode(example.bytes, example.side);
    ASSERT_EQ(found.state, Decoded::State::kComplete) << example.name;
    EXPECT_EQ(found.length, example.bytes.size());
    EXPECT_EQ(name_of(found.message.kind), example.name);
    EXPECT_EQ(framed(found.message), example.bytes);
  }
  EXPECT_EQ(decode(examples[0].bytes, Side::kClient).message.amount, 2u);
  const RefusalBody refuse = decode_refusal(decode(examples[6].bytes, Side::kServer).message.body);
  EXPECT_EQ(refuse.retry_after_us, 160u);
  EXPECT_EQ(refuse.of_class, 1);
  EXPECT_EQ(static_cast<Fault>(decode(examples[9].bytes, Side::kServer).message.amount),
            Fault::kFailed);
  const Message ranked = decode(examples[12].bytes, Side::kClient).message;
  const std::optional<Rank> rank = decode_rank(ranked.body);
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->priority, 1);
  EXPECT_EQ(rank->cohort, 100);
  const Message load = decode(examples[11].bytes, Side::kServer).message;
  EXPECT_EQ(load.amount, 9u);
  EXPECT_EQ(decode_load(load.body).latency_us, 250u);
}

}  // namespace
}  // namespace rubato::rpc
