# SPDX-License-Identifier: Apache-2.0
"""A client of memcached's text protocol over UDP, as protocol.txt of memcached 1.6 describes it
("UDP protocol"). As a program: HOST PORT [SECONDS], checks a server that has no keys."""

import itertools
import socket
import struct
import sys

HEADER = struct.Struct("!HHHH")  # request id, sequence number, datagrams in the message, reserved


class Client:
    def __init__(self, host, port, timeout_s):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, port))
        self.ids = itertools.cycle(range(65530, 65536))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, commands, number=0, count=1):
        request = next(self.ids)
        self.socket.send(HEADER.pack(request, number, count, 0) + commands)
        return request

    def receive(self, request):
        """The reply, and how many datagrams it had; those of other requests are passed over."""
        parts, total = {}, None
        while total is None or len(parts) < total:
            datagram = self.socket.recv(65536)
            of, number, count, reserved = HEADER.unpack_from(datagram)
            if of != request:
                continue
            assert reserved == 0 and number < count and total in (None, count), datagram[:8]
            assert len(datagram) <= 1400, len(datagram)
            total = count
            parts[number] = datagram[HEADER.size:]
        return b"".join(parts[number] for number in range(total)), total

    def ask(self, commands, **header):
        return self.receive(self.send(commands, **header))[0]


def expect(client, commands, reply):
    got = client.ask(commands)
    assert got == reply, (commands, got)


def check(client):
    expect(client, b"set k 7 0 5\r\nhello\r\n", b"STORED\r\n")
    expect(client, b"get k none\r\n", b"VALUE k 7 5\r\nhello\r\nEND\r\n")
    expect(client, b"mg k v f k Oabc\r\n", b"VA 5 f7 kk Oabc\r\nhello\r\n")
    expect(client, b"mg none v\r\n", b"EN\r\n")
    expect(client, b"set n 0 0 1\r\n1\r\nincr n 4\r\nmn\r\n", b"STORED\r\n5\r\nMN\r\n")
    expect(client, b"bogus\r\n", b"ERROR\r\n")
    # Nothing answers these, so the reply is that of the next request.
    client.send(b"set quiet 0 0 1 noreply\r\nq\r\n")
    client.send(b"ms silent 1 q\r\ns\r\n")
    client.send(b"mg none v q\r\n")
    # A client sees its own writes only if it waits for them.
    while client.ask(b"get quiet silent\r\n").count(b"VALUE") < 2:
        continue
    expect(client, b"get quiet silent\r\n",
           b"VALUE quiet 0 1\r\nq\r\nVALUE silent 0 1\r\ns\r\nEND\r\n")
    # A request of several datagrams gets one error, of which the client is told once.
    assert client.ask(b"set k 0 0 2000\r\nabc", count=2) == \
        b"SERVER_ERROR multi-packet request not supported\r\n"
    client.send(b"def\r\n", number=1, count=2)
    # Values come together to a reply of several datagrams.
    value = bytes(i * 7 % 251 for i in range(1300))
    keys = [b"big%d" % i for i in range(12)]
    for key in keys:
        expect(client, b"set %b 0 0 1300\r\n%b\r\n" % (key, value), b"STORED\r\n")
    request = client.send(b"get " + b" ".join(keys) + b"\r\n")
    reply, parts = client.receive(request)
    assert reply == b"".join(b"VALUE %b 0 1300\r\n%b\r\n" % (key, value) for key in keys) + \
        b"END\r\n"
    assert parts == -(-len(reply) // 1392), parts
    # Those are no requests.
    for junk in (b"", b"short", HEADER.pack(1, 0, 1, 0), HEADER.pack(1, 0, 1, 0) + b"END\r\n",
                 HEADER.pack(1, 3, 7, 0) + b"get k\r\n"):
        client.socket.send(junk)
    expect(client, b"version\r\n", b"VERSION 1.6.18\r\n")


if __name__ == "__main__":
    with Client(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])) as connected:
        check(connected)
