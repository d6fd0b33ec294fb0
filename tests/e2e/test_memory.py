# SPDX-License-Identifier: Apache-2.0
"""--maxmemory bounds what a server holds: data, replies that clients do not read, and requests of
which a part has come."""

import os
import random
import tempfile
import threading
import unittest

from server import ReplyError, Server, encode, refused
from waiting import eventually, sends_until_stuck

LIMIT_MB = 64
LARGE = 20_000_000


class Memory(unittest.TestCase):
    def serve(self, *args):
        server = self.enterContext(Server("--maxmemory", f"{LIMIT_MB}mb", *args))
        self.startup = self.info(server, "memory")["used_memory_startup"]
        return server

    @staticmethod
    def info(server, section):
        with server.client() as client:
            lines = client.call("INFO", section).decode().splitlines()
        pairs = [line.split(":", 1) for line in lines if ":" in line]
        return {name: int(value) if value.isdigit() else value for name, value in pairs}

    def check(self, server):
        memory = self.info(server, "memory")
        self.assertLessEqual(memory["used_memory"], LIMIT_MB << 20, memory)
        self.assertLessEqual(memory["used_memory_rss"], 1.25 * (LIMIT_MB << 20) + self.startup)
        return memory

    def test_clients_that_do_not_read_are_refused_when_memory_is_short(self):
        server = self.serve()
        server.call("SET", "large", b"x" * LARGE)
        slow = [self.enterContext(server.client()) for _ in range(20)]
        for client in slow:
            for _ in range(4):
                client.send("GET", "large")
        eventually(lambda: self.check(server)["buffers_refused"], lambda refused: refused >= 60)
        answers = []
        for client in slow:
            for _ in range(4):
                try:
                    answers.append(len(client.reply()))
                except ReplyError as error:
                    self.assertIn("OOM no memory for the reply", str(error))
        self.assertGreaterEqual(answers.count(LARGE), 4)
        self.check(server)
        self.assertEqual(len(server.call("GET", "large")), LARGE)

    def test_requests_that_do_not_end_are_closed_when_memory_is_short(self):
        server = self.serve()
        half = [self.enterContext(server.client(timeout=5)) for _ in range(8)]
        for i, client in enumerate(half):
            client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\n%d\r\n$500000000\r\n" % i)
            try:
                for _ in sends_until_stuck(client.socket, b"y" * 1_000_000, 70_000_000):
                    pass
            except OSError:
                pass  # closed
            self.check(server)
        closed = self.info(server, "stats")["client_query_buffer_limit_disconnections"]
        self.assertEqual(closed, 8)
        self.assertEqual(server.call("SET", "k", "v"), b"OK")

    def test_a_full_store_is_read_and_told_to_forget(self):
        server = self.serve()
        with server.client() as client:
            with self.assertRaisesRegex(ReplyError, "OOM command not allowed"):
                for i in range(1000):
                    client.call("SET", i, b"x" * 100_000)
            self.check(server)
            self.assertEqual(len(client.call("GET", 0)), 100_000)
            self.assertEqual(client.call("DEL", 0, 1), 2)
            self.assertEqual(client.call("SET", "new", b"x" * 100_000), b"OK")

    def test_small_values_between_large_replies_keep_no_freed_memory(self):
        server = self.serve("--workers", "2")
        server.call("SET", "large", b"x" * 900_000)
        written = [0] * 4

        def write(name):
            with server.client() as client:
                for i in range(1500):
                    try:
                        client.call("SET", f"{name}:{i}", b"y" * (200 + i * 7 % 9000))
                        written[name] += 1
                    except (ReplyError, OSError, EOFError):
                        return  # memory is short

        writers = [threading.Thread(target=write, args=(name,)) for name in range(len(written))]
        for writer in writers:
            writer.start()
        eventually(lambda: sum(written), lambda count: count >= 100)
        for _ in range(300):
            slow = self.enterContext(server.client())
            slow.socket.sendall(encode("GET", "large") * 3)
        for writer in writers:
            writer.join()
        self.check(server)

    def test_a_limit_that_comes_later_gives_back_what_was_freed_before(self):
        server = self.enterContext(Server("--workers", "2"))
        with server.client() as client:
            for i in range(60):
                client.call("SET", i, b"x" * 900_000)
            full = server.resident_kib()
            client.call("DEL", *range(0, 60, 2))
            client.call("CONFIG", "SET", "maxmemory", f"{LIMIT_MB}mb")
        eventually(server.resident_kib, lambda kib: kib < full - 20_000)

    def test_a_cache_evicts_what_is_not_used(self):
        server = self.serve("--maxmemory-policy", "allkeys-lru", "--memcached-port", "0")
        seed = int(os.environ.get("RUBATO_SEED", "20261123"))
        print(f"seed {seed} (RUBATO_SEED replays)")
        rng = random.Random(seed)
        with server.client() as client:
            for i in range(6000):
                client.call("SET", f"k{i}", b"x" * rng.choice((10, 1000, 10_000, 100_000)))
                if i % 50 == 0:
                    for hot in range(10):
                        client.call("GET", f"k{hot}")
            self.check(server)
            self.assertEqual(client.call("EXISTS", *[f"k{hot}" for hot in range(10)]), 10)
            self.assertGreater(self.info(server, "stats")["evicted_keys"], 1000)
            client.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
            with self.assertRaisesRegex(ReplyError, "OOM"):
                for i in range(100):
                    client.call("SET", f"more{i}", b"x" * 1_000_000)
            client.call("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
            with self.assertRaisesRegex(ReplyError, "OOM"):
                client.call("SET", "late", b"x" * 3_000_000)
            with self.assertRaisesRegex(ReplyError, "must be one of the following"):
                client.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")

    def test_the_hard_limit_closes_a_client_and_the_soft_one_after_its_time(self):
        server = self.serve("--client-output-buffer-limit", "normal 1mb 0 0")
        server.call("SET", "k", b"x" * 900_000)
        with server.client() as client:
            client.call("CONFIG", "SET", "client-output-buffer-limit", "normal 800000 0 0")
            with self.assertRaises(EOFError):
                client.call("GET", "k")
            server.call("CONFIG", "SET", "client-output-buffer-limit", "normal 0 500000 1")
        with server.client() as slow:
            server.call("SET", "k", b"x" * LARGE)
            slow.send("GET", "k")
            count = "client_output_buffer_limit_disconnections"
            eventually(lambda: self.info(server, "stats")[count], lambda closed: closed == 2)
        with self.assertRaisesRegex(ReplyError, "Invalid client class"):
            server.call("CONFIG", "SET", "client-output-buffer-limit", "nobody 1 1 1")

    def test_a_small_hard_limit_counts_all_replies_of_a_pipeline_and_of_a_list(self):
        server = self.serve("--client-output-buffer-limit", "normal 100000 0 0")
        server.call("SET", "k", b"x" * 10_000)
        for pipeline in ("GET k\r\n" * 15, "RANGE - +\r\n"):
            with server.client() as client:
                client.socket.sendall(pipeline.encode())
                with self.assertRaises(EOFError):
                    client.reply()
            server.call("DEBUG", "POPULATE", "30", "many", "5000")
        with server.client() as client:
            for _ in range(15):
                self.assertEqual(len(client.call("GET", "k")), 10_000)

    def test_a_request_beyond_its_limit_closes_its_client(self):
        server = self.serve("--client-query-buffer-limit", "2mb")
        count = "client_query_buffer_limit_disconnections"
        with server.client() as client:
            self.assertEqual(client.call("SET", "k", b"x" * 1_500_000), b"OK")
            client.call("CONFIG", "SET", "client-query-buffer-limit", "1mb")
            with self.assertRaises((EOFError, OSError)):
                client.call("SET", "k", b"x" * 1_500_000)
        self.assertEqual(self.info(server, "stats")[count], 1)

    def test_the_caches_of_a_store_on_disk_fit_themselves_to_it(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        server = self.serve("--engine", "rocksdb", "--dir", folder, "--durability", "async")
        value = random.Random(1).randbytes(100_000)
        with server.client() as client:
            for i in range(1500):
                self.assertEqual(client.call("SET", f"k{i}", value), b"OK")
                if i % 100 == 0:
                    self.check(server)
            for i in range(1500):
                self.assertEqual(len(client.call("GET", f"k{i}")), len(value))
        self.check(server)
        server.call("SET", "large", random.Random(2).randbytes(5_000_000))
        slow = [self.enterContext(server.client()) for _ in range(20)]
        for client in slow:
            client.send("GET", "large")
        eventually(lambda: self.check(server)["buffers_refused"], lambda refused: refused > 0)
        with self.assertRaisesRegex(ReplyError, "takes 32mb at least"):
            server.call("CONFIG", "SET", "maxmemory", "1mb")
        with self.assertRaisesRegex(ReplyError, "evicts nothing"):
            server.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

    def test_wrong_options_are_refused(self):
        for option, value, expected in (
                ("--maxmemory-policy", "lru", "noeviction, allkeys-lru, volatile-ttl"),
                ("--client-query-buffer-limit", "1kb", "1mb at least"),
                ("--client-output-buffer-limit", "normal 1", "Wrong number of arguments")):
            status, said = refused("serve", "kv", option, value)
            self.assertEqual(status, 2)
            self.assertIn(option, said)
            self.assertIn(expected, said)


if __name__ == "__main__":
    unittest.main()
