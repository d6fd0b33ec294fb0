// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing that the runtime's signal ends in a request: calls on sockets that have a
// timeout of their own (SO_RCVTIMEO, SO_SNDTIMEO), which the kernel does not restart after a
// handler, and transfers that end half-way where otherwise they would have been whole. They go on,
// for the rest of their time; other signals end them. Left out: sendfile and splice, of which
// everybody expects less than was asked for, and the number of messages of recvmmsg and sendmmsg.
// (The kernel counts such a timeout in ticks: a call that a signal ends after the last of them
// answers that its time is over, up to a tick early.)
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "mechanism/preempt/interpose/interrupted.h"
#include "mechanism/preempt/interpose/next.h"

// With _FORTIFY_SOURCE read, recv and recvfrom are these; no header declares them otherwise.
extern "C" ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room);
extern "C" ssize_t __recv_chk(int fd, void* into, size_t bytes, size_t room, int flags);
extern "C" ssize_t __recvfrom_chk(int fd, void* into, size_t bytes, size_t room, int flags,
                                  sockaddr* from, socklen_t* from_bytes);

namespace {

using rubato::interpose::may_be_interrupted;
using rubato::interpose::SeenInterrupts;
using rubato::interpose::TimeLeft;

RUBATO_NEXT(read);
RUBATO_NEXT(__read_chk);
RUBATO_NEXT(readv);
RUBATO_NEXT(recv);
RUBATO_NEXT(__recv_chk);
RUBATO_NEXT(recvfrom);
RUBATO_NEXT(__recvfrom_chk);
RUBATO_NEXT(recvmsg);
RUBATO_NEXT(recvmmsg);
RUBATO_NEXT(accept);
RUBATO_NEXT(accept4);
RUBATO_NEXT(connect);
RUBATO_NEXT(write);
RUBATO_NEXT(writev);
RUBATO_NEXT(send);
RUBATO_NEXT(sendto);
RUBATO_NEXT(sendmsg);
RUBATO_NEXT(sendmmsg);

// What a call on a socket waits for: the option that has its timeout, the event that ends it, and
// the error when its time is over.
struct Way {
  int timeout;
  short event;
  int error;
};
constexpr Way kIn{SO_RCVTIMEO, POLLIN, EAGAIN};
constexpr Way kOut{SO_SNDTIMEO, POLLOUT, EAGAIN};
constexpr Way kConnecting{SO_SNDTIMEO, POLLOUT, EINPROGRESS};

// Waits for the rest of a call's time. False, with errno: that is over, or another signal came.
bool wait_until_ready(int fd, const Way& way, TimeLeft& left) {
  pollfd waiting{fd, way.event, 0};
  const int ready = ppoll(&waiting, 1, left.get(), nullptr);  // that of interrupted.cc
  if (ready == 0) errno = way.error;
  return ready > 0;
}

// The timeout of a descriptor; 0 = it has none.
timespec timeout_of(int fd, const Way& way) {
  timeval given{};
  socklen_t bytes = sizeof(given);
  if (getsockopt(fd, SOL_SOCKET, way.timeout, &given, &bytes) != 0) return {};
  return {given.tv_sec, given.tv_usec * 1000};
}

// `call` answers -1 with an errno.
template <class Call>
auto again(int fd, const Way& way, Call call) {
  const int64_t began = TimeLeft::now_ns();
  for (;;) {
    const SeenInterrupts seen;
    const auto rc = call();
    if (!seen.ended(rc)) return rc;
    const timespec timeout = timeout_of(fd, way);
    errno = EINTR;
    // Without a timeout it is another signal's handler that asked for no restart.
    if (timeout.tv_sec == 0 && timeout.tv_nsec == 0) return rc;
    TimeLeft left(&timeout, began);
    if (!wait_until_ready(fd, way, left)) return rc;
  }
}

// The buffers of a transfer, of which a part is done.
class Pieces {
 public:
  Pieces(const iovec* pieces, size_t count) : pieces_(pieces), count_(count) { skip_done(); }

  bool done() const { return count_ == 0; }
  // What to ask for next: the rest of a piece that was begun, else all that is left.
  const iovec* next() const { return begun_ > 0 ? &rest_ : pieces_; }
  size_t next_count() const { return begun_ > 0 ? 1 : count_; }
  bool within_piece() const { return begun_ > 0; }

  void pass(size_t bytes) {
    while (bytes > 0) {
      const size_t here = std::min(bytes, pieces_->iov_len - begun_);
      begun_ += here;
      bytes -= here;
      skip_done();
    }
    if (within_piece()) {
      rest_ = {static_cast<char*>(pieces_->iov_base) + begun_, pieces_->iov_len - begun_};
    }
  }

 private:
  void skip_done() {
    for (; count_ > 0 && begun_ == pieces_->iov_len; ++pieces_, --count_) begun_ = 0;
  }

  const iovec* pieces_;
  size_t count_;
  size_t begun_ = 0;  // of the first
  iovec rest_{};
};

// Makes `call` until all is transferred, or until it fails or ends early with nobody's interrupt.
template <class Call>
ssize_t whole(int fd, const Way& way, Pieces left, Call call) {
  ssize_t done = 0;
  for (;;) {
    const SeenInterrupts seen;
    const ssize_t rc =
        again(fd, way, [&] { return call(left.next(), left.next_count(), done == 0); });
    if (rc <= 0) return done > 0 ? done : rc;
    done += rc;
    left.pass(static_cast<size_t>(rc));
    if (left.done() || (left.within_piece() && !seen.more())) return done;
  }
}

// The same for one buffer, which is not empty.
template <class Call>
ssize_t whole(int fd, const Way& way, const void* from, size_t bytes, Call call) {
  const iovec piece{const_cast<void*>(from), bytes};
  return whole(fd, way, {&piece, 1}, [&](const iovec* next, size_t, bool) {
    return call(next->iov_base, next->iov_len);
  });
}

// The same for a message, whose control data is for its first part.
template <class Message, class Call>
ssize_t whole(int fd, const Way& way, Message* message, Call call) {
  return whole(fd, way, {message->msg_iov, message->msg_iovlen},
               [&](const iovec* next, size_t count, bool first) {
                 if (first) return call(message);
                 msghdr rest{};
                 rest.msg_iov = const_cast<iovec*>(next);
                 rest.msg_iovlen = count;
                 return call(&rest);
               });
}

bool is_stream(int fd) {
  int type = 0;
  socklen_t bytes = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

// Whether less than all of it is an end that the caller does not expect.
bool takes_all(int fd, int flags) {
  return (flags & MSG_WAITALL) != 0 && (flags & MSG_PEEK) == 0 && is_stream(fd);
}

template <class Call>
ssize_t receive(int fd, void* into, size_t bytes, int flags, Call call) {
  if (bytes > 0 && takes_all(fd, flags)) return whole(fd, kIn, into, bytes, call);
  return again(fd, kIn, [&] { return call(into, bytes); });
}

}  // namespace

RUBATO_INTERPOSED ssize_t read(int fd, void* into, size_t bytes) {
  if (!may_be_interrupted()) return next_read.get()(fd, into, bytes);
  return again(fd, kIn, [=] { return next_read.get()(fd, into, bytes); });
}

RUBATO_INTERPOSED ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room) {
  if (!may_be_interrupted()) return next___read_chk.get()(fd, into, bytes, room);
  return again(fd, kIn, [=] { return next___read_chk.get()(fd, into, bytes, room); });
}

RUBATO_INTERPOSED ssize_t readv(int fd, const iovec* pieces, int count) {
  if (!may_be_interrupted()) return next_readv.get()(fd, pieces, count);
  return again(fd, kIn, [=] { return next_readv.get()(fd, pieces, count); });
}

RUBATO_INTERPOSED ssize_t recv(int fd, void* into, size_t bytes, int flags) {
  if (!may_be_interrupted()) return next_recv.get()(fd, into, bytes, flags);
  return receive(fd, into, bytes, flags,
                 [=](void* to, size_t most) { return next_recv.get()(fd, to, most, flags); });
}

RUBATO_INTERPOSED ssize_t __recv_chk(int fd, void* into, size_t bytes, size_t room, int flags) {
  if (!may_be_interrupted()) return next___recv_chk.get()(fd, into, bytes, room, flags);
  return receive(fd, into, bytes, flags, [=](void* to, size_t most) {
    return next___recv_chk.get()(fd, to, most, room - (bytes - most), flags);
  });
}

RUBATO_INTERPOSED ssize_t recvfrom(int fd, void* into, size_t bytes, int flags, sockaddr* from,
                                   socklen_t* from_bytes) {
  if (!may_be_interrupted()) return next_recvfrom.get()(fd, into, bytes, flags, from, from_bytes);
  return receive(fd, into, bytes, flags, [=](void* to, size_t most) {
    return next_recvfrom.get()(fd, to, most, flags, from, from_bytes);
  });
}

RUBATO_INTERPOSED ssize_t __recvfrom_chk(int fd, void* into, size_t bytes, size_t room, int flags,
                                         sockaddr* from, socklen_t* from_bytes) {
  if (!may_be_interrupted()) {
    return next___recvfrom_chk.get()(fd, into, bytes, room, flags, from, from_bytes);
  }
  return receive(fd, into, bytes, flags, [=](void* to, size_t most) {
    return next___recvfrom_chk.get()(fd, to, most, room - (bytes - most), flags, from, from_bytes);
  });
}

RUBATO_INTERPOSED ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!may_be_interrupted()) return next_recvmsg.get()(fd, message, flags);
  const auto call = [=](msghdr* into) { return next_recvmsg.get()(fd, into, flags); };
  if (takes_all(fd, flags)) return whole(fd, kIn, message, call);
  return again(fd, kIn, [=] { return call(message); });
}

RUBATO_INTERPOSED int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags,
                               timespec* timeout) {
  if (!may_be_interrupted()) return next_recvmmsg.get()(fd, messages, count, flags, timeout);
  return again(fd, kIn, [=] {
    return next_recvmmsg.get()(fd, messages, count, flags, timeout);
  });
}

RUBATO_INTERPOSED int accept(int fd, sockaddr* from, socklen_t* from_bytes) {
  if (!may_be_interrupted()) return next_accept.get()(fd, from, from_bytes);
  return again(fd, kIn, [=] { return next_accept.get()(fd, from, from_bytes); });
}

RUBATO_INTERPOSED int accept4(int fd, sockaddr* from, socklen_t* from_bytes, int flags) {
  if (!may_be_interrupted()) return next_accept4.get()(fd, from, from_bytes, flags);
  return again(fd, kIn, [=] { return next_accept4.get()(fd, from, from_bytes, flags); });
}

RUBATO_INTERPOSED int connect(int fd, const sockaddr* to, socklen_t to_bytes) {
  if (!may_be_interrupted()) return next_connect.get()(fd, to, to_bytes);
  return again(fd, kConnecting, [=] { return next_connect.get()(fd, to, to_bytes); });
}

RUBATO_INTERPOSED ssize_t write(int fd, const void* from, size_t bytes) {
  if (bytes == 0 || !may_be_interrupted()) return next_write.get()(fd, from, bytes);
  return whole(fd, kOut, from, bytes,
               [=](const void* next, size_t left) { return next_write.get()(fd, next, left); });
}

RUBATO_INTERPOSED ssize_t writev(int fd, const iovec* pieces, int count) {
  if (count <= 0 || !may_be_interrupted()) return next_writev.get()(fd, pieces, count);
  return whole(fd, kOut, {pieces, static_cast<size_t>(count)},
               [=](const iovec* next, size_t left, bool) {
                 return next_writev.get()(fd, next, static_cast<int>(left));
               });
}

RUBATO_INTERPOSED ssize_t send(int fd, const void* from, size_t bytes, int flags) {
  if (bytes == 0 || !may_be_interrupted()) return next_send.get()(fd, from, bytes, flags);
  return whole(fd, kOut, from, bytes, [=](const void* next, size_t left) {
    return next_send.get()(fd, next, left, flags);
  });
}

RUBATO_INTERPOSED ssize_t sendto(int fd, const void* from, size_t bytes, int flags,
                                 const sockaddr* to, socklen_t to_bytes) {
  if (bytes == 0 || !may_be_interrupted()) {
    return next_sendto.get()(fd, from, bytes, flags, to, to_bytes);
  }
  return whole(fd, kOut, from, bytes, [=](const void* next, size_t left) {
    return next_sendto.get()(fd, next, left, flags, to, to_bytes);
  });
}

RUBATO_INTERPOSED ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!may_be_interrupted()) return next_sendmsg.get()(fd, message, flags);
  return whole(fd, kOut, message,
               [=](const msghdr* next) { return next_sendmsg.get()(fd, next, flags); });
}

RUBATO_INTERPOSED int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  if (!may_be_interrupted()) return next_sendmmsg.get()(fd, messages, count, flags);
  return again(fd, kOut, [=] { return next_sendmmsg.get()(fd, messages, count, flags); });
}
