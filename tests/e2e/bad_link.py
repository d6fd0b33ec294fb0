# SPDX-License-Identifier: Apache-2.0
"""A virtual link with a bad network in its middle, for one test: a third namespace whose relay
loses, doubles and delays the datagrams of one port, and lets only so many pass in a second. What it
does follows from a seed, what it has done is counted. tc-netem, which does the like, is in few
kernels."""

import collections
import ctypes
import dataclasses
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

from virtual_link import VirtualLink, one_cpu, run_ip
from waiting import PATIENCE_S

PORT = 7391
ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM = 0x17
BUFFER_BYTES = 16 << 20
LONGEST_FRAME = 65536


@dataclasses.dataclass
class Faults:
    """Shares of the datagrams, each way, and times in seconds."""
    lost: float = 0
    doubled: float = 0
    delayed: float = 0
    most_delay: float = 0.005  # so datagrams overtake each other
    rate: float = 0  # datagrams per second to the server; 0 = any number
    queue: int = 16  # that wait for the rate
    seed: int = 1


@dataclasses.dataclass
class Counts:
    to_server: int = 0  # that have left for it, doubled ones twice
    from_server: int = 0  # that it has sent
    lost: int = 0
    doubled: int = 0
    cut: int = 0  # beyond the rate
    out_of_turn: int = 0  # replies of a client in another order than its requests have left


class BadLink(VirtualLink):
    """VirtualLink with the relay between its ends. Both compute all checksums themselves, as
    they do for a wire."""

    def make_link(self):
        middle = f"rubato-m{os.getpid()}"
        run_ip("netns", "add", middle)
        self.addCleanup(run_ip, "netns", "del", middle)
        for end, link, far in zip(self.ends, ("vs", "vc"), ("ms", "mc")):
            run_ip("link", "add", link, "netns", end, "type", "veth", "peer", "name", far, "netns",
                   middle)
            run_ip("-n", middle, "link", "set", far, "addrgenmode", "none", "up")
            subprocess.run(["ip", "netns", "exec", end, sys.executable, __file__, "checksums",
                            link], check=True)
        self.in_middle = ("ip", "netns", "exec", middle)

    def relay(self, **faults):
        with one_cpu():  # what it sends arrives in that order
            relay = Relay(self.in_middle, Faults(**faults))
        self.addCleanup(relay.stop)
        return relay


class Relay:
    def __init__(self, wrapper, faults):
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-W", "error", __file__, "relay",
             json.dumps(dataclasses.asdict(faults))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.counts = None
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("the relay does not start")

    def stop(self):
        """What it has done. It sends first what it still holds."""
        if self.counts is None:
            out, _ = self.process.communicate(timeout=PATIENCE_S)
            self.counts = Counts(**json.loads(out))
        return self.counts


class Middle:
    """The relay's own process."""

    def __init__(self, faults):
        self.faults = faults
        self.dice = random.Random(faults.seed)
        self.counts = Counts()
        self.ends = {name: self.open(name) for name in ("ms", "mc")}
        self.held = []  # by due time, then by number
        self.number = 0
        self.free_at = 0.0  # when the rate lets the next one pass
        self.asked = collections.defaultdict(collections.deque)  # per client's port, what has left

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self.ends.values():
            end.close()

    @staticmethod
    def open(name):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        end.bind((name, ETH_P_ALL))
        end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            end.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
        end.setblocking(False)
        return end

    def forward(self, to, frame, client):
        if to == "ms" and client is not None:
            self.counts.to_server += 1
            self.asked[client].append(frame[42:50])
        self.ends[to].send(frame)

    def hold(self, until, to, frame, client):
        self.number += 1
        heapq.heappush(self.held, (until, self.number, to, frame, client))

    def let_go(self, now):
        while self.held and self.held[0][0] <= now:
            self.forward(*heapq.heappop(self.held)[2:])

    def after_rate(self, now):
        """When a datagram may pass by the rate; None: the queue is full."""
        if self.faults.rate == 0:
            return now
        at = max(now, self.free_at)
        if (at - now) * self.faults.rate > self.faults.queue:
            return None
        self.free_at = at + 1 / self.faults.rate
        return at

    def take(self, to, frame, client, now):
        if self.dice.random() < self.faults.lost:
            self.counts.lost += 1
            return
        at = self.after_rate(now) if to == "ms" else now
        if at is None:
            self.counts.cut += 1
            return
        copies = 2 if self.dice.random() < self.faults.doubled else 1
        self.counts.doubled += copies - 1
        if self.dice.random() < self.faults.delayed:
            at += self.dice.random() * self.faults.most_delay
        for _ in range(copies):
            if at <= now:
                self.forward(to, frame, client)
            else:
                self.hold(at, to, frame, client)

    def note_reply(self, frame, client):
        self.counts.from_server += 1
        asked = self.asked[client]
        if not asked or asked.popleft() != frame[42:50]:
            self.counts.out_of_turn += 1

    def receive(self, by, now):
        to = "ms" if by == "mc" else "mc"
        try:
            frame = self.ends[by].recv(LONGEST_FRAME)
        except BlockingIOError:
            return False
        client = client_of(frame, to)
        if client is None:
            self.ends[to].send(frame)
            return True
        if by == "ms":
            self.note_reply(frame, client)
        self.take(to, frame, client, now)
        return True

    def run(self):
        """Until standard input ends."""
        by_number = {end.fileno(): name for name, end in self.ends.items()}
        watched = select.poll()
        for number in (0, *by_number):
            watched.register(number, select.POLLIN)
        while True:
            now = time.monotonic()
            wait_ms = max(0.0, self.held[0][0] - now) * 1000 if self.held else None
            ready = [number for number, _ in watched.poll(wait_ms)]
            self.let_go(time.monotonic())
            for number in ready:
                if number == 0:
                    self.let_go(float("inf"))
                    return
                while self.receive(by_number[number], time.monotonic()):
                    pass


def client_of(frame, to):
    """Of a whole IPv4 datagram of the port, the client's port; None of all else."""
    if len(frame) < 50 or frame[12:14] != b"\x08\x00" or frame[14] != 0x45 or frame[23] != 17:
        return None
    source, target = struct.unpack_from("!HH", frame, 34)
    client, server = (source, target) if to == "ms" else (target, source)
    return client if server == PORT else None


def compute_checksums(link):
    """From now on the system does so before frames leave by the link, one datagram each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        value = bytearray(struct.pack("II", ETHTOOL_STXCSUM, 0))
        where = (ctypes.c_char * len(value)).from_buffer(value)
        request = struct.pack("16sP16x", link.encode(), ctypes.addressof(where))
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


if __name__ == "__main__":
    if sys.argv[1] == "checksums":
        compute_checksums(sys.argv[2])
    else:
        with Middle(Faults(**json.loads(sys.argv[2]))) as middle:
            print("ready", flush=True)
            middle.run()
            print(json.dumps(dataclasses.asdict(middle.counts)))
