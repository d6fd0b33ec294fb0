# SPDX-License-Identifier: Apache-2.0
"""`rubato load` that sends by AF_XDP and by DPDK, between two network namespaces; skipped where
those are not permitted, or there is no AF_XDP or DPDK."""

import json
import subprocess
import unittest

import test_dpdk
from rpc_wire import PATIENT
from server import BINARY, refused
from test_datagrams import DatagramServer
from test_kv_datagrams import KvServer
from virtual_link import VirtualLink, run_ip
from waiting import eventually

PORT = "7391"
UNTIL_DONE_S = 60


class Load(VirtualLink):
    """The generator is at the client's end; the server has sockets of the kernel, or AF_XDP."""

    def datapath(self):
        raise NotImplementedError

    def serve(self, server, *args, **kwargs):
        server = server(*args, "--bind", self.ADDRESS, wrapper=self.in_server, **kwargs)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def run_load(self, scheme, *args, datapath=None):
        return subprocess.run(
            [*self.in_client, BINARY, "load", "--target", f"{scheme}://{self.ADDRESS}:{PORT}",
             *(datapath or self.datapath()), "--json", "-", "--warmup", "0", *args],
            capture_output=True, text=True, timeout=UNTIL_DONE_S, check=False)

    def load(self, scheme, *args):
        done = self.run_load(scheme, *args)
        if "this build has none" in done.stderr or "it takes CAP_" in done.stderr:
            self.skipTest(done.stderr)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        answered = sum(one["count"] + one["refused"] + one["errors"] for one in report["types"])
        never_sent = sum(report.get("unsent", {}).values())
        self.assertEqual(report["requests"], answered + report["lost"] + never_sent)
        lost_here = int(report["settings"]["datagrams_lost_by_generator"])
        self.assertLessEqual(lost_here, report["lost"])
        return report

    def sent_by_kernel(self):
        with_names = subprocess.run([*self.in_client, "cat", "/proc/net/snmp"], check=True,
                                    capture_output=True, text=True).stdout
        names, counts = [line.split() for line in with_names.splitlines()
                         if line.startswith("Udp:")]
        return int(counts[names.index("OutDatagrams")])

    def check_all_served(self, scheme, *args):
        before = self.sent_by_kernel()
        report = self.load(scheme, "--rate", "2000", "--flows", "16", "--duration", "1", *args)
        self.assertEqual((report["lost"], report["errors"], report["refused"]), (0, 0, 0))
        self.assertGreater(report["requests"], 1000)
        # Only until the server's Ethernet address was known.
        self.assertLess(self.sent_by_kernel() - before, 500)
        return report

    def test_plain_datagrams(self):
        for more in ((), ("--datapath", "af_xdp:vs", "--workers", "2")):
            server = self.serve(DatagramServer, "--port", PORT, *more)
            self.check_all_served("spin+udp", "--workload", "exp-10")
            server.__exit__()

    def test_memcached(self):
        self.serve(KvServer, "--memcached-udp-port", PORT, "--protected-mode", "no")
        self.check_all_served("memcached+udp", "--mix", "get:9,set:1", "--keys", "100")

    def test_rpc(self):
        self.serve(DatagramServer, "--port", PORT, *PATIENT, mode=("--rpc", "udp"))
        self.check_all_served("rpc+udp", "--workload", "exp-10", "--rpc-expire", "0",
                              "--rpc-queue", "100000")

    def test_more_than_is_served_is_lost_or_refused_and_counted(self):
        self.serve(DatagramServer, "--port", PORT, "--overload", "aqm")
        report = self.load("spin+udp", "--workload", "fixed-200", "--rate", "20000", "--flows",
                           "16", "--duration", "1", "--timeout", "0.2")
        self.assertGreater(report["refused"], 0)
        self.assertGreater(sum(one["count"] for one in report["types"]), 0)

    def test_nothing_is_left_on_the_interface(self):
        self.serve(DatagramServer, "--port", PORT)
        self.check_all_served("spin+udp", "--workload", "exp-10")
        eventually(lambda: "xdp" not in subprocess.run(
            ["ip", "-n", self.ends[1], "link", "show", "vc"], check=True, capture_output=True,
            text=True).stdout)

    def test_a_silent_server_is_told(self):
        done = self.run_load("spin+udp")
        if "this build has none" in done.stderr or "it takes CAP_" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1],  # libraries of DPDK's may say more
                         f"rubato: {self.ADDRESS}:{PORT} does not answer: does it take datagrams "
                         "of serve spin --udp?")


class Xdp(Load, unittest.TestCase):
    def datapath(self):
        return ("--datapath", "af_xdp:vc")

    def test_a_generator_that_sleeps_is_woken_by_replies(self):
        self.serve(DatagramServer, "--port", PORT)
        self.check_all_served("spin+udp", "--workload", "exp-10", "--nap")

    def test_an_interface_that_does_not_lead_to_the_server_is_refused(self):
        run_ip("-n", self.ends[1], "link", "add", "other", "type", "veth", "peer", "name",
               "another")
        for name, why in (("nowhere", "there is no interface 'nowhere'"),
                          ("other", f"datagrams to {self.ADDRESS}:{PORT} leave from 10.79.0.2, "
                                    "which is not of other")):
            done = self.run_load("spin+udp", datapath=("--datapath", f"af_xdp:{name}"))
            self.assertEqual((done.returncode, done.stderr),
                             (2, f"rubato: --datapath: {why} (rubato load --help tells more)\n"))

    def test_without_the_capabilities_it_says_which(self):
        self.in_client = (*self.in_client, "setpriv", "--reuid=65534", "--regid=65534",
                          "--clear-groups", "--inh-caps=-all")
        done = self.run_load("spin+udp")
        if "this build has none" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"\Arubato: af_xdp: .*it takes CAP_.*\n\Z")


class Dpdk(test_dpdk.Port, Load, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.arguments = f"{test_dpdk.ENVIRONMENT} --vdev=net_af_xdp0,iface=vc"
        self.skip_without_dpdk(self.arguments, self.in_client)

    def datapath(self):
        return ("--datapath", "dpdk:net_af_xdp0", "--dpdk-args", self.arguments)


class Options(unittest.TestCase):
    def test_what_does_not_fit_is_refused(self):
        udp = ("--target", "spin+udp://127.0.0.1:1")
        xdp = (*udp, "--datapath", "af_xdp:lo")
        dpdk = (*udp, "--datapath", "dpdk:0")
        for args, named in (
                (("--target", "spin://127.0.0.1:1", "--datapath", "af_xdp:lo"), "--datapath"),
                ((*udp, "--datapath", "af_xdp:"), "--datapath"),
                ((*udp, "--datapath", "tcp"), "--datapath"),
                ((*udp, "--dpdk-args", "-l 0"), "--dpdk-args"),
                ((*dpdk, "--dpdk-args=--help"), "--dpdk-args"),
                ((*xdp, "--flows", "20000"), "--flows"),
                ((*xdp, "--processes", "2"), "--processes"),
                ((*xdp, "--bind", "127.0.0.1"), "--bind"),
                ((*dpdk, "--nap"), "--nap"),
                ((*dpdk, "--closed", "1", "--rate", "1", "--difference"), "--difference")):
            status, text = refused("load", *args)
            self.assertEqual(status, 2, (args, text))
            self.assertIn(named, text)


if __name__ == "__main__":
    unittest.main()
