#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GETs at a light, steady rate from servers with more and more workers on the CPUs of this machine,
which the generator shares: what they take (mean, p99) and what the server spends of CPU time,
beside one worker and, where it is installed, redis-server. With --quota the servers run in a
control group that may use so many CPUs, as a container does.

The contenders take turns; figures are medians over the rounds, with their range. Compare columns of
one run only: on a shared machine the same server differs by a factor between two runs."""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PERIOD_US = 100_000
PATIENCE_S = 20.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def limited_group(quota):
    """The folder of a control group with that quota, None without one."""
    if quota is None:
        yield None
        return
    for root, files in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": PERIOD_US,
                                               "cpu.cfs_quota_us": round(quota * PERIOD_US)}),
                        ("/sys/fs/cgroup", {"cpu.max": f"{round(quota * PERIOD_US)} {PERIOD_US}"})):
        folder = Path(root, f"rubato-few-cpus-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            for name, value in files.items():
                (folder / name).write_text(str(value), encoding="ascii")
            yield folder
            return
        except OSError:
            continue
        finally:
            folder.rmdir()
    sys.exit("few_cpus.py: --quota: no control group with a CPU quota can be made here")


def cpu_seconds(pid):
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0])
               for task in tasks.iterdir()) / 1e9


@contextlib.contextmanager
def serving(command, port, group):
    enter = (lambda: (group / "cgroup.procs").write_text("0", encoding="ascii")) if group else None
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=enter)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"few_cpus.py: {command[0]} does not answer")
                time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def measure(command, port, group, args):
    """Mean and p99 in us, and CPU time of the server in ms per second."""
    with serving(command, port, group) as process, tempfile.NamedTemporaryFile() as report:
        before = cpu_seconds(process.pid)
        subprocess.run([args.binary, "load", "--target", f"resp://127.0.0.1:{port}", "--mix",
                        "get:100", "--keys", "1000", "--load-keys", "--rate", str(args.rate),
                        "--duration", str(args.seconds), "--json", report.name],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        spent = cpu_seconds(process.pid) - before
        latency = json.load(report)["latency_us"]
    return latency["mean"], latency["p99"], 1000 * spent / args.seconds


def contenders(args):
    if shutil.which("redis-server"):
        yield "redis", lambda port: ["redis-server", "--port", str(port), "--save", ""]
    for workers in args.workers.split(","):
        yield f"{workers} workers", lambda port, workers=workers: [
            args.binary, "serve", "kv", "--engine", "memory", "--policy", args.policy, "--workers",
            workers, "--port", str(port)]


def show(figures):
    print(f"{'':12} {'mean us':>24} {'p99 us':>24} {'CPU ms/s':>24}")
    for name, rounds in figures.items():
        cells = []
        for values in zip(*rounds):
            middle = statistics.median(values)
            cells.append(f"{middle:.0f} ({min(values):.0f} .. {max(values):.0f})")
        print(f"{name:12} " + " ".join(f"{cell:>24}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/rubato")
    parser.add_argument("--policy", default="synergy")
    parser.add_argument("--workers", default="1,2,4,32,64", help="numbers, with commas")
    parser.add_argument("--quota", type=float, help="CPUs, such as 0.2; needs root")
    parser.add_argument("--rate", type=int, default=2000, help="GETs a second")
    parser.add_argument("--seconds", type=float, default=3, help="of a run")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    figures = {}
    with limited_group(args.quota) as group:
        for _ in range(args.rounds):
            for name, command in contenders(args):
                port = free_port()
                figures.setdefault(name, []).append(measure(command(port), port, group, args))
    show(figures)


if __name__ == "__main__":
    main()
