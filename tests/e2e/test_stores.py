# SPDX-License-Identifier: Apache-2.0
"""Servers over RocksDB and LevelDB, built as their users would: a scan blocks no GET. RocksDB's has
the checkpoints of <rubato/store_iterator.hpp>, LevelDB's those of the compiler pass; RocksDB 9.10,
of a newer Debian, those of librubato-rocksdb."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import private_apt

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RUBATO_BUILD", ROOT / "build/dev"))
LIBRARIES = f"{BUILD}/src/api:{BUILD}/src/adapters"
LIMIT_S = 200
PASS = BUILD / "lib/librubato-pass.so"
KEYS = 60_000
SHORT_ONES = 200


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} -> {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def has_header(name):
    return any(os.path.exists(f"{folder}/{name}") for folder in ("/usr/include",
                                                                 "/usr/local/include"))


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.lines = self.socket.makefile("r", encoding="ascii")
        self.replies = 0

    def call(self, *requests):
        self.send(*requests)
        return [self.receive() for _ in requests]

    def send(self, *requests):
        self.socket.sendall("".join(f"{request}\n" for request in requests).encode())

    def receive(self):
        return self.lines.readline().rstrip("\n")

    def arrived(self):
        """How many replies are there; for a client that sends no more."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.replies += self.socket.recv(1 << 20).count(b"\n")
        return self.replies

    def close(self):
        self.lines.close()
        self.socket.close()


class Stores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rubato-stores-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, compiler, source, *arguments):
        program = self.folder / source.stem
        run(compiler, "-std=c++20", "-O2", "-I", ROOT / "include", source, "-o", program,
            f"-L{BUILD}/src/api", f"-L{BUILD}/src/adapters", *arguments, "-lrubato", "-pthread")
        return program

    def start(self, program):
        environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}
        server = subprocess.Popen([program, "0", self.folder / "db"], env=environment,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, server)
        return int(server.stdout.readline().split()[-1])

    def stop(self, server):
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(LIMIT_S), 0)
        server.stdout.close()

    def client(self, port):
        client = Client(port)
        self.addCleanup(client.close)
        return client

    def serves(self, program):
        port = self.start(program)
        slow, quick = self.client(port), self.client(port)
        for first in range(0, KEYS, 1000):
            replies = slow.call(*(f"SET key{n} value {n}" for n in range(first, first + 1000)))
            self.assertEqual(set(replies), {"OK"})
        self.assertEqual(quick.call("GET key77"), ["value 77"])
        self.assertTrue(quick.call("GET nothing")[0].startswith("NotFound"))
        # More clients that scan than there are workers, so that a GET finds each at a scan.
        scanning = [slow, *(self.client(port) for _ in range(os.cpu_count()))]
        for client in scanning:
            client.send(*["COUNT value 1"] * SHORT_ONES)
        slow.receive()
        before = sum(client.arrived() for client in scanning)
        for _ in range(SHORT_ONES):
            self.assertEqual(quick.call("GET key77"), ["value 77"])
        # If a GET had to wait for a scan to end, there would be one of these for each.
        self.assertLess(sum(client.arrived() for client in scanning) - before, SHORT_ONES / 4)

    @unittest.skipUnless(has_header("rocksdb/db.h"), "librocksdb-dev is missing")
    def test_rocksdb(self):
        self.serves(self.compile("c++", ROOT / "examples/rocksdb_scans.cc", "-lrocksdb"))

    @unittest.skipUnless(has_header("leveldb/db.h") and shutil.which("clang++-19") and
                         PASS.exists(), "libleveldb-dev, clang-19 or librubato-pass is missing")
    def test_leveldb_by_the_compiler_pass(self):
        self.serves(self.compile("clang++-19", ROOT / "examples/leveldb_scans.cc", "-lleveldb",
                                 f"-fpass-plugin={PASS}"))

    def test_rocksdb_9_in_a_prefix_of_its_own(self):
        try:
            root = private_apt.unpack(BUILD / "rocksdb9", "trixie", "librocksdb-dev")
        except private_apt.Missing as why:
            self.skipTest(str(why))
        include = self.folder / "include"
        include.mkdir()
        (include / "rocksdb").symlink_to(root / "usr/include/rocksdb")
        (store,) = root.glob("usr/lib/*/librocksdb.so")
        # The system's libc is older than the store's, whose own runs the program.
        program = self.compile(
            "c++", ROOT / "tests/e2e/stores/unmodified_scans.cc", "-isystem", include, store,
            "-Wl,--allow-shlib-undefined", "-Wl,--no-as-needed", "-lrubato-rocksdb",
            "-Wl,--as-needed")
        (loader,) = root.glob("usr/lib64/ld-linux-x86-64.so.2")
        said = run(loader, "--library-path", f"{store.parent}:{LIBRARIES}", program,
                   self.folder / "db9")
        self.assertRegex(said, r"^ok, RocksDB 9\.\d+, \d+ preemptions\n$")


if __name__ == "__main__":
    unittest.main()
