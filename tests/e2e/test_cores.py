# SPDX-License-Identifier: Apache-2.0
"""Two servers that share CPUs by a manager: who has which, and what happens when one ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest

from server import BINARY, ReplyError, Server
from waiting import eventually

PATIENCE_S = 60.0


def comes_true(read, done=bool):
    return eventually(read, done, PATIENCE_S)


def affinity(server):
    """The CPUs that any thread of the server may run on."""
    cpus = set()
    for thread in os.listdir(f"/proc/{server.process.pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            cpus |= os.sched_getaffinity(int(thread))
    return cpus


class Manager:
    """`rubato cores` with two CPUs."""

    def __init__(self, cpus, *args):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "cores")
        self.log = tempfile.TemporaryFile("w+")
        self.command = [BINARY, "cores", "--socket", self.path, "--cpus", cpus, *args]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True)
        assert "sharing CPUs" in self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGTERM)
        self.log.close()
        self.folder.cleanup()

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()

    def state(self):
        asked = subprocess.run([BINARY, "cores", "--socket", self.path, "--status", "--json"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return json.loads(asked.stdout)

    def log_text(self):
        # The manager shares the position in the file that it writes.
        with open(f"/proc/self/fd/{self.log.fileno()}", encoding="utf-8") as log:
            return log.read()

    def held(self, *servers):
        """How many CPUs each of them has."""
        by_pid = {one["pid"]: one["cpus"] for one in self.state()["servers"]}
        return [len(by_pid.get(server.process.pid, [])) for server in servers]

    def serve(self, cores, *args):
        return Server("--workers", "2", "--cores", cores, "--cores-manager", self.path, *args)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU cannot be shared")
class Cores(unittest.TestCase):
    def setUp(self):
        self.cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))

    def test_cores_go_from_server_to_server(self):
        with Manager(self.cpus, "--patience", "0.1") as manager, manager.serve("static") as greedy:
            comes_true(lambda: manager.held(greedy) == [2])
            with manager.serve("reactive") as other, greedy.client() as client:
                both = (greedy, other)
                comes_true(lambda: manager.held(*both) == [1, 1])
                comes_true(lambda: not affinity(greedy) & affinity(other))
                # The CPU may have been taken before the worker has parked.
                comes_true(lambda: greedy.scheduler()["cores_granted"] == "1")
                comes_true(lambda: int(greedy.scheduler()["core_parks"]) >= 1)
                # Worker 0 takes in what comes to the one that has parked.
                for server in both:
                    self.assertEqual([server.call("PING") for _ in range(20)], [b"PONG"] * 20)
                self.assertEqual(client.call("SET", "a", "b"), b"OK")

                other.process.send_signal(signal.SIGSTOP)
                comes_true(lambda: manager.held(*both) == [2, 0])
                other.process.send_signal(signal.SIGCONT)
                comes_true(lambda: manager.held(*both) == [1, 1])

                refused = subprocess.run(
                    [BINARY, "serve", "kv", "--engine", "memory", "--port", "0", "--workers", "2",
                     "--cores", "reactive", "--cores-manager", manager.path],
                    capture_output=True, text=True, timeout=PATIENCE_S)
                self.assertEqual(refused.returncode, 1)
                self.assertIn("1 guaranteed cores do not fit: 0 of 2 are", refused.stderr)
            comes_true(lambda: manager.held(greedy) == [2])
            state = manager.state()
            self.assertGreaterEqual(state["moves"], 4)
            self.assertGreaterEqual(state["hung"], 1)
            self.assertEqual(state["placements_failed"], 0)

    def test_servers_outlive_the_manager_and_join_the_next_one(self):
        patience = ("--patience", "600")  # a busy machine makes no server hang
        with Manager(self.cpus, *patience, "--best-effort", "sleep 1000") as manager:
            with manager.serve("static", "--metrics-port", "0") as server:
                comes_true(lambda: manager.held(server) == [2])
                comes_true(lambda: server.scheduler()["cores_granted"] == "2")
                self.assertTrue(comes_true(lambda: manager.state()["best_effort"][0]["running"]))
                manager.end(signal.SIGKILL)
                server.wait_for("(the manager of cores has gone)")
                self.assertEqual(server.call("PING"), b"PONG")
                self.assertEqual(server.scheduler()["cores_granted"], "2")
                manager.start()
                server.wait_for("(a manager of cores is there again)")
                comes_true(lambda: manager.held(server) == [2])
                self.assertEqual(server.call("PING"), b"PONG")

    def test_who_takes_over_serves_although_no_manager_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with Manager(self.cpus, "--patience", "600") as manager:
            args = ("static", "--port", str(port), "--handover",
                    os.path.join(manager.folder.name, "handover"))
            with manager.serve(*args) as first:
                comes_true(lambda: manager.held(first) == [2])
                manager.end(signal.SIGKILL)
                first.wait_for("(the manager of cores has gone)")
                with manager.serve(*args) as second:
                    self.assertEqual(first.wait(), 0)
                    second.wait_for("(cannot join: no manager of cores listens)")
                    self.assertEqual(second.call("PING"), b"PONG")
                    manager.start()
                    second.wait_for("(a manager of cores is there again)")
                    comes_true(lambda: manager.held(second) == [2])

    def test_a_manager_removes_no_socket_but_its_own(self):
        with tempfile.TemporaryDirectory() as folder, \
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            path = os.path.join(folder, "other")
            other.bind(path)
            other.listen()
            refused = subprocess.run([BINARY, "cores", "--socket", path, "--cpus", self.cpus],
                                     capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual((refused.returncode, refused.stderr.count("\n")), (1, 1))
            self.assertIn("is another program's", refused.stderr)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(path)
        with Manager(self.cpus) as manager, Manager(self.cpus) as later:
            os.rename(later.path, manager.path)
            manager.end(signal.SIGTERM)
            self.assertTrue(os.path.exists(manager.path))

    def test_the_state_has_commands_of_any_bytes(self):
        with Manager(self.cpus, "--best-effort", b"sleep 1000 # \xff" + b"x" * 1000) as manager:
            command = manager.state()["best_effort"][0]["command"]
            self.assertEqual(command, "sleep 1000 # \ufffd" + "x" * 1000)

    def test_the_state_has_any_length(self):
        commands = [f"sleep 1000 # {name * 60_000}" for name in "abcd"]
        flags = [text for command in commands for text in ("--best-effort", command)]
        with Manager(self.cpus, *flags) as manager:
            self.assertEqual([one["command"] for one in manager.state()["best_effort"]], commands)

    def test_a_signal_that_stops_nothing_is_told(self):
        with Manager(self.cpus) as manager:
            for number, line in ((signal.SIGHUP, "SIGHUP ignored: nothing is reloaded"),
                                 (signal.SIGUSR1, "SIGUSR1 ignored"),
                                 (signal.SIGUSR2, "SIGUSR2 ignored")):
                manager.process.send_signal(number)
                comes_true(lambda line=line: line in manager.log_text())
            self.assertEqual(manager.state()["servers"], [])

    def test_what_the_manager_goes_by_stays_as_it_is(self):
        with Manager(self.cpus, "--patience", "600") as manager:
            with manager.serve("reactive") as server, server.client() as client:
                for name, value in (("cores", "adaptive"), ("cores-set", "time_scale=3"),
                                    ("guaranteed-cores", "2")):
                    with self.subTest(name=name), \
                            self.assertRaisesRegex(ReplyError, "takes a restart$") as refused:
                        client.call("CONFIG", "SET", name, value)
                    self.assertIn(": the manager of cores goes by", str(refused.exception))
                self.assertEqual(client.call("CONFIG", "SET", "policy", "fcfs"), b"OK")
                self.assertEqual(server.call("PING"), b"PONG")
                comes_true(lambda: manager.held(server) == [1])

    def test_wrong_options_are_one_line(self):
        path = os.path.join(tempfile.gettempdir(), "no", "such", "socket")
        cases = ((("cores",), 2, "--socket is required"),
                 (("cores", "--socket", path, "--cpus", "4095"), 2, "--cpus: CPU 4095 is not one"),
                 (("cores", "--socket", path, "--json"), 2, "--json: needs --status"),
                 (("cores", "--socket", path, "--patience", "0.01"), 2, "--patience: must be 32"),
                 (("cores", "--socket", path, "--best-effort", "no-such-cmd"), 2,
                  "--best-effort: takes a command that can be run"),
                 (("cores", "--socket", path, "--status"), 1, "no manager of cores listens at"),
                 (("cores", "--socket", path), 1, "--socket: cannot listen at"),
                 (("serve", "kv", "--cores-manager", path), 2, "--cores-manager: needs --cores"),
                 (("serve", "kv", "--engine", "memory", "--workers", "2", "--cores", "reactive",
                   "--port", "0", "--cores-manager", path), 1,
                  "--cores-manager: no manager of cores listens at"))
        for args, status, line in cases:
            with self.subTest(args=args):
                done = subprocess.run([BINARY, *args], capture_output=True, text=True,
                                      timeout=PATIENCE_S)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(line, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
