# SPDX-License-Identifier: Apache-2.0
"""With `appendfsync always` no acknowledgement comes before its write is synced, while commands are
suspended and writes wait for them.

A library that is preloaded records the size of the append only file after each fdatasync. When a
client has its reply, what it wrote must be in the file, and not behind the last size recorded."""

import os
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from valkey_process import Server

SECONDS = float(os.environ.get("RUBATO_SECONDS", "4")) / 2

RECORDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fdatasync(int fd) {
  static int (*real)(int);
  static int log = -1;
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  if (log < 0) log = open(getenv("SYNC_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char path[64], name[4096];
  struct stat before;
  fstat(fd, &before);
  const int result = real(fd);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length > 0 && (name[length] = 0, strstr(name, ".incr.aof"))) {
    char line[32];
    const int size = snprintf(line, sizeof line, "%020lld\n", (long long)before.st_size);
    if (write(log, line, size) != size) abort();
  }
  return result;
}
"""


class Durability(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        source = Path(cls.folder.name) / "recorder.c"
        source.write_text(RECORDER)
        cls.recorder = source.with_suffix(".so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", source, "-o", cls.recorder, "-ldl"],
                       check=True)

    def early(self, when):
        """How many replies came before their writes were synced, and how many came in all."""
        log = Path(self.folder.name) / f"synced-{when}"
        log.touch()
        server = Server(
            "--rubato-stress", "11", "--rubato-threshold", "1", "--appendonly", "yes",
            "--appendfsync", when, "--hash-max-listpack-entries", "8",
            environment={"LD_PRELOAD": str(self.recorder), "SYNC_LOG": str(log),
                         "ASAN_OPTIONS": "verify_asan_link_order=0"})
        setup = server.client()
        setup.call("HSET", "hash", *(word for i in range(200) for word in (i, i)))
        (file,) = (Path(server.folder.name) / "appendonlydir").glob("*.incr.aof")
        until = time.monotonic() + SECONDS
        found, trouble = [], []

        def writes(key, number):
            client = server.client()
            try:
                with open(file, "rb") as aof:
                    aof.seek(0, 2)
                    turn = 0
                    while time.monotonic() < until:
                        turn += 1
                        value = b"<%d-%d>" % (number, turn)
                        client.call("HSET", key, "field", value)
                        text = aof.read()
                        position = text.rfind(value)
                        if position < 0:  # not even written
                            found.append(True)
                            continue
                        end = aof.tell() - len(text) + position + len(value)
                        lines = log.read_bytes()
                        found.append(not lines or int(lines[-21:]) < end)
            except Exception as error:  # for the test's thread to raise
                trouble.append(error)
            client.close()

        def reads():
            client = server.client()
            while time.monotonic() < until:
                client.call("HGETALL", "hash")
            client.close()

        parties = [threading.Thread(target=writes, args=(("hash", "other")[i % 2], i))
                   for i in range(4)] + [threading.Thread(target=reads) for _ in range(3)]
        for party in parties:
            party.start()
        for party in parties:
            party.join()
        info = setup.info()
        setup.close()
        self.assertEqual(server.stop(), "")
        if trouble:
            raise trouble[0]
        self.assertGreater(int(info["rubato_suspensions"]), 100)
        self.assertGreater(int(info["rubato_waits"]), 5)
        return sum(found), len(found)

    def test_replies_come_after_their_writes_are_synced(self):
        early, total = self.early("always")
        self.assertEqual(early, 0)
        self.assertGreater(total, 20)

    def test_the_recorder_finds_replies_before(self):
        early, _ = self.early("everysec")
        self.assertGreater(early, 0)


if __name__ == "__main__":
    unittest.main()
