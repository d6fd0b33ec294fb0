// SPDX-License-Identifier: Apache-2.0
//
// MemcachedParser: finds one request of memcached's text protocol, with the meta commands
// (protocol.txt of memcached 1.6), at the start of a byte string. Views point into the input. The
// data of an item that is too large are requests of verb kSkipped, as they come. Pure; owned by one
// flow; allocates only where a request has many keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rubato::kv {

inline constexpr size_t kMemcachedKeyBytes = 250;
inline constexpr size_t kMemcachedLineBytes = 64UL * 1024;    // a command line
inline constexpr size_t kMemcachedReadLineBytes = 1024UL * 1024;  // of get and its kin, all keys
inline constexpr size_t kMemcachedItemBytes = 1024UL * 1024;  // memcached's own default

enum class MemcachedVerb : uint8_t {
  kBad,  // `error` is the reply
  kGet, kGets, kGat, kGats,
  kSet, kAdd, kReplace, kAppend, kPrepend, kCas,
  kDelete, kIncr, kDecr, kTouch,
  kMetaGet, kMetaDebug, kMetaSet, kMetaDelete, kMetaArithmetic,
  kFlushAll, kMetaNoop, kVersion, kStats, kVerbosity, kQuit,
  kSkipped,  // nothing is to be done or answered
};

struct MemcachedRequest {
  MemcachedVerb verb = MemcachedVerb::kBad;
  std::vector<std::string_view> keys;  // one, or several of get, gets, gat and gats
  // Of meta commands: each a letter and its token. Of stats its operands.
  std::vector<std::string_view> words;
  uint32_t flags = 0;
  int64_t exptime = 0;   // as given: seconds from now, or a Unix time
  uint64_t number = 0;   // of incr and decr the difference, of cas the token
  std::string_view data;
  std::string_view error;  // with its line end
  bool noreply = false;
  bool too_large = false;  // the item, which is not here
  bool close = false;  // the stream cannot be read on behind it

  void clear();
};

class MemcachedParser {
 public:
  // Bytes of the first request of `input`; 0 = the request is not complete, and `wanted` is its
  // least size (0 = unknown). A request that is wrong is complete too.
  size_t parse(std::string_view input, MemcachedRequest& request, size_t& wanted);
  // The next bytes have nothing to do with those before.
  void restart() { skipped_ = 0; }
  // Gives back the memory that a request of many words has taken; its words are gone.
  void shrink(MemcachedRequest& request);

 private:
  void parse_line(std::string_view line, MemcachedRequest& request, size_t& size);
  size_t skip(size_t size, std::string_view input);

  std::vector<std::string_view> words_;
  size_t skipped_ = 0;  // bytes that are still to come, of data that nobody wants
};

}  // namespace rubato::kv
