# SPDX-License-Identifier: Apache-2.0
"""Datagrams end to end: plain ones over kernel sockets, over a bad network, and over AF_XDP between
two network namespaces, which are skipped where they are not permitted."""

import functools
import json
import os
import random
import re
import select
import socket
import struct
import subprocess
import threading
import unittest
import urllib.request

from server import BINARY, PATIENCE_S, Server, refused
from virtual_link import VirtualLink, one_cpu
from waiting import eventually

ID = b"12345678"


def run_load(target, *args, wrapper=()):
    done = subprocess.run([*wrapper, BINARY, "load", "--target", target, "--json", "-", *args],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in (0, 1):  # 1: some were lost
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class DatagramServer(Server):
    def __init__(self, *args, mode=("--udp",), wrapper=()):
        super().__init__(*mode, "--metrics-port", "0", *args, program="spin", wrapper=wrapper)
        self.metrics_port = int(self.wait_for(r"metrics on \S+:(\d+)/"))

    def metrics(self, text=None):
        if text is None:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics",
                                        timeout=PATIENCE_S) as reply:
                text = reply.read().decode()
        return {name: float(value) for name, value in
                re.findall(r"^(rubato_\S+) (\S+)$", text, re.MULTILINE)}

    def ask(self, connection, text, request_id=ID):
        connection.send(request_id + text)
        return connection.recv(2048)


def connected(address, port):
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.settimeout(PATIENCE_S)
    connection.connect((address, port))
    return connection


class BadNetwork(threading.Thread):
    """Forwards datagrams between clients and a server; loses, doubles and delays some of them."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.dice = random.Random(seed)
        self.server = ("127.0.0.1", port)
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.front.bind(("127.0.0.1", 0))
        self.port = self.front.getsockname()[1]
        self.backs = {}
        self.held = []
        self.forwarded = 0
        self.running = True

    def back_of(self, client):
        if client not in self.backs:
            self.backs[client] = connected(*self.server)
        return self.backs[client]

    def pass_on(self, send, data):
        if self.dice.random() < 0.05:
            return 0
        copies = 2 if self.dice.random() < 0.05 else 1
        if self.dice.random() < 0.1:
            self.held.append((send, data, copies))
            return copies
        for _ in range(copies):
            send(data)
        if self.held and self.dice.random() < 0.3:
            self.let_go()
        return copies

    def let_go(self):
        for send, data, copies in self.held:
            for _ in range(copies):
                send(data)
        self.held.clear()

    def run(self):
        while self.running:
            clients = {back: client for client, back in self.backs.items()}
            readable, _, _ = select.select([self.front, *clients], [], [], 0.05)
            if not readable:
                self.let_go()
            for connection in readable:
                if connection is self.front:
                    data, client = self.front.recvfrom(2048)
                    self.forwarded += self.pass_on(self.back_of(client).send, data)
                else:
                    client = clients[connection]
                    self.pass_on(lambda reply, to=client: self.front.sendto(reply, to),
                                 connection.recv(2048))

    def stop(self):
        self.running = False
        self.join(PATIENCE_S)
        self.let_go()
        for connection in (self.front, *self.backs.values()):
            connection.close()


def check_unparks(metrics, load):
    """Under a load between whose requests a worker parks, none of them has to wake it."""
    def in_one_run():
        before = metrics()
        load("--rate", "100", "--flows", "16", "--duration", "1", "--warmup", "0")
        after = metrics()
        parks, unparks = (after[name] - before[name] for name in (
            "rubato_core_parks_total", "rubato_core_self_unparks_total"))
        return parks > 0 and unparks == 0

    eventually(in_one_run)


class Plain(unittest.TestCase):
    def serve(self, *args, **kwargs):
        server = DatagramServer(*args, **kwargs)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def test_each_datagram_is_answered_for_itself(self):
        server = self.serve()
        with connected("127.0.0.1", server.port) as client:
            self.assertEqual(server.ask(client, b"1000"), ID + b"OK")
            self.assertEqual(server.ask(client, b"1000 LONG"), ID + b"OK")
            self.assertEqual(server.ask(client, b"soon"), ID + b"ERR")
            self.assertEqual(server.ask(client, b""), ID + b"ERR")
            client.send(b"")
            client.send(b"short")
            client.send(bytes(3000))
            self.assertEqual(server.ask(client, b"0"), ID + b"OK")
        dropped = 'rubato_datagrams_dropped_total{reason="no_request"}'
        self.assertEqual(server.metrics()[dropped], 3)

    def test_a_short_one_overtakes_a_long_one_of_the_same_client(self):
        server = self.serve()
        with connected("127.0.0.1", server.port) as client:
            client.send(b"longlong" + b"2000000000 LONG")
            eventually(lambda: server.cpu_seconds() > 0.05)
            self.assertEqual(server.ask(client, b"1000"), ID + b"OK")
            server.terminate()  # and the long one is finished first
            self.assertEqual(client.recv(2048), b"longlongOK")
        self.assertEqual(server.wait(), 0)

    def test_a_reply_is_no_request(self):
        server = self.serve()
        connection = connected("127.0.0.1", server.port)
        self.addCleanup(connection.close)
        for text in (b"OK", b"ERR", b"BUSY"):
            connection.send(ID + text)
        self.assertEqual(server.ask(connection, b"0", b"a request"[:8]), b"a requesOK")

    def test_a_net_worker_brings_requests_to_workers_in_the_order_of_their_clients(self):
        server = self.serve("--policy", "cfcfs", "--workers", "2", "--net-worker", "--keep-order")
        with connected("127.0.0.1", server.port) as client, one_cpu():
            client.send(b"longlong" + b"20000000 LONG")
            for number in range(8):
                client.send(b"%08d1000" % number)
            replies = [client.recv(2048) for _ in range(9)]
        self.assertEqual(replies, [b"longlongOK", *(b"%08dOK" % i for i in range(8))])
        self.assertGreaterEqual(server.metrics()["rubato_net_worker_handed_out_total"], 1)

    def test_worker_0_takes_in_the_datagrams_of_a_parked_worker(self):
        for scheme, mode in (("spin+udp", ("--udp",)), ("rpc+udp", ("--rpc", "udp"))):
            server = self.serve("--workers", "2", "--cores", "reactive", mode=mode)
            check_unparks(server.metrics, functools.partial(
                run_load, f"{scheme}://127.0.0.1:{server.port}", "--workload", "exp-10"))

    def test_groups_are_moved_while_they_are_served(self):
        server = self.serve("--policy", "sbb", "--workers", "2")
        report = run_load(f"spin+udp://127.0.0.1:{server.port}", "--workload",
                          "short:20us:99,long:2ms:1", "--rate", "3000", "--flows", "16",
                          "--duration", "2", "--warmup", "0")
        self.assertEqual((report["lost"], report["errors"]), (0, 0))
        self.assertGreaterEqual(server.metrics()["rubato_requests_total"], report["requests"])

    def test_a_bad_network_loses_requests_and_the_server_none(self):
        server = self.serve("--workers", "2")
        network = BadNetwork(server.port, seed=5)
        network.start()
        report = run_load(f"spin+udp://127.0.0.1:{network.port}", "--workload", "exp-10",
                          "--rate", "2000", "--flows", "20", "--duration", "2", "--timeout", "1",
                          "--warmup", "0")
        self.assertGreater(report["lost"], 0)
        self.assertGreater(report["requests"], 3 * report["lost"])
        with connected("127.0.0.1", server.port) as client:
            self.assertEqual(server.ask(client, b"0"), ID + b"OK")
        network.stop()  # nothing is held any more
        # And the one above.
        eventually(lambda: server.metrics()["rubato_requests_total"],
                   lambda served: served == network.forwarded + 1)

    def test_options_that_do_not_fit_are_refused(self):
        for args in (("serve", "spin", "--datapath", "kernel"),
                     ("serve", "spin", "--udp-batch", "3"),
                     ("serve", "spin", "--keep-order"),
                     ("serve", "spin", "--rpc", "udp", "--keep-order"),
                     ("serve", "spin", "--rpc", "udp", "--net-worker"),
                     ("serve", "spin", "--udp", "--net-worker", "--cores", "caladan"),
                     ("serve", "kv", "--engine", "memory", "--keep-order"),
                     ("serve", "spin", "--udp", "--udp-batch", "65"),
                     ("serve", "spin", "--udp", "--rpc", "udp"),
                     ("serve", "spin", "--udp", "--datapath", "tcp"),
                     ("serve", "spin", "--udp", "--busy-poll", "50us"),
                     ("serve", "spin", "--udp", "--datapath", "af_xdp:"),
                     ("serve", "spin", "--udp", "--datapath", "af_xdp:lo", "--udp-batch", "3"),
                     ("load", "--target", "spin+udp://127.0.0.1:1", "--mix", "get:1"),
                     ("load", "--target", "spin+udp://127.0.0.1:1", "--tls")):
            status, text = refused(*args)
            self.assertEqual(status, 2, (args, text))


class Xdp(VirtualLink, unittest.TestCase):
    """Server and client at the two ends of a virtual link."""

    def serve(self, *args, **kwargs):
        try:
            server = DatagramServer("--datapath", "af_xdp:vs", "--bind", self.ADDRESS, "--port",
                                    "7391", *args, wrapper=self.in_server, **kwargs)
        except AssertionError as problem:
            if "this build has none" in str(problem) or "it takes CAP_" in str(problem):
                self.skipTest(str(problem))
            raise
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def load(self, scheme, *args):
        return run_load(f"{scheme}://{self.ADDRESS}:7391", *args, wrapper=self.in_client)

    def check_serves(self, scheme="spin+udp"):
        counts = self.load(scheme, "--workload", "exp-10", "--rate", "2000", "--flows", "20",
                           "--duration", "1", "--warmup", "0")
        self.assertEqual((counts["lost"], counts["errors"]), (0, 0))
        self.assertGreater(counts["requests"], 1000)

    def has_program(self):
        shown = subprocess.run(["ip", "-n", self.ends[0], "link", "show", "vs"], check=True,
                               capture_output=True, text=True).stdout
        return "xdp" in shown

    def test_workers_look_at_the_card_before_they_sleep(self):
        server = self.serve("--workers", "2", "--busy-poll", "50us")
        self.assertIn(", in the driver, busy poll, ", server.output())
        self.check_serves()

    def test_a_stopped_server_leaves_nothing_behind(self):
        server = self.serve("--workers", "2")
        self.check_serves()
        self.assertTrue(self.has_program())
        server.terminate()
        self.assertEqual(server.wait(), 0)
        eventually(lambda: not self.has_program())

    def test_a_killed_server_leaves_nothing_behind(self):
        server = self.serve("--workers", "2")
        self.check_serves()
        self.assertTrue(self.has_program())
        server.process.kill()
        server.wait()
        eventually(lambda: not self.has_program())
        eventually(self.serves_again, patience_s=5)
        self.check_serves()

    def serves_again(self):
        try:
            return self.serve("--workers", "2")
        except AssertionError:
            return None  # the kernel gives the queue free after a moment

    def test_rpc_sessions_are_served(self):
        self.serve("--workers", "2", mode=("--rpc", "udp"))
        self.check_serves("rpc+udp")

    def test_worker_0_takes_in_the_datagrams_of_a_parked_worker(self):
        server = self.serve("--workers", "2", "--cores", "reactive")
        check_unparks(lambda: self.read_metrics(server),
                      functools.partial(self.load, "spin+udp", "--workload", "exp-10"))

    def test_hostile_frames_harm_nobody(self):
        server = self.serve()
        self.check_serves()
        done = subprocess.run([*self.in_client, "python3", "-W", "error", __file__, "hostile",
                               self.ends[0]], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_serves()
        dropped = self.read_metrics(server)['rubato_datagrams_dropped_total{reason="malformed"}']
        self.assertGreater(dropped, 100)


def ipv4_frame(mac, payload, length=None, udp_length=None, version=0x45, fragment=0, checksum=None):
    udp = struct.pack("!HHHH", 40000, 7391, 8 + len(payload) if udp_length is None else udp_length,
                      0) + payload
    length = 20 + len(udp) if length is None else length
    head = struct.pack("!BBHHHBBH4s4s", version, 0, length, 1, fragment, 64, 17, 0,
                       socket.inet_aton("10.79.0.2"), socket.inet_aton(Xdp.ADDRESS))
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xffff) + (total >> 16)
    right = ~((total & 0xffff) + (total >> 16)) & 0xffff
    head = head[:10] + struct.pack("!H", right if checksum is None else checksum) + head[12:]
    return mac + b"\2\0\0\0\0\2" + b"\x08\x00" + head + udp


def send_hostile(server_end):
    """Frames whose lengths, flags or headers are wrong, and random ones; in the client's end."""
    shown = subprocess.run(["ip", "-n", server_end, "link", "show", "vs"], check=True,
                           capture_output=True, text=True).stdout
    mac = bytes.fromhex(re.search(r"link/ether (\S+)", shown).group(1).replace(":", ""))
    dice = random.Random(3)
    good = ipv4_frame(mac, ID + b"0")
    frames = [good[:size] for size in range(14, len(good))]
    for wrong in (0, 1, 7, 8, 19, 20, 21, 27, 28, 29, 100, 1500, 65535):
        frames += [ipv4_frame(mac, ID + b"0", length=wrong),
                   ipv4_frame(mac, ID + b"0", udp_length=wrong),
                   ipv4_frame(mac, ID + b"0", fragment=wrong),
                   ipv4_frame(mac, ID + b"0", checksum=wrong)]
    frames += [ipv4_frame(mac, ID + b"0", version=version) for version in range(256)]
    frames += [ipv4_frame(mac, bytes(dice.randbytes(size))) for size in range(0, 1472, 7)]
    for _ in range(3000):
        frame = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            frame[dice.randrange(14, len(frame))] = dice.randrange(256)
        frames.append(bytes(frame))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("vc", 0))
        for frame in frames:
            raw.send(frame)


if __name__ == "__main__":
    import sys
    if sys.argv[1:2] == ["hostile"]:
        send_hostile(sys.argv[2])
    else:
        unittest.main()
