# SPDX-License-Identifier: Apache-2.0
"""docs/CAPACITY.md, run as it stands but for ports and a shorter recording."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from documented import ROOT, all_commands

BUILD = Path(os.environ["RUBATO_BUILD"])
DYGRAPHS = Path("/usr/share/javascript/dygraphs")
SECONDS = 2  # of the recording
LIMIT_S = 240
# A busy machine spoils the figures of a generator, which then ends with 1; its report is there.
BEGIN = """set -e
rubato() {
  if [ "$1" = serve ]; then exec rubato "$@"; fi  # in the background: its id is that of the job
  if [ "$1" != load ]; then command rubato "$@"; return; fi
  command rubato "$@" || [ $? = 1 ]
}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@unittest.skipIf(shutil.which("redis-cli") is None, "no redis-cli here")
class Capacity(unittest.TestCase):
    def run_script(self, commands, folder):
        script = BEGIN + "\n".join(commands) + "\nwait\n"
        script = script.replace("--duration 20", f"--duration {SECONDS}")
        for port in sorted(set(re.findall(r"\b64\d\d\b", script))):
            script = re.sub(rf"\b{port}\b", free_port(), script)
        return subprocess.run(
            ["bash", "-c", script], cwd=folder, text=True, capture_output=True,
            timeout=LIMIT_S, check=False,
            env={**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"})

    def test_no_server_is_left_where_a_command_fails(self):
        commands = all_commands((ROOT / "docs/CAPACITY.md").read_text(encoding="utf-8"))
        begin = next(i for i, line in enumerate(commands) if line.startswith("until "))
        with tempfile.TemporaryDirectory() as folder:
            failing = [*commands[:begin + 1], "echo serves as $!", "false"]
            done = self.run_script(failing, folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            pid = re.search(r"serves as (\d+)", done.stdout).group(1)
            ends = time.monotonic() + LIMIT_S
            while os.path.exists(f"/proc/{pid}"):
                self.assertLess(time.monotonic(), ends, "the server is left")
                time.sleep(0.05)
            # The server does not start: nobody waits for it for ever.
            refused = [line.replace("--workers 1", "--workers 0x") for line in commands]
            self.assertNotEqual(self.run_script(refused, folder).returncode, 0)

    def test_the_tutorial_runs_from_the_recording_to_the_check(self):
        commands = all_commands((ROOT / "docs/CAPACITY.md").read_text(encoding="utf-8"))
        if not DYGRAPHS.is_dir():
            commands = [line for line in commands if not line.startswith("rubato report")]
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_script(commands, folder)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
            runs = {name: json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
                    for name in ("before", "now", "after", "predicted")}
            config = Path(folder, "kv.toml").read_text(encoding="utf-8")
            page = Path(folder, "capacity.html")
            if DYGRAPHS.is_dir():
                self.assertIn("<figure data-figure", page.read_text(encoding="utf-8"))
        self.assertRegex(config, r'(?m)^policy = "(fcfs|synergy)"$')
        # `top` shows the policy that was set, and the service of the replayed requests.
        screens = re.findall(r"(?m)^127\.0\.0\.1:\d+ +(\w+) +pid", done.stdout)
        self.assertEqual(screens, ["synergy", "synergy"], done.stdout[-3000:])
        names = [one["name"] for one in runs["before"]["types"]]
        self.assertEqual(names, ["get", "range/5000"])
        # What is replayed is what was recorded: as many requests, and what they were.
        self.assertEqual(runs["after"]["arrivals"], "trace:requests.trace")
        self.assertAlmostEqual(runs["after"]["offered_rps"] / runs["before"]["offered_rps"], 1,
                               delta=0.2)
        self.assertEqual(runs["after"]["errors"] + runs["after"]["lost"], 0)
        for run in runs.values():
            self.assertGreater(run["latency_us"]["p99"], 0)


if __name__ == "__main__":
    unittest.main()
