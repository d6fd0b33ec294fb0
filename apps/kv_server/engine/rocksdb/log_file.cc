// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/log_file.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/crc32.h"

namespace rubato::kv {
namespace {

constexpr size_t kBlockBytes = 32768;
constexpr size_t kHeaderBytes = 7;

enum RecordType : uint8_t { kZero = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

uint32_t crc32c(std::string_view bytes) {
  Crc32Castagnoli crc;
  crc.add(bytes);
  return crc.value();
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

struct Header {
  uint32_t checksum = 0;
  size_t length = 0;
  uint8_t type = 0;
};

// Requires kHeaderBytes there.
Header header_at(std::string_view block, size_t at) {
  Header header;
  uint16_t length;
  std::memcpy(&header.checksum, block.data() + at, sizeof header.checksum);
  std::memcpy(&length, block.data() + at + 4, sizeof length);
  header.length = length;
  header.type = static_cast<uint8_t>(block[at + 6]);
  return header;
}

bool is_sound(std::string_view block, size_t at) {
  const Header header = header_at(block, at);
  if (header.type < kFull || header.type > kLast) return false;
  if (at + kHeaderBytes + header.length > block.size()) return false;
  return masked(crc32c(block.substr(at + kHeaderBytes - 1, header.length + 1))) == header.checksum;
}

bool all_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// True if sound records follow each other from here to the end, to zeros or to a record that is cut
// off. A value may also hold a record, but the bytes behind the value are no record.
bool leads_to_the_end(std::string_view block, size_t at) {
  while (at + kHeaderBytes <= block.size()) {
    const Header header = header_at(block, at);
    const size_t end = at + kHeaderBytes + header.length;
    if (!is_sound(block, at)) {
      const bool is_type = header.type >= kFull && header.type <= kLast;
      return (is_type && end > block.size()) || all_zero(block.substr(at));
    }
    at = end;
  }
  return true;
}

bool any_sound_behind(std::string_view block, size_t at) {
  while (++at + kHeaderBytes <= block.size()) {
    if (is_sound(block, at) && leads_to_the_end(block, at)) return true;
  }
  return false;
}

// True if the zeros at the end of the block begin within the record at `at`: the record was cut off
// there and the file filled up. What reached the disk ends with a sector, or where the file ended
// before. A run of a few zeros within a sector that ends with the record belongs to it. `block`
// begins at a sector.
bool ends_in_zeros(std::string_view block, size_t at) {
  constexpr size_t kOwnZeros = 16;
  constexpr size_t kSectorBytes = 512;
  const size_t end = at + kHeaderBytes + header_at(block, at).length;
  const size_t last = block.find_last_not_of('\0');
  const size_t zeros_at = last == std::string_view::npos ? 0 : last + 1;
  if (zeros_at >= end) return false;
  const size_t sector_at = (zeros_at + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
  return block.size() > end || sector_at < end || zeros_at + kOwnZeros <= end;
}

// True if the record's checksum is that of its data with another length: the record is whole, and
// its length was changed.
bool has_wrong_length(std::string_view block, size_t at) {
  const Header header = header_at(block, at);
  Crc32Castagnoli crc;
  crc.add(block[at + kHeaderBytes - 1]);
  for (size_t length = 1; at + kHeaderBytes + length <= block.size(); ++length) {
    crc.add(block[at + kHeaderBytes + length - 1]);
    if (length != header.length && masked(crc.value()) == header.checksum) return true;
  }
  return false;
}

class Reader {
 public:
  explicit Reader(rocksdb::SequentialFile& file) : file_(file), room_(kBlockBytes) {}

  bool failed() const { return failed_; }

  LogFinding check() {
    LogFinding finding;
    while (finding.state == LogState::kWhole && next_block()) finding = check_block();
    if (finding.state == LogState::kWhole && write_begun_) {
      finding = {LogState::kTorn, write_at_, 0};
    }
    return finding;
  }

 private:
  bool next_block() {
    block_at_ += block_.size();
    size_t filled = 0;
    rocksdb::Slice part;
    do {  // a read may give less than there is
      failed_ = !file_.Read(room_.size() - filled, &part, room_.data() + filled).ok();
      if (failed_) break;
      if (part.data() != room_.data() + filled) {
        std::memcpy(room_.data() + filled, part.data(), part.size());
      }
      filled += part.size();
    } while (!part.empty() && filled < room_.size());
    block_ = {room_.data(), filled};
    return !block_.empty();
  }
  bool last_block() const { return block_.size() < kBlockBytes; }

  // The first fault in the block that begins at block_at_, if there is one.
  LogFinding check_block() {
    size_t at = 0;
    while (at + kHeaderBytes <= block_.size()) {
      const Header header = header_at(block_, at);
      if (!is_sound(block_, at)) return judge(at, header);
      const bool begins = header.type == kFull || header.type == kFirst;
      if (begins == write_begun_) return {LogState::kDamaged, block_at_ + at, 0};
      if (begins) write_at_ = block_at_ + at;
      write_begun_ = header.type == kFirst || header.type == kMiddle;
      at += kHeaderBytes + header.length;
    }
    if (last_block() && at < block_.size()) return {LogState::kTorn, block_at_ + at, 0};
    return {};
  }

  // Decides whether an unsound record is left from a crash, or is damage.
  LogFinding judge(size_t at, const Header& header) {
    const uint64_t offset = block_at_ + at;
    const bool reaches_beyond = at + kHeaderBytes + header.length > block_.size();
    if (has_wrong_length(block_, at)) return {LogState::kDamaged, offset, 0};
    const bool cut_off = last_block() && reaches_beyond && !any_sound_behind(block_, at);
    const uint64_t torn_at = write_begun_ ? write_at_ : offset;
    if (cut_off) return {LogState::kTorn, torn_at, 0};
    const bool never_written = all_zero(block_.substr(at));
    const bool filled_up = !never_written && ends_in_zeros(block_, at) &&
                           !any_sound_behind(block_, at);
    if (!never_written && !filled_up) return {LogState::kDamaged, offset, 0};
    if (!rest_is_zero()) return {LogState::kDamaged, offset, 0};
    return {LogState::kTorn, torn_at, 0, filled_up || write_begun_};
  }

  bool rest_is_zero() {
    while (next_block()) {
      if (!all_zero(block_)) return false;
    }
    return true;
  }

  rocksdb::SequentialFile& file_;
  bool failed_ = false;
  std::vector<char> room_;
  std::string_view block_;
  uint64_t block_at_ = 0;
  bool write_begun_ = false;  // its last record is to come
  uint64_t write_at_ = 0;
};

}  // namespace

Result<LogFinding> check_log(rocksdb::Env& env, const std::string& path) {
  std::unique_ptr<rocksdb::SequentialFile> file;
  LogFinding finding;
  rocksdb::Status status = env.GetFileSize(path, &finding.bytes);
  if (status.ok()) status = env.NewSequentialFile(path, &file, rocksdb::EnvOptions());
  if (!status.ok()) return Error{"cannot read " + path + ": " + status.ToString()};
  const uint64_t bytes = finding.bytes;
  Reader reader(*file);
  finding = reader.check();
  finding.bytes = bytes;
  if (reader.failed()) return Error{"cannot read " + path};
  return finding;
}

}  // namespace rubato::kv
