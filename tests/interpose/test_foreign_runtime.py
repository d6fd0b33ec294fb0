# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python under --preempt timer: with foreign_runtime they run on threads as Python
knows them, and are never left half-way."""

import os
import signal
import socket
import subprocess
import sys
import threading
import unittest

HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_host.py")
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
    def test_python_handles_requests_on_threads_of_its_own(self):
        command = [sys.executable, HOST, os.environ["RUBATO_LIBRARY"],
                   os.environ["RUBATO_INCLUDES"], "1"]
        environment = {**os.environ, "LD_PRELOAD": os.environ["RUBATO_INTERPOSE"]}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
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
                errors = server.communicate(timeout=LIMIT_S)[1]
        self.assertEqual((server.returncode, errors), (0, ""))
        answers = [answer for client in clients for answer in client.answers]
        self.assertEqual(len(answers), CLIENTS * REQUESTS)
        for number, answer in answers:
            self.assertEqual(int(answer[0]), expected(number))
        # To the kernel and to Python a worker is one thread.
        threads = {tuple(answer[1:]) for _, answer in answers}
        self.assertLessEqual(len(threads), 2)
        self.assertEqual(len({native for native, _ in threads}), len(threads))


if __name__ == "__main__":
    unittest.main()
