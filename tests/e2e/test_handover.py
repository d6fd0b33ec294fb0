# SPDX-License-Identifier: Apache-2.0
"""Socket activation: the service manager keeps the listener, and a restart refuses nobody."""

import fcntl
import os
import socket
import subprocess
import tempfile
import threading
import unittest

from rpc_wire import hello
from server import BINARY, Server
from waiting import PATIENCE_S, eventually

FIRST = 3  # sd_listen_fds(3)
# The process must be named by the variable before it begins.
WRAPPER = ("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh")


def started_with(*descriptors, **options):
    def place():
        apart = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 100) for each in descriptors]
        for number, each in enumerate(apart):
            os.dup2(each, FIRST + number)

    return {"wrapper": WRAPPER, "pass_fds": range(FIRST, FIRST + len(descriptors)),
            "preexec_fn": place,
            "env": {**os.environ, "LISTEN_FDS": str(len(descriptors))}, **options}


# What to send to a port, and how its answer begins.
PORTS = {"--port": (b"PING\r\n", b"+PONG"),
         "--memcached-port": (b"version\r\n", b"VERSION"),
         "--rpc-port": (hello(), b""),
         "--metrics-port": (b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"),
         "--agent-port": (b"", b"")}


class Visitor(threading.Thread):
    """Connects, asks, leaves, and again, until told to stop."""

    def __init__(self, port, option="--port"):
        super().__init__()
        self.port = port
        self.question, self.answer = PORTS[option]
        self.answered = 0
        self.failures = []
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as client:
                    client.sendall(self.question)
                    got = client.recv(1000)
            except OSError as error:
                self.failures.append(repr(error))
                continue
            if got and got.startswith(self.answer):
                self.answered += 1
            else:
                self.failures.append(f"{self.port}: {got}")


class Handover(unittest.TestCase):
    def setUp(self):
        self.listeners = {}
        for option in PORTS:
            self.listeners[option] = socket.create_server(("127.0.0.1", 0), backlog=511)
            self.addCleanup(self.listeners[option].close)
        self.ports = {option: each.getsockname()[1] for option, each in self.listeners.items()}
        self.port = self.ports["--port"]

    def other_ports(self):
        return [word for option, port in self.ports.items() if option != "--port"
                for word in (option, str(port))]

    def server(self, *args):
        return Server("--port", str(self.port), "--workers", "2", *args,
                      **started_with(*(each.fileno() for each in self.listeners.values())))

    def test_a_restart_refuses_and_drops_no_connection_of_any_port(self):
        with tempfile.TemporaryDirectory() as folder:
            store = ("--engine", "rocksdb", "--dir", folder, *self.other_ports())
            visitors = [Visitor(port, option) for option, port in self.ports.items()]
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
