# SPDX-License-Identifier: Apache-2.0
"""A server on a port of DPDK: what AF_XDP's tests ask of a server, over net_af_xdp on a virtual
link, and a client of the kernel over net_tap. Skipped without the plugin, DPDK or namespaces."""

import ctypes.util
import os
import socket
import struct
import subprocess
import sys
import unittest

import test_datagrams
from server import BINARY, PATIENCE_S, refused
from test_datagrams import ID, DatagramServer, connected
from virtual_link import run_ip
from waiting import eventually

# Memory of the process, no cards, no files that servers share.
ENVIRONMENT = "--no-huge -m 128 --no-pci --no-shconf --no-telemetry --log-level=error"


# What DPDK does with arguments without Rubato; the status is 0 if it starts.
PROBE = """
import ctypes, os, sys
words = [b"probe", *map(os.fsencode, sys.argv[2:])]
eal = ctypes.CDLL(sys.argv[1])
os._exit(eal.rte_eal_init(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)) < 0)
"""


class Port:
    """A server whose --datapath is dpdk; workers nap, since a machine of tests has few CPUs."""

    def skip_without_dpdk(self, arguments, wrapper):
        doctor = subprocess.run([BINARY, "doctor"], capture_output=True, text=True, check=False)
        if "dpdk: no plugin (package" in doctor.stdout:
            self.skipTest("no plugin, or not the libraries that it takes")
        probed = subprocess.run(
            [*wrapper, sys.executable, "-c", PROBE, ctypes.util.find_library("rte_eal"),
             *arguments.split()], capture_output=True, text=True, check=False)
        if probed.returncode != 0:
            self.skipTest("rte_eal_init fails here: " + probed.stderr)

    def serve_on(self, vdev, *args, **kwargs):
        arguments = f"{ENVIRONMENT} --vdev={vdev}"
        self.skip_without_dpdk(arguments, self.in_server)
        server = DatagramServer(
            "--datapath", "dpdk:" + vdev.split(",")[0], "--dpdk-nap", "50us", "--dpdk-args",
            arguments, "--bind", test_datagrams.Xdp.ADDRESS, "--port", "7391", *args,
            wrapper=self.in_server, **kwargs)
        self.addCleanup(server.__exit__, None, None, None)
        return server


class AfXdp(Port, test_datagrams.Xdp):
    test_workers_look_at_the_card_before_they_sleep = None  # they do not sleep

    def serve(self, *args, **kwargs):
        return self.serve_on("net_af_xdp0,iface=vs", *args, **kwargs)

    def test_a_killed_server_leaves_nothing_behind(self):
        server = self.serve("--workers", "2")
        self.check_serves()
        server.process.kill()
        server.wait()
        eventually(self.serves_again, patience_s=5)
        self.check_serves()


class Tap(Port, unittest.TestCase):
    """The other end of the port is an interface of the kernel, in the server's namespace."""

    def setUp(self):
        self.end = f"rubato-t{os.getpid()}"
        try:
            run_ip("netns", "add", self.end)
        except (OSError, subprocess.CalledProcessError) as problem:
            self.skipTest(f"network namespaces are not permitted here: {problem}")
        self.addCleanup(run_ip, "netns", "del", self.end)
        self.in_server = ("ip", "netns", "exec", self.end)

    def test_a_client_of_the_kernel_is_answered(self):
        server = self.serve_on("net_tap0,iface=dtap0", "--workers", "2")
        run_ip("-n", self.end, "addr", "add", "10.79.0.2/24", "dev", "dtap0")
        run_ip("-n", self.end, "link", "set", "dtap0", "up")
        done = subprocess.run([*self.in_server, sys.executable, __file__, "client"],
                              capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        server.terminate()
        self.assertEqual(server.wait(), 0)


class Options(unittest.TestCase):
    def test_what_does_not_fit_is_refused(self):
        for args in (("--datapath", "dpdk:"), ("--dpdk-args", "-l 0"), ("--dpdk-nap", "5"),
                     ("--dpdk-nap", "0us"),
                     ("--datapath", "dpdk:0", "--udp-batch", "3"),
                     ("--datapath", "dpdk:0", "--busy-poll", "50us"),
                     ("--datapath", "dpdk:0", "--dpdk-nap", "soon"),
                     ("--datapath", "dpdk:0", "--dpdk-args=--no-huge --help"),
                     ("--datapath", "dpdk:0", "--dpdk-args=--he"),
                     ("--datapath", "dpdk:0", "--dpdk-args=-vh")):
            status, text = refused("serve", "spin", "--udp", *args)
            self.assertEqual(status, 2, (args, text))


def ask():
    """Datagrams and an echo request, by sockets of the kernel."""
    with connected(test_datagrams.Xdp.ADDRESS, 7391) as client:
        for text, reply in ((b"1000", b"OK"), (b"1000 LONG", b"OK"), (b"soon", b"ERR")):
            client.send(ID + text)
            assert client.recv(2048) == ID + reply
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(PATIENCE_S)
        echo = struct.pack("!BBHHH", 8, 0, ~(0x0800 + 7 + 1) & 0xffff, 7, 1)
        raw.sendto(echo, (test_datagrams.Xdp.ADDRESS, 0))
        assert raw.recv(2048)[20:] == struct.pack("!BBHHH", 0, 0, ~(7 + 1) & 0xffff, 7, 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["client"]:
        ask()
    else:
        unittest.main()
