# SPDX-License-Identifier: Apache-2.0
"""Clients of several servers, and requests that tell how urgent they are."""

import json
import subprocess
import unittest

from rpc_wire import PATIENT, rpc
from server import BINARY, PATIENCE_S, Server, status_of_load
from test_rpc import RpcServer


def load(servers, *args, scheme="rpc"):
    target = scheme + "://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)
    done = subprocess.run([BINARY, "load", "--target", target, "--nap", "--json", "-", *args],
                          capture_output=True, text=True, timeout=60, check=False)
    if status_of_load(done) != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout), done.stderr


class Case(unittest.TestCase):
    def serve(self, *args, **options):
        server = RpcServer(*args, **options)
        self.addCleanup(server.__exit__, None, None, None)
        return server


class SeveralServers(Case):
    ARGS = ("--workload", "short:10us:1", "--rate", "400", "--flows", "8", "--duration", "2")

    def share_of_busy(self, balancer, transport="tcp"):
        """What a server gets beside an idle one while eight long requests are inside. By age, a
        short one that loses its CPU for long would count as long and wait for all of these."""
        servers = [self.serve(*PATIENT, "--workers", "1", "--credits-set", "alpha=1", "--classify",
                              "feedback", "--long-over", "1ms", transport=transport)
                   for _ in range(2)]
        with servers[1].good_client() as client:
            for _ in range(10):  # until there are more credits
                client.call(b"1000 SHORT")
            long = [client.submit(b"9000000000 LONG") for _ in range(8)]
            servers[1].wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] >= 2)
            scheme = "rpc" if transport == "tcp" else "rpc+udp"
            report, text = load(servers, *self.ARGS, "--balancer", balancer, scheme=scheme)
            self.assertFalse(any(future.done() for future in long))
        self.assertIn("replies by server: ", text)
        idle, busy = [server["count"] for server in report["servers"]]
        self.assertEqual(idle + busy, sum(t["count"] for t in report["types"]))
        self.assertEqual(report["settings"]["balancer"], balancer)
        return busy / (idle + busy), servers

    def test_prequal_spares_a_busy_server_by_its_answers_to_probes(self):
        for transport in ("tcp", "udp"):
            share, servers = self.share_of_busy("prequal", transport)
            self.assertLess(share, 0.3)
            for server in servers:
                self.assertGreater(server.metrics()["rubato_rpc_probes_total"], 100)

    def test_a_random_choice_does_not_know_of_load_and_asks_for_none(self):
        share, servers = self.share_of_busy("random")
        self.assertAlmostEqual(share, 0.5, delta=0.1)
        self.assertEqual(servers[0].metrics()["rubato_rpc_probes_total"], 0)

    def test_key_value_servers_share_the_requests_of_each_process(self):
        servers = [Server("--engine", "memory") for _ in range(3)]
        for server in servers:
            self.addCleanup(server.__exit__, None, None, None)
        report, _ = load(servers, "--balancer", "round-robin", "--load-keys", "--keys", "50",
                         "--rate", "300", "--flows", "6", "--duration", "2", "--processes", "2",
                         scheme="resp")
        counts = [server["count"] for server in report["servers"]]
        self.assertLess(max(counts) - min(counts), 10)
        self.assertEqual(report["errors"], 0)

    def test_a_probe_by_hand(self):
        server = self.serve(*PATIENT)
        with server.good_client() as client:
            client.call(b"1000 SHORT")
            first = client.probe().result(PATIENCE_S)
            self.assertEqual((first.in_flight, first.latency_s), (0, 0))
            client.call(b"3000000 SHORT")
            self.assertGreater(client.probe().result(PATIENCE_S).latency_s, 0.002)

    def test_what_goes_with_several_servers_only_or_not_with_them_is_said(self):
        one, two = "127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"
        for target, args, what in (
                (f"rpc://{one}", ("--balancer", "random"), "--balancer: is for several servers"),
                (f"resp://{two}", ("--balancer", "prequal"), "--balancer: prequal is for Rubato"),
                (f"rpc://{two}", ("--balancer", "weights"), "--balancer: weights are of"),
                (f"rpc://{two}", ("--balancer", "best"), "--balancer: takes random, "),
                (f"resp://{two}", ("--closed", "2"), "--closed: is for one server"),
                (f"rpc://{two}", ("--flows", "1"), "--flows: takes 2 or more: one for each server"),
                (f"http://{two}", (), "--target: takes several servers, but not of http"),
                (f"rpc://{two},", (), "--target: 'rpc://' is not")):
            done = subprocess.run([BINARY, "load", "--target", target, *args], text=True,
                                  capture_output=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(what, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


class Priorities(Case):
    def check_levels(self, transport):
        """Three times what the server can do; of both kinds as many come."""
        server = self.serve("--workers", "1", "--policy", "cfcfs", "--overload", "dagor",
                            "--target-delay", "5ms", "--overload-set", "window=50ms",
                            "--overload-set", "alpha=0.2", transport=transport)
        report, text = load([server], "--workload", "urgent:2ms:1,patient:2ms:1",
                            "--priorities", "patient=5", "--rate", "1500", "--flows", "100",
                            "--duration", "3", "--timeout", "10",
                            scheme="rpc" if transport == "tcp" else "rpc+udp")
        self.assertGreater(report["unsent"]["withheld"], 0)
        self.assertIn("withheld by their level", text)
        urgent, patient = [kind["count"] for kind in report["types"]]
        self.assertGreater(urgent, patient)
        self.assertEqual(report["errors"], 0)
        self.assertEqual(report["settings"]["priorities"], "patient=5")

    def test_the_less_urgent_are_kept_back_by_the_clients_of_an_overloaded_server(self):
        self.check_levels("tcp")

    def test_the_same_over_udp(self):
        self.check_levels("udp")

    def test_a_level_of_synergy_is_that_of_the_request(self):
        """A short request suspends the second of two long ones; of both, the more urgent one goes
        on, though it was suspended last and takes longer."""
        server = self.serve(*PATIENT, "--workers", "1", "--policy", "synergy", "--credits-set",
                            "alpha=1", "--set", "levels=8")
        with server.good_client() as client:
            for _ in range(10):
                client.call(b"1000 SHORT")
            patient = client.submit(b"300000000 LONG", priority=7)
            server.wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] == 1)
            urgent = client.submit(b"600000000 LONG", priority=0)
            server.wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] == 2)
            client.call(b"1000 SHORT")
            self.assertEqual(urgent.result(PATIENCE_S), b"OK")
            self.assertFalse(patient.done())
            self.assertEqual(patient.result(PATIENCE_S), b"OK")

    def test_a_priority_needs_a_type_and_a_number(self):
        for value in ("patient", "patient=8", "other=1", "patient=1,,"):
            done = subprocess.run([BINARY, "load", "--target", "rpc://127.0.0.1:1", "--workload",
                                   "urgent:2ms:1,patient:2ms:1", "--priorities", value],
                                  text=True, capture_output=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 2, value)
            self.assertIn("--priorities: takes TYPE=N,... with a type of the requests (urgent, "
                          "patient) and N from 0 to 7", done.stderr)
        with self.assertRaises(ValueError):
            rpc.rank_of(8)


if __name__ == "__main__":
    unittest.main()
