# SPDX-License-Identifier: Apache-2.0
"""A server that may open few files: connections leave the store what it needs."""

import os
import re
import resource
import subprocess
import tempfile
import unittest

from server import BINARY, PATIENCE_S, ReplyError, Server

FILES = 64
ATTEMPTS = 200
FULL = "ERR max number of clients reached"


def few_files(files=FILES):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def crowd(server):
    """So many connections, and the errors of those that were turned away."""
    clients, errors = [], []
    for _ in range(ATTEMPTS):
        client = server.client()
        try:
            client.call("PING")
            clients.append(client)
        except (ReplyError, EOFError, ConnectionResetError) as error:
            errors.append(str(error))
            client.close()
    return clients, errors


class Descriptors(unittest.TestCase):
    def serve(self, *args):
        server = Server(*args, preexec_fn=few_files())
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def lowered(self, server):
        found = re.search(r"maxclients is lowered to (\d+): the system lets this process open "
                          r"64 files \(ulimit -n\), and the server needs (\d+) itself",
                          server.output())
        self.assertIsNotNone(found, server.output())
        self.assertEqual(int(found[1]) + int(found[2]), FILES)
        return int(found[1])

    def test_the_log_of_the_store_can_be_rotated_beside_all_connections(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)  # once the server has ended, which writes to it
        server = self.serve("--engine", "rocksdb", "--dir", folder.name, "--durability", "async")
        most = self.lowered(server)
        clients, errors = crowd(server)
        self.assertEqual(len(clients), most)
        self.assertEqual(errors, [FULL] * (ATTEMPTS - most))
        value = b"v" * (1 << 20)
        for i in range(200):
            self.assertEqual(clients[0].call("SET", f"k{i}", value), b"OK")
        # Copied, not linked, where there is another file system.
        beside = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with tempfile.TemporaryDirectory(dir=beside) as other:
            self.assertEqual(clients[0].call("BACKUP", os.path.join(other, "b")), b"OK")
        kept = re.search(r"store_descriptors_kept:(\d+)\r\n",
                         clients[0].call("INFO", "persistence").decode())
        self.assertGreater(int(kept[1]), 20)
        self.assertLess(int(kept[1]), FILES - most)
        info = clients[0].call("INFO", "stats").decode()
        self.assertIn(f"rejected_connections:{ATTEMPTS - most}", info)
        for client in clients[1:]:
            client.close()
        self.assertEqual(clients[0].call("GET", "k0"), value)
        clients[0].close()

    def test_config_set_cannot_allow_more(self):
        server = self.serve()
        most = self.lowered(server)
        with server.client() as client:
            self.assertEqual(client.call("CONFIG", "GET", "maxclients")[1], b"%d" % most)
            with self.assertRaisesRegex(ReplyError, f"try with {most}"):
                client.call("CONFIG", "SET", "maxclients", most + 1)
            self.assertEqual(client.call("CONFIG", "SET", "maxclients", most), b"OK")

    def test_enough_files_are_not_mentioned(self):
        with Server("--max-connections", "10") as server:
            self.assertNotIn("maxclients", server.output())

    def test_the_synthetic_server_is_limited_too(self):
        with Server(program="spin", preexec_fn=few_files()) as server:
            self.lowered(server)

    def test_no_room_for_any_connection_is_one_line_and_status_1(self):
        done = subprocess.run([BINARY, "serve", "kv", "--port", "0"], capture_output=True,
                              text=True, timeout=PATIENCE_S, preexec_fn=few_files(16))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^rubato serve kv: .*16 files.* none for connections.*\n$")


if __name__ == "__main__":
    unittest.main()
