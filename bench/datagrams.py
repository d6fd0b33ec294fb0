#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a request of 64 bytes costs `rubato serve spin --udp` in CPU time, on a virtual link between
two network namespaces, by kernel UDP one datagram at a time, by kernel UDP in batches, by AF_XDP
with and without busy polling, and by DPDK's net_af_xdp; with so many requests in flight, each
client with a socket of its own. Needs root.

The contenders take turns. Server and generator share one CPU and sleep when they have nothing to
do, so they mostly take turns too; DPDK's workers, which cannot sleep, nap. What the server's
sleeping and waking, or napping, costs is in the figures.
The kernel's work for a datagram counts for whoever calls it: the sender, mostly. Figures are
medians over the rounds with their range; compare those of one run."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

CONTENDERS = {
    "udp, one at a time": ("--udp-batch", "1"),
    "udp, batches": (),
    "af_xdp": ("--datapath", "af_xdp:vs"),
    "af_xdp, busy poll": ("--datapath", "af_xdp:vs", "--busy-poll", "50us"),
    "dpdk": ("--datapath", "dpdk:net_af_xdp0", "--dpdk-nap", "50us", "--dpdk-args",
             "--no-huge -m 128 --no-pci --no-shconf --no-telemetry --log-level=error "
             "--vdev=net_af_xdp0,iface=vs,busy_budget=0"),
}
ADDRESS = "10.81.0.1"
PORT = 7391
PATIENCE_S = 20.0


def run_ip(*args):
    subprocess.run(["ip", *args], check=True)


@contextlib.contextmanager
def namespaces():
    ends = [f"rubato-bench-{end}{os.getpid()}" for end in "sc"]
    try:
        for end in ends:
            run_ip("netns", "add", end)
        queues = ("numrxqueues", "1", "numtxqueues", "1")
        run_ip("link", "add", "vs", "netns", ends[0], *queues, "type", "veth",
               "peer", "name", "vc", "netns", ends[1], *queues)
        for end, link, host in zip(ends, ("vs", "vc"), (1, 2)):
            run_ip("-n", end, "addr", "add", f"10.81.0.{host}/24", "dev", link)
            run_ip("-n", end, "link", "set", "lo", "up")
            run_ip("-n", end, "link", "set", link, "up")
        yield [("ip", "netns", "exec", end) for end in ends]
    finally:
        for end in ends:
            subprocess.run(["ip", "netns", "del", end], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def started(command, port):
    """The process of a server, once it says that it serves on that port."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while f"on {ADDRESS}:{port}" not in read(log):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{sys.argv[0]}: the server does not start: {read(log)}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()  # DPDK's XDP program would outlive a killed one
            process.wait()
            time.sleep(0.3)  # the kernel gives the link's queue free


def server(binary, wrapper, cpu, workers, args):
    return started([*wrapper, "taskset", "-c", cpu, binary, "serve", "spin", "--udp", "--bind",
                    ADDRESS, "--port", str(PORT), "--workers", str(workers), "--idle-spin", "0",
                    *args], PORT)


def load(binary, wrapper, cpu, target, *args):
    """The report of a generator, whatever it says of the run."""
    done = subprocess.run([*wrapper, "taskset", "-c", cpu, binary, "load", "--target", target,
                           "--json", "-", *args], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{sys.argv[0]}: {done.stderr}")
    return json.loads(done.stdout)


def read(log):
    log.seek(0)
    return log.read()


def cpu_seconds(pid):
    """Of all threads: the kernel's clock of a process, clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def measure(options, ends, args, workers, in_flight):
    """Nanoseconds of the server per request."""
    with server(options.binary, ends[0], options.cpu, workers, args) as process:
        used = cpu_seconds(process.pid)
        report = load(options.binary, ends[1], options.client_cpu or options.cpu,
                      f"spin+udp://{ADDRESS}:{PORT}", "--workload", "fixed-0.001", "--closed",
                      str(in_flight), "--duration", str(options.seconds), "--warmup", "0", "--nap")
        used = cpu_seconds(process.pid) - used
    if report["lost"] or report["errors"] or report["refused"]:
        sys.exit(f"datagrams.py: lost {report['lost']}, errors {report['errors']}")
    return used * 1e9 / report["requests"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/rubato")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--in-flight", default="16,64")
    parser.add_argument("--cpu", default="0")
    parser.add_argument("--client-cpu", help="of the generator; default: the server's")
    options = parser.parse_args()
    settings = [(int(workers), int(in_flight)) for workers in options.workers.split(",")
                for in_flight in options.in_flight.split(",")]
    costs = {}
    with namespaces() as ends:
        for _ in range(options.rounds):
            for workers, in_flight in settings:
                for name, args in CONTENDERS.items():
                    cost = measure(options, ends, args, workers, in_flight)
                    costs.setdefault((workers, in_flight, name), []).append(cost)
    first = next(iter(CONTENDERS))
    print("| workers | in flight | | ns of the server per request | range | of one at a time |")
    print("|---|---|---|---|---|---|")
    for (workers, in_flight, name), values in costs.items():
        ratios = [value / one for value, one in zip(values, costs[workers, in_flight, first])]
        print(f"| {workers} | {in_flight} | {name} | {statistics.median(values):.0f} | "
              f"{min(values):.0f} .. {max(values):.0f} | {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} .. {max(ratios):.2f}) |")


if __name__ == "__main__":
    main()
