# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python and Go under `signal` and `timer`: with foreign_runtime they run on threads as
their runtimes know them, and are never left half-way; nothing of theirs is taken away, as SIGURG,
by which Go interrupts goroutines."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = os.path.join(HERE, "python_host.py")
LIMIT_S = 120
CLIENTS = 4
REQUESTS = 40


def expected(number):
    total = 0
    for i in range(number):
        total = (total * 31 + i) % 1_000_003
    return total


class Client(threading.Thread):
    """Sends numbers, every fourth of them one that takes milliseconds, and keeps the answers."""

    def __init__(self, port, seed):
        super().__init__()
        self.port, self.seed, self.answers = port, seed, []

    def run(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as connection:
            stream = connection.makefile("rw", newline="\n")
            for i in range(REQUESTS):
                number = 40_000 + self.seed if i % 4 == 0 else 10 + i
                stream.write(f"{number}\n")
                stream.flush()
                self.answers.append((number, stream.readline().split()))


class ForeignRuntime(unittest.TestCase):
    def check(self, command, **environment):
        """Clients get the right answers from the server `command`, whose threads are few."""
        with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as server:
            try:
                line = server.stdout.readline()
                self.assertRegex(line, r"^\d+$", line or server.poll())
                clients = [Client(int(line), seed) for seed in range(CLIENTS)]
                for client in clients:
                    client.start()
                for client in clients:
                    client.join(LIMIT_S)
            finally:
                server.send_signal(signal.SIGTERM)
                try:
                    errors = server.communicate(timeout=LIMIT_S)[1]
                except subprocess.TimeoutExpired:
                    server.kill()
                    raise
        self.assertEqual((server.returncode, errors), (0, ""))
        answers = [answer for client in clients for answer in client.answers]
        self.assertEqual(len(answers), CLIENTS * REQUESTS)
        for number, answer in answers:
            self.assertEqual(int(answer[0]), expected(number))
        # To the kernel and to the runtime a worker is one thread.
        threads = {tuple(answer[1:]) for _, answer in answers}
        self.assertLessEqual(len(threads), 2)
        self.assertEqual(len({native for native, _ in threads}), len(threads))

    def test_python_handles_requests_on_threads_of_its_own(self):
        self.check([sys.executable, HOST, os.environ["RUBATO_LIBRARY"],
                    os.environ["RUBATO_INCLUDES"], "1"],
                   LD_PRELOAD=os.environ["RUBATO_INTERPOSE"])

    def test_go_handles_requests_on_threads_of_its_own(self):
        go = shutil.which("go")
        if go is None:
            self.skipTest("there is no go")
        library = os.path.dirname(os.environ["RUBATO_LIBRARY"])
        with tempfile.TemporaryDirectory() as folder:
            host = os.path.join(folder, "go_host")
            subprocess.run(
                [go, "build", "-o", host, os.path.join(HERE, "go_host.go")], check=True,
                env={**os.environ, "GOFLAGS": "", "GOPROXY": "off", "GOTOOLCHAIN": "local",
                     "CGO_CFLAGS": "-I" + os.environ["RUBATO_INCLUDES"],
                     "CGO_LDFLAGS": f"-L{library} -Wl,-rpath,{library} -lrubato"})
            for mechanism in ("signal", "timer"):
                with self.subTest(mechanism):
                    self.check([host, mechanism])


if __name__ == "__main__":
    unittest.main()
