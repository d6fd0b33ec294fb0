# SPDX-License-Identifier: Apache-2.0
"""A rubato server for one test, and a RESP client small enough to send it anything.

The binary is RUBATO_BINARY or the first argument of run.py. RUBATO_SERVE_ARGS are options for every
server that is not told otherwise: what is tested then holds with, say, `--preempt timer`.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time

BINARY = os.environ.get("RUBATO_BINARY", "build/dev/bin/rubato")
PATIENCE_S = 20.0
SERVE_ARGS = shlex.split(os.environ.get("RUBATO_SERVE_ARGS", ""))


class Server:
    """`rubato serve PROGRAM ARGS` on a free port; killed at the end of the `with` block."""

    def __init__(self, *args, program="kv", **popen):
        engine = [] if program != "kv" or "--engine" in args else ["--engine", "memory"]
        more = [] if set(SERVE_ARGS) & set(args) else SERVE_ARGS
        # The default is the machine's number of CPUs; a test says so if it wants more than one.
        workers = [] if "--workers" in args or "--config" in args else ["--workers", "1"]
        self.command = [BINARY, "serve", program, "--port", "0", *engine, *workers, *args, *more]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT,
                                        **popen)
        self.port = int(self.wait_for(r" on \S+:(\d+)\n"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def wait_for(self, pattern):
        """The first group of `pattern` in what the server has printed."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = re.search(pattern, self.output())
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{self.command}: no {pattern!r} in:\n{self.output()}")

    def client(self, timeout=PATIENCE_S):
        return Client(self.port, timeout)

    def call(self, *argv):
        with self.client() as client:
            return client.call(*argv)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout=PATIENCE_S):
        return self.process.wait(timeout)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def scheduler(self):
        """INFO scheduler as a dict."""
        lines = self.call("INFO", "scheduler").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


class ReplyError(Exception):
    pass


def encode(*argv):
    parts = [b"*%d\r\n" % len(argv)]
    for arg in argv:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Client:
    def __init__(self, port, timeout=PATIENCE_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def send(self, *argv):
        self.socket.sendall(encode(*argv))

    def call(self, *argv):
        self.send(*argv)
        return self.reply()

    def reply(self):
        """The next RESP2 reply; an error reply raises ReplyError, a closed connection EOFError."""
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        raise AssertionError(f"not RESP2: {line!r}")


def refused(*args):
    """Exit status of `rubato ARGS`, which is expected to end by itself, and all that it printed."""
    done = subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout + done.stderr
