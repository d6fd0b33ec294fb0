# SPDX-License-Identifier: Apache-2.0
"""Start, configuration, idleness, signals and the metrics port."""

import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from server import BINARY, ReplyError, Server, idle_shares, refused
from waiting import eventually


def metrics_port(server):
    return int(server.wait_for(r"metrics on http://\S+:(\d+)/metrics\n"))


def get(port, path):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)


def status(port, path):
    try:
        get(port, path).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    return 200


class Start(unittest.TestCase):
    def check_refused(self, status, pattern, *args):
        code, text = refused(*args)
        self.assertEqual(code, status, text)
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        self.assertRegex(text, pattern)

    def test_bad_arguments_get_one_line_and_status_2(self):
        self.check_refused(2, "--workers", "serve", "kv", "--workers", "257")
        self.check_refused(2, "--workers", "serve", "kv", "--workers", "many")
        self.check_refused(2, "nosuch.*fcfs", "serve", "kv", "--engine", "memory", "--port", "0",
                           "--policy", "nosuch")
        self.check_refused(2, "quantum_fator", "serve", "kv", "--engine", "memory", "--port", "0",
                           "--set", "quantum_fator=2")
        self.check_refused(2, "name=value", "serve", "kv", "--engine", "memory", "--port", "0",
                           "--set", "quantum_factor")
        self.check_refused(2, "--engine", "serve", "kv", "--engine", "leveldb")
        self.check_refused(2, "--no-such-flag", "serve", "spin", "--no-such-flag")

    def test_workers_are_as_many_as_affinity_leaves_cpus_unless_given(self):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            self.assertEqual(self.workers_of(), ("1", False))
            self.assertEqual(self.workers_of("--workers", "3"), ("3", True))
        finally:
            os.sched_setaffinity(0, allowed)

    def workers_of(self, *args):
        """The number of workers, and whether the server warns that they share CPUs."""
        config = tempfile.NamedTemporaryFile("w", suffix=".toml")  # so that the test adds nothing
        with config, Server("--config", config.name, *args) as server:
            warned = bool(re.search(r"--workers: 3 workers share 1 CPU", server.output()))
            return server.scheduler()["workers"], warned

    def test_port_in_use_is_one_line_and_status_1(self):
        with Server() as server:
            self.check_refused(1, str(server.port), "serve", "kv", "--engine", "memory", "--port",
                               str(server.port))

    def test_metrics_port_in_use_is_one_line_and_no_announcement(self):
        with Server("--metrics-port", "0") as server:
            port = str(metrics_port(server))
            self.check_refused(1, f"metrics port: .*{port}", "serve", "kv", "--engine", "memory",
                               "--port", "0", "--metrics-port", port)

    def test_config_file_sets_options_and_the_command_line_wins(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('policy = "fcfs"\nclassify = "feedback"\nworkers = 2\n'
                         '[set]\nquantum_factor = 3\n')
            config.flush()
            with Server("--config", config.name, "--policy", "synergy") as server:
                scheduler = server.scheduler()
                self.assertEqual(scheduler["policy"], "synergy")
                self.assertEqual(scheduler["classify"], "feedback")
                self.assertEqual(scheduler["workers"], "2")

    def test_config_errors_name_file_and_line(self):
        for text, pattern in (("workers = 1\nworkerz = 2\n", r":2: .*workerz"),
                              ("workers = \n", r":1: "),
                              ('workers = "many"\n', r":1: ")):
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
                config.write(text)
                config.flush()
                self.check_refused(2, re.escape(config.name) + pattern, "serve", "kv", "--engine",
                                   "memory", "--port", "0", "--config", config.name)

    def test_quiet_server_uses_less_than_one_percent_of_a_cpu(self):
        with Server("--workers", "2", "--preemption-clock", "self") as self_timed, \
                Server("--workers", "2", "--preemption-clock", "timer-core") as timer_core:
            for share in idle_shares([self_timed, timer_core]):
                self.assertLess(share, 0.01)

    def test_password_is_asked_for(self):
        with Server("--requirepass", "secret") as server, server.client() as client:
            with self.assertRaisesRegex(ReplyError, "NOAUTH"):
                client.call("GET", "k")
            with self.assertRaisesRegex(ReplyError, "WRONGPASS"):
                client.call("AUTH", "wrong")
            self.assertEqual(client.call("AUTH", "secret"), b"OK")
            self.assertIsNone(client.call("GET", "k"))

    def test_connections_over_the_limit_are_told_so(self):
        with Server("--max-connections", "3") as server:
            clients = [server.client() for _ in range(3)]
            for client in clients:
                client.call("PING")
            with server.client() as fourth, self.assertRaisesRegex(ReplyError, "max number"):
                fourth.call("PING")
            for client in clients:
                self.assertEqual(client.call("PING"), b"PONG")
                client.close()


class Stop(unittest.TestCase):
    def test_sigterm_answers_what_is_in_flight_and_exits_0(self):
        with Server() as server, server.client() as client:
            server.begin(client, "DEBUG", "SLEEP", "0.5")
            server.terminate()
            self.assertEqual(client.reply(), b"OK")
            self.assertEqual(server.wait(), 0)

    def test_sigterm_ends_an_idle_server_at_once(self):
        with Server("--drain-limit", "3600s") as server, server.client() as client:
            client.call("PING")
            server.terminate()
            self.assertEqual(server.wait(), 0)

    def test_drain_limit_bounds_the_end(self):
        with Server("--drain-limit", "200ms") as server, server.client() as client:
            other = server.client()
            server.begin(client, "DEBUG", "SLEEP", "60")
            server.terminate()
            other.close()
            self.assertEqual(server.wait(), 1)

    def test_drain_limit_ends_a_request_that_is_never_preempted(self):
        with Server("--policy", "fcfs", "--drain-limit", "200ms") as server:
            with server.client() as client:
                server.begin(client, "DEBUG", "SLEEP", "60")
                server.terminate()
                self.assertEqual(server.wait(), 1)
                self.assertNotIn("stuck", server.output())

    def test_second_signal_exits_at_once(self):
        with Server("--drain-limit", "3600s", "--metrics-port", "0") as server, \
                server.client() as client:
            port = metrics_port(server)
            server.begin(client, "DEBUG", "SLEEP", "3600")
            server.terminate()
            eventually(lambda: status(port, "/readyz"), lambda code: code == 503)
            self.assertIsNone(server.process.poll())
            server.process.send_signal(signal.SIGINT)
            self.assertNotEqual(server.wait(), 0)


class Signals(unittest.TestCase):
    """None of those that kill a process by default takes the data with it."""

    def setUp(self):
        # A server inherits what is ignored, and these tests may run under nohup.
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_DFL))

    ANSWERS = {signal.SIGHUP: "info reload: there is no --config to read again",
               signal.SIGUSR1: "info state: serving ",
               signal.SIGUSR2: "warning signal: SIGUSR2 ignored; SIGTERM stops the server"}

    def check_harmless(self, server, number, line):
        server.process.send_signal(number)
        if line:
            server.wait_for(f"({self.ANSWERS[number]})")
        self.assertEqual(server.call("GET", "k"), b"v")
        self.assertIsNone(server.process.poll())

    def test_the_keys_are_still_there_after_each(self):
        for mechanism in ("checkpoint", "signal"):
            with Server("--preempt", mechanism) as server:
                server.call("SET", "k", "v")
                for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
                    self.check_harmless(server, number, line=True)
                self.check_harmless(server, signal.SIGPIPE, line=False)
                server.terminate()
                self.assertEqual(server.wait(), 0)

    def test_the_synthetic_server_lives_on_too(self):
        with Server(program="spin") as server:
            for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
                server.process.send_signal(number)
                server.wait_for(f"({self.ANSWERS[number]})")
            self.assertEqual(server.call("SPIN", "1000"), b"OK")

    def test_what_nohup_ignores_stays_ignored(self):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with Server() as server:
            server.call("SET", "k", "v")
            self.check_harmless(server, signal.SIGHUP, line=False)
            self.assertNotIn("SIGHUP", server.output())


class Metrics(unittest.TestCase):
    def test_metrics_port_serves_metrics_health_and_readiness(self):
        with Server("--metrics-port", "0") as server:
            port = metrics_port(server)
            server.call("SET", "k", "v")
            with get(port, "/metrics") as reply:
                text = reply.read().decode()
            self.assertIn('rubato_latency_seconds_count{type="set"} 1\n', text)
            self.assertIn("rubato_queue_depth{", text)
            self.assertEqual(get(port, "/healthz").read(), b"ok\n")
            self.assertEqual(get(port, "/readyz").read(), b"ready\n")
            self.assertEqual(status(port, "/nothing"), 404)

    def silent(self, port, count):
        """Connections of which every other has sent a part of a request."""
        opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for one in opened:
            self.addCleanup(one.close)
        for one in opened[::2]:
            one.sendall(b"GET /metrics HTTP/1.1\r\n")
        return opened

    def test_silent_clients_keep_nobody_waiting(self):
        with Server("--metrics-port", "0") as server:
            port = metrics_port(server)
            for count in (10, 200):
                silent = self.silent(port, count)
                self.assertEqual(get(port, "/healthz").read(), b"ok\n")
                self.assertEqual(get(port, "/readyz").read(), b"ready\n")
                self.assertIn(b"rubato_requests_total", get(port, "/metrics").read())
                # None of them had to be given up for it.
                self.assertEqual(select.select(silent, [], [], 0)[0], [])

    def test_readiness_ends_with_the_drain(self):
        with Server("--metrics-port", "0") as server, server.client() as client:
            port = metrics_port(server)
            server.begin(client, "DEBUG", "SLEEP", "1")
            server.terminate()
            # The signal is on its way while the first answers still say 200.
            eventually(lambda: status(port, "/readyz"), lambda code: code == 503)
            self.assertEqual(client.reply(), b"OK")
            self.assertEqual(server.wait(), 0)


class Spin(unittest.TestCase):
    def test_spin_server_is_busy_for_as_long_as_asked(self):
        with Server(program="spin") as server, server.client() as client:
            start = time.monotonic()
            self.assertEqual(client.call("SPIN", "50000000"), b"OK")
            self.assertGreaterEqual(time.monotonic() - start, 0.05)
            with self.assertRaisesRegex(ReplyError, "SPIN takes nanoseconds"):
                client.call("SPIN", "soon")

    def test_a_request_may_name_its_type(self):
        with (Server("--policy", "darc", "--metrics-port", "0", program="spin") as server,
              server.client() as client):
            for words in ("1000",), ("1000", "LONG"), ("1000", "7"), ("1000", "SHORT", "62"):
                self.assertEqual(client.call("SPIN", *words), b"OK")
            for words in ("1000", "2"), ("1000", "63"), ("1000", "7", "LONG"), ("1000", "", "7"):
                with self.assertRaisesRegex(ReplyError, r"then optionally a type \(3 \.\. 62\)"):
                    client.call("SPIN", *words)
            text = get(metrics_port(server), "/metrics").read().decode()
            for name in "short", "long", "7", "62":
                self.assertIn(f'rubato_latency_seconds_count{{type="{name}"}} 1\n', text)


class Bench(unittest.TestCase):
    def test_bench_of_few_cpus_runs_for_a_moment(self):
        bench = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "few_cpus.py")
        done = subprocess.run(
            [bench, "--binary", BINARY, "--workers", "1,3", "--seconds", "0.5", "--rounds", "1"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\n3 workers +\d+ ")


if __name__ == "__main__":
    unittest.main()
