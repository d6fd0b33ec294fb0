#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Valkey with the scheduler inside against the same source unchanged, in alternating rounds.

    bench/valkey.py latency       GETs at a fixed rate beside slow commands
    bench/valkey.py throughput    valkey-benchmark's tests: ratios to the unchanged server

Each server has one CPU, the clients another. Latency counts from the time a GET was due, of those
that were due while a slow command was underway; the figure of a server is the median of its rounds,
with their range. `tools/valkey.sh` and `tools/valkey.sh --plain` build the two.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/valkey"))

from valkey_process import Client  # noqa: E402

ELEMENTS = 100_000
RATE = 2000
CONNECTIONS = 8
SCRIPT = "local s = 0 for i = 1, {} do s = s + i end return s"
FILL = """for i = ARGV[1], ARGV[2] do
  redis.call('set', 'key:' .. i, 'value') redis.call('hset', 'hash', 'field' .. i, i)
  redis.call('sadd', 'set', 'member' .. i) redis.call('sadd', 'other', 'other' .. i)
  redis.call('rpush', 'list', 'element' .. i) redis.call('zadd', 'sorted', i, 'member' .. i)
end"""


def slow_commands(loops):
    return [("KEYS", "*"), ("HGETALL", "hash"), ("SMEMBERS", "set"), ("LRANGE", "list", 0, -1),
            ("ZRANGE", "sorted", 0, -1), ("SUNION", "set", "other"),
            ("EVAL_RO", SCRIPT.format(loops), 0)]


class Server:
    def __init__(self, name, binary, cpu, *options):
        self.name = name
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            ["taskset", "-c", str(cpu), binary, "--port", str(self.port), "--save", "",
             "--appendonly", "no", *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.client = Client(self.port)
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"valkey.py: {binary} does not answer")

    def fill(self):
        for first in range(1, ELEMENTS, 1000):
            self.client.call("EVAL", FILL, 0, first, first + 999)

    def loops_of(self, seconds):
        """Rounds of the script's loop that take so long."""
        loops = 200_000
        begin = time.perf_counter()
        self.client.call("EVAL_RO", SCRIPT.format(loops), 0)
        return int(loops * seconds / (time.perf_counter() - begin))


@contextlib.contextmanager
def running(args, *names):
    servers = []
    try:
        for name in names:
            options = ["--rubato-enabled", "no"] if name == "off" else []
            servers.append(Server(name, args.plain if name == "plain" else args.ours,
                                  args.server_cpu, *options, *args.option))
        yield servers
    finally:
        for server in servers:
            server.process.kill()
            server.process.wait()


def reply_bytes(port, words):
    """The length of a reply, which is the same each time."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(0.5)
        connection.sendall(encoded(words))
        total = 0
        try:
            while chunk := connection.recv(1 << 20):
                total += len(chunk)
        except TimeoutError:
            pass
    return total


def encoded(words):
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def run_slow(port, commands, lengths, cpu, seconds, queue):
    """Each of the commands twice a second, in turn. Puts when each began and ended."""
    os.sched_setaffinity(0, {cpu})
    connection = socket.create_connection(("127.0.0.1", port))
    buffer = bytearray(1 << 20)
    spans = []
    begin = time.monotonic()
    number = 0
    while (due := begin + number / (2 * len(commands))) < begin + seconds:
        time.sleep(max(0, due - time.monotonic()))
        which = number % len(commands)
        sent = time.monotonic()
        connection.sendall(encoded(commands[which]))
        left = lengths[which]
        while left > 0:
            left -= connection.recv_into(buffer, min(left, len(buffer)))
        spans.append((sent, time.monotonic(), commands[which][0]))
        number += 1
    queue.put(spans)


def run_gets(port, seconds):
    """(due, latency) of GETs that are sent when they are due, whatever is unanswered."""
    poller = select.epoll()
    connections = []
    for number in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        poller.register(connection.fileno(), select.EPOLLIN)
        connections.append((connection, []))
    by_fd = {c.fileno(): (c, sent) for c, sent in connections}
    reply = len(b"$5\r\nvalue\r\n")
    partial = dict.fromkeys(by_fd, 0)
    found = []
    begin = time.monotonic() + 0.01
    number, total, answered = 0, int(seconds * RATE), 0
    while answered < total:
        now = time.monotonic()
        while number < total and now >= (due := begin + number / RATE):
            connection, sent = connections[number % CONNECTIONS]
            connection.send(encoded(("GET", f"key:{1 + number * 7919 % ELEMENTS}")))
            sent.append(due)
            number += 1
            now = time.monotonic()
        wait = begin + number / RATE - now if number < total else 0.1
        for fd, _ in poller.poll(max(0, wait)):
            connection, sent = by_fd[fd]
            size = len(connection.recv(65536)) + partial[fd]
            came = time.monotonic()
            partial[fd] = size % reply
            for due in sent[:size // reply]:
                found.append((due, came - due))
            answered += size // reply
            del sent[:size // reply]
    return found


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def measure(server, commands, lengths, args):
    """Milliseconds: p50 and p99 of GETs due while a slow command ran, p99 of the others, and the
    mean of the slow commands."""
    queue = multiprocessing.Queue()
    slow = multiprocessing.Process(
        target=run_slow,
        args=(server.port, commands, lengths, args.client_cpu, args.seconds, queue))
    slow.start()
    gets = run_gets(server.port, args.seconds)
    spans = queue.get()
    slow.join()
    beside, alone = [], []
    for due, latency in gets:
        inside = any(begin <= due < end for begin, end, _ in spans)
        (beside if inside else alone).append(latency * 1000)
    times = {words[0]: [] for words in commands}
    for begin, end, name in spans:
        times[name].append((end - begin) * 1000)
    return {"beside_p50": percentile(beside, 0.5), "beside_p99": percentile(beside, 0.99),
            "beside_max": max(beside), "alone_p99": percentile(alone, 0.99),
            "beside": len(beside), "slow_ms": {n: statistics.median(t) for n, t in times.items()}}


def spread(values):
    return f"{statistics.median(values):.3g} [{min(values):.3g}-{max(values):.3g}]"


def latency(args):
    os.sched_setaffinity(0, {args.client_cpu})
    with running(args, "plain", "on") as servers:
        return measure_all(servers, args)


def measure_all(servers, args):
    for server in servers:
        server.fill()
    commands = slow_commands(servers[0].loops_of(0.02))
    lengths = {s.name: [reply_bytes(s.port, words) for words in commands] for s in servers}
    rounds = {s.name: [] for s in servers}
    for _ in range(args.rounds):
        for server in servers:
            rounds[server.name].append(measure(server, commands, lengths[server.name], args))
    print(f"GETs at {RATE}/s beside {', '.join(w[0] for w in commands)}, each twice a second; ms")
    for name, found in rounds.items():
        columns = {key: spread([r[key] for r in found])
                   for key in ("beside_p50", "beside_p99", "beside_max", "alone_p99")}
        print(f"{name:9}", *(f"{k} {v}" for k, v in columns.items()), sep="  ")
        print(" " * 9, *(f"{c[0]} {spread([r['slow_ms'][c[0]] for r in found])}" for c in commands),
              sep="  ")
    base = [r["beside_p99"] for r in rounds[servers[0].name]]
    for name, found in list(rounds.items())[1:]:
        print(f"p99 of {servers[0].name} over that of {name}:",
              spread([b / r["beside_p99"] for b, r in zip(base, found)]))
    return rounds


def cpu_seconds(server):
    """That the server's main thread has run."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def rate(server, test, pipeline, args):
    """Requests per second, or with --cpu-time per second of the server's CPU time, which other
    programs on the machine disturb less."""
    requests = args.requests * (4 if pipeline > 1 else 1)
    before = cpu_seconds(server)
    done = subprocess.run(
        ["taskset", "-c", str(args.client_cpu), args.benchmark, "-p", str(server.port), "-t", test,
         "-n", str(requests), "-P", str(pipeline), "-c", "50", "-r", "100000", "--csv"],
        capture_output=True, text=True, check=True)
    if args.cpu_time:
        return requests / (cpu_seconds(server) - before)
    return float(done.stdout.strip().splitlines()[-1].split(",")[1].strip('"'))


def throughput(args):
    """Each round has servers of its own, whose memory lies elsewhere: that alone moves a rate by
    some percent. Who begins changes from round to round."""
    found = {}
    for turn in range(args.rounds):
        with running(args, "plain", "on", "off") as servers:
            first = turn % len(servers)
            for pipeline in (1, 16):
                for test in args.tests.split(","):
                    rates = {server.name: rate(server, test, pipeline, args)
                             for server in servers[first:] + servers[:first]}
                    for name in "on", "off":
                        ratios = found.setdefault(f"{test} -P {pipeline} {name}", [])
                        ratios.append(rates[name] / rates["plain"])
    for name, ratios in found.items():
        print(f"{name:20} {spread(ratios)}")
    for name in "on", "off":
        medians = [statistics.median(v) for k, v in found.items() if k.endswith(f" {name}")]
        print(f"geometric mean, {name}: {statistics.geometric_mean(medians):.3f}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("latency", "throughput"))
    parser.add_argument("--ours", default=str(ROOT / "build/valkey/valkey-server"))
    parser.add_argument("--plain", default=str(ROOT / "build/valkey-plain/valkey-server"))
    parser.add_argument("--benchmark", default=str(ROOT / "build/valkey/valkey-benchmark"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tests", default="set,get,incr,lpush,rpush,lpop,sadd,hset,spop,zadd,"
                        "lrange_100,lrange_300,lrange_600,mset")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--client-cpu", type=int, default=1)
    parser.add_argument("--option", action="append", default=[], help="of each server")
    parser.add_argument("--nice", type=int, default=0, help="of servers and clients, on a machine "
                        "that others use: negative, as root")
    parser.add_argument("--cpu-time", action="store_true", help="see rate()")
    parser.add_argument("--json")
    args = parser.parse_args()
    os.nice(args.nice)
    found = (latency if args.what == "latency" else throughput)(args)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
