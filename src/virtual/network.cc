// SPDX-License-Identifier: Apache-2.0
#include "virtual/network.h"

#include <netinet/in.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

constexpr uint32_t kClosed = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
constexpr uint32_t kMostPieces = 4;

uint16_t port_of(const sockaddr* address) {
  sockaddr_in in{};  // IPv6 keeps the port at the same place
  std::memcpy(&in, address, sizeof in);
  return ntohs(in.sin_port);
}

void write_name(uint16_t port, sockaddr* address, socklen_t* length) {
  if (address == nullptr || length == nullptr) return;
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(address, &in, std::min<size_t>(*length, sizeof in));
  *length = sizeof in;
}

// What is sent in one direction and not yet read.
struct Pipe {
  struct Piece {
    Instant at;
    std::string bytes;
  };
  std::deque<Piece> pieces;
  size_t taken = 0;  // of the first piece
  size_t unread = 0;
  uint64_t read_pieces = 0;
  Instant last;  // nothing arrives before it
  Instant end = Instant::never();

  uint64_t arrived(Instant now) const {
    uint64_t count = read_pieces;
    for (const Piece& piece : pieces) {
      if (piece.at > now) break;
      ++count;
    }
    return count;
  }
  bool readable(Instant now) const { return !pieces.empty() && pieces.front().at <= now; }
  bool ended(Instant now) const { return end <= now && pieces.empty(); }
  Instant next(Instant now) const {
    for (const Piece& piece : pieces) {
      if (piece.at > now) return piece.at;
    }
    return end > now ? end : Instant::never();
  }

  size_t read(Instant now, char* to, size_t room) {
    size_t size = 0;
    while (size < room && readable(now)) {
      const std::string& bytes = pieces.front().bytes;
      const size_t part = std::min(room - size, bytes.size() - taken);
      if (to != nullptr) std::memcpy(to + size, bytes.data() + taken, part);
      size += part;
      taken += part;
      if (taken < bytes.size()) break;
      pieces.pop_front();
      taken = 0;
      ++read_pieces;
    }
    unread -= size;
    return size;
  }
};

}  // namespace

struct Network::Socket : Description {
  uint16_t port = 0;
  bool datagrams = false;
  bool shares_port = false;
  Nanos receive_limit;  // a receive that waits ends after it; 0 = never
  // A socket that is neither bound nor connected.
  uint32_t ready(Instant) const override { return EPOLLOUT | EPOLLHUP; }
  uint64_t edges(Instant) const override { return 0; }
  Instant next(Instant) const override { return Instant::never(); }
};

struct Network::Stream final : Socket {
  uint32_t ready(Instant now) const override {
    if (reset_at <= now) return kClosed;
    const bool ended = in.end <= now || shut_read;
    uint32_t mask = 0;
    if (in.readable(now) || ended) mask |= EPOLLIN;
    if (ended) mask |= EPOLLRDHUP;
    if (ended && shut_write) mask |= EPOLLHUP;
    const std::shared_ptr<Stream> other = peer.lock();
    if (other == nullptr || other->in.unread < window) mask |= EPOLLOUT;
    return mask;
  }
  uint64_t edges(Instant now) const override {
    uint64_t count = in.arrived(now) + room_made;
    for (const bool came : {in.end <= now, reset_at <= now, shut_read, shut_write}) {
      if (came) ++count;
    }
    return count;
  }
  Instant next(Instant now) const override {
    return std::min(in.next(now), reset_at > now ? reset_at : Instant::never());
  }

  Pipe in;
  std::weak_ptr<Stream> peer;
  uint16_t peer_port = 0;
  size_t window = 0;         // of what this end sends
  bool starved = false;      // there was no room for all that it wanted to send
  uint64_t room_made = 0;    // since then
  bool shut_read = false;
  bool shut_write = false;
  bool resets_at_close = false;
  bool reset_reported = false;
  Instant reset_at = Instant::never();
};

struct Network::Listener final : Socket {
  struct Connection {
    Instant at;
    std::shared_ptr<Stream> stream;
  };
  uint32_t ready(Instant now) const override {
    if (shut) return EPOLLIN | EPOLLHUP | EPOLLRDHUP;
    return !waiting.empty() && waiting.front().at <= now ? uint32_t{EPOLLIN} : 0;
  }
  uint64_t edges(Instant now) const override {
    uint64_t count = taken;
    for (const Connection& connection : waiting) count += connection.at <= now ? 1u : 0u;
    return count;
  }
  Instant next(Instant now) const override {
    for (const Connection& connection : waiting) {
      if (connection.at > now) return connection.at;
    }
    return Instant::never();
  }

  std::deque<Connection> waiting;
  uint64_t taken = 0;
  bool shut = false;
};

struct Network::Datagrams final : Socket {
  struct Packet {
    Instant at;
    uint16_t from = 0;
    std::string bytes;
  };
  uint32_t ready(Instant now) const override {
    const bool readable = !packets.empty() && packets.front().at <= now;
    return EPOLLOUT | (readable ? uint32_t{EPOLLIN} : 0);
  }
  uint64_t edges(Instant now) const override {
    uint64_t count = taken;
    for (const Packet& packet : packets) count += packet.at <= now ? 1u : 0u;
    return count;
  }
  Instant next(Instant now) const override {
    for (const Packet& packet : packets) {
      if (packet.at > now) return packet.at;
    }
    return Instant::never();
  }

  std::deque<Packet> packets;  // by arrival
  uint64_t taken = 0;
  uint16_t peer_port = 0;  // the only one that it hears from and sends to; 0 = any
};

struct Network::Event final : Description {
  uint32_t ready(Instant) const override { return EPOLLOUT | (count > 0 ? uint32_t{EPOLLIN} : 0); }
  uint64_t edges(Instant) const override { return writes; }
  Instant next(Instant) const override { return Instant::never(); }

  uint64_t count = 0;
  uint64_t writes = 0;
};

// That goes off once.
struct Network::Timer final : Description {
  uint32_t ready(Instant now) const override { return now >= at ? uint32_t{EPOLLIN} : 0; }
  uint64_t edges(Instant now) const override { return ready(now); }
  Instant next(Instant now) const override { return now < at ? at : Instant::never(); }

  Instant at = Instant::never();
};

struct Epoll final : Description {
  struct Watched {
    std::shared_ptr<Description> description;
    epoll_event event{};
    uint64_t seen = UINT64_MAX;

    uint32_t report(Instant now) const {
      const uint32_t mask = description->ready(now) & (event.events | EPOLLERR | EPOLLHUP);
      const bool at_edges = (event.events & EPOLLET) != 0;
      return mask == 0 || (at_edges && description->edges(now) == seen) ? 0 : mask;
    }
  };

  uint32_t ready(Instant now) const override {
    if (now < quiet_until) return 0;
    for (const auto& [fd, watched_one] : watched) {
      if (watched_one.report(now) != 0) return EPOLLIN;
    }
    quiet_until = next(now);
    return 0;
  }
  uint64_t edges(Instant now) const override { return ready(now); }
  Instant next(Instant now) const override {
    Instant earliest = Instant::never();
    for (const auto& [fd, one] : watched) earliest = std::min(earliest, one.description->next(now));
    return earliest;
  }

  std::map<int, Watched> watched;  // by descriptor
  int last_reported = 0;
  mutable Instant quiet_until;  // nothing is ready before it, unless a call makes it so
};

Network::Network(Scheduler& scheduler, const WorldOptions& options)
    : scheduler_(scheduler), options_(options), prng_(options.seed ^ 0x6e6574) {}

Network::~Network() = default;

// ---- Descriptors ----------------------------------------------------------------------------

Instant Network::now() const { return scheduler_.running().clock; }

template <class T>
std::shared_ptr<T> Network::find(int fd) const {
  const auto at = descriptions_.find(fd);
  return at == descriptions_.end() ? nullptr : std::dynamic_pointer_cast<T>(at->second);
}

int Network::refuse(int error) const {
  errno = error;
  return -1;
}

int Network::add(std::shared_ptr<Description> made, bool blocks) {
  made->blocks = blocks;
  descriptions_.emplace(next_descriptor_, std::move(made));
  return next_descriptor_++;
}

int Network::set_blocking(int fd, bool blocks) {
  const auto description = find<Description>(fd);
  if (description == nullptr) return refuse(EBADF);
  description->blocks = blocks;
  return 0;
}

int Network::close(int fd) {
  scheduler_.call();
  const auto description = find<Description>(fd);
  if (description == nullptr) return refuse(EBADF);
  descriptions_.erase(fd);
  for (Epoll* epoll : description->watched_by) epoll->watched.erase(fd);
  if (auto stream = std::dynamic_pointer_cast<Stream>(description)) hang_up(*stream);
  if (auto listener = std::dynamic_pointer_cast<Listener>(description)) leave(*listener);
  if (auto socket = std::dynamic_pointer_cast<Datagrams>(description)) {
    std::erase(datagrams_[socket->port], socket.get());
  }
  if (auto epoll = std::dynamic_pointer_cast<Epoll>(description)) {
    for (auto& [of, one] : epoll->watched) std::erase(one.description->watched_by, epoll.get());
  }
  return 0;
}

// ---- Sockets --------------------------------------------------------------------------------

Nanos Network::draw_latency() {
  const auto mean = static_cast<uint32_t>(options_.latency.count());
  return Nanos(int64_t{mean} / 2 + prng_.below(mean + 1));
}

uint16_t Network::free_port() {
  while (listeners_.contains(next_port_) || datagrams_.contains(next_port_)) ++next_port_;
  return next_port_++;
}

int Network::socket(int type) {
  scheduler_.call();
  auto made = std::make_shared<Socket>();
  made->datagrams = (type & 0xf) == SOCK_DGRAM;
  if (!made->datagrams) return add(std::move(made), (type & SOCK_NONBLOCK) == 0);
  return add(std::make_shared<Datagrams>(), (type & SOCK_NONBLOCK) == 0);
}

int Network::bind(int fd, const sockaddr* address) {
  scheduler_.call();
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return refuse(EBADF);
  const uint16_t port = port_of(address) != 0 ? port_of(address) : free_port();
  if (auto datagrams = find<Datagrams>(fd)) {
    std::vector<Datagrams*>& there = datagrams_[port];
    const auto shares = [](const Datagrams* one) { return one->shares_port; };
    if (!there.empty() && !(datagrams->shares_port && std::ranges::all_of(there, shares))) {
      return refuse(EADDRINUSE);
    }
    there.push_back(datagrams.get());
  }
  socket->port = port;
  return 0;
}

int Network::listen(int fd) {
  scheduler_.call();
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return refuse(EBADF);
  auto listener = std::make_shared<Listener>();
  listener->port = socket->port;
  listener->blocks = socket->blocks;
  listeners_[socket->port].push_back(listener.get());
  descriptions_[fd] = std::move(listener);
  return 0;
}

// Which of several listeners gets a connection is drawn, as the kernel's hash of its address is.
int Network::connect(int fd, const sockaddr* address) {
  scheduler_.call();
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return refuse(EBADF);
  if (auto datagrams = find<Datagrams>(fd)) {
    datagrams->peer_port = port_of(address);
    return 0;
  }
  const auto group = listeners_.find(port_of(address));
  if (group == listeners_.end() || group->second.empty()) return refuse(ECONNREFUSED);
  Listener& listener =
      *group->second[prng_.below(static_cast<uint32_t>(group->second.size()))];
  auto mine = std::make_shared<Stream>();
  auto theirs = std::make_shared<Stream>();
  mine->port = theirs->peer_port = socket->port != 0 ? socket->port : free_port();
  theirs->port = mine->peer_port = listener.port;
  mine->window = theirs->window = options_.window;
  mine->peer = theirs;
  theirs->peer = mine;
  mine->blocks = socket->blocks;
  descriptions_[fd] = std::move(mine);
  const Instant before = listener.waiting.empty() ? Instant() : listener.waiting.back().at;
  listener.waiting.push_back({std::max(before, now() + draw_latency()), std::move(theirs)});
  signal(listener);
  return 0;
}

int Network::accept(int fd, sockaddr* address, socklen_t* length, int flags) {
  scheduler_.call();
  const auto listener = find<Listener>(fd);
  if (listener == nullptr) return refuse(EBADF);
  for (;;) {
    if (listener->shut) return refuse(EINVAL);
    if (listener->ready(now()) != 0) break;
    if (!listener->blocks) return refuse(EAGAIN);
    if (!wait_for(*listener, Instant::never())) return refuse(EINTR);
  }
  if (one_in(options_.no_descriptor_one_in)) return refuse(EMFILE);
  std::shared_ptr<Stream> stream = std::move(listener->waiting.front().stream);
  listener->waiting.pop_front();
  ++listener->taken;
  write_name(stream->peer_port, address, length);
  return add(std::move(stream), (flags & SOCK_NONBLOCK) == 0);
}

int Network::name(int fd, bool of_peer, sockaddr* address, socklen_t* length) {
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return refuse(EBADF);
  const auto stream = find<Stream>(fd);
  if (of_peer && stream == nullptr) return refuse(ENOTCONN);
  write_name(of_peer ? stream->peer_port : socket->port, address, length);
  return 0;
}

int Network::set_option(int fd, int level, int option, const void* value, socklen_t length) {
  if (find<Socket>(fd) == nullptr) return refuse(EBADF);
  // Each datagram is a message of its own, and no program chooses its socket.
  if (level == IPPROTO_UDP || (level == SOL_SOCKET && option == SO_ATTACH_REUSEPORT_EBPF)) {
    return refuse(ENOPROTOOPT);
  }
  // Bytes are copied into a stream.
  if (level == SOL_SOCKET && option == SO_ZEROCOPY) return refuse(EOPNOTSUPP);
  if (level == SOL_SOCKET && option == SO_REUSEPORT) find<Socket>(fd)->shares_port = true;
  if (level == SOL_SOCKET && option == SO_RCVTIMEO && length >= sizeof(timeval)) {
    timeval given{};
    std::memcpy(&given, value, sizeof given);
    find<Socket>(fd)->receive_limit = Nanos::seconds(given.tv_sec) + Nanos::micros(given.tv_usec);
  }
  const auto stream = find<Stream>(fd);
  if (level == SOL_SOCKET && option == SO_LINGER && stream != nullptr && length >= sizeof(linger)) {
    linger given{};
    std::memcpy(&given, value, sizeof given);
    stream->resets_at_close = given.l_onoff != 0 && given.l_linger == 0;
  }
  return 0;
}

int Network::get_option(int fd, int level, int option, void* value, socklen_t* length) {
  const auto stream = find<Stream>(fd);
  if (level != SOL_SOCKET || option != SO_ERROR || *length < sizeof(int)) {
    return refuse(ENOPROTOOPT);
  }
  const int error = stream != nullptr && stream->reset_at <= now() ? ECONNRESET : 0;
  std::memcpy(value, &error, sizeof error);
  *length = sizeof error;
  return 0;
}

int Network::shutdown(int fd, int how) {
  scheduler_.call();
  if (const auto listener = find<Listener>(fd)) {
    listener->shut = true;
    leave(*listener);
    signal(*listener);
    return 0;
  }
  const auto stream = find<Stream>(fd);
  if (stream == nullptr) return refuse(ENOTCONN);
  if (how != SHUT_WR) stream->shut_read = true;
  if (how != SHUT_RD && !std::exchange(stream->shut_write, true)) {
    if (const auto peer = stream->peer.lock()) end_of_stream(*peer);
  }
  signal(*stream);
  return 0;
}

// Connections that nobody accepted are reset.
void Network::leave(Listener& listener) {
  std::erase(listeners_[listener.port], &listener);
  for (const auto& connection : std::exchange(listener.waiting, {})) {
    if (const auto client = connection.stream->peer.lock()) reset(*client);
  }
}

void Network::hang_up(Stream& stream) {
  const auto peer = stream.peer.lock();
  if (peer == nullptr) return;
  if (stream.resets_at_close || stream.in.unread > 0) {
    reset(*peer);
  } else if (!stream.shut_write) {
    end_of_stream(*peer);
  }
}

void Network::deliver(Stream& to, std::string_view bytes) {
  const uint32_t pieces = one_in(options_.cut_one_in) ? 2 + prng_.below(kMostPieces - 1) : 1;
  for (uint32_t i = pieces; i > 0 && !bytes.empty(); --i) {
    const size_t size =
        i == 1 ? bytes.size() : 1 + prng_.below(static_cast<uint32_t>(bytes.size()));
    Instant at = now() + draw_latency();
    if (pieces > 1) at = at + Nanos(prng_.below(static_cast<uint32_t>(options_.late_most.count())));
    to.in.last = std::max(to.in.last, at);
    to.in.pieces.push_back({to.in.last, std::string(bytes.substr(0, size))});
    to.in.unread += size;
    bytes.remove_prefix(size);
  }
  signal(to);
}

void Network::end_of_stream(Stream& to) {
  to.in.end = std::max(to.in.last, now() + draw_latency());
  signal(to);
}

// A reset overtakes what was sent before it.
void Network::reset(Stream& to) {
  to.reset_at = std::min(to.reset_at, now() + draw_latency());
  signal(to);
}

// ---- Bytes ----------------------------------------------------------------------------------

ssize_t Network::receive(int fd, char* to, size_t room, int flags, sockaddr* from,
                         socklen_t* length) {
  scheduler_.call();
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return refuse(EBADF);
  const bool waits = socket->blocks && (flags & MSG_DONTWAIT) == 0;
  const bool is_limited = socket->receive_limit > Nanos();
  const Instant until = is_limited ? now() + socket->receive_limit : Instant::never();
  for (;;) {
    const auto stream = std::dynamic_pointer_cast<Stream>(socket);
    const ssize_t moved =
        stream != nullptr
            ? receive_stream(*stream, to, room, flags)
            : receive_datagram(static_cast<Datagrams&>(*socket), to, room, from, length);
    if (moved >= 0 || errno != EAGAIN || !waits || now() >= until) return moved;
    if (!wait_for(*socket, until)) return refuse(EINTR);
  }
}

ssize_t Network::receive_stream(Stream& stream, char* to, size_t room, int flags) {
  if (stream.reset_at <= now()) {
    return std::exchange(stream.reset_reported, true) ? 0 : refuse(ECONNRESET);
  }
  const size_t size = stream.in.read(now(), (flags & MSG_TRUNC) != 0 ? nullptr : to, room);
  if (size > 0) {
    const auto peer = stream.peer.lock();
    if (peer != nullptr && std::exchange(peer->starved, false)) {
      ++peer->room_made;
      signal(*peer);
    }
    return static_cast<ssize_t>(size);
  }
  return stream.in.ended(now()) || stream.shut_read ? 0 : refuse(EAGAIN);
}

ssize_t Network::receive_datagram(Datagrams& socket, char* to, size_t room, sockaddr* from,
                                  socklen_t* length) {
  if ((socket.ready(now()) & EPOLLIN) == 0) return refuse(EAGAIN);
  const Datagrams::Packet packet = std::move(socket.packets.front());
  socket.packets.pop_front();
  ++socket.taken;
  const size_t size = std::min(room, packet.bytes.size());
  std::memcpy(to, packet.bytes.data(), size);
  write_name(packet.from, from, length);
  return static_cast<ssize_t>(size);
}

ssize_t Network::send(int fd, std::string_view bytes, int flags, const sockaddr* to) {
  scheduler_.call();
  const auto socket = find<Socket>(fd);
  if (socket == nullptr) return refuse(EBADF);
  if (auto datagrams = std::dynamic_pointer_cast<Datagrams>(socket)) {
    return send_datagram(*datagrams, bytes, to != nullptr ? port_of(to) : datagrams->peer_port);
  }
  const auto stream = std::dynamic_pointer_cast<Stream>(socket);
  if (stream == nullptr) return refuse(ENOTCONN);
  for (;;) {
    const ssize_t moved = send_stream(*stream, bytes, flags);
    if (moved >= 0 || errno != EAGAIN) return moved;
    if (!stream->blocks || (flags & MSG_DONTWAIT) != 0) return refuse(EAGAIN);
    if (!wait_for(*stream, Instant::never())) return refuse(EINTR);
  }
}

// A send that moved less than it could counts as one without room: it is told when there is.
ssize_t Network::send_stream(Stream& stream, std::string_view bytes, int) {
  if (stream.shut_write || stream.reset_at <= now()) return refuse(EPIPE);
  const auto peer = stream.peer.lock();
  if (peer == nullptr || (peer->shut_read && peer->shut_write)) {
    reset(stream);
    return static_cast<ssize_t>(bytes.size());
  }
  size_t room = stream.window - std::min(stream.window, peer->in.unread);
  if (room == 0) {
    stream.starved = true;
    return refuse(EAGAIN);
  }
  if (one_in(options_.cut_one_in)) room = 1 + prng_.below(static_cast<uint32_t>(room));
  if (room < bytes.size()) stream.starved = true;
  deliver(*peer, bytes.substr(0, room));
  return static_cast<ssize_t>(std::min(room, bytes.size()));
}

ssize_t Network::send_datagram(Datagrams& socket, std::string_view bytes, uint16_t port) {
  if (socket.port == 0) {
    socket.port = free_port();
    datagrams_[socket.port].push_back(&socket);
  }
  const auto group = datagrams_.find(port);
  if (group == datagrams_.end() || group->second.empty()) {
    return static_cast<ssize_t>(bytes.size());
  }
  Datagrams& to = *group->second[socket.port % group->second.size()];
  if (to.peer_port != 0 && to.peer_port != socket.port) {
    return static_cast<ssize_t>(bytes.size());
  }
  const uint32_t copies = one_in(options_.lose_one_in) ? 0 : one_in(options_.lose_one_in) ? 2 : 1;
  for (uint32_t i = 0; i < copies; ++i) {
    Instant at = now() + draw_latency();
    if (!options_.overtaking && !to.packets.empty()) at = std::max(at, to.packets.back().at);
    const auto after = std::upper_bound(
        to.packets.begin(), to.packets.end(), at,
        [](Instant left, const Datagrams::Packet& packet) { return left < packet.at; });
    to.packets.insert(after, {at, socket.port, std::string(bytes)});
  }
  signal(to);
  return static_cast<ssize_t>(bytes.size());
}

// ---- Events ---------------------------------------------------------------------------------

int Network::eventfd(uint64_t count) {
  scheduler_.call();
  auto made = std::make_shared<Event>();
  made->count = count;
  return add(std::move(made), false);
}

bool Network::is_event(int fd) const { return find<Event>(fd) != nullptr; }

ssize_t Network::read_event(int fd, void* to, size_t room) {
  scheduler_.call();
  const auto event = find<Event>(fd);
  if (room < sizeof event->count) return refuse(EINVAL);
  if (event->count == 0) return refuse(EAGAIN);
  std::memcpy(to, &event->count, sizeof event->count);
  event->count = 0;
  return sizeof event->count;
}

ssize_t Network::write_event(int fd, const void* from, size_t size) {
  scheduler_.call();
  const auto event = find<Event>(fd);
  uint64_t value = 0;
  if (size < sizeof value) return refuse(EINVAL);
  std::memcpy(&value, from, sizeof value);
  event->count += value;
  ++event->writes;
  signal(*event);
  return sizeof value;
}

int Network::make_timer() {
  scheduler_.call();
  return add(std::make_shared<Timer>(), false);
}

int Network::set_timer(int fd, Nanos after) {
  scheduler_.call();
  const auto timer = find<Timer>(fd);
  if (timer == nullptr) return refuse(EINVAL);
  timer->at = after == Nanos() ? Instant::never() : now() + after;
  signal(*timer);
  return 0;
}

bool Network::is_timer(int fd) const { return find<Timer>(fd) != nullptr; }

ssize_t Network::read_timer(int fd, void* to, size_t room) {
  scheduler_.call();
  const auto timer = find<Timer>(fd);
  const uint64_t count = 1;
  if (room < sizeof count) return refuse(EINVAL);
  if (timer->ready(now()) == 0) return refuse(EAGAIN);
  std::memcpy(to, &count, sizeof count);
  timer->at = Instant::never();
  return sizeof count;
}

// ---- Waiting --------------------------------------------------------------------------------

void Network::signal(Description& description) {
  for (const void* poller : description.pollers) scheduler_.wake(poller, 1);
  scheduler_.wake(&description, UINT32_MAX);
  for (Epoll* epoll : description.watched_by) {
    epoll->quiet_until = Instant();
    signal(*epoll);
  }
}

bool Network::wait_for(Description& description, Instant until) {
  until = std::min(until, description.next(now()));
  const bool woken = scheduler_.wait(&description, until);
  const bool interrupted = !woken && now() < until;
  if (!interrupted) scheduler_.resume();
  return !interrupted;
}

int Network::make_epoll() {
  scheduler_.call();
  return add(std::make_shared<Epoll>(), true);
}

int Network::control(int epoll, int operation, int fd, const epoll_event* event) {
  scheduler_.call();
  const auto watcher = find<Epoll>(epoll);
  const auto description = find<Description>(fd);
  if (watcher == nullptr || description == nullptr) return refuse(EBADF);
  const bool known = watcher->watched.contains(fd);
  if (operation == EPOLL_CTL_ADD ? known : !known) return refuse(known ? EEXIST : ENOENT);
  if (operation == EPOLL_CTL_DEL) {
    watcher->watched.erase(fd);
    std::erase(description->watched_by, watcher.get());
    return 0;
  }
  if (!known) description->watched_by.push_back(watcher.get());
  watcher->watched[fd] = {description, *event, UINT64_MAX};
  watcher->quiet_until = Instant();
  signal(*watcher);
  return 0;
}

// In turn, beginning after the one that was reported last.
int Network::collect(Epoll& epoll, std::span<epoll_event> events) {
  if (now() < epoll.quiet_until) return 0;
  size_t count = 0;
  auto at = epoll.watched.upper_bound(epoll.last_reported);
  for (size_t i = 0; i < epoll.watched.size() && count < events.size(); ++i, ++at) {
    if (at == epoll.watched.end()) at = epoll.watched.begin();
    const uint32_t mask = at->second.report(now());
    if (mask == 0) continue;
    events[count++] = {mask, at->second.event.data};
    at->second.seen = at->second.description->edges(now());
    epoll.last_reported = at->first;
  }
  if (count == 0) epoll.quiet_until = epoll.next(now());
  return static_cast<int>(count);
}

int Network::wait(int fd, std::span<epoll_event> events, Nanos limit) {
  scheduler_.call();
  const auto epoll = find<Epoll>(fd);
  if (epoll == nullptr) return refuse(EBADF);
  const Instant until = limit < Nanos() ? Instant::never() : now() + limit;
  for (;;) {
    const int count = collect(*epoll, events);
    if (count > 0 || now() >= until) return count;
    if (!wait_for(*epoll, until)) return refuse(EINTR);
  }
}

int Network::poll(std::span<pollfd> files, Nanos limit) {
  scheduler_.call();
  const Instant until = limit < Nanos() ? Instant::never() : now() + limit;
  for (;;) {
    int count = 0;
    Instant next = until;
    std::vector<std::shared_ptr<Description>> watched;
    for (pollfd& file : files) {
      const auto description = find<Description>(file.fd);
      file.revents = 0;
      if (file.fd < 0) continue;
      if (description == nullptr) {
        file.revents = POLLNVAL;
      } else {
        const auto wanted = static_cast<uint32_t>(file.events) | EPOLLERR | EPOLLHUP;
        file.revents = static_cast<short>(description->ready(now()) & wanted);
        next = std::min(next, description->next(now()));
        watched.push_back(description);
      }
      if (file.revents != 0) ++count;
    }
    if (count > 0 || now() >= until) return count;
    const char here = 0;
    for (const auto& description : watched) description->pollers.push_back(&here);
    const bool woken = scheduler_.wait(&here, next);
    for (const auto& description : watched) std::erase(description->pollers, &here);
    if (!woken && now() < next) return refuse(EINTR);
    scheduler_.resume();
  }
}

}  // namespace rubato::virt
