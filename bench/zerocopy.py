#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a byte of large replies costs `rubato serve kv` in CPU time, with --zerocopy-above and
without, over loopback and, as root, over a virtual link between two network namespaces. Clients
GET one value again and again, each by so many connections, one after the other.

On one machine the kernel copies what it was to send in place when it hands it to the client, and
charges that to the sender: the figures show what is lost where nothing can be gained, by
connections that stay and give up, and by connections of a few replies, which do not come to that.
The contenders take turns. Figures are medians over the rounds with their range."""

import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time

from datagrams import ADDRESS, cpu_seconds, namespaces

PORT = 7393
PATIENCE_S = 20.0
CONTENDERS = {"copied": (), "in place": ("--zerocopy-above", "16KiB")}


def connect(address):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            client = socket.create_connection((address, PORT), PATIENCE_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return client
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                sys.exit("zerocopy.py: the server does not start")
            time.sleep(0.05)


def take(client, size):
    """Reads so many bytes, and throws them away."""
    while size > 0:
        got = len(client.recv(min(size, 1 << 20)))
        if got == 0:
            sys.exit("zerocopy.py: the server has closed the connection")
        size -= got


def read_replies(address, size, replies, connections):
    """The client: GETs, `replies` by each connection in turn."""
    reply_size = len(f"${size}\r\n") + size + 2
    for _ in range(connections):
        with connect(address) as client:
            for _ in range(replies):
                client.sendall(b"GET k\r\n")
                take(client, reply_size)


def fill(address, size):
    with connect(address) as client:
        client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n" % (size, b"v" * size))
        take(client, len("+OK\r\n"))


def measure(options, ends, address, args, size, replies):
    """Nanoseconds of the server per KiB of replies."""
    in_all = options.mib * (1 << 20) // size
    replies = min(replies, in_all)
    connections = in_all // replies
    itself = [*ends[1], sys.executable, __file__, "--client", address, str(size), str(replies)]
    server = subprocess.Popen(
        [*ends[0], options.binary, "serve", "kv", "--engine", "memory", "--bind", address,
         "--port", str(PORT), "--workers", "1", "--protected-mode", "no", *args],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        subprocess.run([*itself, "0"], check=True)
        used = cpu_seconds(server.pid)
        subprocess.run([*itself, str(connections)], check=True)
        used = cpu_seconds(server.pid) - used
    finally:
        server.terminate()
        server.wait()
    return used * 1e9 / (connections * replies * size / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/rubato")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=256, help="of replies per measurement")
    parser.add_argument("--sizes", default="16384,65536,1048576")
    parser.add_argument("--replies", default="4,1000", help="by each connection")
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        address, *numbers = options.client
        size, replies, connections = map(int, numbers)
        return read_replies(address, size, replies, connections) if connections else fill(
            address, size)
    costs = {}
    with contextlib.ExitStack() as stack:
        paths = {"loopback": (((), ()), "127.0.0.1")}
        if os.geteuid() == 0:
            paths["virtual link"] = (stack.enter_context(namespaces()), ADDRESS)
        settings = [(path, int(size), int(replies)) for path in paths
                    for size in options.sizes.split(",") for replies in options.replies.split(",")]
        for _ in range(options.rounds):
            for path, size, replies in settings:
                for name, args in CONTENDERS.items():
                    cost = measure(options, *paths[path], args, size, replies)
                    costs.setdefault((path, size, replies), {}).setdefault(name, []).append(cost)
    print("| path | reply | by each connection | ns per KiB copied | in place | ratio |")
    print("|---|---|---|---|---|---|")
    for (path, size, replies), found in costs.items():
        ratios = [one / other for one, other in zip(found["in place"], found["copied"])]
        print(f"| {path} | {size >> 10} KiB | {replies} | "
              f"{statistics.median(found['copied']):.0f} | "
              f"{statistics.median(found['in place']):.0f} | {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} .. {max(ratios):.2f}) |")
    return None


if __name__ == "__main__":
    main()
