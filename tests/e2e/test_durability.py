# SPDX-License-Identifier: Apache-2.0
"""kill -9 under write load: with --durability sync no acknowledged write is lost. Damage of what is
on disk is refused, and told of; so are errors of the disk.

RUBATO_KILLS sets how often the server is killed (default 3).
"""

import glob
import os
import random
import resource
import signal
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from server import ReplyError, Server, refused
from waiting import eventually

WRITERS = 4
WRITES_BEFORE_KILL = (100, 600)


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
                    enough = sum(reached) + rng.randrange(*WRITES_BEFORE_KILL)
                    eventually(lambda: sum(w.acknowledged for w in writers),
                               lambda acknowledged: acknowledged >= enough)
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


WRITES = 50


class Damage(unittest.TestCase):
    """Servers that were killed, and what becomes of their logs before they start again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.arguments = ("--engine", "rocksdb", "--dir", folder.name, "--durability", "sync")
        with Server(*self.arguments) as server:
            with server.client() as client:
                for i in range(WRITES):
                    client.call("SET", f"k{i}", i)
            server.process.kill()
            server.wait()
        (self.log,) = glob.glob(folder.name + "/*.log")
        with open(self.log, "rb") as log:
            self.bytes = bytearray(log.read())

    def write_log(self, data):
        with open(self.log, "wb") as log:
            log.write(data)

    def assert_refused(self, *words):
        status, text = refused("serve", "kv", "--port", "0", *self.arguments)
        self.assertEqual(status, 1, text)
        self.assertEqual(text.count("\n"), 1, text)
        for word in (os.path.basename(self.log), "--recover", *words):
            self.assertIn(word, text)

    def test_flipped_bytes_in_the_log_are_refused(self):
        rng = random.Random(int(os.environ.get("RUBATO_SEED", "20261122")))
        places = [len(self.bytes) // 3, 4, 6] + [rng.randrange(len(self.bytes) - 100)
                                                 for _ in range(10)]
        for at in places:
            flipped = bytearray(self.bytes)
            flipped[at:at + 2] = bytes(byte ^ 0xff for byte in flipped[at:at + 2])
            self.write_log(flipped)
            with self.subTest(at):
                self.assert_refused("is damaged at byte")
        self.write_log(self.bytes)
        with Server(*self.arguments) as server:
            self.assertEqual(server.call("DBSIZE"), WRITES)

    def test_a_log_that_is_gone_is_refused(self):
        os.remove(self.log)
        self.assert_refused("is missing")

    def test_a_write_that_the_crash_cut_off_is_left_out(self):
        self.write_log(self.bytes[:-3])
        with Server(*self.arguments) as server:
            self.assertEqual(server.call("DBSIZE"), WRITES - 1)

    def test_recover_goes_on_and_says_what_is_lost(self):
        third = len(self.bytes) // 3
        self.bytes[third:third + 2] = b"\xff\xff"
        self.write_log(self.bytes)
        with Server(*self.arguments, "--recover") as server:
            text = server.output()
            self.assertRegex(text, r"warning start: recovery of .*: \d+\.log is damaged at byte "
                             r"\d+ of")
            self.assertIn("are lost", text)
            kept = server.call("DBSIZE")
            self.assertGreater(kept, 0)
            self.assertLess(kept, WRITES)
            for i in range(kept):
                self.assertEqual(server.call("GET", f"k{i}"), b"%d" % i)
            server.call("SET", "after", "1")
        with open(self.log + ".damaged", "rb") as copy:
            self.assertEqual(copy.read(), bytes(self.bytes))
        with Server(*self.arguments) as server:
            self.assertEqual(server.call("DBSIZE"), kept + 1)

    def test_recover_is_an_option_of_the_configuration_file(self):
        os.remove(self.log)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write("recover = true\n")
            config.flush()
            with Server(*self.arguments, "--config", config.name) as server:
                self.assertIn("is missing: what was written to it is lost", server.output())

    def test_recover_is_for_what_is_on_disk(self):
        status, text = refused("serve", "kv", "--port", "0", "--engine", "memory", "--recover")
        self.assertEqual(status, 2)
        self.assertIn("--recover", text)


def readiness(port):
    """Status and text of /readyz."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class FullDisk(unittest.TestCase):
    def test_errors_of_the_store_are_said_once(self):
        with tempfile.TemporaryDirectory() as folder:
            limit = 1 << 20

            def small_files():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            with Server("--engine", "rocksdb", "--dir", folder, preexec_fn=small_files,
                        restore_signals=False) as server, server.client() as client:
                errors = 0
                for i in range(500):
                    try:
                        client.call("SET", f"k{i}", b"v" * 10_000)
                    except ReplyError:
                        errors += 1
                self.assertGreater(errors, 100)
                said = [line for line in server.output().splitlines() if " error store: " in line]
                self.assertTrue(any("too large" in line for line in said), server.output())
                self.assertLess(len(said), 10)

    def test_readiness_and_info_tell_while_writes_fail(self):
        """The limit on file sizes stands for a disk that fails for a while."""
        with tempfile.TemporaryDirectory() as folder:
            def ignore_the_limit():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

            with Server("--engine", "rocksdb", "--dir", folder, "--metrics-port", "0",
                        preexec_fn=ignore_the_limit, restore_signals=False) as server, \
                    server.client() as client:
                port = int(server.wait_for(r"metrics on http://\S+:(\d+)/metrics\n"))
                self.assertEqual(readiness(port), (200, "ready\n"))
                _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (8192, hard))
                with self.assertRaisesRegex(ReplyError, "IOERR.*too large"):
                    client.call("SET", "k", b"v" * 20_000)
                status, text = readiness(port)
                self.assertEqual(status, 503)
                self.assertRegex(text, "writes.*too large")
                self.assertIn(b"aof_last_write_status:err", client.call("INFO", "persistence"))
                resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
                eventually(lambda: readiness(port)[0], lambda code: code == 200)
                self.assertIn(b"aof_last_write_status:ok", client.call("INFO", "persistence"))
                client.call("SET", "k", "w")
                text = server.output()
                self.assertEqual(text.count("no writes are taken until"), 1, text)
                self.assertEqual(text.count("writes are taken again"), 1, text)
                server.process.kill()
                server.wait()
            with Server("--engine", "rocksdb", "--dir", folder) as server:
                self.assertEqual(server.call("GET", "k"), b"w")


if __name__ == "__main__":
    unittest.main()
