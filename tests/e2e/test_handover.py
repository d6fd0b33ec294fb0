# SPDX-License-Identifier: Apache-2.0
"""Socket activation: the service manager keeps the listener, and a restart refuses nobody."""

import os
import socket
import subprocess
import tempfile
import threading
import unittest

from server import BINARY, Client, Server
from waiting import PATIENCE_S, eventually

FIRST = 3  # sd_listen_fds(3)
# The process must be named by the variable before it begins.
WRAPPER = ("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh")


def started_with(descriptor, **options):
    return {"wrapper": WRAPPER, "pass_fds": (FIRST,),
            "preexec_fn": lambda: os.dup2(descriptor, FIRST),
            "env": {**os.environ, "LISTEN_FDS": "1"}, **options}


class Visitor(threading.Thread):
    """Connects, asks, leaves, and again, until told to stop."""

    def __init__(self, port):
        super().__init__()
        self.port = port
        self.answered = 0
        self.failures = []
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                with Client(self.port) as client:
                    if client.call("PING") == b"PONG":
                        self.answered += 1
                        continue
                    self.failures.append("no PONG")
            except (OSError, EOFError) as error:
                self.failures.append(repr(error))


class Handover(unittest.TestCase):
    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=511)
        self.addCleanup(self.listener.close)
        self.port = self.listener.getsockname()[1]

    def server(self, *args):
        return Server("--port", str(self.port), "--workers", "2", *args,
                      **started_with(self.listener.fileno()))

    def test_a_restart_refuses_and_drops_no_connection(self):
        with tempfile.TemporaryDirectory() as folder:
            store = ("--engine", "rocksdb", "--dir", folder)
            visitors = [Visitor(self.port) for _ in range(3)]
            try:
                for round_ in range(4):
                    with self.server(*store) as server:
                        if round_ == 0:
                            server.call("SET", "kept", "value")
                            for visitor in visitors:
                                visitor.start()
                        self.assertEqual(server.call("GET", "kept"), b"value")
                        seen = [visitor.answered for visitor in visitors]
                        eventually(lambda: all(visitor.answered > before + 20 for visitor, before
                                               in zip(visitors, seen)))
                        server.terminate()
                        self.assertEqual(server.wait(), 0)
                with self.server(*store):
                    for visitor in visitors:
                        visitor.stopping.set()
                    for visitor in visitors:
                        visitor.join(PATIENCE_S)
            finally:
                for visitor in visitors:
                    visitor.stopping.set()
            self.assertEqual([failure for visitor in visitors for failure in visitor.failures], [])

    def test_what_is_no_listener_of_the_server_is_refused_by_name(self):
        other = socket.create_server(("127.0.0.1", 0))
        plain = socket.socket()
        self.addCleanup(other.close)
        self.addCleanup(plain.close)
        cases = ((other, "was given a listener on 127.0.0.1:", 1),
                 (plain, "LISTEN_FDS: descriptor 3 is no listening TCP socket", 2))
        for descriptor, line, status in cases:
            options = started_with(descriptor.fileno())
            wrapper = options.pop("wrapper")
            done = subprocess.run([*wrapper, BINARY, "serve", "kv", "--engine", "memory", "--port",
                                   str(self.port)], capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False, **options)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(line, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
