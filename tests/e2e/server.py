# SPDX-License-Identifier: Apache-2.0
"""A rubato server for one test, and a RESP client small enough to send it anything.

The binary is RUBATO_BINARY or the first argument of run.py. RUBATO_SERVE_ARGS are options for every
server that is not told otherwise: what is tested then holds with, say, `--preempt timer`.
"""

import fcntl
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import tempfile
import time

from waiting import PATIENCE_S, eventually, is_readable, pass_time

BINARY = os.environ.get("RUBATO_BINARY", "build/dev/bin/rubato")
# CPU time that a server uses for no other reason than that a request runs.
BURNT_S = 0.02
# Of a quiet server: until its start is over, and for how long what it uses is measured.
SETTLE_S = 0.3
QUIET_S = 1.5
SERVE_ARGS = shlex.split(os.environ.get("RUBATO_SERVE_ARGS", ""))


# How an INVALID run ends whose server lost nothing: the machine was busy, or the server is slow.
UNTRUSTED = re.compile(r"^rubato: (\S+ \S+: )?(the generator fell behind|no request was due|"
                       r"\S+ % of the requests were never sent)", re.MULTILINE)


def status_of_load(done):
    """The exit status of `rubato load`, 0 also where the machine's load alone spoiled the figures:
    tests that count requests do not depend on them."""
    return 0 if done.returncode == 1 and UNTRUSTED.search(done.stderr) else done.returncode


def reset(client):
    """Closes the connection so that the server gets a reset."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


class Server:
    """`rubato serve PROGRAM ARGS` on a free port; killed at the end of the `with` block."""

    def __init__(self, *args, program="kv", wrapper=(), **popen):
        engine = [] if program != "kv" or "--engine" in args else ["--engine", "memory"]
        more = [] if set(SERVE_ARGS) & set(args) else SERVE_ARGS
        # The default is the machine's number of CPUs; a test says so if it wants more than one.
        workers = [] if "--workers" in args or "--config" in args else ["--workers", "1"]
        port = [] if "--port" in args else ["--port", "0"]
        self.command = [*wrapper, BINARY, "serve", program, *port, *engine, *workers, *args, *more]
        self.log = tempfile.TemporaryFile("w+")
        # The server shares the position in the file, which a reader here moves.
        flags = fcntl.fcntl(self.log, fcntl.F_GETFL)
        fcntl.fcntl(self.log, fcntl.F_SETFL, flags | os.O_APPEND)
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
        def look():
            ended = self.process.poll() is not None
            found = re.search(pattern, self.output())
            return found, ended, self.output()

        found, _, output = eventually(look, lambda seen: seen[0] or seen[1])
        if not found:
            raise AssertionError(f"{self.command}: no {pattern!r} in:\n{output}")
        return found.group(1)

    def client(self, timeout=PATIENCE_S):
        return Client(self.port, timeout)

    def call(self, *argv):
        with self.client() as client:
            return client.call(*argv)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout=PATIENCE_S):
        return self.process.wait(timeout)

    def begin(self, client, *argv):
        """Sends a request that keeps a CPU busy, and returns when it runs (or is over)."""
        used = self.cpu_seconds()
        client.send(*argv)
        eventually(lambda: self.is_busy_since(used) or is_readable(client.socket))

    def is_busy_since(self, used_s):
        """Has a request kept a CPU busy since cpu_seconds() was this?"""
        return self.cpu_seconds() > used_s + BURNT_S

    def cpu_seconds(self):
        """Of all threads: the kernel's clock of a process, clock_getcpuclockid(3)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def scheduler(self):
        """INFO scheduler as a dict."""
        lines = self.call("INFO", "scheduler").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


class MemcachedServer(Server):
    """One whose port `other` speaks memcached's text protocol."""

    def __init__(self, *args):
        super().__init__("--memcached-port", "0", *args)
        self.other = int(self.wait_for(r"text protocol on \S+:(\d+)\n"))

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.other), timeout=20)


def idle_shares(servers):
    """Of one CPU, what each server uses without requests, once its start is over."""
    pass_time(SETTLE_S, "the start itself costs CPU time")
    before = [server.cpu_seconds() for server in servers]
    pass_time(QUIET_S, "the period that is measured")
    return [(server.cpu_seconds() - used) / QUIET_S for server, used in zip(servers, before)]


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


def interrupted(*args):
    """Of `rubato ARGS`, interrupted as soon as it handles that: exit status, stdout and stderr."""
    with subprocess.Popen([BINARY, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        eventually(lambda: handles_interrupts(process.pid))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def handles_interrupts(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        caught = re.search(r"SigCgt:\s+(\w+)", status.read()).group(1)
    return int(caught, 16) & (1 << (signal.SIGINT - 1))


def refused(*args):
    """Exit status of `rubato ARGS`, which is expected to end by itself, and all that it printed."""
    done = subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout + done.stderr
