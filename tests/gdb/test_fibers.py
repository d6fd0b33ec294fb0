# SPDX-License-Identifier: Apache-2.0
"""tools/gdb/rubato.py: what suspended requests were at, in a process, in a core dump of it, and in
that without debug information."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from server import BINARY, Server  # noqa: E402

GDB_PATIENCE_S = 60
# As long as the server allows. All but one of these are suspended, until another has ended: gdb has
# time to look however slow the machine is.
LONG_NS = 9_900_000_000
LONG_REQUESTS = 4
# A small core dump.
SMALL = ("--max-fibers", "64", "--inbox-capacity", "64", "--shared-capacity", "64",
         "--max-connections", "64")
SUSPENDED = re.compile(r"^ +(\d+)  preempted request +rubato::spin::busy_work\b(.*)$", re.MULTILINE)
# Anywhere in the application: gdb stops it where it happens to be.
RUNNING = re.compile(r"^ +\d+  runs in thread \d+ +rubato::spin::", re.MULTILINE)


def gdb(target, *commands):
    """What the commands print to whom debugs `target`, with ours at hand."""
    environment = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
    argv = ["gdb", "-nx", "-batch", "-x", str(ROOT / "tools/gdb/rubato.py"), *target]
    for command in commands:
        argv += ["-ex", command]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=environment, text=True, errors="replace",
                          timeout=GDB_PATIENCE_S)
    return done.stdout


def backtraces(output):
    """The functions of each fiber in the output of `rubato bt`, innermost first."""
    _, *parts = re.split(r"^Fiber (\d+) \(.*\):$", output, flags=re.MULTILINE)
    frame = re.compile(r"^#(\d+) +(?:0x[0-9a-f]+ in )?(.*)$", re.MULTILINE)
    found = {}
    for number, text in zip(parts[::2], parts[1::2]):
        frames = frame.findall(text)
        assert [int(level) for level, _ in frames] == list(range(len(frames))), output
        found[number] = [function for _, function in frames]
    return found


class Fibers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("gdb") is None:
            raise unittest.SkipTest("there is no gdb")
        can = subprocess.run(["gdb", "-nx", "-batch", "-ex", "python print(6 * 7)"],
                             capture_output=True, text=True, timeout=GDB_PATIENCE_S)
        if can.stdout.strip() != "42":
            raise unittest.SkipTest("this gdb has no Python")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.core = os.path.join(folder.name, "core")
        cls.bare = os.path.join(folder.name, "rubato")
        cls.live = cls.look_at_server()

    @classmethod
    def look_at_server(cls):
        """A short request is answered behind long ones on one worker. So they have all come, one of
        them runs, and the others are suspended."""
        # By age, a short request that loses its CPU would become long and wait among them.
        with Server("--policy", "synergy", "--classify", "feedback", *SMALL,
                    program="spin") as server:
            clients = [server.client() for _ in range(LONG_REQUESTS + 1)]
            for client in clients:
                cls.addClassCleanup(client.close)
            for client in clients[1:]:
                client.send("SPIN", LONG_NS, "LONG")
            assert clients[0].call("SPIN", 1000, "SHORT") == b"OK"
            live = gdb(["-p", str(server.process.pid)], "rubato fibers", "rubato bt all",
                       f"generate-core-file {cls.core}", "backtrace")
        forbidden = re.search(r"^.*ptrace: .*$", live, re.MULTILINE)
        if forbidden:
            raise unittest.SkipTest(f"gdb may not attach here: {forbidden.group()}")
        return live

    def check_suspended(self, frames, output):
        text = "\n".join(frames)
        self.assertRegex(frames[0], "fiber_switch|leave_request", output)
        self.assertIn("rubato::spin::busy_work", text, output)
        self.assertIn("rubato::spin::SpinServer::handle", text, output)
        self.assertRegex(frames[-1], "^rubato_context_entry ", output)

    def check_list(self, output):
        """The numbers of the suspended requests."""
        self.assertEqual(len(RUNNING.findall(output)), 1, output)
        suspended = [number for number, _ in SUSPENDED.findall(output)]
        self.assertGreaterEqual(len(suspended), 1, output)
        return suspended

    def test_live_process(self):
        suspended = self.check_list(self.live)
        self.assertRegex(SUSPENDED.search(self.live).group(2), r"spin_server\.cc:\d+$")
        ours, saved, of_thread = self.live.partition("Saved corefile")
        self.assertTrue(saved, self.live)
        shown = backtraces(ours)
        for number in suspended:
            self.check_suspended(shown[number], self.live)
        # Afterwards gdb shows its threads as before.
        self.assertIn("rubato::serve_until_signal", of_thread)

    def test_core_dump(self):
        of_process = self.check_list(self.live)
        output = gdb([BINARY, self.core], "rubato fibers", "rubato bt 4711",
                     f"rubato bt {of_process[0]} full")
        self.assertEqual(self.check_list(output), of_process)
        shown = backtraces(output)
        self.assertEqual(list(shown), of_process[:1])
        self.check_suspended(shown[of_process[0]], output)
        self.assertIn("there is no fiber 4711", output)

    def test_core_dump_of_a_program_without_debug_information(self):
        if shutil.which("objcopy") is None:
            self.skipTest("there is no objcopy")
        subprocess.run(["objcopy", "--strip-debug", BINARY, self.bare], check=True)
        of_process = self.check_list(self.live)
        output = gdb([self.bare, self.core], "rubato fibers", "rubato bt all")
        self.assertEqual(self.check_list(output), of_process)
        for number in of_process:
            self.check_suspended(backtraces(output)[number], output)

    def test_what_cannot_be_shown_is_told(self):
        self.assertIn("there is no process", gdb([], "rubato fibers"))
        output = gdb([shutil.which("sleep")], "starti", "rubato fibers", "rubato bt x", "rubato bt",
                     "kill")
        self.assertIn("no fibers found: ", output)
        self.assertEqual(output.count("usage: rubato bt N|all [full]"), 2, output)


if __name__ == "__main__":
    unittest.main()
