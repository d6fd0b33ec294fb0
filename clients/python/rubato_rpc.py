# SPDX-License-Identifier: Apache-2.0
"""A client of Rubato RPC (docs/RPC.md). Python 3.9 or later, standard library only.

    with rubato_rpc.Client("127.0.0.1", 7380) as client:
        reply = client.call(b"10000 SHORT")
        reply = client.call(rubato_rpc.command("GET", "key"))    # of serve kv; the reply is RESP

A Client has one session, over TCP or UDP, and a thread that sends and receives. It queues requests
while the server gives it no credit, gives up those that wait for too long, and keeps no more
unanswered than its credit. How a request ended is the value of its future: the reply, or one of

    Refused     by the server, with its reason, class and retry_after_s
    Failed      by the application
    Expired     never sent: it waited for credit for too long
    Overflowed  never sent: the queue was full
    Withheld    never sent: less urgent than what the server admits
    Lost        sent, and no answer came: the connection went, or the time was up; may have been run

Nothing is retried. Session is the same without sockets, threads and clock: bytes in, bytes out.
"""

import collections
import concurrent.futures
import math
import random
import selectors
import socket
import ssl
import struct
import threading
import time
import zlib

MAGIC = b"RB"
VERSION = 1
HEADER = struct.Struct(">2sBBIIIQ")
REFUSAL = struct.Struct(">BBHI")
RANK = struct.Struct(">BBH")
LOAD = struct.Struct(">II")
HELLO, REQUEST, DEMAND, GOODBYE, RANKED, PROBE = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
WELCOME, RESPONSE, CREDIT, REFUSED, ERROR, TOKEN = 0x81, 0x82, 0x83, 0x84, 0x85, 0x86
LOADED, LEVEL = 0x87, 0x88
PRIORITIES, COHORTS = 8, 128
LEVELS = PRIORITIES * COHORTS
LEVEL_HOLDS_S = 1.0  # then a request is sent to hear whether it still does
TOKEN_BYTES = 8  # before each frame of a client over UDP
MAX_BODY = 16 << 20
MAX_DATAGRAM = 1472
RECONNECT_S = 0.1  # between two attempts
REASONS = {1: "overloaded", 2: "queue full", 4: "over credit"}
# What a socket that does not block raises, be it plain or one of TLS.
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class RequestError(Exception):
    """A request that got no reply."""


class Refused(RequestError):
    def __init__(self, reason, of_class, retry_after_s):
        super().__init__(REASONS.get(reason, f"reason {reason}"))
        self.reason, self.of_class, self.retry_after_s = reason, of_class, retry_after_s


class Failed(RequestError):
    pass


class Unsent(RequestError):
    """Given up here; the server knows nothing of it."""


class Expired(Unsent):
    pass


class Overflowed(Unsent):
    pass


class Withheld(Unsent):
    pass


class Lost(RequestError):
    pass


class ProtocolError(Exception):
    """The session is over."""


Frame = collections.namedtuple("Frame", "kind session amount id body")
Load = collections.namedtuple("Load", "in_flight latency_s")  # latency_s 0 = not known


def encode(kind, session, amount, request_id=0, body=b""):
    return HEADER.pack(MAGIC, VERSION, kind, len(body), session, amount, request_id) + body


def command(*words):
    """The body that asks `serve kv` for a command: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def decode(data):
    """(frame, its length) at the beginning of `data`; (None, 0) if there is more to come."""
    if data[:2] != MAGIC[:len(data)]:
        raise ProtocolError("this is not Rubato RPC")
    if len(data) < HEADER.size:
        return None, 0
    _, version, kind, size, session, amount, request_id = HEADER.unpack_from(data)
    if version != VERSION:
        raise ProtocolError(f"version {version} of Rubato RPC; here is {VERSION}")
    if size > MAX_BODY:
        raise ProtocolError(f"a body of {size} bytes")
    if len(data) < HEADER.size + size:
        return None, 0
    body = bytes(data[HEADER.size:HEADER.size + size])
    return Frame(kind, session, amount, request_id, body), HEADER.size + size


def rank_of(priority, user=None):
    """(priority, cohort) of a request for `user`, a str, bytes or int, or for nobody known."""
    if not 0 <= priority < PRIORITIES:
        raise ValueError(f"a priority is from 0 to {PRIORITIES - 1}, not {priority}")
    if user is None:
        return priority, random.randrange(COHORTS)
    data = user if isinstance(user, bytes) else str(user).encode()
    hour = int(time.time()) // 3600
    return priority, zlib.crc32(data + b" %d" % hour) % COHORTS


class Session:
    """The rules of one session. `ended(tag, reply_or_exception)` is told of each request once.

    Times are seconds of any clock. One thread at a time; `ended` must not call back.
    """

    def __init__(self, ended, session=1, queue=16, discard_oldest=True, expire_s=0.010,
                 answer_within_s=1.0, datagrams=False, repeat_s=0.020):
        self.ended, self.session, self.datagrams = ended, session, datagrams
        self.room, self.discard_oldest = queue, discard_oldest
        self.expire_s, self.answer_within_s, self.repeat_s = expire_s, answer_within_s, repeat_s
        self.queue = collections.deque()       # (tag, since, body, rank)
        self.probes = collections.OrderedDict()  # as sent
        self.sent = collections.OrderedDict()  # id: (tag, at)
        self.next_id = 1
        self.reset()

    def reset(self):
        self.greeted = self.open = self.spent_first = False
        self.credit = self.told_demand = self.token = 0
        self.asked_at = self.heard_at = 0.0
        self.levels = LEVELS  # that the server admits, as far as it has said
        self.unread = bytearray()

    def submit(self, tag, body, now, rank=None):
        """`rank` is (priority, cohort), 0 .. 7 and 0 .. 127, 0 = the most urgent, or None."""
        self.expire(now)
        if len(self.queue) >= self.room:
            if not self.discard_oldest:
                self.ended(tag, Overflowed("the queue is full"))
                return
            self.ended(self.queue.popleft()[0], Overflowed("the queue was full"))
        self.queue.append((tag, now, body, rank))

    def probe(self, tag, now):
        """A frame that asks for the load, which `ended` brings as a Load; None: not open."""
        if not self.open:
            return None
        request_id, self.next_id = self.next_id, self.next_id + 1
        self.probes[request_id] = (tag, now)
        return self._frame(PROBE, 0, request_id)

    def next_frame(self, now):
        """The next frame to send, or None. Over UDP each is a datagram."""
        self.expire(now)
        self._drop_withheld(now)
        if not self.greeted:
            self.greeted, self.asked_at = True, now
            needs_token = self.datagrams and not self.token
            if self.queue and not needs_token and not self.queue[0][3]:
                return self._request(HELLO, now)
            return self._plain(HELLO)
        if not self.open:
            if not self.datagrams or now - self.asked_at < self.repeat_s:
                return None
            self.asked_at = now
            return self._plain(HELLO)
        # The first request needs no credit: it could have gone with the hello.
        allowed = self.credit if self.spent_first else max(self.credit, 1)
        if self.queue and len(self.sent) < allowed:
            return self._request(REQUEST, now)
        return self._demand(now)

    def receive(self, data, now):
        """Bytes that came. ProtocolError: the session is over, call lost()."""
        self.unread += data
        while self.unread:
            frame, length = decode(self.unread)
            if frame is None:
                break
            del self.unread[:length]
            self._take(frame, now)
        if self.datagrams:
            self.unread.clear()
        self.expire(now)

    def poll(self, now):
        """Time has passed."""
        self.expire(now)
        for asked in (self.sent, self.probes) if self.answer_within_s else ():
            while asked:
                request_id, (tag, at) = next(iter(asked.items()))
                if now - at <= self.answer_within_s:
                    break
                del asked[request_id]
                self.ended(tag, Lost("no answer came in time"))

    def expire(self, now):
        while self.expire_s and self.queue and now - self.queue[0][1] > self.expire_s:
            self.ended(self.queue.popleft()[0], Expired("waited for credit for too long"))

    def lost(self, why="the connection is gone"):
        """What was sent is lost; what was not goes with the next session."""
        sent, self.sent = self.sent, collections.OrderedDict()
        probes, self.probes = self.probes, collections.OrderedDict()
        self.reset()
        for tag, _ in [*sent.values(), *probes.values()]:
            self.ended(tag, Lost(why))

    def goodbye(self):
        return self._frame(GOODBYE, 0)

    def _frame(self, kind, amount, request_id=0, body=b""):
        token = self.token.to_bytes(TOKEN_BYTES, "big") if self.datagrams else b""
        return token + encode(kind, self.session, amount, request_id, body)

    def _plain(self, kind):
        self.told_demand = len(self.queue)
        return self._frame(kind, self.told_demand)

    def _request(self, kind, now):
        tag, _, body, rank = self.queue.popleft()
        if rank:
            kind, body = RANKED, RANK.pack(*rank, 0) + body
        request_id, self.next_id = self.next_id, self.next_id + 1
        self.sent[request_id] = (tag, now)
        self.spent_first = True
        self.told_demand = len(self.queue)
        return self._frame(kind, self.told_demand, request_id, body)

    def _drop_withheld(self, now):
        if not self.open or (self.spent_first and len(self.sent) >= self.credit):
            return
        while self.queue and self.queue[0][3] and self._withholds(*self.queue[0][3], now):
            self.ended(self.queue.popleft()[0], Withheld("less urgent than what is admitted"))

    def _withholds(self, priority, cohort, now):
        if priority * COHORTS + cohort < self.levels:
            return False
        if now - self.heard_at < LEVEL_HOLDS_S:
            return True
        self.heard_at = now
        return False

    # While something is unanswered the answer brings the credit, and what is sent next says the
    # rest; but an answer may be long in coming, so that something is wanted at all is said at once.
    def _demand(self, now):
        wants = bool(self.queue)
        if self.sent and not wants:
            return None
        again = wants and self.datagrams and now - self.asked_at >= self.repeat_s
        if wants == (self.told_demand > 0) and not again:
            return None
        self.asked_at = now
        return self._plain(DEMAND)

    def _take(self, frame, now):
        nameless = frame.kind == ERROR and frame.session == 0
        if frame.session != self.session and not nameless:
            return
        if frame.kind == ERROR:
            text = frame.body.decode("utf-8", "replace") or f"fault {frame.amount}"
            if frame.id == 0:
                raise ProtocolError(f"the server ended the session: {text}")
            self._end(self.sent, frame.id, Failed(text))
            return
        if frame.kind == LOADED:
            if len(frame.body) != LOAD.size:
                raise ProtocolError("a load of another size")
            latency_us, _ = LOAD.unpack(frame.body)
            self._end(self.probes, frame.id, Load(frame.amount, latency_us / 1e6))
            return
        if frame.kind == LEVEL:
            self.levels, self.heard_at = min(max(frame.amount, 1), LEVELS), now
            return
        if frame.kind == TOKEN:  # the next frame is a hello with it
            if self.datagrams and self.greeted and not self.open and not self.token:
                self.token, self.greeted = frame.id, False
            return
        if frame.kind == RESPONSE:
            self._end(self.sent, frame.id, frame.body)
        elif frame.kind == REFUSED:
            if len(frame.body) != REFUSAL.size:
                raise ProtocolError("a refusal of another size")
            reason, of_class, _, retry_us = REFUSAL.unpack(frame.body)
            self._end(self.sent, frame.id, Refused(reason, of_class, retry_us / 1e6))
        elif frame.kind not in (WELCOME, CREDIT):
            raise ProtocolError(f"a frame of kind {frame.kind:#x}")
        self.greeted = self.open = True
        self.credit = frame.amount

    def _end(self, asked, request_id, outcome):
        tag, _ = asked.pop(request_id, (None, None))
        if tag is not None:
            self.ended(tag, outcome)


class Client:
    """One session with a server. Any thread may call submit and call."""

    def __init__(self, host, port, udp=False, connect_timeout_s=5.0, tls=None, **options):
        """`tls` is an ssl.SSLContext, for a server with --tls-rpc yes. `options` are Session's:
        queue, discard_oldest, expire_s, answer_within_s, ..."""
        if udp:
            options = {"session": random.randrange(1, 1 << 32), "datagrams": True, **options}
        self.address, self.udp, self.connect_timeout_s = (host, port), udp, connect_timeout_s
        self.tls = tls
        self.counts = collections.Counter()  # by the name of the exception, "Reply" or "Load"
        self._lock = threading.Lock()        # guards all below
        self._ended = []
        self._session = Session(lambda tag, outcome: self._ended.append((tag, outcome)), **options)
        self._socket = self._connect()
        self._unsent = b""
        self._to_probe = collections.deque()
        self._retry_at = 0.0                 # when to connect again; inf = that is underway
        self._closing = False
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._wake_w.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="rubato-rpc", daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def submit(self, body, priority=None, user=None):
        """A future of the reply. `body` is bytes, or what can be taken for them. A `priority`
        from 0, the most urgent, to 7 gives it a rank, within which the users whom an overloaded
        server refuses are others each hour; without a `user` each request is one's own."""
        body = bytes(memoryview(body))  # here, as the thread that sends it has nobody to tell
        rank = None if priority is None and user is None else rank_of(priority or 0, user)
        most = MAX_DATAGRAM - TOKEN_BYTES - HEADER.size if self.udp else MAX_BODY
        most -= RANK.size if rank else 0
        if len(body) > most:
            raise ValueError(f"a body has at most {most} bytes, not {len(body)}")
        future = concurrent.futures.Future()
        with self._lock:
            if self._closing:
                raise RuntimeError("the client is closed")
            self._session.submit(future, body, time.monotonic(), rank)
        self._wake()
        return future

    def call(self, body, timeout_s=None, priority=None, user=None):
        return self.submit(body, priority, user).result(timeout_s)

    def probe(self):
        """A future of the server's Load. For a balancer over several servers: see docs/RPC.md."""
        future = concurrent.futures.Future()
        with self._lock:
            if self._closing:
                raise RuntimeError("the client is closed")
            self._to_probe.append(future)
        self._wake()
        return future

    @property
    def credit(self):
        return self._session.credit

    def close(self):
        """What has no answer yet is lost."""
        with self._lock:
            self._closing = True
        self._wake()
        self._thread.join()
        self._wake_r.close()
        self._wake_w.close()

    def _connect(self):
        if not self.udp:
            connection = socket.create_connection(self.address, self.connect_timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_hostname=self.address[0])
        else:
            family, kind, proto, _, address = socket.getaddrinfo(*self.address,
                                                                 type=socket.SOCK_DGRAM)[0]
            connection = socket.socket(family, kind, proto)
            connection.connect(address)
        connection.setblocking(False)
        return connection

    def _wake(self):
        try:
            self._wake_w.send(b"x")
        except OSError:
            pass  # full of wakes, or closed

    def _run(self):
        while True:
            self._reconnect()
            with self._lock:
                closing = self._closing
                self._step(closing)
            self._settle()
            if closing:
                return
            self._wait()

    def _reconnect(self):
        with self._lock:
            if self._socket is not None or self._closing or time.monotonic() < self._retry_at:
                return
            self._retry_at = math.inf
        threading.Thread(target=self._connect_again, name="rubato-rpc-connect", daemon=True).start()

    # Aside, as it may take long: what is queued expires meanwhile.
    def _connect_again(self):
        try:
            connection = self._connect()
        except OSError:
            connection = None
        with self._lock:
            self._retry_at = time.monotonic() + RECONNECT_S
            if not self._closing:
                self._socket = connection
            elif connection is not None:
                connection.close()
        if connection is not None:
            self._wake()

    def _step(self, closing):
        now = time.monotonic()
        self._session.poll(now)
        try:
            if self._socket is not None:
                self._receive(now)
                self._send(now)
            if closing and self._socket is not None:
                self._socket.send(self._session.goodbye())
        except (OSError, ProtocolError) as problem:
            self._disconnect(str(problem))
        if closing:
            self._disconnect("the client was closed")
            for tag in [*(queued[0] for queued in self._session.queue), *self._to_probe]:
                self._ended.append((tag, Lost("the client was closed")))
            self._session.queue.clear()
            self._to_probe.clear()

    def _receive(self, now):
        while True:
            try:
                data = self._socket.recv(65536)
            except WOULD_BLOCK:
                return
            if not data and not self.udp:
                raise ProtocolError("the server closed the connection")
            self._session.receive(data, now)

    def _send(self, now):
        while True:
            if not self._unsent:
                self._unsent = self._probe(now) or self._session.next_frame(now) or b""
                if not self._unsent:
                    return
            try:
                sent = self._socket.send(self._unsent)
            except WOULD_BLOCK:
                return
            self._unsent = b"" if self.udp else self._unsent[sent:]

    def _probe(self, now):
        frame = self._session.probe(self._to_probe[0], now) if self._to_probe else None
        if frame is not None:
            self._to_probe.popleft()
        return frame

    def _disconnect(self, why):
        if self._socket is not None:
            self._socket.close()
        self._socket, self._unsent = None, b""
        self._session.lost(why)

    # Outside of the lock: futures call back.
    def _settle(self):
        with self._lock:
            ended, self._ended = self._ended, []
            for _, outcome in ended:
                named = isinstance(outcome, (Exception, Load))
                name = type(outcome).__name__ if named else "Reply"
                self.counts[name] += 1
        for future, outcome in ended:
            if not future.set_running_or_notify_cancel():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _wait(self):
        with self._lock:
            sock, busy = self._socket, bool(self._session.queue or self._session.sent)
            blocked = bool(self._unsent)
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_r, selectors.EVENT_READ)
            if sock is not None:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if blocked else 0)
                selector.register(sock, events)
            selector.select(0.001 if busy else RECONNECT_S if sock is None else 0.5)
        try:
            self._wake_r.recv(4096)
        except BlockingIOError:
            pass
