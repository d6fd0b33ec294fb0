# SPDX-License-Identifier: Apache-2.0
"""Every datapath behind a bad network, which is a third network namespace: what it lets through is
served and counted to the last datagram, in the order of each client where that is promised."""

import unittest

import test_dpdk
from bad_link import PORT, BadLink
from rpc_wire import PATIENT
from test_datagrams import DatagramServer, run_load
from test_kv_datagrams import KvServer
from virtual_link import one_cpu, run_ip
from waiting import eventually

BAD = {"lost": 0.05, "doubled": 0.05, "delayed": 0.2}


class Bad(BadLink):
    def datapath(self):
        raise NotImplementedError

    def serve(self, server, *args, **kwargs):
        try:
            serving = server(*args, *self.datapath(), "--bind", self.ADDRESS,
                             wrapper=self.in_server, **kwargs)
        except AssertionError as problem:
            if "this build has none" in str(problem) or "it takes CAP_" in str(problem):
                self.skipTest(str(problem))
            raise
        self.addCleanup(serving.__exit__, None, None, None)
        return serving

    def serve_spin(self, *args, mode=("--udp",)):
        return self.serve(DatagramServer, "--port", str(PORT), *args, mode=mode)

    def load(self, scheme, *args):
        report = run_load(f"{scheme}://{self.ADDRESS}:{PORT}", "--duration", "1", "--warmup", "0",
                          "--timeout", "2", *args, wrapper=self.in_client)
        self.assertEqual(report["errors"], 0, report)
        self.assertGreater(report["requests"], 500)
        return report

    def load_plain(self):
        return self.load("spin+udp", "--workload", "exp-10", "--rate", "2000", "--flows", "20")

    def counted(self, server):
        """Datagrams that the server knows of."""
        counts = self.read_metrics(server)
        return counts["rubato_requests_total"] + sum(
            count for name, count in counts.items()
            if name.startswith("rubato_datagrams_dropped_total"))

    def check_counts(self, server, done):
        eventually(lambda: self.counted(server), lambda counted: counted == done.to_server)
        self.assertEqual(done.from_server, done.to_server)

    def test_what_comes_through_is_counted_to_the_last_datagram(self):
        server = self.serve_spin("--workers", "2")
        relay = self.relay(**BAD)
        report = self.load_plain()
        done = relay.stop()
        self.assertGreater(min(done.lost, done.doubled, report["lost"]), 0)
        self.check_counts(server, done)

    def test_replies_of_a_client_come_in_the_order_of_its_requests(self):
        with one_cpu():
            server = self.serve_spin("--workers", "2", "--policy", "sbb", "--keep-order")
        relay = self.relay(**BAD)
        self.load_plain()
        done = relay.stop()
        self.check_counts(server, done)
        self.assertEqual(done.out_of_turn, 0)

    def test_what_a_slow_link_cuts_is_all_that_is_lost(self):
        server = self.serve_spin()
        relay = self.relay(rate=300)
        report = self.load_plain()
        done = relay.stop()
        self.assertGreater(done.cut, 0)
        self.assertEqual(report["lost"], done.cut)
        self.check_counts(server, done)

    def test_sessions_of_rpc_outlive_it(self):
        self.serve_spin("--workers", "2", *PATIENT, mode=("--rpc", "udp"))
        self.relay(**BAD)
        report = self.load("rpc+udp", "--workload", "exp-10", "--rate", "1000", "--flows", "8")
        self.assertLess(report["lost"], report["requests"] / 4)


class Kernel(Bad, unittest.TestCase):
    def datapath(self):
        return ()


class Dpdk(test_dpdk.Port, Bad, unittest.TestCase):
    def datapath(self):
        arguments = f"{test_dpdk.ENVIRONMENT} --vdev=net_af_xdp0,iface=vs"
        self.skip_without_dpdk(arguments, self.in_server)
        return ("--datapath", "dpdk:net_af_xdp0", "--dpdk-nap", "50us", "--dpdk-args", arguments)


class Xdp(Bad, unittest.TestCase):
    """And what an administrator does to the interface meanwhile."""

    def datapath(self):
        return ("--datapath", "af_xdp:vs")

    def test_replies_fit_packets_that_have_become_smaller(self):
        server = self.serve(KvServer, "--memcached-udp-port", str(PORT), "--protected-mode", "no")
        self.relay()
        values = ("--keys", "10", "--value-size", "1000", "--rate", "1000", "--flows", "4")
        self.load("memcached+udp", "--mix", "set:1", *values)
        for end, link in zip(self.ends, ("vs", "vc")):
            run_ip("-n", end, "link", "set", link, "mtu", "700")
        server.wait_for("link: (replies fit the interface's packets as they are now)")
        report = self.load("memcached+udp", "--mix", "get:1", *values)
        self.assertEqual(report["lost"], 0)

    def test_an_interface_that_has_changed_is_told(self):
        server = self.serve_spin()
        for change in ("down", "name other", "up", "address 02:00:00:00:00:99"):
            name = "vs" if change in ("down", "name other") else "other"
            run_ip("-n", self.ends[0], "link", "set", name, *change.split())
        server.wait_for("link: (the interface has another Ethernet address)")
        self.assertNotIn("is gone", server.output())
        run_ip("-n", self.ends[0], "link", "del", "other")
        server.wait_for("link: (the interface is gone)")
        server.terminate()
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()
