# SPDX-License-Identifier: Apache-2.0
"""Three times what the server can do: with overload control it refuses, says so and counts; those
it serves do not wait for seconds. Nothing here depends on how fast the machine is.

RUBATO_OVERLOAD_SECONDS is the length of a run; bench/overload_live.py measures."""

import json
import os
import subprocess
import tempfile
import unittest

from server import BINARY, ReplyError, Server, encode, refused

SECONDS = float(os.environ.get("RUBATO_OVERLOAD_SECONDS", "2"))
MIX = "get:50,rangecount/20000:50"


def load(server, *options, seconds=SECONDS):
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run([BINARY, "load", "--target", f"resp://127.0.0.1:{server.port}", "--json",
                        report.name, "--keys", "50000", "--duration", str(seconds), *options],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.load(report)


def info(server, section):
    lines = server.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def overloaded(server, capacity, *options):
    return load(server, "--mix", MIX, "--rate", str(3 * capacity), "--flows", "128", "--warmup",
                "0", "--timeout", "100", *options)


class Overload(unittest.TestCase):
    def capacity(self):
        with Server("--workers", "1") as server:
            return load(server, "--load-keys", "--mix", MIX, "--closed", "16")["achieved_rps"]

    def test_refusals_are_explicit_and_counted_and_spare_the_others(self):
        capacity = self.capacity()
        p99 = {}
        for control in ("none", "aqm"):
            with Server("--workers", "1", "--overload", control) as server:
                load(server, "--load-keys", "--mix", "get:1", "--rate", "10", seconds=0.1)
                report = overloaded(server, capacity)
                overload = info(server, "overload")
                stats = info(server, "errorstats")
            p99[control] = report["latency_us"]["p99"]
            self.assertEqual(report["lost"] + report["errors"], 0)
            self.assertEqual(overload["overload_control"], control)
            counted = sum(int(value) for key, value in overload.items()
                          if key.startswith("refused_"))
            # A warm-up of nothing: the client has counted every refusal that the server has.
            self.assertEqual(counted, report["refused"])
            if control == "none":
                self.assertEqual(counted, 0)
            else:
                self.assertGreater(counted, 0)
                self.assertEqual(stats["errorstat_OVERLOADED"], f"count={counted}")
        print(f"p99 of what was served at 3x: {p99['none'] / 1e3:.0f} ms without control, "
              f"{p99['aqm'] / 1e3:.0f} ms with")
        self.assertLess(p99["aqm"], p99["none"])

    def test_the_reply_says_class_and_when_to_come_back_and_throttled_if_wanted(self):
        for reply, code in (("overloaded", "OVERLOADED"), ("throttled", "THROTTLED")):
            with Server("--policy", "fcfs", "--workers", "1", "--overload", "aqm", "--target-delay",
                        "100us", "--overload-reply", reply) as server:
                with server.client() as busy, server.client() as late, server.client() as health:
                    # Without a pause for longer than a stall may take, and each waits for others.
                    busy.socket.sendall(encode("DEBUG", "SLEEP", "0.02") * 200)
                    with self.assertRaises(ReplyError) as raised:
                        while True:
                            late.socket.sendall(encode("GET", "k") * 50)
                            for _ in range(50):
                                late.reply()
                    self.assertRegex(str(raised.exception),
                                     f"^{code} short retry-after-ms [1-9][0-9]* [a-z ]+$")
                    self.assertEqual(health.call("PING"), b"PONG")

    def test_options_that_make_no_sense_are_named(self):
        for option, value in (("--overload", "maybe"), ("--target-delay", "0"),
                              ("--target-delay", "an hour"), ("--overload-reply", "busy"),
                              ("--target-delay-long", "61s"), ("--target-delay-long", "an hour"),
                              ("--agent-port", "65536")):
            status, text = refused("serve", "kv", option, value)
            self.assertEqual(status, 2, text)
            self.assertIn(option, text)
            self.assertEqual(len(text.strip().splitlines()), 1, text)


if __name__ == "__main__":
    unittest.main()
