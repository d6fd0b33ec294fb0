# SPDX-License-Identifier: Apache-2.0
"""kill -9 under write load: with --durability sync no acknowledged write is lost.

RUBATO_KILLS sets how often the server is killed (default 3).
"""

import os
import random
import tempfile
import threading
import time
import unittest

from server import Server

WRITERS = 4


class Writer(threading.Thread):
    """Writes rising numbers to a key of its own; remembers the last that was acknowledged."""

    def __init__(self, server, index, start_at):
        super().__init__()
        self.server = server
        self.key = f"writer:{index}"
        self.acknowledged = start_at
        self.sent = start_at

    def run(self):
        try:
            with self.server.client() as client:
                while True:
                    self.sent = self.acknowledged + 1
                    client.call("SET", self.key, self.sent)
                    client.call("SET", f"{self.key}:{self.sent}", self.sent)
                    self.acknowledged = self.sent
        except (OSError, EOFError):
            pass


class Durability(unittest.TestCase):
    def rounds(self, *args):
        kills = int(os.environ.get("RUBATO_KILLS", "3"))
        rng = random.Random(7)
        reached = [0] * WRITERS
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("--engine", "rocksdb", "--dir", folder, *args)
            for _ in range(kills):
                with Server(*arguments) as server:
                    writers = [Writer(server, i, reached[i]) for i in range(WRITERS)]
                    for writer in writers:
                        writer.start()
                    time.sleep(0.3 + rng.random() * 0.5)
                    server.process.kill()
                    server.wait()
                    for writer in writers:
                        writer.join()
                with Server(*arguments) as server, server.client() as client:
                    for i, writer in enumerate(writers):
                        kept = int(client.call("GET", writer.key) or 0)
                        self.assertGreaterEqual(kept, writer.acknowledged)
                        self.assertLessEqual(kept, writer.sent)
                        for n in range(reached[i] + 1, writer.acknowledged + 1):
                            self.assertEqual(client.call("GET", f"{writer.key}:{n}"),
                                             str(n).encode())
                        reached[i] = kept
        print(f"{kills} kills, {sum(reached)} acknowledged writes, none lost")
        self.assertGreater(sum(reached), 0)

    def test_sync_loses_no_acknowledged_write(self):
        self.rounds("--durability", "sync", "--workers", "2")

    def test_async_survives_the_process(self):
        self.rounds("--durability", "async")

    def test_clean_restart_keeps_data_and_count(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("--engine", "rocksdb", "--dir", folder)
            with Server(*arguments) as server:
                with server.client() as client:
                    for i in range(100):
                        client.call("SET", f"k{i}", i)
                server.terminate()
                self.assertEqual(server.wait(), 0)
            with Server(*arguments) as server:
                self.assertEqual(server.call("DBSIZE"), 100)
                self.assertEqual(server.call("GET", "k42"), b"42")


if __name__ == "__main__":
    unittest.main()
