# SPDX-License-Identifier: Apache-2.0
"""Running a server as operators do: its log, where its options may stand, signals, systemd."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from server import BINARY, ReplyError, Server
from waiting import PATIENCE_S, eventually


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # A server inherits what is ignored, and these tests may run under nohup.
        for number in (signal.SIGHUP, signal.SIGUSR1):
            self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_DFL))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def await_in(self, name, pattern):
        """The first match of the pattern in that file."""
        return eventually(lambda: os.path.exists(self.path(name)) and
                          re.search(pattern, self.read(name)))


def rubato(*args, env=None):
    """Exit status, stdout and stderr of `rubato ARGS`."""
    done = subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, env=None if env is None else {**os.environ, **env})
    return done.returncode, done.stdout, done.stderr


class Log(InFolder):
    def test_text_and_json_tell_start_state_and_stop(self):
        for form in ("text", "json"):
            log = self.path(form)
            with Server("--log-file", log, "--log-format", form) as server:
                server.process.send_signal(signal.SIGUSR1)
                self.await_in(form, r"a worker ")
                server.terminate()
                self.assertEqual(server.wait(), 0)
                self.assertNotIn(" info ", server.output())
        for line in self.read("text").splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [a-z]+ [a-z_]+: ")
        lines = [json.loads(line) for line in self.read("json").splitlines()]
        self.assertLessEqual({"start", "state", "stop"}, {line["event"] for line in lines})
        started = next(line for line in lines if line["message"] == "started")
        self.assertEqual((started["policy"], started["workers"]), ("synergy", 1))

    def test_debug_tells_each_second_what_was_served(self):
        with Server("--log-level", "debug") as server:
            server.call("PING")
            server.wait_for(r"debug state: requests were served (requests=1 preemptions=0) ")

    def test_less_important_lines_are_left_out(self):
        with Server("--log-level", "warning") as server:
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertNotIn(" info ", server.output())

    def test_a_slow_request_is_logged_without_its_arguments(self):
        with Server("--log-slow", "20ms") as server:
            server.call("DEBUG", "SLEEP", "0.03")
            line = server.wait_for(r"(info slow: .*)\n")
            self.assertRegex(line, r" type=debug\|sleep wait_us=\d+ service_us=\d{5,} ")
            server.call("GET", "secret")
        with Server("--log-slow", "0") as server:
            server.call("DEBUG", "SLEEP", "0.03")
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertNotIn(" slow: ", server.output())
        with Server("--log-slow", "1ms", program="spin") as server:
            server.call("SPIN", "5000000")
            server.wait_for(r"slow: .*(type=long)")

    def test_refusals_are_summed_up_however_many_they_are(self):
        with Server("--max-connections", "1") as server, server.client() as client:
            client.call("PING")
            for _ in range(300):
                with socket.create_connection(("127.0.0.1", server.port)) as other:
                    self.assertTrue(other.recv(100).startswith(b"-ERR max number of clients"))
            counts = eventually(lambda: [int(n) for n in re.findall(
                r"warning connections: .* refused=(\d+) ", server.output())],
                lambda seen: sum(seen) == 300)
            self.assertLess(len(counts), 100)

    def test_a_log_that_cannot_be_opened_is_told_at_the_start(self):
        status, _, text = rubato("serve", "kv", "--engine", "memory", "--port", "0", "--log-file",
                                 self.path("no/where"))
        self.assertEqual((status, text.count("\n")), (2, 1), text)
        self.assertIn("--log-file: ", text)

    def test_the_memory_engine_says_that_it_keeps_nothing(self):
        with Server() as server:
            server.wait_for("info start: (the memory engine keeps nothing)")
            self.assertIn(b"\r\ndata_after_stop:lost\r\n", server.call("INFO", "persistence"))
            self.assertEqual(server.call("CONFIG", "GET", "durability")[1], b"none")
            with server.client() as client:
                client.send("SHUTDOWN")
            self.assertEqual(server.wait(), 0)
            server.wait_for("stop: stopped; (the memory engine kept nothing, its data is gone)")
        arguments = ("--engine", "rocksdb", "--dir", self.path("data"))
        with Server(*arguments) as server:
            self.assertIn(b"\r\ndata_after_stop:kept\r\n", server.call("INFO", "persistence"))
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertNotIn("nothing", server.output())


class Configuration(InFolder):
    KV = ("serve", "kv", "--engine", "memory")

    def printed(self, *args, env=None):
        status, text, error = rubato(*self.KV, *args, "--print-config", env=env)
        self.assertEqual((status, error), (0, ""))
        return text

    def test_the_nearest_source_counts(self):
        config = self.write("c.toml", 'workers = 1\ndrain-limit = "3s"\nidle = "spin"\n'
                            '[set]\nquantum_max = "7us"\nwait_queue = "on"\n')
        env = {"RUBATO_DRAIN_LIMIT": "2s", "RUBATO_IDLE": "adaptive",
               "RUBATO_SET": "quantum_max=8us", "RUBATO_PIN": "on", "RUBATO_CONFIG": config}
        text = self.printed("--drain-limit", "1s", env=env)
        for line in ('workers = 1', 'drain-limit = "1s"', 'idle = "adaptive"', "pin = true",
                     'quantum_max = "8us"', 'wait_queue = "on"'):
            self.assertIn("\n" + line + "\n", "\n" + text)

    def test_what_is_printed_can_be_given_back(self):
        for args in ((), ("--metrics-port", "0", "--requirepass", 'a "b" \\ c', "--set",
                          "quantum_max=5us", "--pin")):
            text = self.printed(*args)
            again = self.write("again.toml", text)
            self.assertEqual(self.printed("--config", again), text)

    def test_wrong_options_are_named_wherever_they_stand(self):
        config = self.write("c.toml", "port = 0\n\nworkers = 3000\n")
        policy = self.write("p.toml", "[set]\ncolour = 7\n")
        cases = (
            ((), {"RUBATO_WORKERS": "many"}, "RUBATO_WORKERS: "),
            ((), {"RUBATO_WORKER": "1"}, "RUBATO_WORKER is not an option of kv; did you mean "
             "RUBATO_WORKERS?"),
            (("--config", config), {}, "c.toml:3: --workers: takes a whole number"),
            (("--config", policy), {}, "--set: synergy has no option 'colour'"),
            (("--max-fibers", "2", "--workers", "2"), {}, "--max-fibers: must be greater"),
            (("--credits-set", "colour=7", "--rpc-port", "0"), {}, "colour"),
            (("--incoming-cpu",), {}, "--incoming-cpu: needs --pin"),
            (("--busy-poll", "2ms"), {}, "--busy-poll: takes a time from 0ns to 1ms"),
        )
        for args, env, message in cases:
            status, out, error = rubato(*self.KV, *args, "--check-config", env=env)
            self.assertEqual((status, out, error.count("\n")), (2, "", 1), error)
            self.assertIn(message, error)

    def test_right_options_are_told_to_be(self):
        config = self.write("c.toml", "workers = 2\n")
        for program in ("kv", "spin"):
            status, out, error = rubato("serve", program, "--config", config, "--check-config")
            self.assertEqual((status, error), (0, ""))
            self.assertIn(config, out)

    def test_other_variables_of_this_name_are_nobody_s_option(self):
        env = {"RUBATO_SEED": "7", "RUBATO_CLOCK": "tsc", "RUBATO_UNSAFE_CODE": "", "RUBATO_X": "1",
               "RUBATO_BINARY": BINARY, "RUBATO_SERVE_ARGS": "", "RUBATO_WORKERS": ""}
        self.assertEqual(self.printed(env=env), self.printed())


class Reload(InFolder):
    def serve(self, text, *args):
        self.config = self.write("c.toml", text)
        server = Server("--config", self.config, "--workers", "1", *args)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def reload(self, server, text):
        """What the log says about the file with that text."""
        self.write("c.toml", text)
        before = len(server.output())
        server.process.send_signal(signal.SIGHUP)
        done = re.compile(r"(is read again|everything stays as it was)")
        eventually(lambda: done.search(server.output(), before))
        return server.output()[before:]

    def test_changes_are_in_force_or_told_to_take_a_restart(self):
        server = self.serve('maxmemory = "1mb"\nbind = "127.0.0.1"\n')
        said = self.reload(server, 'maxmemory = "2mb"\nbind = "127.0.0.2"\nlog-slow = "10ms"\n'
                           'requirepass = "hush"\n')
        self.assertIn("info reload: --maxmemory: 2mb in place of 1mb\n", said)
        self.assertIn("--bind: 127.0.0.2 in place of 127.0.0.1 takes a restart\n", said)
        self.assertIn("info reload: --requirepass has changed\n", said)
        self.assertNotIn("hush", said)
        self.assertIn("in_force=3 not_in_force=1", said)
        with server.client() as client:
            self.assertEqual(client.call("AUTH", "hush"), b"OK")
            self.assertEqual(client.call("CONFIG", "GET", "maxmemory")[1], b"2097152")
            client.call("DEBUG", "SLEEP", "0.02")
        server.wait_for("(info slow: )")
        # It is told again until it is done.
        said = self.reload(server, 'maxmemory = "2mb"\nbind = "127.0.0.2"\nlog-slow = "10ms"\n'
                           'requirepass = "hush"\n')
        self.assertIn("in_force=0 not_in_force=1", said)

    def test_a_broken_file_changes_nothing_and_is_told_by_its_line(self):
        server = self.serve('maxmemory = "1mb"\n')
        for broken in ("nonsense = 3", "stack = = 3", 'max-fibers = "x"'):
            said = self.reload(server, f'maxmemory = "2mb"\n{broken}\n')
            self.assertRegex(said, r"error reload: .*c\.toml:2: .*; everything stays")
        self.assertEqual(server.call("CONFIG", "GET", "maxmemory")[1], b"1048576")

    def test_the_command_line_still_overrides_the_file(self):
        server = self.serve('maxmemory = "1mb"\n', "--slowlog-max-len", "5")
        said = self.reload(server, 'maxmemory = "1mb"\nslowlog-max-len = 9\n')
        self.assertIn("in_force=0 not_in_force=0", said)
        self.assertEqual(server.call("CONFIG", "GET", "slowlog-max-len")[1], b"5")

    def test_the_log_file_is_opened_anew(self):
        server = self.serve("", "--log-file", self.path("log"))
        os.rename(self.path("log"), self.path("log.1"))
        server.process.send_signal(signal.SIGHUP)
        self.await_in("log", "is read again")
        self.assertIn("started", self.read("log.1"))
        self.assertNotIn("is read again", self.read("log.1"))

    def test_options_of_the_scheduler_change_where_they_can(self):
        server = self.serve('target-delay = "3ms"\n', "--overload", "aqm")
        said = self.reload(server, 'target-delay = "5ms"\ndrain-limit = "2s"\nidle = "spin"\n')
        self.assertIn("in_force=3 not_in_force=0", said)
        with server.client() as client:
            self.assertEqual(client.call("CONFIG", "GET", "idle")[1], b"spin")
            self.assertIn(b"target_delay_us:5000.00\r\n", client.call("INFO", "overload"))
            self.assertEqual(client.call("CONFIG", "GET", "target-delay")[1], b"5ms")
            client.call("CONFIG", "SET", "overload-budget", "0.5", "drain-limit", "100ms")
            self.assertEqual(client.call("CONFIG", "GET", "drain-limit")[1], b"100ms")
            for name, value, error in (("workers", "2", "workers: takes a restart"),
                                       ("policy", "fcsf", "policy: 'fcsf' is not one of"),
                                       ("set", "quantum=1us", "set: synergy has no option"),
                                       ("overload", "credits", "overload: takes a restart"),
                                       ("target-delay", "soon", ".*takes a time from 1us to 60s")):
                with self.assertRaisesRegex(ReplyError, f"'{name}'.* - {error}"):
                    client.call("CONFIG", "SET", name, value)
            self.assertEqual(client.call("CONFIG", "GET", "policy")[1], b"synergy")
            # The new limit counts.
            server.begin(client, "DEBUG", "SLEEP", "60")
            server.terminate()
            self.assertEqual(server.wait(), 1)

    def test_a_target_delay_without_refusals_is_refused(self):
        server = self.serve("")
        self.assertRegex(self.reload(server, 'target-delay = "9ms"\n'),
                         "--target-delay: 9ms in place of 3ms is not possible: --target-delay: "
                         "needs overload aqm")

    def test_mechanisms_follow_each_other_whatever_clock_the_one_before_had(self):
        with Server() as server, server.client() as client:
            for preempt, clock in (("signal", b"timer-core"), ("timer", b"self"),
                                   ("signal", b"timer-core"), ("checkpoint", b"self")):
                self.assertEqual(client.call("CONFIG", "SET", "preempt", preempt), b"OK")
                self.assertEqual(client.call("CONFIG", "GET", "preemption-clock")[1], clock)
            self.assertEqual(client.call("CONFIG", "SET", "preemption-clock", "timer-core"), b"OK")
            self.assertEqual(client.call("CONFIG", "SET", "preempt", "signal"), b"OK")
            with self.assertRaisesRegex(ReplyError, "there is no timer core"):
                client.call("CONFIG", "SET", "preempt", "timer")

    def test_policies_follow_each_other_while_clients_are_served(self):
        server = self.serve("")
        done = threading.Event()
        answers = []

        def count_up():
            with server.client() as client:
                while not done.is_set():
                    answers.append(client.call("INCR", "n"))

        clients = [threading.Thread(target=count_up) for _ in range(4)]
        for client in clients:
            client.start()
        with server.client() as client:
            for policy in ("fcfs", "ps", "darc", "sbb", "altocumulus", "las", "synergy"):
                before = len(answers)
                self.assertEqual(client.call("CONFIG", "SET", "policy", policy), b"OK")
                self.assertEqual(client.call("CONFIG", "GET", "policy")[1], policy.encode())
                eventually(lambda: len(answers) > before + 20)
            client.call("CONFIG", "SET", "set", "quantum_initial=20us levels=2", "preempt", "none")
            self.assertEqual(client.call("CONFIG", "GET", "set")[1],
                             b"levels=2 quantum_initial=20us")
            self.assertIn(b"preempt:none\r\n", client.call("INFO", "scheduler"))
            self.assertIn(b"changes:8\r\n", client.call("INFO", "scheduler"))
        done.set()
        for client in clients:
            client.join()
        self.assertEqual(sorted(answers), list(range(1, len(answers) + 1)))
        server.wait_for(r"reload: (the scheduler has changed) policy=synergy changes=8")

    def test_the_synthetic_server_reloads_too(self):
        config = self.write("c.toml", 'log-slow = "1s"\n')
        with Server("--config", config, program="spin") as server:
            self.write("c.toml", 'log-slow = "1ms"\npolicy = "fcfs"\n')
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("(in_force=2 not_in_force=0)")
            server.wait_for("(the scheduler has changed policy=fcfs)")
            server.call("SPIN", "3000000")
            server.wait_for(r"slow: .*(type=)")


class State(InFolder):
    def test_a_stuck_worker_and_what_waits_behind_it_are_shown(self):
        with Server("--policy", "fcfs", "--drain-limit", "100ms") as server:
            with server.client() as client, server.client() as other:
                other.call("PING")
                server.begin(client, "DEBUG", "SLEEP", "60")
                other.send("GET", "k")
                server.process.send_signal(signal.SIGUSR1)
                line = server.wait_for(r"info state: a worker runs a request (.*)\n")
                self.assertRegex(line, r"^worker=0 runs=debug\|sleep for_ms=\d+ unpolled_ms=\d+ ")
                self.assertRegex(server.output(), r"info state: serving policy=fcfs .* "
                                 r"connections=2 connections_refused=0 in_flight=\d+\n")

    def test_a_worker_that_is_stuck_for_long_is_told_of(self):
        with Server("--policy", "fcfs", "--drain-limit", "100ms") as server:
            with server.client() as client:
                server.begin(client, "DEBUG", "SLEEP", "60")
                server.wait_for(r"warning stalled: .* worker=0 ms=\d+ (runs=debug\|sleep)\n")


class ServiceManager(InFolder):
    def manager(self, **env):
        """A socket that hears what the server tells, and the environment that names it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(self.path("notify"))
        listener.settimeout(PATIENCE_S)
        return listener, {**os.environ, "NOTIFY_SOCKET": self.path("notify"), **env}

    def hear(self, listener, wanted):
        """Listens until `wanted` is told; returns what was told before."""
        before = []
        while wanted not in (told := listener.recv(4096).decode()):
            before.append(told)
        return before

    def test_ready_reloading_and_stopping_are_told(self):
        listener, env = self.manager()
        with Server(env=env) as server:
            self.assertEqual(self.hear(listener, "READY=1"), [])
            self.assertEqual(server.call("PING"), b"PONG")
            server.process.send_signal(signal.SIGHUP)
            self.hear(listener, "RELOADING=1\nMONOTONIC_USEC=")
            self.assertEqual(self.hear(listener, "READY=1"), [])
            server.terminate()
            self.hear(listener, "STOPPING=1")
            self.assertEqual(server.wait(), 0)

    def test_an_abstract_socket_will_do(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        name = f"rubato-{os.getpid()}"
        listener.bind("\0" + name)
        listener.settimeout(PATIENCE_S)
        with Server(env={**os.environ, "NOTIFY_SOCKET": "@" + name}):
            self.hear(listener, "READY=1")

    def test_the_watchdog_hears_of_a_server_until_its_workers_are_stuck(self):
        listener, env = self.manager(WATCHDOG_USEC="200000")
        with Server("--policy", "fcfs", "--drain-limit", "100ms", env=env) as server:
            for _ in range(3):
                self.hear(listener, "WATCHDOG=1")
            with server.client() as client:
                server.begin(client, "DEBUG", "SLEEP", "60")
                listener.settimeout(1.0)
                with self.assertRaises(TimeoutError):
                    while True:
                        self.hear(listener, "WATCHDOG=1")

    def test_a_watchdog_of_another_process_is_not_ours(self):
        listener, env = self.manager(WATCHDOG_USEC="200000", WATCHDOG_PID="1")
        with Server(env=env) as server:
            self.hear(listener, "READY=1")
            server.terminate()
            self.assertNotIn("WATCHDOG=1", self.hear(listener, "STOPPING=1"))


if __name__ == "__main__":
    unittest.main()
