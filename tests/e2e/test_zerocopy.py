# SPDX-License-Identifier: Apache-2.0
"""Large replies that `serve kv --zerocopy-above` sends from its own pages: whole whatever clients
do, counted, and gone with the connection."""

import random
import socket
import subprocess
import threading
import unittest

from server import Client, Server, encode, idle_shares, refused, reset
from virtual_link import VirtualLink
from waiting import PATIENCE_S, eventually

LARGE = 1 << 20
KEYS = [f"large{i}" for i in range(8)]


def value(key):
    """The same for a key each time, and no two alike at any place."""
    return random.Random(key).randbytes(LARGE)


def slow_client(port):
    """One whose socket holds little, so that most of a reply stays with the server."""
    client = Client.__new__(Client)
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.settimeout(PATIENCE_S)
    client.socket.connect(("127.0.0.1", port))
    client.reader = client.socket.makefile("rb")
    return client


class Zerocopy(unittest.TestCase):
    def setUp(self):
        self.server = Server("--zerocopy-above", "16KiB", "--workers", "2")
        self.addCleanup(self.server.__exit__, None, None, None)
        with self.server.client() as client:
            for key in KEYS:
                client.call("SET", key, value(key))

    def info(self, name):
        lines = self.server.call("INFO").decode().splitlines()
        return int(dict(line.split(":", 1) for line in lines if ":" in line)[name])

    def check_reads(self, client, keys):
        for key in keys:
            self.assertTrue(client.reply() == value(key), key)

    def test_large_replies_are_whole(self):
        def read_all(start):
            with self.server.client() as client:
                for key in KEYS[start:] + KEYS[:start]:
                    good.append(client.call("GET", key) == value(key))

        good = []
        readers = [threading.Thread(target=read_all, args=(i,)) for i in range(len(KEYS))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertEqual(good, [True] * len(KEYS) ** 2)
        self.assertGreater(self.info("zerocopy_sends"), 0)
        self.assertLessEqual(self.info("zerocopy_copied"), self.info("zerocopy_sends"))
        for share in idle_shares([self.server]):
            self.assertLess(share, 0.2)  # what the kernel has reported wakes nobody again

    def test_a_slow_client_gets_what_it_asked_for(self):
        with slow_client(self.server.port) as slow:
            for key in KEYS:
                slow.send("GET", key)
            for _ in range(3):
                with self.server.client() as other:
                    for key in reversed(KEYS):
                        self.assertTrue(other.call("GET", key) == value(key))
            self.check_reads(slow, KEYS)

    def test_clients_that_leave_in_the_middle_leave_nothing_behind(self):
        before = self.info("mem_clients_normal")
        for i in range(40):
            client = slow_client(self.server.port)
            client.socket.sendall(b"".join(encode("GET", key) for key in KEYS))
            client.socket.recv(1 + i * 100)
            if i % 2 == 0:
                reset(client)
            else:
                client.close()
        eventually(lambda: self.info("connected_clients"), lambda count: count == 1)
        # Kept for the next replies for a while, by each worker.
        eventually(lambda: self.info("mem_clients_normal"), lambda held: held < before + LARGE)
        with self.server.client() as client:
            client.socket.sendall(b"".join(encode("GET", key) for key in KEYS))
            self.check_reads(client, KEYS)

    def test_a_server_that_stops_sends_what_it_has_answered(self):
        with slow_client(self.server.port) as slow:
            slow.send("GET", KEYS[0])
            slow.send("GET", KEYS[1])
            eventually(lambda: self.info("zerocopy_sends"))
            self.server.terminate()
            self.check_reads(slow, KEYS[:1])
        self.assertEqual(self.server.wait(), 0)

    def test_metrics_count(self):
        with Server("--zerocopy-above", "16KiB", "--metrics-port", "0") as server:
            port = int(server.wait_for(r"metrics on \S+:(\d+)/"))
            server.call("SET", "k", value("k"))
            self.assertTrue(server.call("GET", "k") == value("k"))
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as scrape:
                scrape.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b"".join(iter(lambda: scrape.recv(65536), b"")).decode()
        self.assertRegex(text, r"rubato_zerocopy_sends_total [1-9]")
        self.assertRegex(text, r"rubato_zerocopy_refused_total 0")

    def test_options_that_do_not_fit_are_refused(self):
        for args in (("kv", "--zerocopy-above", "2GiB"), ("kv", "--zerocopy-above", "many"),
                     ("spin", "--udp", "--zerocopy-above", "16KiB")):
            status, text = refused("serve", *args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn("--zerocopy-above: ", text)


class OverALink(VirtualLink, unittest.TestCase):
    """The same over a virtual link, whose packets leave the server's namespace."""

    READ = ("import socket,sys; s = socket.create_connection((sys.argv[1], 7392), 20)\n"
            "value = b'0123456789abcdef' * 2048\n"
            "s.sendall(b'SET k ' + value + b'\\r\\n' + b'GET k\\r\\n' * 64)\n"
            "want = b'+OK\\r\\n' + (b'$32768\\r\\n' + value + b'\\r\\n') * 64\n"
            "got = b''\n"
            "while len(got) < len(want): got += s.recv(65536)\n"
            "print(got == want)")

    def test_replies_are_whole(self):
        with Server("--zerocopy-above", "16KiB", "--bind", self.ADDRESS, "--port", "7392",
                    "--protected-mode", "no", wrapper=self.in_server):
            done = subprocess.run([*self.in_client, "python3", "-c", self.READ, self.ADDRESS],
                                  capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        self.assertEqual(done.stdout, "True\n")


if __name__ == "__main__":
    unittest.main()
