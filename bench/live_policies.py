#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every live policy under load, spin and kv, with two workers: nothing is lost, and counters say
what the policy is said to do. Prints a table; exit status 1 if something is not so.

    bench/live_policies.py --seconds 60
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lab"))

from rubato_lab import servers  # noqa: E402

SPIN = ["--workload", "short:10us:95,long:300us:5"]
KV = ["--mix", "get:98,range/1000:2", "--load-keys", "--keys", "10000"]
STOP_LIMIT_S = 20
# (counter, policies of which it must be above 0 under spin). All others must leave it at 0.
MUST_COUNT = {
    "rubato_preemptions_total": {"ps", "shinjuku", "tinyquanta", "sbb", "synergy"},
    "rubato_steals_total": {"steal", "zygos", "shenango", "synergy"},
}
MAY_COUNT = {"rubato_steals_total": {"sbb"}}
ALWAYS_ZERO = ("rubato_refused_total", "rubato_preemptions_denied_total")


def live_policies(binary):
    found = json.loads(subprocess.run([binary, "policies", "--json"], check=True,
                                      capture_output=True, text=True).stdout)
    return [p["name"] for p in found if not p.get("simulated_only", False)]


def counters(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines
            if line and not line.startswith("#") and "{" not in line}


def wait_ready(port, process):
    limit = time.monotonic() + servers.READY_LIMIT_S
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server was not ready in time")


def run(binary, app, policy, options, log):
    """The load's report, the counters, and the server's exit status."""
    port, metrics = servers.free_port(), servers.free_port()
    serve = [binary, "serve", app, "--policy", policy, "--workers", "2", "--port", str(port),
             "--metrics-port", str(metrics)]
    scheme, mix = ("spin", SPIN) if app == "spin" else ("resp", KV)
    load = [binary, "load", "--target", f"{scheme}://127.0.0.1:{port}", "--rate",
            str(options.rate), "--duration", str(options.seconds), "--flows", "32", *mix,
            "--json", "-"]
    with log.open("ab") as sink:
        server = subprocess.Popen(serve, stdout=sink, stderr=sink,
                                  preexec_fn=servers.die_with_parent)
        try:
            wait_ready(metrics, server)
            done = subprocess.run(load, stdout=subprocess.PIPE, stderr=sink, check=False,
                                  timeout=options.seconds + 60)
            seen = counters(metrics)
            server.send_signal(signal.SIGTERM)
            status = server.wait(timeout=STOP_LIMIT_S)
        finally:
            server.kill()
    if not done.stdout:
        raise RuntimeError(f"the generator said nothing, status {done.returncode}")
    return json.loads(done.stdout), seen, status


def wrong(app, policy, report, seen, status):
    """What is not as it must be, as sentences."""
    found = []
    if report["lost"] or report["refused"]:
        found.append(f"lost {report['lost']}, refused {report['refused']}")
    if report["requests"] == 0:
        found.append("no request was answered")
    if status != 0:
        found.append(f"the server ended with status {status}")
    found += [f"{name} is {seen[name]:.0f}" for name in ALWAYS_ZERO if seen[name]]
    if app != "spin":
        return found
    for name, policies in MUST_COUNT.items():
        if policy in policies and not seen[name]:
            found.append(f"{name} is 0")
        if policy not in policies | MAY_COUNT.get(name, set()) and seen[name]:
            found.append(f"{name} is {seen[name]:.0f}")
    return found


def parsed(arguments):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=int, default=60, help="of load per policy and server")
    p.add_argument("--rate", type=int, default=4000, help="requests per second")
    p.add_argument("--policies", default="all", help="P1,P2,... or all")
    p.add_argument("--binary", default=str(ROOT / "build/release/bin/rubato"))
    options = p.parse_args(arguments)
    if options.seconds < 1 or options.rate < 1:
        p.error("--seconds and --rate take whole numbers from 1 on")
    return options


def main(arguments=None):
    options = parsed(arguments)
    known = live_policies(options.binary)
    chosen = known if options.policies == "all" else options.policies.split(",")
    unknown = [name for name in chosen if name not in known]
    if unknown:
        print(f"--policies takes {', '.join(known)}, not '{unknown[0]}'", file=sys.stderr)
        return 2
    log = Path(tempfile.mkdtemp(prefix="rubato-live-")) / "log"
    bad = 0
    print(f"{'policy':<16}{'server':<7}{'answered':>9}{'p99':>10}{'preempted':>11}{'steals':>9}"
          f"{'moved':>8}  verdict")
    for policy in chosen:
        for app in ("spin", "kv"):
            try:
                report, seen, status = run(options.binary, app, policy, options, log)
            except (RuntimeError, OSError, subprocess.TimeoutExpired, ValueError) as error:
                print(f"{policy:<16}{app:<7}{error}", flush=True)
                bad += 1
                continue
            found = wrong(app, policy, report, seen, status)
            bad += bool(found)
            print(f"{policy:<16}{app:<7}{report['requests']:>9}"
                  f"{report['latency_us']['p99']:>8.0f}us"
                  f"{seen['rubato_preemptions_total']:>11.0f}{seen['rubato_steals_total']:>9.0f}"
                  f"{seen['rubato_moved_total']:>8.0f}  {'; '.join(found) or 'ok'}", flush=True)
    print(f"{bad} of {2 * len(chosen)} runs were not as they must be; log: {log}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
