# SPDX-License-Identifier: Apache-2.0
"""A Valkey server for a test, and a client that speaks RESP with it."""

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("VALKEY_SERVER", str(ROOT / "build/valkey/valkey-server"))


class ReplyError(Exception):
    """An error that the server replied with."""


class Client:
    """One connection. Replies: bytes, int, None, lists; an error raises."""

    def __init__(self, port, limit_s=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=limit_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb", 1 << 16)

    def send(self, *words):
        out = [b"*%d\r\n" % len(words)]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(out))

    def receive(self):
        line = self.stream.readline()
        if not line:
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.stream.read(int(rest) + 2)[:-2]
        if kind in b"*~>%":
            if rest == b"-1":
                return None
            count = int(rest) * (2 if kind == b"%" else 1)
            found = []
            for _ in range(count):  # an error within, of EXEC, is an element
                try:
                    found.append(self.receive())
                except ReplyError as error:
                    found.append(error)
            return (kind, found) if kind == b">" else found
        return None if kind == b"_" else rest

    def call(self, *words):
        self.send(*words)
        return self.receive()

    def close(self):
        self.stream.close()
        self.socket.close()

    def info(self, section="rubato"):
        return fields(self.call("INFO", section))


def fields(info):
    return dict(line.split(":", 1) for line in info.decode().split("\r\n") if ":" in line)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server in a folder of its own, which is gone with it."""

    def __init__(self, *options, config_file=None, environment=None):
        self.folder = tempfile.TemporaryDirectory(prefix="valkey-test-")
        self.options = options
        self.environment = {**os.environ, **(environment or {})}
        self.file = [str(config_file)] if config_file is not None else []
        self.start()

    def start(self):
        self.port = free_port()
        self.log = Path(self.folder.name) / "log"
        self.process = subprocess.Popen(
            [BINARY, *self.file, "--port", str(self.port), "--dir", self.folder.name, "--save", "",
             "--logfile", str(self.log), "--enable-debug-command", "yes", *self.options],
            env=self.environment)
        deadline = time.monotonic() + 30
        while True:
            try:
                with_server = Client(self.port)
                with_server.call("PING")
                with_server.close()
                return
            except (OSError, ReplyError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def client(self):
        return Client(self.port)

    def stop(self):
        """Ends the server, which must have run until now. Its log, if it has crashed."""
        crashed = self.process.poll() is not None
        text = self.log.read_text(errors="replace")[-6000:]
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()
        return text if crashed else ""
