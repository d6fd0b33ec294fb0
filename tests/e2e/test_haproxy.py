# SPDX-License-Identifier: Apache-2.0
"""A load balancer that asks the agent port: a server that is slowed down gets fewer connections,
and its share back when it has recovered. With Debian's haproxy; that part is skipped without."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))

import rubato_rpc as rpc  # noqa: E402
from server import BINARY, Client, ReplyError, Server  # noqa: E402
from waiting import eventually, pass_time  # noqa: E402

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
PATIENCE_S = 60.0
SLEEPERS = 4
SLEEP_S = 0.01

CONFIG = """
global
    maxconn 2000
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend kv
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    balance roundrobin
    server a 127.0.0.1:{a.port} weight 100 agent-check agent-port {a.agent} agent-inter 100ms
    server b 127.0.0.1:{b.port} weight 100 agent-check agent-port {b.agent} agent-inter 100ms
"""


class Agent(Server):
    """A server with an agent port. Run to completion, so that what is slow delays what is not."""

    def __init__(self, *args, **kwargs):
        super().__init__("--policy", "fcfs", "--workers", "1", "--agent-port", "0",
                         "--metrics-port", "0", *args, **kwargs)
        self.agent = int(self.wait_for(r"agent check on \S+:(\d+)\n"))
        self.metrics_port = int(self.wait_for(r"metrics on \S+:(\d+)/"))

    def says(self):
        with socket.create_connection(("127.0.0.1", self.agent), timeout=20) as connection:
            line = b""
            while chunk := connection.recv(100):
                line += chunk
        return line.decode()

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics",
                                    timeout=20) as reply:
            text = reply.read().decode()
        return float(re.search(f"^{name} (\\S+)$", text, re.MULTILINE).group(1))


class Slowed:
    """Keeps a server busy with requests of SLEEP_S while the `with` block runs."""

    def __init__(self, server):
        self.server = server
        self.done = threading.Event()
        self.threads = [threading.Thread(target=self.keep_busy) for _ in range(SLEEPERS)]

    def keep_busy(self):
        with self.server.client(timeout=PATIENCE_S) as client:
            while not self.done.is_set():
                try:
                    client.call("DEBUG", "SLEEP", SLEEP_S)
                except ReplyError:
                    pass_time(SLEEP_S, "a refused client comes back later")

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.done.set()
        for thread in self.threads:
            thread.join()


class Overrun:
    """Keeps an RPC server's clients waiting for credits while the `with` block runs: an open loop
    of more than it can serve. They wait outside, so the server's delay stays low."""

    SESSIONS = 64

    def __init__(self, server):
        self.target = f"rpc://127.0.0.1:{server.port}"

    def __enter__(self):
        self.load = subprocess.Popen(
            [BINARY, "load", "--target", self.target, "--workload", "fixed-100", "--rate", "15000",
             "--flows", str(self.SESSIONS), "--duration", str(int(PATIENCE_S * 2))],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.load.kill()
        self.load.wait()


def comes_to_say(server, *lines):
    eventually(server.says, lambda said: said in lines, PATIENCE_S)


class AgentPort(unittest.TestCase):
    def test_a_quiet_server_asks_for_its_full_share(self):
        with Agent() as server:
            self.assertEqual(server.says(), "up ready 100%\n")

    def test_a_slow_server_asks_for_less_and_later_for_all_again(self):
        with Agent() as server:
            with Slowed(server):
                comes_to_say(server, "up ready 2%\n")
            comes_to_say(server, "up ready 100%\n")

    def test_what_is_said_is_a_metric_and_a_line_of_info(self):
        with Agent() as server:
            self.assertEqual(server.metric("rubato_advertised_weight"), 1)
            with Slowed(server):
                comes_to_say(server, "up ready 2%\n")
                eventually(lambda: server.metric("rubato_advertised_weight"),
                           lambda weight: weight == 0.02, PATIENCE_S)
                info = server.call("INFO", "overload").decode().splitlines()
            self.assertIn("advertised_state:up", info)
            self.assertIn("advertised_weight_percent:2", info)

    def test_a_server_whose_sessions_have_no_credit_asks_for_less_and_later_for_all_again(self):
        with Agent("--rpc", "tcp", program="spin") as server:
            with Overrun(server):
                comes_to_say(server, "up ready 2%\n", "drain\n")
            comes_to_say(server, "up ready 100%\n")

    def test_a_server_that_is_stopped_asks_for_nothing(self):
        with Agent() as server, server.client() as client:
            server.begin(client, "DEBUG", "SLEEP", "1.5")
            server.terminate()
            comes_to_say(server, "drain\n")
            self.assertEqual(client.reply(), b"OK")
            self.assertEqual(server.wait(), 0)

    def test_clients_that_talk_or_stay_or_flood_keep_nobody_out(self):
        with Agent() as server:
            idle = [socket.create_connection(("127.0.0.1", server.agent)) for _ in range(50)]
            for connection in idle[:25]:
                try:
                    connection.sendall(b"x" * 100_000)
                except OSError:
                    pass  # it was closed
            self.assertEqual(server.says(), "up ready 100%\n")
            for connection in idle:
                connection.close()

    def test_a_port_that_is_taken_is_named(self):
        with Agent() as server:
            done = subprocess.run([*server.command[:3], "--port", "0", "--agent-port",
                                   str(server.agent)], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"agent port: cannot listen on 127.0.0.1:{server.agent}", done.stderr)


class Behind(unittest.TestCase):
    """Two servers, a and b, behind haproxy on self.port."""

    def start(self, servers):
        self.servers = servers
        for server in servers.values():
            self.addCleanup(server.__exit__, None, None, None)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "haproxy.cfg")
        with open(path, "w", encoding="ascii") as out:
            out.write(CONFIG.format(port=self.port, **servers))
        self.log = tempfile.TemporaryFile("w+")
        self.addCleanup(self.log.close)
        self.haproxy = subprocess.Popen([HAPROXY, "-f", path, "-db"], stdout=self.log,
                                        stderr=subprocess.STDOUT)
        self.addCleanup(self.haproxy.wait)
        self.addCleanup(self.haproxy.kill)
        eventually(self.answers, patience_s=PATIENCE_S)

    def check_moves_away_and_back(self, burden):
        slow = self.servers["b"]
        even = self.share_of_b()
        self.assertAlmostEqual(even, 0.5, delta=0.15)
        with burden(slow):
            eventually(lambda: (self.share_of_b(), slow.says()), lambda seen: seen[0] < 0.1,
                       PATIENCE_S)
            away = self.share_of_b()
        eventually(lambda: (self.share_of_b(), slow.says()), lambda seen: seen[0] > 0.35,
                   PATIENCE_S)
        print(f"share of the slow server: {even:.0%} before, {away:.0%} while it was slow, "
              f"{self.share_of_b():.0%} after")


@unittest.skipIf(HAPROXY is None, "haproxy is not installed")
class RpcHaproxy(Behind):
    """The same for clients with credits: a server that has too few for its sessions."""

    def setUp(self):
        self.start({name: Agent("--rpc", "tcp", program="spin") for name in "ab"})

    def answers(self):
        try:
            return self.opens_session()
        except OSError:
            return False

    def opens_session(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(rpc.encode(rpc.HELLO, 1, 0))
            return connection.recv(24) != b""

    def share_of_b(self, connections=40):
        """Of so many new sessions through haproxy, the part that b opened."""
        def opened(server):
            return server.metric("rubato_rpc_sessions_opened_total")
        before = {name: opened(server) for name, server in self.servers.items()}
        for _ in range(connections):
            self.opens_session()
        new = {name: opened(server) - before[name] for name, server in self.servers.items()}
        return new["b"] / (new["a"] + new["b"])

    def test_sessions_move_away_from_the_server_without_credits_and_come_back(self):
        self.check_moves_away_and_back(Overrun)


@unittest.skipIf(HAPROXY is None, "haproxy is not installed")
class Haproxy(Behind):
    def setUp(self):
        servers = {name: Agent("--overload", "aqm") for name in "ab"}
        self.start(servers)
        for name, server in servers.items():
            server.call("SET", "name", name)

    def answers(self):
        try:
            with Client(self.port) as client:
                return client.call("PING") == b"PONG"
        except (OSError, EOFError):
            return False

    def share_of_b(self, connections=100):
        """Of so many new connections through haproxy, the part that went to b."""
        to_b = 0
        for _ in range(connections):
            try:
                with Client(self.port, timeout=PATIENCE_S) as client:
                    to_b += client.call("GET", "name") == b"b"
            except (ReplyError, OSError, EOFError):
                to_b += 1  # only b refuses, or is away
        return to_b / connections

    def test_connections_move_away_from_the_slow_server_and_come_back(self):
        self.check_moves_away_and_back(Slowed)

    def test_a_server_that_stops_gets_no_connections_while_it_finishes(self):
        stopping = self.servers["b"]
        with stopping.client() as client:
            stopping.begin(client, "DEBUG", "SLEEP", "3")
            stopping.terminate()
            eventually(lambda: self.share_of_b(20), lambda share: share == 0, PATIENCE_S)
            self.assertEqual(client.reply(), b"OK")


if __name__ == "__main__":
    unittest.main()
