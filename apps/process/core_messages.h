// SPDX-License-Identifier: Apache-2.0
//
// What servers and a manager of cores (`rubato cores`) say to each other, over a Unix socket that
// keeps messages apart (SOCK_SEQPACKET), on one machine:
//
//   server   CoreJoin        once; then CoreReport, at the interval of the last order
//   manager  CoreOrder       whenever the number of cores changes, or CoreText: why it refuses
//   asker    CoreQuestion    the manager answers with its state as JSON, in messages of up to
//                            kMostCoreState bytes, and ends the connection
//
// Plain data in the machine's own byte order; a message of another version or length is refused.
// Any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "datapath/tcp_socket.h"

namespace rubato {

struct CoreMessageHead {
  static constexpr uint32_t kMagic = 0x52434f31;  // "RCO" and the version

  uint32_t magic = kMagic;
  uint32_t kind = 0;
};

struct CoreJoin {
  static constexpr uint32_t kKind = 1;
  static constexpr size_t kMostSettings = 512;

  CoreMessageHead head{.kind = kKind};
  uint32_t guaranteed = 0;
  uint32_t limit = 0;
  std::array<char, 32> allocator{};              // its name, and zeros
  std::array<char, kMostSettings> settings{};    // a line NAME=VALUE each, and zeros
};

struct CoreReportMessage {
  static constexpr uint32_t kKind = 2;

  CoreMessageHead head{.kind = kKind};
  uint64_t order = 0;  // the last one that it has obeyed
  uint32_t cores = 0;  // that workers have or are about to give up
  uint32_t parked_has_work = 0;
  int64_t max_delay_ns = 0;
  int64_t mean_delay_ns = 0;
  double busy = 0;
};

struct CoreOrder {
  static constexpr uint32_t kKind = 3;

  CoreMessageHead head{.kind = kKind};
  uint64_t number = 0;
  int64_t interval_ns = 0;  // between two reports of a server with something to do
  uint32_t cores = 0;
  uint32_t unused = 0;
};

struct CoreText {
  static constexpr uint32_t kKind = 4;

  CoreMessageHead head{.kind = kKind};
  std::array<char, 248> text{};  // and zeros
};

struct CoreQuestion {
  static constexpr uint32_t kKind = 5;

  CoreMessageHead head{.kind = kKind};
};

inline constexpr size_t kMostCoreMessage = sizeof(CoreJoin);
inline constexpr size_t kMostCoreState = 64 << 10;  // of one message of the answer to a question

// Puts as much of the text into the field as leaves a zero at the end.
template <size_t kRoom>
void put_text(std::array<char, kRoom>& field, std::string_view text) {
  field.fill(0);
  text.copy(field.data(), kRoom - 1);
}
template <size_t kRoom>
std::string text_of(const std::array<char, kRoom>& field) {
  const std::string_view all(field.data(), kRoom);
  return std::string(all.substr(0, all.find('\0')));
}

// False: the other end has gone, or takes nothing now.
template <class Message>
bool send_message(const Fd& to, const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return ::send(to.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof message);
}

// A message that has come, of at most so many bytes.
class CoreBytes {
 public:
  enum class Came : uint8_t { kMessage, kNothing, kEnd };

  // Does not block.
  Came receive(const Fd& from);
  // False: it is another message.
  template <class Message>
  bool read(Message& message) const {
    static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) <= kMostCoreMessage);
    if (size_ != sizeof message) return false;
    std::string_view(bytes_.data(), size_).copy(reinterpret_cast<char*>(&message), size_);
    return message.head.magic == CoreMessageHead::kMagic && message.head.kind == Message::kKind;
  }

 private:
  alignas(8) std::array<char, kMostCoreMessage> bytes_{};
  size_t size_ = 0;
};

// Connected with the manager at the path. Fails with one line.
Result<Fd> connect_to_cores(const std::string& path);
// A socket at the path, of mode 0600. Fails with one line, also if a manager listens there.
Result<Fd> listen_for_cores(const std::string& path);

}  // namespace rubato
