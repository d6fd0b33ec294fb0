# SPDX-License-Identifier: Apache-2.0
"""GETs beside `KEYS *`: what one command that visits every key does to everybody else's GETs."""

import os
import socket
import statistics
import threading
import time
from dataclasses import dataclass

from rubato_lab.contenders import GET

RATE_RPS = 2000
EVERY_S = 0.5
REPLY_LIMIT_S = 10.0
COMMAND = b"*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n"


@dataclass(frozen=True)
class Beside:
    """One server. Latencies in microseconds, None when unknown: GETs without any KEYS, GETs beside
    them, and KEYS itself (the median of `keys_count`)."""

    name: str
    alone_p99: float | None
    get_p50: float | None
    get_p99: float | None
    get_p999: float | None
    keys_us: float | None
    keys_count: int


def read_reply(link):
    """Reads one array of strings without line breaks, or a reply of one line."""
    data = link.recv(1 << 16)
    while data and b"\n" not in data:
        data += link.recv(1 << 16)
    first = data.split(b"\r\n", 1)[0]
    lines = 1 + (2 * int(first[1:]) if first.startswith(b"*") else 0)
    lines -= data.count(b"\n")
    while lines > 0:
        chunk = link.recv(1 << 20)
        if not chunk:
            raise ConnectionError("closed within a reply")
        lines -= chunk.count(b"\n")


class KeysClient(threading.Thread):
    """Sends KEYS * at a fixed pace until stop(). Runs on the generator's core."""

    def __init__(self, port, core):
        super().__init__(daemon=True)
        self.port = port
        self.core = core
        self.took_us = []
        self.trouble = ""
        self._stopped = threading.Event()

    def run(self):
        try:
            if self.core is not None:
                os.sched_setaffinity(0, {self.core})
            with socket.create_connection(("127.0.0.1", self.port), REPLY_LIMIT_S) as link:
                self._ask(link)
        except (OSError, ValueError) as error:
            self.trouble = str(error)

    def _ask(self, link):
        while not self._stopped.is_set():
            begun = time.monotonic()
            link.sendall(COMMAND)
            read_reply(link)
            took_s = time.monotonic() - begun
            self.took_us.append(1e6 * took_s)
            self._stopped.wait(max(0.0, EVERY_S - took_s))

    def stop(self):
        self._stopped.set()
        self.join()


def measure(bench, contender):
    """Raises ServerFailed or LoadFailed."""
    seconds = bench.options.keys_seconds

    def run(server, name, duration_s, load_keys):
        load = bench.load(server, contender, mix=f"{GET}:1", rate=RATE_RPS, duration_s=duration_s,
                          load_keys=load_keys)
        return bench.run(load, server, f"keys-{contender.name}-{name}").report

    with bench.server(contender) as server:
        alone = run(server, "alone", seconds / 2, True)
        client = KeysClient(server.port, bench.generator_core)
        client.start()
        try:
            beside = run(server, "beside", seconds, False)
        finally:
            client.stop()
    keys_us = statistics.median(client.took_us) if client.took_us else None
    return Beside(contender.name, alone.latency(GET, "p99"), beside.latency(GET, "p50"),
                  beside.latency(GET, "p99"), beside.latency(GET, "p999"), keys_us,
                  len(client.took_us))
