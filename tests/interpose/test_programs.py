# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of us, with the interposed functions of libc preloaded: as they are,
where every call goes to libc, and with every thread taken for a fiber (every_thread.cc). Those that
are not installed are skipped. RUBATO_PROGRAM_SECONDS says for how long each runs."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SECONDS = int(os.environ.get("RUBATO_PROGRAM_SECONDS", "2"))
INTERPOSE = os.environ["RUBATO_INTERPOSE"]
EVERY_THREAD = os.environ["RUBATO_EVERY_THREAD"]
WAYS = {"as it is": INTERPOSE, "every thread a fiber": f"{EVERY_THREAD}:{INTERPOSE}"}


def environment(preload):
    return {**os.environ, "LD_PRELOAD": preload}


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Programs(unittest.TestCase):
    def run_all_ways(self, command, pattern="", **options):
        for way, preload in WAYS.items():
            with self.subTest(way=way):
                done = subprocess.run(command, env=environment(preload), capture_output=True,
                                      text=True, timeout=120 + 40 * SECONDS, check=False, **options)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
                self.assertRegex(done.stdout + done.stderr, pattern)

    @needs("redis-server")
    @needs("redis-benchmark")
    def test_redis_with_io_threads(self):
        for way, preload in WAYS.items():
            with self.subTest(way=way), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "socket")
                command = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder,
                           "--io-threads", "2", "--io-threads-do-reads", "yes", "--save", "",
                           "--appendonly", "yes"]
                with subprocess.Popen(command, env=environment(preload), stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True) as server:
                    try:
                        self.load_redis(path)
                    finally:
                        server.terminate()
                        output = server.communicate(timeout=30)[0]
                    self.assertEqual(server.returncode, 0, output[-2000:])
                    self.assertNotIn("every_thread", output)

    def load_redis(self, path):
        self.wait_for_socket(path)
        # A child by fork, while the threads run: BGSAVE.
        for command in (["redis-cli", "-s", path, "BGREWRITEAOF"],
                        ["redis-benchmark", "-s", path, "-q", "-n", str(4_000 * SECONDS), "-c",
                         "20", "-P", "8", "-t", "set,get,lpush", "--threads", "2"],
                        ["redis-cli", "-s", path, "BGSAVE"],
                        ["redis-cli", "-s", path, "PING"]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SECONDS,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("PONG", done.stdout)

    @staticmethod
    def wait_for_socket(path):
        limit = time.monotonic() + 20
        while time.monotonic() < limit:
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    return probe.connect(path)
                except OSError:
                    time.sleep(0.02)
        raise AssertionError("redis-server does not answer")

    @needs("stress-ng")
    def test_stress_ng(self):
        self.run_all_ways(["stress-ng", "--mutex", "2", "--pthread", "1", "--malloc", "2", "--sem",
                           "1", "--fork", "1", "--dynlib", "1", "--timeout", f"{SECONDS}s",
                           "--verify"], "successful run completed")

    @needs("sort")
    def test_sort_with_threads(self):
        lines = "\n".join(str(n * 7919 % 1_000_003) for n in range(300_000))
        self.run_all_ways(["sort", "-n", "--parallel=4", "-S", "20M"], "^0\n", input=lines)

    @needs("xz")
    def test_xz_with_threads(self):
        text = "".join(str(n * n) for n in range(400_000))
        self.run_all_ways(["sh", "-c", "xz -T3 --block-size=200KiB -1 | xz -dT2 | md5sum"],
                          "-", input=text)

    def test_python_with_threads(self):
        script = ("import concurrent.futures as f, queue, threading, json\n"
                  "q = queue.Queue(3); lock = threading.RLock(); total = 0\n"
                  "def take():\n"
                  "    global total\n"
                  "    while (item := q.get()) is not None:\n"
                  "        with lock, lock: total += len(json.dumps(list(range(item))))\n"
                  "threads = [threading.Thread(target=take) for _ in range(4)]\n"
                  "[t.start() for t in threads]\n"
                  f"[q.put(n % 50) for n in range({2000 * SECONDS})]\n"
                  "[q.put(None) for _ in threads]; [t.join() for t in threads]\n"
                  "with f.ThreadPoolExecutor(4) as pool: assert sum(pool.map(abs, range(999)))\n"
                  "ready = threading.Event(); print('done', ready.wait(0.01), total > 0)\n")
        self.run_all_ways([sys.executable, "-c", script], "done False True")

    def test_the_test_suite_of_python(self):
        # The others take half a minute each way on a quiet machine, minutes on a busy one.
        tests = ["test_thread", "test_threading_local"]
        if SECONDS >= 10:
            tests += ["test_threading", "test_queue"]
        if subprocess.run([sys.executable, "-c", "import test.test_threading"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("this Python has no test suite")
        # One test fails without us, where something imports `threading` at the start.
        self.run_all_ways([sys.executable, "-m", "test", "--ignore",
                           "test_import_from_another_thread", *tests], "SUCCESS")


if __name__ == "__main__":
    unittest.main()
