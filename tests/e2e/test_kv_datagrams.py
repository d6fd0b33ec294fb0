# SPDX-License-Identifier: Apache-2.0
"""The key-value server over datagrams, beside TCP: memcached's text protocol and Rubato RPC, over
kernel sockets and over AF_XDP between two network namespaces."""

import functools
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import memcached_udp
from rpc_wire import PATIENT, patient_client, rpc
from server import BINARY, PATIENCE_S, Server, refused
from test_datagrams import BadNetwork, DatagramServer, check_unparks
from virtual_link import VirtualLink
from waiting import eventually, is_readable

MEMCACHED = "memcached's text protocol over .* on \\S+:(\\d+)\\n"
RPC = "Rubato RPC over .* on \\S+:(\\d+)\\n"


class KvServer(Server):
    metrics = DatagramServer.metrics

    def __init__(self, *args, **kwargs):
        super().__init__(*args, "--metrics-port", "0", **kwargs)
        self.metrics_port = int(self.wait_for(r"metrics on \S+:(\d+)/"))
        self.udp_port = int(self.wait_for(MEMCACHED if "--memcached-udp-port" in args else RPC))

    def dropped(self, reason):
        return self.metrics()[f'rubato_datagrams_dropped_total{{reason="{reason}"}}']


def run_load(target, *args, wrapper=()):
    done = subprocess.run([*wrapper, BINARY, "load", "--target", target, "--json", "-", *args],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in (0, 1):  # 1: some were lost
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Case(unittest.TestCase):
    def serve(self, *args, **kwargs):
        server = KvServer(*args, **kwargs)
        self.addCleanup(server.__exit__, None, None, None)
        return server


class Memcached(Case):
    def client(self, server):
        client = memcached_udp.Client("127.0.0.1", server.udp_port, PATIENCE_S)
        self.addCleanup(client.__exit__)
        return client

    def test_a_client_made_from_the_protocols_document_is_served(self):
        for more in ((), ("--udp-batch", "1", "--workers", "2")):
            server = self.serve("--memcached-udp-port", "0", *more)
            client = self.client(server)
            memcached_udp.check(client)
            self.assertEqual(server.call("GET", "silent"), b"s")
            self.assertEqual(server.dropped("no_request"), 6)
            self.assertEqual(server.dropped("not_served"), 0)

    @unittest.skipUnless(shutil.which("memccp"), "libmemcached's tools are not here")
    def test_the_tools_of_libmemcached_store_over_udp(self):
        server = self.serve("--memcached-udp-port", "0")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "greeting")
            with open(path, "w", encoding="ascii") as file:
                file.write("hello")
            subprocess.run(["memccp", "--udp", f"--servers=127.0.0.1:{server.udp_port}", path],
                           check=True, timeout=60)
        eventually(lambda: server.call("GET", "greeting"), lambda value: value == b"hello")

    def test_a_reply_that_is_too_long_is_an_error(self):
        server = self.serve("--memcached-udp-port", "0")
        server.call("SET", "k", "x" * 65536)
        self.assertEqual(self.client(server).ask(b"get k\r\n"),
                         b"SERVER_ERROR reply too large for UDP\r\n")

    def test_a_long_command_of_resp_does_not_hold_up_datagrams(self):
        server = self.serve("--memcached-udp-port", "0", "--workers", "1")
        client = self.client(server)
        with server.client() as other:
            server.begin(other, "DEBUG", "SLEEP", "600")
            self.assertEqual(client.ask(b"get a\r\n"), b"END\r\n")
            self.assertFalse(is_readable(other.socket))  # it runs on

    def test_load_counts_replies_and_what_the_network_has_lost(self):
        server = self.serve("--memcached-udp-port", "0", "--workers", "2")
        shape = ("--keys", "1000", "--value-size", "4000")
        run_load(f"resp://127.0.0.1:{server.port}", "--load-keys", "--rate", "10", "--duration",
                 "0.2", "--warmup", "0", *shape)
        mix = ("--mix", "get:9,incr:1", "--rate", "2000", "--flows", "20", "--duration", "1",
               "--timeout", "1", "--warmup", "0", *shape)
        report = run_load(f"memcached+udp://127.0.0.1:{server.udp_port}", *mix)
        self.assertEqual((report["lost"], report["errors"]), (0, 0), report)
        self.assertGreater(report["requests"], 1000)
        network = BadNetwork(server.udp_port, seed=5)
        network.start()
        report = run_load(f"memcached+udp://127.0.0.1:{network.port}", *mix)
        network.stop()
        self.assertGreater(report["lost"], 0)
        self.assertEqual(report["errors"], 0, report)
        self.assertGreater(report["requests"], 2 * report["lost"])

    def test_worker_0_takes_in_the_datagrams_of_a_parked_worker(self):
        server = self.serve("--memcached-udp-port", "0", "--workers", "2", "--cores", "reactive")
        check_unparks(server.metrics, functools.partial(
            run_load, f"memcached+udp://127.0.0.1:{server.udp_port}", "--mix", "get:1"))

    def test_load_has_any_number_of_requests_underway_on_a_socket(self):
        server = self.serve("--memcached-udp-port", "0")
        report = run_load(f"memcached+udp://127.0.0.1:{server.udp_port}", "--mix", "get:1",
                          "--rate", "3000", "--flows", "2", "--duration", "1", "--warmup", "0")
        self.assertEqual((report["lost"], report["errors"]), (0, 0), report)
        self.assertGreater(report["requests"], 1500)

    def test_requests_that_do_not_fit_are_errors_of_load(self):
        server = self.serve("--memcached-udp-port", "0")
        report = run_load(f"memcached+udp://127.0.0.1:{server.udp_port}", "--mix", "set:1",
                          "--value-size", "1500", "--rate", "100", "--duration", "0.5",
                          "--warmup", "0")
        self.assertEqual(report["errors"], report["requests"])
        self.assertGreater(report["errors"], 0)

    def test_options_that_do_not_fit_are_refused(self):
        memcached = ("serve", "kv", "--engine", "memory", "--memcached-udp-port", "0")
        for args, named in ((("serve", "kv", "--datapath", "kernel"), "--datapath: needs"),
                            ((*memcached, "--requirepass", "x"), "--memcached-udp-port"),
                            ((*memcached, "--handover", "/tmp/x"), "--handover"),
                            ((*memcached, "--datapath", "af_xdp:"), "--datapath"),
                            ((*memcached, "--rpc-udp-port", "0", "--datapath", "af_xdp:lo"),
                             "--datapath: an interface has one UDP port"),
                            (("serve", "kv", "--memcached-udp-port", "7", "--rpc-udp-port", "7"),
                             "--rpc-udp-port: takes another port"),
                            (("load", "--target", "memcached+udp://127.0.0.1:1", "--load-keys"),
                             "--load-keys"),
                            (("load", "--target", "memcached+udp://127.0.0.1:1", "--pick",
                              "random"), "--pick")):
            status, text = refused(*args)
            self.assertEqual(status, 2, (args, text))
            self.assertIn(named, text)


class Rpc(Case):
    def test_sessions_of_tcp_and_udp_share_data_and_keep_their_own_state(self):
        server = self.serve("--rpc-udp-port", "0", "--rpc-port", "0", *PATIENT)
        tcp_port = int(server.wait_for(r"Rubato RPC on \S+:(\d+)\n"))
        with patient_client(server.udp_port, udp=True) as udp, patient_client(tcp_port) as tcp:
            self.assertEqual(udp.call(rpc.command("SET", "k", "v")), b"+OK\r\n")
            self.assertEqual(tcp.call(rpc.command("GET", "k")), b"$1\r\nv\r\n")
            self.assertEqual(udp.call(rpc.command("MULTI")), b"+OK\r\n")
            self.assertEqual(tcp.call(rpc.command("INCR", "n")), b":1\r\n")
            self.assertEqual(udp.call(rpc.command("INCR", "n")), b"+QUEUED\r\n")
            self.assertEqual(udp.call(rpc.command("GET", "k")), b"+QUEUED\r\n")
            self.assertEqual(udp.call(rpc.command("EXEC")), b"*2\r\n:2\r\n$1\r\nv\r\n")
            self.assertEqual(udp.call(rpc.command("BOGUS"))[:4], b"-ERR")
            clients = server.call("CLIENT", "LIST").decode().splitlines()
            self.assertEqual(len(clients), 3)
            numbers = [line.split()[0] for line in clients]
            self.assertEqual(len(set(numbers)), 3)
        eventually(lambda: len(server.call("CLIENT", "LIST").decode().splitlines()) == 1)

    def test_a_reply_that_does_not_fit_fails(self):
        server = self.serve("--rpc-udp-port", "0", *PATIENT)
        server.call("SET", "k", "x" * 1500)
        with patient_client(server.udp_port, udp=True) as client:
            with self.assertRaises(rpc.Failed):
                client.call(rpc.command("GET", "k"))
            self.assertEqual(client.call(rpc.command("PING")), b"+PONG\r\n")

    def test_a_reply_leaves_before_the_server_stops(self):
        server = self.serve("--rpc-udp-port", "0", *PATIENT)
        with patient_client(server.udp_port, udp=True) as client:
            client.call(rpc.command("PING"))
            used = server.cpu_seconds()
            future = client.submit(rpc.command("DEBUG", "SLEEP", "0.5"))
            eventually(lambda: server.is_busy_since(used) or future.done())
            server.terminate()
            self.assertEqual(future.result(PATIENCE_S), b"+OK\r\n")
        self.assertEqual(server.wait(), 0)

    def test_config_set_reaches_sessions_over_udp(self):
        server = self.serve("--rpc-udp-port", "0", *PATIENT)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(PATIENCE_S)
            client.connect(("127.0.0.1", server.udp_port))

            def greet(session):
                token = 0
                while True:
                    client.send(token.to_bytes(8, "big") + rpc.encode(rpc.HELLO, session, 0))
                    answer = rpc.decode(client.recv(2048))[0]
                    if answer.kind != rpc.TOKEN:
                        return answer
                    token = answer.id

            self.assertEqual(greet(1).kind, rpc.WELCOME)
            server.call("CONFIG", "SET", "maxclients", "1")
            refused_one = greet(2)
            self.assertEqual((refused_one.kind, refused_one.amount), (rpc.ERROR, 8))
            server.call("CONFIG", "SET", "maxclients", "2")
            self.assertEqual(greet(2).kind, rpc.WELCOME)

    def test_requests_that_do_not_fit_are_errors_of_load(self):
        server = self.serve("--rpc-udp-port", "0", *PATIENT)
        report = run_load(f"rpc+kv+udp://127.0.0.1:{server.udp_port}", "--mix", "set:1",
                          "--value-size", "1500", "--rate", "100", "--duration", "0.5",
                          "--warmup", "0", "--flows", "2")
        self.assertEqual(report["errors"], report["requests"])
        self.assertGreater(report["errors"], 0)

    def test_load_is_served(self):
        server = self.serve("--rpc-udp-port", "0", "--workers", "2", *PATIENT)
        report = run_load(f"rpc+kv+udp://127.0.0.1:{server.udp_port}", "--mix", "get:9,set:1",
                          "--keys", "100", "--rate", "1000", "--duration", "1", "--warmup", "0",
                          "--flows", "8")
        self.assertEqual((report["lost"], report["errors"]), (0, 0), report)
        self.assertGreater(report["requests"], 500)


class Xdp(VirtualLink, Case):
    """Server and client at the two ends of a virtual link."""

    def serve_xdp(self, option, *args, protected="no"):
        try:
            return self.serve(option, "7391", "--datapath", "af_xdp:vs", "--bind", self.ADDRESS,
                              "--protected-mode", protected, *args, wrapper=self.in_server)
        except AssertionError as problem:
            if "this build has none" in str(problem) or "it takes CAP_" in str(problem):
                self.skipTest(str(problem))
            raise

    def run_in_client(self, *command):
        done = subprocess.run([*self.in_client, *command], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_memcached_is_served_beside_tcp(self):
        server = self.serve_xdp("--memcached-udp-port", "--workers", "2")
        self.run_in_client("python3", "-W", "error", memcached_udp.__file__, self.ADDRESS, "7391",
                           str(PATIENCE_S))
        report = run_load(f"memcached+udp://{self.ADDRESS}:7391", "--rate", "2000", "--mix",
                          "get:9,set:1", "--keys", "100", "--flows", "20", "--duration", "1",
                          "--warmup", "0", wrapper=self.in_client)
        self.assertEqual((report["lost"], report["errors"]), (0, 0), report)
        report = run_load(f"resp://{self.ADDRESS}:{server.port}", "--rate", "500", "--mix",
                          "get:1", "--duration", "0.5", "--warmup", "0", wrapper=self.in_client)
        self.assertEqual((report["lost"], report["errors"]), (0, 0), report)

    def test_what_the_kernel_gets_is_counted_as_passed(self):
        server = self.serve_xdp("--memcached-udp-port")
        send = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(" \
            f"bytes(4000), ('{self.ADDRESS}', 7391))"  # in fragments
        self.run_in_client("python3", "-c", send)
        counts = eventually(lambda: self.read_metrics(server),
                            lambda read: any(count and name.startswith("rubato_datagrams")
                                             for name, count in read.items()))
        self.assertEqual(counts["rubato_datagrams_passed_total"], 1)

    def test_protected_mode_warns_that_nobody_is_served(self):
        self.serve_xdp("--memcached-udp-port", protected="yes").wait_for(
            "(protected mode serves no client of --datapath af_xdp:vs)")

    def test_rpc_is_served(self):
        self.serve_xdp("--rpc-udp-port", *PATIENT)
        report = run_load(f"rpc+kv+udp://{self.ADDRESS}:7391", "--rate", "1000", "--mix",
                          "get:9,set:1", "--keys", "100", "--flows", "8", "--duration", "1",
                          "--warmup", "0", wrapper=self.in_client)
        self.assertEqual((report["lost"], report["errors"]), (0, 0), report)
        self.assertGreater(report["requests"], 500)


# Their numbers, of capability.h.
CAPABILITIES = {"net_admin": 12, "net_raw": 13, "ipc_lock": 14, "bpf": 39}


def kept_by(server, sets):
    """The capabilities above that a thread of the server has in one of the sets."""
    kept = set()
    tasks = f"/proc/{server.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/status", encoding="ascii") as status:
            masks = re.findall(rf"^Cap(?:{'|'.join(sets)}):\s+(\S+)$", status.read(), re.M)
        for mask in masks:
            kept |= {name for name, bit in CAPABILITIES.items() if int(mask, 16) >> bit & 1}
    return kept


class Capabilities(Case):
    def test_no_thread_keeps_what_the_start_took(self):
        sets = ("Eff", "Prm", "Inh", "Bnd") if os.geteuid() == 0 else ("Eff", "Prm", "Inh")
        with tempfile.TemporaryDirectory() as folder:
            for more in ((), ("--engine", "rocksdb", "--dir", folder)):
                server = self.serve("--memcached-udp-port", "0", "--workers", "2", *more)
                self.assertEqual(kept_by(server, sets), set())
                server.call("SET", "k", "v")
                server.__exit__()


class SmallestSet(VirtualLink, Case):
    """Of another user, with few capabilities and little memory that it may lock."""

    ARGS = ("--memcached-udp-port", "7391", "--datapath", "af_xdp:vs", "--bind",
            VirtualLink.ADDRESS, "--protected-mode", "no")

    def with_only(self, held):
        caps = ",".join(["-all", *(f"+{capability}" for capability in held)])
        return (*self.in_server, "prlimit", "--memlock=65536:65536", "setpriv", "--reuid=65534",
                "--regid=65534", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}")

    def test_af_xdp_takes_four_capabilities_and_says_which_it_lacks(self):
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("takes root and setpriv")
        for lacking in CAPABILITIES:
            done = subprocess.run(
                [*self.with_only(set(CAPABILITIES) - {lacking}), BINARY, "serve", "kv", "--engine",
                 "memory", "--port", "0", *self.ARGS], capture_output=True, text=True,
                timeout=PATIENCE_S, check=False)
            if "this build has none" in done.stderr:
                self.skipTest("no AF_XDP")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"CAP_{lacking.upper()}", done.stderr)
        server = self.serve(*self.ARGS, wrapper=self.with_only(CAPABILITIES))
        self.assertEqual(kept_by(server, ("Eff", "Prm", "Inh", "Amb")), set())
        client = subprocess.run([*self.in_client, "python3", memcached_udp.__file__, self.ADDRESS,
                                 "7391", str(PATIENCE_S)], capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(client.returncode, 0, client.stderr)


class ProtectedMode(VirtualLink, Case):
    def test_datagrams_of_other_machines_are_dropped(self):
        server = self.serve("--memcached-udp-port", "7391", "--bind", "*", wrapper=self.in_server)
        client = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); " \
            "s.settimeout({0}); s.sendto(bytes([0, 1, 0, 0, 0, 1, 0, 0]) + b'mn\\r\\n', " \
            "('{1}', 7391)); print(s.recv(100))"
        away = subprocess.run([*self.in_client, "python3", "-c", client.format(0.3, self.ADDRESS)],
                              capture_output=True, text=True, check=False)
        self.assertIn("TimeoutError", away.stderr + away.stdout)
        here = subprocess.run(
            [*self.in_server, "python3", "-c", client.format(PATIENCE_S, "127.0.0.1")],
            capture_output=True, text=True, check=True)
        self.assertIn("MN", here.stdout)
        dropped = 'rubato_datagrams_dropped_total{reason="not_served"}'
        self.assertEqual(self.read_metrics(server)[dropped], 1)


if __name__ == "__main__":
    unittest.main()
