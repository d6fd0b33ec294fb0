# SPDX-License-Identifier: Apache-2.0
"""Clients that break the rules: the server says so, closes, and serves the others."""

import random
import os
import socket
import struct
import unittest

from server import Server, encode
from waiting import sends_until_stuck


class Hostile(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.__exit__, None, None, None)

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=20)

    def everything(self, connection):
        received = b""
        while True:
            try:
                chunk = connection.recv(65536)
            except ConnectionResetError:
                return received
            if not chunk:
                return received
            received += chunk

    def check_alive(self):
        self.assertEqual(self.server.call("PING"), b"PONG")

    def test_malformed_requests_get_a_protocol_error_and_are_closed(self):
        for bad, text in ((b"*1\r\n:5\r\n", b"expected '$', got ':'"),
                          (b"*x\r\n", b"invalid multibulk length"),
                          (b"*3000000000\r\n", b"invalid multibulk length"),
                          (b"*1\r\n$-5\r\n", b"invalid bulk length"),
                          (b"*1\r\n$999999999999\r\n", b"invalid bulk length"),
                          (b'SET "unbalanced\r\n', b"unbalanced quotes"),
                          (b"A" * 70000, b"too big inline request")):
            with self.raw() as connection:
                connection.sendall(bad)
                reply = self.everything(connection)
                self.assertTrue(reply.startswith(b"-ERR Protocol error: "), (bad[:40], reply))
                self.assertIn(text, reply)
        self.check_alive()

    def test_random_bytes_crash_nothing(self):
        seed = int(os.environ.get("RUBATO_SEED", "20261121"))
        print(f"seed {seed} (RUBATO_SEED replays)")
        rng = random.Random(seed)
        for _ in range(200):
            with self.raw() as connection:
                data = bytearray(encode("SET", "k", "v" * rng.randrange(50)) * 3)
                for _ in range(rng.randrange(1, 8)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)  # else it may wait for the rest
                    self.everything(connection)
                except TimeoutError:
                    raise  # it comes to an end, in one way or another
                except OSError:
                    pass
        self.check_alive()

    def test_resets_and_half_closed_connections(self):
        for _ in range(50):
            connection = self.raw()
            connection.sendall(encode("DEBUG", "SLEEP", "0.001") + encode("GET", "k"))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        with self.raw() as connection:
            connection.sendall(encode("SET", "k", "v") + encode("GET", "k"))
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(self.everything(connection), b"+OK\r\n$1\r\nv\r\n")
        self.check_alive()

    def test_client_that_never_reads_stops_only_itself(self):
        self.server.call("SET", "big", "x" * 1_000_000)
        with self.raw() as deaf:
            deaf.setblocking(False)
            request = encode("GET", "big")
            for _ in sends_until_stuck(deaf, request * 10, 2000 * len(request)):
                pass
            self.check_alive()
            self.assertLess(self.server.resident_kib(), 500_000)

    def test_slow_senders_cost_little_and_get_their_answer(self):
        slow = [self.raw() for _ in range(50)]
        text = encode("GET", "k")
        before = self.server.cpu_seconds()
        for i in range(len(text)):
            for connection in slow:
                connection.sendall(text[i:i + 1])
        for connection in slow:
            self.assertEqual(connection.recv(100), b"$-1\r\n")
            connection.close()
        self.assertLess(self.server.cpu_seconds() - before, 1.0)


if __name__ == "__main__":
    unittest.main()
