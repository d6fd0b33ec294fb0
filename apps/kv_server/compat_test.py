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

from compat_requests import Pick, random_request

SKIPPED = 77
START_LIMIT_S = 20
REPLY_LIMIT_S = 30


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
    pick = Pick(rng)
    failures = 0
    done = 0
    while done < rounds and failures < 10:
        batch = [random_request(pick) for _ in range(rng.choice([1, 1, 1, 16]))]
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
    b"*0\r\n*-5\r\n\r\nPING\r\nQUIT\r\n", b"QUIT\r\nPING\r\n",
    b"SET \"a\\x41\" 'b\\'c'\r\nGET aA\r\nQUIT\r\n",
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


TRANSACTIONS = [
    [("SET", "tx", "0"), ("MULTI",), ("NOPE",), ("INCR", "tx")],
    [("SET", "tx", "0"), ("MULTI",), ("GET",), ("INCR", "tx")],
    [("SET", "tx", "a"), ("MULTI",), ("INCR", "tx"), ("SET", "tx", "1"), ("APPEND", "tx", "2")],
    [("MULTI",), ("MULTI",), ("SET", "tx", "1")],
    [("MULTI",), ("WATCH", "tx"), ("SET", "tx", "1")],
    [("MULTI",), ("PING",), ("ECHO", "x"), ("MGET", "tx", "no"), ("TTL", "tx"), ("UNWATCH",)],
    [("DEL", "tx"), ("WATCH", "tx", "no"), ("SET", "tx", "1"), ("MULTI",), ("GET", "tx")],
    [("SET", "tx", "1"), ("WATCH", "tx"), ("EXPIRE", "tx", "100"), ("MULTI",), ("GET", "tx")],
    [("SET", "tx", "1"), ("WATCH", "tx"), ("GET", "tx"), ("MULTI",), ("DEL", "tx")],
    [("WATCH", "tx"), ("SET", "tx", "2"), ("UNWATCH",), ("MULTI",), ("GETDEL", "tx")],
    [("WATCH",), ("MULTI", "x"), ("SET", "tx", "3")],
    [("MULTI",), ("MSET", "tx", "4", "ty", "5"), ("DEL", "tx", "ty"), ("EXISTS", "tx")],
]


def compare_transactions(ours, theirs):
    """Every answer, however the transaction ends."""
    failures = 0
    for end in (("EXEC",), ("DISCARD",), ("RESET",), ("EXEC", "x")):
        for requests in TRANSACTIONS:
            requests = [*requests, end, ("GET", "tx"), ("EXEC",)]
            answers = []
            for connection in (ours, theirs):
                connection.send(b"".join(encode(words) for words in requests))
                answers.append([connection.read() for _ in requests])
            if answers[0] != answers[1]:
                failures += 1
                print(f"DIFFERS: {requests}\n   ours: {answers[0]!r}\n  redis: {answers[1]!r}")
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
    parser.add_argument("--preempt", default="auto")
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
        failures += compare_transactions(ours, theirs)
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
                     "--preempt", options.preempt,
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
