# SPDX-License-Identifier: Apache-2.0
"""A best-effort command beside the server, and workers whose cores come and go."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from server import BINARY, Server, idle_shares, refused
from waiting import eventually, pass_time

SPINNER = "while :; do :; done"
# In a control group of its own a command gets nothing while others keep the machine busy; without
# one it gets what the server leaves of their session's share.
NO_GROUP = "--best-effort-no-group"
PATIENCE_S = 60.0


def comes_true(read, done=bool):
    return eventually(read, done, PATIENCE_S)


def lives(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class BestEffort(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pid_file = os.path.join(folder.name, "pid")

    def note_pid(self, then):
        """A command whose background process, in a session of its own, leaves its number."""
        return f"(setsid sh -c 'echo $$ > {self.pid_file}; {then}' &) ; {SPINNER}"

    def noted_pid(self):
        def read():
            with open(self.pid_file, encoding="ascii") as file:
                return file.read().strip()
        return int(comes_true(lambda: os.path.exists(self.pid_file) and read()))

    def test_command_runs_gets_cpu_and_its_share_is_told(self):
        with Server("--best-effort", SPINNER, NO_GROUP, "--metrics-port", "0") as server:
            def cpu_s():
                return float(server.scheduler()["best_effort_cpu_s"])
            comes_true(cpu_s, lambda used: used > 0.1)
            comes_true(lambda: float(server.scheduler()["best_effort_share_of_ideal"]),
                       lambda share: share > 0)
            port = server.wait_for(r"metrics on http://\S+:(\d+)/metrics\n")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
                metrics = reply.read().decode()
            seconds = re.search(r"^rubato_best_effort_cpu_seconds_total (\S+)$", metrics,
                                re.MULTILINE)
            self.assertGreater(float(seconds.group(1)), 0.1)
            self.assertIn("rubato_best_effort_starts_total 1\n", metrics)
            server.terminate()
            self.assertEqual(server.wait(), 0)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU")
    def test_workers_keep_to_a_cpu_each_beside_it_unless_told_not_to(self):
        cpus = sorted(os.sched_getaffinity(0))
        for asked, pinned in ([], [(cpu,) for cpu in cpus]), (["--no-pin"], []):
            with Server("--best-effort", SPINNER, NO_GROUP, "--workers", str(len(cpus)),
                        *asked) as server:
                def kept():
                    threads = map(int, os.listdir(f"/proc/{server.process.pid}/task"))
                    each = {tuple(sorted(os.sched_getaffinity(thread))) for thread in threads}
                    return sorted(each - {tuple(cpus)})
                self.assertEqual(server.call("PING"), b"PONG")
                comes_true(kept, lambda found: found == pinned)

    def test_what_keeps_it_back_is_told(self):
        with Server("--best-effort", SPINNER) as server:
            comes_true(lambda: server.scheduler()["best_effort_state"],
                       lambda state: state == "running")
            self.assertRegex(server.scheduler()["best_effort_kept_back_by"],
                             "^(SCHED_IDLE alone: .+|cpu.(idle|weight|shares) of /.+)$")

    def test_all_of_it_dies_with_a_killed_server(self):
        with Server("--best-effort", self.note_pid(SPINNER), NO_GROUP) as server:
            process = self.noted_pid()
            self.assertTrue(lives(process))
            server.process.kill()
            comes_true(lambda: not lives(process))

    def test_all_of_it_ends_with_the_server_even_if_it_ignores_sigterm(self):
        command = self.note_pid("trap \"\" TERM; " + SPINNER)
        with Server("--best-effort", command, NO_GROUP) as server:
            process = self.noted_pid()
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertFalse(lives(process))

    def test_the_end_of_the_command_is_told_and_counted(self):
        with Server("--best-effort", "exit 3", NO_GROUP) as server:
            server.wait_for(r"(the best-effort command ended with status 3 .*not started again)")
            self.assertEqual(server.scheduler()["best_effort_ends"], "1")
            self.assertEqual(server.scheduler()["best_effort_state"], "over")

    def test_a_command_that_ends_is_started_again_ever_later(self):
        with Server("--best-effort", "exit 0", "--best-effort-restart", NO_GROUP) as server:
            server.wait_for(r"(status 0 \(2 so far\); it starts again 2 s later)")
            server.wait_for(r"(status 0 \(3 so far\); it starts again 4 s later)")

    def test_what_cannot_run_gets_one_line_and_status_2(self):
        for args, pattern in ((("--best-effort", "no-such-command x"), "no-such-command"),
                              (("--best-effort", " "), "--best-effort: takes a command"),
                              (("--best-effort-restart",), "--best-effort-restart: needs"),
                              (("--best-effort", "true", "--idle", "spin", "--workers", "256"),
                               "--best-effort: needs --idle adaptive"),
                              (("--cores", "nosuch"), "--cores: 'nosuch'.*reactive"),
                              (("--cores-set", "poll=1"),
                               "--cores-set: needs cores with an allocator"),
                              (("--cores", "reactive", "--cores-set", "pol=1"), "poll"),
                              (("--cores", "reactive", "--guaranteed-cores", "9"),
                               "--guaranteed-cores: takes 1 .. the number of workers"),
                              (("--cores", "reactive", "--workers", "1"),
                               "--cores: needs more workers"),
                              (("--guaranteed-cores", "2"), "--guaranteed-cores: needs")):
            code, text = refused("serve", "kv", "--engine", "memory", "--port", "0", *args)
            self.assertEqual(code, 2, text)
            self.assertEqual(len(text.strip().splitlines()), 1, text)
            self.assertRegex(text, pattern)


class Cores(unittest.TestCase):
    CLIENTS, CALLS = 8, 300

    def drive(self, server):
        """Connections land at all workers, parked ones too."""
        def calls(name):
            with server.client() as client:
                client.call("DEL", name)
                for number in range(self.CALLS):
                    if client.call("INCR", name) != number + 1:
                        return
                    if number % 50 == 0:
                        pass_time(0.02, "a silence in which workers give up their cores")
            done.append(name)
        done = []
        threads = [threading.Thread(target=calls, args=(f"c{i}",)) for i in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(done), self.CLIENTS)

    def test_requests_of_parked_workers_are_served_and_cores_are_counted(self):
        for cores in ("reactive", "caladan", "util-range", "delay-range", "coresync"):
            with self.subTest(cores=cores), Server("--workers", "3", "--cores", cores) as server:
                self.drive(server)
                scheduler = server.scheduler()
                self.assertEqual(scheduler["cores"], cores)
                comes_true(lambda server=server: int(server.scheduler()["core_parks"]))
                self.assertGreaterEqual(int(scheduler["cores_granted"]), 1)
                server.terminate()
                self.assertEqual(server.wait(), 0)

    def test_a_quiet_server_with_an_allocator_sleeps(self):
        allocators = ("reactive", "util-range", "coresync")
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Server("--workers", "3", "--cores", allocator))
                       for allocator in allocators]
            for allocator, server, share in zip(allocators, servers, idle_shares(servers)):
                self.assertLess(share, 0.02, allocator)
                # Where the machine keeps the minder from its CPU another core is granted to answer.
                self.assertIn("1", (server.scheduler()["cores_granted"] for _ in range(20)))

    def test_policies_that_serve_only_their_own_arrivals_wake_for_them(self):
        with Server("--workers", "3", "--cores", "reactive", "--policy", "fcfs") as server:
            def unparked():
                comes_true(lambda: server.scheduler()["cores_granted"], lambda cores: cores == "1")
                self.drive(server)
                return int(server.scheduler()["core_self_unparks"])
            comes_true(unparked)


class Bench(unittest.TestCase):
    def test_bench_runs_for_a_moment(self):
        bench = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "best_effort.py")
        if shutil.which("sh") is None:
            self.skipTest("needs a shell")
        done = subprocess.run(
            [bench, "--binary", BINARY, "--seconds", "1", "--pairs", "1", "--tries", "1",
             "--patience", "0", "--rate", "500"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the command's share of the ideal", done.stdout)


if __name__ == "__main__":
    unittest.main()
