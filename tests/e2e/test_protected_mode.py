# SPDX-License-Identifier: Apache-2.0
"""Who is served by a server that listens everywhere and has no password.

The tests run in a network namespace of their own, where the loopback interface has an address that
is none of loopback's: nobody outside can reach the open servers.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from rpc_wire import frames, hello, rpc
from server import PATIENCE_S, Client, ReplyError, Server

INSIDE = "RUBATO_IN_NAMESPACE"
ELSEWHERE = "10.77.0.1"
SETUP = f"ip link set lo up && ip addr add {ELSEWHERE}/32 dev lo"


class Namespace(unittest.TestCase):
    def test_in_a_namespace_of_its_own(self):
        inside = ["unshare", "--map-root-user", "--net", "sh", "-c"]
        try:
            probe = subprocess.run([*inside, SETUP], capture_output=True, text=True, timeout=20)
        except OSError as error:
            self.skipTest(f"no network namespace: {error}")
        if probe.returncode != 0:
            self.skipTest("no network namespace: " + probe.stderr.strip())
        command = f"{SETUP} && exec {sys.executable} -W error -m unittest -v test_protected_mode"
        done = subprocess.run([*inside, command], env={**os.environ, INSIDE: "1"},
                              cwd=os.path.dirname(os.path.abspath(__file__)),
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class ProtectedMode(unittest.TestCase):
    def serve(self, *args):
        server = Server("--bind", "*", *args)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def elsewhere(self, port):
        link = socket.create_connection((ELSEWHERE, port), timeout=PATIENCE_S)
        self.addCleanup(link.close)
        return link

    def client(self, server):
        client = Client.__new__(Client)
        client.socket = self.elsewhere(server.port)
        client.reader = client.socket.makefile("rb")
        self.addCleanup(client.close)
        return client

    def heard(self, link):
        """All until the server closes."""
        text = b""
        while chunk := link.recv(4096):
            text += chunk
        return text

    def test_without_a_password_only_this_machine_is_served(self):
        server = self.serve()
        text = self.heard(self.elsewhere(server.port))
        self.assertRegex(text, rb"^-DENIED protected mode: .*--protected-mode no\.\r\n$")
        with server.client() as client:
            self.assertEqual(client.call("PING"), b"PONG")
            self.assertIn(b"rejected_connections:1\r\n", client.call("INFO", "stats"))
        self.assertNotIn("warning start", server.output())

    def test_who_resets_before_being_accepted_is_from_elsewhere_all_the_same(self):
        server = self.serve()
        server.process.send_signal(signal.SIGSTOP)
        link = self.elsewhere(server.port)
        link.sendall(b"SET left behind\r\n")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
        server.process.send_signal(signal.SIGCONT)
        while b"total_connections_received:0\r\n" in (stats := server.call("INFO", "stats")):
            pass
        self.assertIn(b"rejected_connections:1\r\n", stats)
        self.assertIsNone(server.call("GET", "left"))

    def test_the_other_ports_say_so_in_their_own_words(self):
        server = self.serve("--memcached-port", "0", "--rpc-port", "0")
        memcached = int(server.wait_for(r"text protocol on \S+:(\d+)\n"))
        text = self.heard(self.elsewhere(memcached))
        self.assertRegex(text, rb"^SERVER_ERROR protected mode: .*\r\n$")
        link = self.elsewhere(int(server.wait_for(r"Rubato RPC on \S+:(\d+)\n")))
        link.sendall(hello())
        (frame,) = frames(link, 2)
        self.assertEqual((frame.kind, frame.amount, frame.id), (rpc.ERROR, 10, 0))
        self.assertIn(b"protected mode", frame.body)

    def test_with_a_password_others_are_asked_for_it(self):
        server = self.serve("--requirepass", "secret")
        client = self.client(server)
        with self.assertRaisesRegex(ReplyError, "NOAUTH"):
            client.call("PING")
        self.assertEqual(client.call("AUTH", "secret"), b"OK")
        self.assertEqual(client.call("PING"), b"PONG")

    def test_it_is_switched_off_and_on_while_the_server_runs(self):
        server = self.serve()
        server.call("CONFIG", "SET", "protected-mode", "no")
        self.assertEqual(self.client(server).call("PING"), b"PONG")
        server.call("CONFIG", "SET", "protected-mode", "yes")
        with self.assertRaisesRegex(ReplyError, "DENIED"):
            self.client(server).reply()

    def test_an_open_door_is_warned_of(self):
        server = self.serve("--protected-mode", "no")
        self.assertIn("warning start: everybody who reaches * may read, write", server.output())
        self.assertEqual(self.client(server).call("PING"), b"PONG")
        quiet = self.serve("--protected-mode", "no", "--requirepass", "secret")
        self.assertNotIn("warning start", quiet.output())
        with Server("--protected-mode", "no") as local:
            self.assertNotIn("warning start", local.output())

    def test_a_configuration_file_sets_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('protected-mode = "no"\n')
            config.flush()
            server = self.serve("--config", config.name)
            self.assertEqual(self.client(server).call("PING"), b"PONG")


def load_tests(loader, *_):
    inside = INSIDE in os.environ
    return loader.loadTestsFromTestCase(ProtectedMode if inside else Namespace)


if __name__ == "__main__":
    unittest.main()
