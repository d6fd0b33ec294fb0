# SPDX-License-Identifier: Apache-2.0
"""BACKUP: a folder with which another server starts, made while clients write."""

import os
import shutil
import tempfile
import threading
import unittest

from server import ReplyError, Server

CLIENTS = 4
BACKUPS = 5


class Writer(threading.Thread):
    """Counts up a key of its own until it is told to stop, with a key for each count."""

    def __init__(self, server, index):
        super().__init__()
        self.client = server.client()
        self.key = f"w{index}"
        self.acknowledged = 0
        self.stop = False

    def run(self):
        with self.client:
            while not self.stop:
                count = self.acknowledged + 1
                self.client.call("MSET", f"{self.key}:{count}", count, self.key, count)
                self.acknowledged = count


class Backup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def serve(self, name="data", *args, **popen):
        server = Server("--engine", "rocksdb", "--dir", self.path(name), *args, **popen)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def test_a_second_server_has_what_was_there_at_the_time(self):
        with self.serve().client() as client:
            for i in range(100):
                client.call("SET", f"k{i}", i)
            client.call("SET", "late", "v", "PX", 10**9)
            self.assertEqual(client.call("BACKUP", self.path("backup")), b"OK")
            client.call("SET", "k0", "changed")
            client.call("DEL", "k1")
            client.call("SET", "more", 1)
        shutil.copytree(self.path("backup"), self.path("copy"))
        with self.serve("copy").client() as client:
            self.assertEqual([client.call("GET", f"k{i}") for i in range(100)],
                             [b"%d" % i for i in range(100)])
            self.assertEqual(client.call("EXISTS", "more"), 0)
            self.assertEqual(client.call("DBSIZE"), 101)
            self.assertGreater(client.call("PTTL", "late"), 10**8)
        # Writing to the copy has not changed the backup.
        with self.serve("backup").client() as client:
            self.assertEqual(client.call("DBSIZE"), 101)

    def test_clients_write_meanwhile_and_none_of_their_writes_is_half_there(self):
        server = self.serve("data", "--durability", "async", "--workers", "2")
        writers = [Writer(server, i) for i in range(CLIENTS)]
        before = []
        for writer in writers:
            writer.start()
        try:
            with server.client() as client:
                for i in range(BACKUPS):
                    before.append([writer.acknowledged for writer in writers])
                    self.assertEqual(client.call("BACKUP", self.path(f"b{i}")), b"OK")
        finally:
            for writer in writers:
                writer.stop = True
                writer.join()
        for i in range(BACKUPS):
            with self.serve(f"b{i}") as restored, restored.client() as client:
                for writer, least in zip(writers, before[i]):
                    held = int(client.call("GET", writer.key) or 0)
                    self.assertTrue(least <= held <= writer.acknowledged, (least, held))
                    self.assertEqual(client.call("EXISTS", *[f"{writer.key}:{n}"
                                                             for n in range(1, held + 2)]), held)

    def test_a_relative_name_counts_from_the_working_directory_of_the_server(self):
        server = self.serve("data", cwd=self.folder)
        self.assertEqual(server.call("BACKUP", "near"), b"OK")
        self.assertTrue(os.path.exists(self.path("near/CURRENT")))
        self.assertRegex(server.wait_for(r"(store: backup made.*)"), r"near")

    def test_what_cannot_be_made_is_one_line_and_serving_goes_on(self):
        server = self.serve()
        os.mkdir(self.path("taken"))
        with server.client() as client:
            for words, expected in (((self.path("taken"),), "taken exists already"),
                                    ((self.path("data/inside"),), "folder of the database"),
                                    ((self.path("no/such"),), "No such file or directory"),
                                    (("",), "is empty"),
                                    ((), "wrong number of arguments for 'backup'")):
                with self.assertRaisesRegex(ReplyError, expected):
                    client.call("BACKUP", *words)
            self.assertEqual(client.call("SET", "k", "v"), b"OK")
        self.assertEqual(sorted(os.listdir(self.folder)), ["data", "taken"])

    def test_the_memory_engine_says_that_it_keeps_nothing(self):
        with Server() as server:
            with self.assertRaisesRegex(ReplyError, "^ERR no backup: the memory engine keeps "
                                                    "nothing, so there is no backup of it$"):
                server.call("BACKUP", self.path("b"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_takes_the_password_and_is_an_administrator_s_command(self):
        server = self.serve("data", "--requirepass", "secret")
        with server.client() as client:
            with self.assertRaisesRegex(ReplyError, "^NOAUTH"):
                client.call("BACKUP", self.path("b"))
            client.call("AUTH", "secret")
            self.assertIn(b"admin", client.call("COMMAND", "INFO", "backup")[0][2])
            self.assertIn(b"@dangerous", client.call("COMMAND", "INFO", "backup")[0][6])


if __name__ == "__main__":
    unittest.main()
