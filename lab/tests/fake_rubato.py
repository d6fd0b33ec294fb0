#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for `rubato` in tests: a server that answers PING and tells its policy, and a
generator that writes made-up reports without any load.

FAKE_RUBATO names what goes wrong: deaf (no PONG), dies:POLICY (ends at once), badload (generator
fails), invalid:POLICY:N (its first N open runs are invalid), failed:POLICY:N (the same, and their
exit status is 1), nojson (writes rubbish)."""

import json
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import samples  # noqa: E402

P999_US = {"fcfs": 7000.0, "ps": 500.0, "synergy": 350.0}
SCAN_US_PER_ITEM = 0.25


def trouble():
    return os.environ.get("FAKE_RUBATO", "").split(":")


def argument(name, otherwise=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else otherwise


def serve():
    policy = argument("--policy")
    if trouble() == ["dies", policy]:
        sys.exit("boom: cannot serve")
    with socket.create_server(("127.0.0.1", int(argument("--port")))) as listener:
        while True:
            link, _ = listener.accept()
            with link:
                words = link.recv(100)
                if trouble() != ["deaf"]:
                    link.sendall(policy.encode() if words == b"POLICY" else b"+PONG\r\n")


def policy_at(target):
    host, _, port = target.removeprefix("resp://").rpartition(":")
    with socket.create_connection((host, int(port))) as link:
        link.sendall(b"POLICY")
        return link.recv(100).decode()


def is_valid(policy):
    """Counts the runs of a policy in a file beside the reports."""
    if trouble()[0] not in ("invalid", "failed") or trouble()[1] != policy:
        return True
    counter = Path(argument("--json")).with_name("invalid-runs")
    seen = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(seen + 1))
    return seen >= int(trouble()[2])


def load():
    if trouble() == ["badload"]:
        print("load: cannot connect", file=sys.stderr)
        return 2
    policy = policy_at(argument("--target"))
    mix = argument("--mix")
    if mix == "range:1":
        report = samples.report_object(
            rps=1e6 / (SCAN_US_PER_ITEM * int(argument("--scan-limit"))))
    elif mix == "get:1":
        report = samples.report_object(P999_US[policy])
    elif "--closed" in sys.argv:
        report = samples.report_object(p999_us=900.0, rps=40000.0)
    else:
        report = samples.report_object(P999_US[policy], 5000.0, float(argument("--rate")),
                                       is_valid(policy))
    text = "rubbish" if trouble() == ["nojson"] else json.dumps(report)
    Path(argument("--json")).write_text(text, encoding="utf-8")
    return 1 if trouble()[0] == "failed" and not report["valid"] else 0


def main():
    if sys.argv[1:] == ["--version"]:
        print("rubato 0.0.0 (fake)")
        return 0
    return serve() if sys.argv[1] == "serve" else load()


if __name__ == "__main__":
    sys.exit(main())
