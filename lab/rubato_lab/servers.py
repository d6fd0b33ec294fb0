# SPDX-License-Identifier: Apache-2.0
"""Starts servers, waits until they answer, and never leaves one behind.

A server dies with this process even if that one is killed: the kernel sends it SIGKILL."""

import contextlib
import ctypes
import signal
import socket
import subprocess
import time

READY_LIMIT_S = 15.0
STOP_LIMIT_S = 3.0
LOG_TAIL_LINES = 5
PR_SET_PDEATHSIG = 1

# Loaded before any fork: between fork and exec nothing may be imported or allocated at length.
_LIBC = ctypes.CDLL(None, use_errno=True)


class ServerFailed(Exception):
    """The server did not start, did not answer in time or died."""


def die_with_parent():
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A TCP port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers_ping(port, timeout_s=0.5):
    """Whether something at the port answers PING as Redis does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as link:
            link.sendall(b"*1\r\n$4\r\nPING\r\n")
            reply = b""
            while not reply.endswith(b"\r\n"):
                chunk = link.recv(64)
                if not chunk:
                    return False
                reply += chunk
            return reply == b"+PONG\r\n"
    except OSError:
        return False


def log_tail(path):
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().split("\n")[-LOG_TAIL_LINES:])


class Server:
    """One server process; use as a context manager. `command` is its whole command line."""

    def __init__(self, command, port, log):
        self.command = [str(word) for word in command]
        self.port = port
        self.log = log
        self.process = None

    def __enter__(self):
        try:
            with self.log.open("wb") as sink:
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=sink,
                    stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        except OSError as error:
            raise ServerFailed(f"{self.command[0]}: {error.strerror}") from error
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self):
        deadline = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < deadline:
            self.check_alive()
            if answers_ping(self.port):
                return
            time.sleep(0.02)
        raise ServerFailed(f"no answer to PING within {READY_LIMIT_S:.0f} s: {self.shown()}")

    def check_alive(self):
        """Raises ServerFailed when the process has ended."""
        status = self.process.poll()
        if status is not None:
            raise ServerFailed(f"ended with status {status}: {self.shown()}")

    def shown(self):
        tail = log_tail(self.log)
        return " ".join(self.command) + (f"\n{tail}" if tail else "")

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
