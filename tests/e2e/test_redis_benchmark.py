# SPDX-License-Identifier: Apache-2.0
"""redis-benchmark runs to its end on what is here, and gets one clear line for what is not."""

import re
import shutil
import subprocess
import unittest

from server import ReplyError, Server

HERE = "ping,set,get,incr,mset"
NAMES = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"]


@unittest.skipUnless(shutil.which("redis-benchmark"), "there is no redis-benchmark")
class RedisBenchmark(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server("--workers", "2"))

    def benchmark(self, *args):
        return subprocess.run(
            ["redis-benchmark", "-p", str(self.server.port), "-n", "2000", "-c", "20", "-r", "100",
             *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            check=False)

    def test_it_ends_and_every_request_is_answered(self):
        for pipeline in ("1", "16"):
            with self.subTest(pipeline=pipeline):
                self.server.call("CONFIG", "RESETSTAT")
                self.server.call("FLUSHALL")
                done = self.benchmark("-t", HERE, "-P", pipeline, "--csv")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(re.findall(r'^"([A-Z][^"]*)","[1-9]', done.stdout, re.MULTILINE),
                                 NAMES)
                stats = self.server.call("INFO", "commandstats").decode()
                for command, calls in (("ping", 4000), ("set", 2000), ("get", 2000),
                                       ("incr", 2000), ("mset", 2000)):
                    found = re.search(rf"cmdstat_{command}:calls=(\d+),.*failed_calls=0\s", stats)
                    self.assertIsNotNone(found, stats)
                    self.assertGreaterEqual(int(found.group(1)), calls)

    def test_the_first_type_that_is_not_here_gets_one_line(self):
        done = self.benchmark("-t", f"{HERE},lpush", "-q")
        self.assertNotEqual(done.returncode, 0)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        self.assertEqual(len(said), 1, done.stdout + done.stderr)
        self.assertRegex(said[0], r"unknown command 'LPUSH', with args beginning with: ")

    def test_other_types_close_nothing(self):
        with self.server.client() as client:
            for request in (("LPUSH", "l", "x"), ("SADD", "s", "x"), ("ZADD", "z", "1", "x"),
                            ("HSET", "h", "f", "x"), ("XADD", "x", "*", "f", "x"),
                            ("PFADD", "p", "x"), ("EVAL", "return 1", "0"), ("DUMP", "k"),
                            ("SETBIT", "k", "1", "1"), ("PUBLISH", "c", "x")):
                with self.subTest(request=request[0]):
                    with self.assertRaisesRegex(ReplyError,
                                                f"^ERR unknown command '{request[0]}'"):
                        client.call(*request)
            self.assertEqual(client.call("PING"), b"PONG")


if __name__ == "__main__":
    unittest.main()
