#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the same requests to redis-server and to `rubato serve kv` and compares the reply bytes.

    compat_test.py --binary build/dev/bin/rubato [--engine memory] [--rounds N] [--seed N]
    compat_test.py --server 127.0.0.1:7000 ...      (a server that is running already)

Requests are random (the seed is printed; RUBATO_SEED replays it) over few keys, so that they meet.
What cannot be equal is compared by its meaning: times to live within a second, KEYS in any order,
SCAN by a whole iteration. Exits 0 = equal, 1 = not, 77 = skipped with a reason.
"""
import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
START_LIMIT_S = 20
REPLY_LIMIT_S = 30
KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"empty", b"", b"user:1", b"user:2", b"\x00\xff"]
NUMBERS = [b"0", b"1", b"-1", b"2", b"10", b"100", b"-100", b"9223372036854775807",
           b"-9223372036854775808", b"9223372036854775808", b"1.5", b"abc", b"", b" 1", b"01",
           b"-0", b"3.0e3", b"nan", b"inf", b"0.1", b"1e-5", b"536870912"]
VALUES = [b"", b"x", b"hello world", b"12345", b"-7", b"10.5", b"v" * 44, b"v" * 45, b"y" * 5000,
          b"\r\n$1\r\n", b"\x00\x01\x02"]
PATTERNS = [b"*", b"key:*", b"?", b"[ab]", b"[^a]", b"user:[1-2]", b"\\a", b"*:*", b"", b"k*1",
            b"[", b"[a-", b"a**"]


class Connection:
    """One raw connection that reads whole RESP values."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=REPLY_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def _fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line + b"\r\n"

    def read(self):
        """The bytes of one reply."""
        line = self._line()
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=" and rest != b"-1":
            size = int(rest) + 2
            while len(self.buffer) < size:
                self._fill()
            body, self.buffer = self.buffer[:size], self.buffer[size:]
            return line + body
        if kind in b"*~>%" and rest != b"-1":
            count = int(rest) * (2 if kind == b"%" else 1)
            return line + b"".join(self.read() for _ in range(count))
        return line

    def call(self, *words):
        self.send(encode(words))
        return self.read()

    def read_to_end(self):
        """All bytes until the server closes."""
        data = self.buffer
        try:
            while True:
                more = self.socket.recv(1 << 16)
                if not more:
                    return data
                data += more
        except ConnectionResetError:
            return data


def encode(words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def strings_of(reply):
    """The bulk strings of a flat array reply."""
    out = []
    rest = reply.split(b"\r\n", 1)[1]
    while rest:
        head, rest = rest.split(b"\r\n", 1)
        size = int(head[1:])
        out.append(rest[:size])
        rest = rest[size + 2:]
    return out


def words_generator(rng):
    """A random request over the shared keys."""
    key = lambda: rng.choice(KEYS)
    value = lambda: rng.choice(VALUES)
    # For error texts: Redis cuts them at a zero byte, which says nothing.
    shown = lambda: rng.choice(VALUES[:-1])
    number = lambda: rng.choice(NUMBERS)
    small = lambda: str(rng.randint(-12, 12)).encode()
    soon = lambda: str(rng.choice([-1, 0, 1000, 2000, 100000])).encode()
    pattern = lambda: rng.choice(PATTERNS)
    now = int(time.time())
    moment = lambda: str(now + rng.choice([-100, 1000, 5000])).encode()
    moment_ms = lambda: str((now + rng.choice([-100, 1000, 5000])) * 1000).encode()

    def set_options():
        words = []
        for _ in range(rng.randint(0, 3)):
            words += rng.choice([[b"NX"], [b"XX"], [b"GET"], [b"KEEPTTL"], [b"EX", soon()],
                                 [b"PX", soon()], [b"EXAT", moment()], [b"PXAT", moment_ms()],
                                 [b"bogus"], [b"EX"], [b"ex", number()]])
        return words

    def getex_options():
        return rng.choice([[], [b"PERSIST"], [b"EX", soon()], [b"PX", soon()],
                           [b"EXAT", moment()], [b"PXAT", moment_ms()], [b"NX"], [b"EX", b"x"],
                           [b"EX", b"100", b"PERSIST"], [b"KEEPTTL"]])

    def expire_options():
        return rng.choice([[], [], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"NX", b"GT"],
                           [b"GT", b"LT"], [b"bogus"], [b"XX", b"GT"]])

    many = lambda f: [f() for _ in range(rng.randint(1, 4))]
    pairs = lambda: sum([[key(), value()] for _ in range(rng.randint(1, 3))], [])
    choices = [
        lambda: [b"SET", key(), value()], lambda: [b"SET", key(), number()],
        lambda: [b"SET", key(), value()] + set_options(),
        lambda: [b"SETNX", key(), value()], lambda: [b"SETEX", key(), soon(), value()],
        lambda: [b"PSETEX", key(), soon(), value()], lambda: [b"GETSET", key(), value()],
        lambda: [b"GET", key()], lambda: [b"GETDEL", key()],
        lambda: [b"GETEX", key()] + getex_options(),
        lambda: [b"APPEND", key(), value()], lambda: [b"STRLEN", key()],
        lambda: [b"GETRANGE", key(), small(), small()], lambda: [b"SUBSTR", key(), small(), small()],
        lambda: [b"GETRANGE", key(), number(), number()],
        lambda: [b"SETRANGE", key(), str(rng.randint(-1, 20)).encode(), value()],
        lambda: [b"SETRANGE", key(), number(), rng.choice([b"", b"abc"])]
        if rng.random() < 0.1 else [b"STRLEN", key()],
        lambda: [b"INCR", key()], lambda: [b"DECR", key()],
        lambda: [b"INCRBY", key(), number()], lambda: [b"DECRBY", key(), number()],
        lambda: [b"INCRBYFLOAT", key(), number()],
        lambda: [b"MGET"] + many(key), lambda: [b"MSET"] + pairs(), lambda: [b"MSETNX"] + pairs(),
        lambda: [b"DEL"] + many(key), lambda: [b"UNLINK"] + many(key),
        lambda: [b"EXISTS"] + many(key), lambda: [b"TOUCH"] + many(key), lambda: [b"TYPE", key()],
        lambda: [b"EXPIRE", key(), soon()] + expire_options(),
        lambda: [b"PEXPIRE", key(), soon()] + expire_options(),
        lambda: [b"EXPIREAT", key(), moment()] + expire_options(),
        lambda: [b"PEXPIREAT", key(), moment_ms()] + expire_options(),
        lambda: [b"EXPIRE", key(), number()], lambda: [b"PERSIST", key()],
        lambda: [b"TTL", key()], lambda: [b"PTTL", key()], lambda: [b"EXPIRETIME", key()],
        lambda: [b"PEXPIRETIME", key()], lambda: [b"KEYS", pattern()],
        lambda: [b"RENAME", key(), key()], lambda: [b"RENAMENX", key(), key()],
        lambda: [b"COPY", key(), key()] + rng.choice([[], [b"REPLACE"], [b"bogus"], [b"DB", b"x"]]),
        lambda: [b"DBSIZE"], lambda: [b"ECHO", value()], lambda: [b"PING"],
        lambda: [b"PING", value()], lambda: [b"OBJECT", b"FREQ", key()],
        lambda: [b"OBJECT", b"REFCOUNT", b"none"], lambda: [b"CLIENT", b"GETNAME"],
        lambda: [b"CLIENT", b"SETNAME", rng.choice([b"x", b"a b", b""])],
        lambda: [b"SELECT", rng.choice([b"0", b"99", b"x", b"-1"])],
        lambda: [b"CONFIG", b"GET", rng.choice([b"maxmemory", b"save", b"timeout", b"nope"])],
        lambda: [b"CONFIG", b"SET", rng.choice([b"nope", b"timeout"]), rng.choice([b"x", b"0"])],
        lambda: [b"SLOWLOG", rng.choice([b"LEN", b"RESET", b"bogus"])],
        lambda: [b"SLOWLOG", b"GET", b"-2"], lambda: [b"LATENCY", b"LATEST"],
        lambda: [b"LATENCY", b"HISTORY", b"command"], lambda: [b"LATENCY", b"RESET"],
        lambda: [b"SCAN", rng.choice([b"x", b"0"]), rng.choice([b"COUNT", b"MATCH", b"bogus"])],
        lambda: [b"SCAN", b"0", b"COUNT", rng.choice([b"0", b"-1", b"x"])],
        lambda: [b"COMMAND", b"GETKEYS", b"GET", b"a"], lambda: [b"COMMAND", b"GETKEYS", b"bogus"],
        lambda: [b"COMMAND", b"bogus"], lambda: [b"CONFIG", b"bogus", b"x"],
        lambda: [b"OBJECT", b"bogus"], lambda: [b"OBJECT", b"ENCODING"], lambda: [b"CLIENT"],
        lambda: [b"CLIENT", b"KILL", b"1.2.3.4:5"], lambda: [b"CLIENT", b"KILL", b"ID", b"x"],
        lambda: [b"CLIENT", b"LIST", b"TYPE", b"bogus"], lambda: [b"CLIENT", b"NO-EVICT", b"on"],
        lambda: [b"CLIENT", b"NO-EVICT", b"x"], lambda: [b"WAIT", b"0", b"0"],
        lambda: [b"WAIT", b"0", b"-1"], lambda: [b"FLUSHALL", b"bogus"],
        lambda: [b"AUTH", b"x"], lambda: [b"AUTH", b"u", b"p"], lambda: [b"AUTH", b"a", b"b", b"c"],
        lambda: [b"HELLO", b"5"], lambda: [b"HELLO", b"x"], lambda: [b"HELLO", b"3", b"bogus"],
        lambda: [rng.choice([b"nope", b"LOL\r\nX"])] + many(shown),
        lambda: [b"FLUSHALL"] if rng.random() < 0.1 else [b"GET", key()],
    ]
    arity = [b"GET", b"SET", b"SETEX", b"MSET", b"DEL", b"EXPIRE", b"TTL", b"RENAME", b"COPY",
             b"KEYS", b"SCAN", b"INCRBY", b"SELECT", b"CONFIG", b"OBJECT", b"ECHO", b"STRLEN",
             b"GETEX", b"RANDOMKEY", b"DBSIZE", b"PING", b"MSETNX", b"HELLO", b"LATENCY"]

    def make():
        if rng.random() < 0.03:
            return [rng.choice(arity)] + [shown() for _ in range(rng.randint(0, 6))]
        words = rng.choice(choices)()
        if rng.random() < 0.1:
            words[0] = bytes(rng.choice([c, c ^ 0x20]) if chr(c).isalpha() else c
                             for c in words[0])
        return words

    return make


# DBSIZE may count keys that are expired and not yet removed.
LOOSE = {b"TTL": 1, b"EXPIRETIME": 1, b"PTTL": 1500, b"PEXPIRETIME": 1500, b"DBSIZE": 5}
# Replies that tell about the server itself: only their kind is compared.
KIND_ONLY = {b"RANDOMKEY", b"LATENCY", b"SLOWLOG", b"CONFIG", b"COMMAND", b"CLIENT", b"SCAN"}


def equal(words, ours, theirs):
    if ours == theirs:
        return True
    name = words[0].upper()
    if name in LOOSE and ours[:1] == theirs[:1] == b":":
        return abs(int(ours[1:]) - int(theirs[1:])) <= LOOSE[name]
    if name == b"KEYS" and ours[:1] == theirs[:1] == b"*":
        return sorted(strings_of(ours)) == sorted(strings_of(theirs))
    if name in KIND_ONLY and ours[:1] != b"-":
        return ours[:1] == theirs[:1]
    return name == b"HELLO" and ours[:1] == theirs[:1] != b"-"


def compare_random(ours, theirs, rng, rounds):
    """Random requests, some of them pipelined."""
    make = words_generator(rng)
    failures = 0
    done = 0
    while done < rounds and failures < 10:
        batch = [make() for _ in range(rng.choice([1, 1, 1, 16]))]
        data = b"".join(encode(words) for words in batch)
        cut = rng.randint(0, len(data))
        for connection in (ours, theirs):
            connection.send(data[:cut])
            connection.send(data[cut:])
        for words in batch:
            a, b = ours.read(), theirs.read()
            if not equal(words, a, b):
                failures += 1
                print(f"DIFFERS {words}\n   ours: {a[:300]!r}\n  redis: {b[:300]!r}")
        done += len(batch)
    return failures


def compare_state(ours, theirs):
    """The keys, by KEYS and by a whole SCAN, and their values."""
    keys = sorted(strings_of(theirs.call("KEYS", "*")))
    failures = 0
    if sorted(strings_of(ours.call("KEYS", "*"))) != keys:
        print("DIFFERS: the keys after all requests")
        failures += 1
    cursor, seen = b"0", []
    while True:
        ours.send(encode(["SCAN", cursor, "COUNT", "3"]))
        ours._line()
        cursor = strings_of(b"*1\r\n" + ours.read())[0]
        seen += strings_of(ours.read())
        if cursor == b"0":
            break
    if sorted(set(seen)) != keys:
        print(f"DIFFERS: SCAN saw {sorted(set(seen))}, there are {keys}")
        failures += 1
    for key in keys:
        if ours.call("GET", key) != theirs.call("GET", key):
            print(f"DIFFERS: the value of {key}")
            failures += 1
    return failures


MALFORMED = [
    b"*abc\r\n", b"*3000000000\r\n", b"*1\r\nfoo\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$x\r\n",
    b"*1\r\n$2000000000\r\n", b"\"abc\r\n", b"'a'b\r\n", b"*" + b"1" * 70000,
    b"a" * 70000, b"*1\r\n$" + b"1" * 70000, b"*2\r\n$4\r\nPING\r\n:1\r\n", b"*01\r\n",
    b"PING\r\n*1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n*x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n",
    b"*0\r\n*-5\r\n\r\nPING\r\nQUIT\r\n", b"QUIT\r\nPING\r\n", b"SET \"a\\x41\" 'b\\'c'\r\nGET aA\r\nQUIT\r\n",
]


def compare_malformed(our_address, their_address):
    failures = 0
    for data in MALFORMED:
        answers = []
        for address in (our_address, their_address):
            connection = Connection(address)
            connection.send(data)
            answers.append(connection.read_to_end())
        if answers[0] != answers[1]:
            failures += 1
            print(f"DIFFERS {data[:60]!r}\n   ours: {answers[0]!r}\n  redis: {answers[1]!r}")
    return failures


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    end = time.time() + START_LIMIT_S
    while time.time() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            connection = Connection(("127.0.0.1", port))
            if connection.call("PING") == b"+PONG\r\n":
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError("the server does not answer")


def start(command, port, folder):
    log = open(os.path.join(folder, f"{port}.log"), "wb")
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    wait_for(port, process)
    return process


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary")
    parser.add_argument("--server", help="HOST:PORT of a running server")
    parser.add_argument("--engine", default="memory")
    parser.add_argument("--policy", default="synergy")
    parser.add_argument("--rounds", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("RUBATO_SEED", "1")))
    return parser.parse_args()


def compare(our_address, their_address, options):
    print(f"RUBATO_SEED={options.seed}")
    rng = random.Random(options.seed)
    failures = compare_malformed(our_address, their_address)
    for version in ("2", "3"):
        ours, theirs = Connection(our_address), Connection(their_address)
        for connection in (ours, theirs):
            connection.call("HELLO", version)
            connection.call("FLUSHALL")
        failures += compare_random(ours, theirs, rng, options.rounds // 2)
        failures += compare_state(ours, theirs)
    return failures


def main():
    options = parse_arguments()
    if shutil.which("redis-server") is None:
        print("skipped: there is no redis-server here to compare with")
        return SKIPPED
    if options.server is None and (options.binary is None or not os.path.exists(options.binary)):
        print(f"skipped: there is no {options.binary}; build it first")
        return SKIPPED
    running = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            redis_port = free_port()
            running.append(start(
                ["redis-server", "--port", str(redis_port), "--save", "", "--databases", "1",
                 "--enable-debug-command", "yes"], redis_port, folder))
            if options.server:
                host, port = options.server.rsplit(":", 1)
                our_address = (host, int(port))
            else:
                port = free_port()
                running.append(start(
                    [os.path.abspath(options.binary), "serve", "kv", "--port", str(port),
                     "--engine", options.engine, "--policy", options.policy,
                     "--dir", os.path.join(folder, "data")], port, folder))
                our_address = ("127.0.0.1", port)
            failures = compare(our_address, ("127.0.0.1", redis_port), options)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(timeout=START_LIMIT_S)
    print("equal" if failures == 0 else f"{failures} differences")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
