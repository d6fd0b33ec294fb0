# SPDX-License-Identifier: Apache-2.0
"""MULTI and EXEC are one step for all others, whatever the policy, and on the disk."""

import os
import random
import tempfile
import threading
import unittest

from server import Client, ReplyError, Server, encode
from waiting import eventually

ACCOUNTS = 5
MONEY = 1000
SEED = int(os.environ.get("RUBATO_SEED", "20261123"))


def replies(client, requests):
    """Of requests sent at once; an error as its text."""
    client.socket.sendall(b"".join(encode(*words) for words in requests))
    answers = []
    for _ in requests:
        try:
            answers.append(client.reply())
        except ReplyError as error:
            answers.append(str(error))
    return answers


def accounts():
    return [f"account{i}" for i in range(ACCOUNTS)]


class Bank(threading.Thread):
    """Moves money between accounts by MULTI, or by WATCH and MULTI; reads all of them in between,
    and remembers sums that are wrong."""

    def __init__(self, port, seed):
        super().__init__()
        self.port = port
        self.rng = random.Random(seed)
        self.stop = threading.Event()
        self.moves = 0
        self.beaten = 0
        self.wrong = []
        self.failure = None

    def run(self):
        try:
            with Client(self.port) as client:
                while not self.stop.is_set():
                    self.rng.choice((self.move, self.move_watched, self.read, self.read_in_one))(
                        client)
        except (OSError, EOFError):
            pass  # killed
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def move(self, client):
        one, other = self.rng.sample(accounts(), 2)
        amount = self.rng.randrange(10)
        answers = replies(client, [("MULTI",), ("DECRBY", one, amount), ("INCRBY", other, amount),
                                   ("EXEC",)])
        if len(answers[-1]) != 2:
            raise AssertionError(answers)
        self.moves += 1

    def move_watched(self, client):
        one, other = self.rng.sample(accounts(), 2)
        client.call("WATCH", one, other)
        left, right = (int(client.call("GET", name)) for name in (one, other))
        done = replies(client, [("MULTI",), ("SET", one, left - 1), ("SET", other, right + 1),
                                ("EXEC",)])[-1]
        self.moves += done is not None
        self.beaten += done is None

    def look(self, values):
        total = sum(int(value) for value in values)
        if total != ACCOUNTS * MONEY:
            self.wrong.append(values)

    def read(self, client):
        self.look(client.call("MGET", *accounts()))

    def read_in_one(self, client):
        gets = [("GET", name) for name in accounts()]
        self.look(replies(client, [("MULTI",), *gets, ("EXEC",)])[-1])


class Transactions(unittest.TestCase):
    def trade(self, server, moves, meanwhile=None):
        """So many moves of four clients; `meanwhile` ends it."""
        banks = [Bank(server.port, SEED + i) for i in range(4)]
        for bank in banks:
            bank.start()
        eventually(lambda: sum(bank.moves for bank in banks) > moves
                   or not any(bank.is_alive() for bank in banks), patience_s=120)
        if meanwhile is not None:
            meanwhile()
        for bank in banks:
            bank.stop.set()
        for bank in banks:
            bank.join()
            self.assertIsNone(bank.failure)
            self.assertEqual(bank.wrong, [])
        return banks

    def check_sum(self, server):
        values = server.call("MGET", *accounts())
        self.assertEqual(sum(int(value) for value in values), ACCOUNTS * MONEY, values)

    def test_money_is_neither_made_nor_lost_under_any_kind_of_policy(self):
        beaten = 0
        for policy, preempt in (("synergy", "signal"), ("darc", "none"), ("steal", "none"),
                                ("sbb", "timer"), ("ps", "checkpoint"), ("fcfs", "none")):
            for engine in ("memory", "rocksdb"):
                with self.subTest(policy=policy, engine=engine), \
                        tempfile.TemporaryDirectory() as folder, \
                        Server("--policy", policy, "--preempt", preempt, "--workers", "3",
                               "--engine", engine, "--dir", folder, "--durability",
                               "async") as server:
                    server.call("MSET", *[word for name in accounts() for word in (name, MONEY)])
                    banks = self.trade(server, 150)
                    beaten += sum(bank.beaten for bank in banks)
                    self.check_sum(server)
        self.assertGreater(beaten, 0)

    def test_over_kill_9_it_is_there_as_a_whole_or_not_at_all(self):
        with tempfile.TemporaryDirectory() as folder:
            for life in range(4):
                with Server("--engine", "rocksdb", "--dir", folder, "--workers", "2") as server:
                    if life == 0:
                        server.call("MSET", *[word for name in accounts()
                                              for word in (name, MONEY)])
                    self.check_sum(server)
                    self.trade(server, 100, server.process.kill)

    def test_what_a_client_library_sends_at_once_is_answered(self):
        with Server() as server, server.client() as client:
            answers = replies(client, [("MULTI",), ("SET", "a", 1), ("INCR", "a"), ("EXEC",)])
            self.assertEqual(answers, [b"OK", b"QUEUED", b"QUEUED", [b"OK", 2]])
            many = [("SET", f"k{i}", "x" * 100) for i in range(1000)]
            answers = replies(client, [("MULTI",), *many, ("MGET", *[k for _, k, _ in many]),
                                       ("EXEC",)])
            self.assertEqual(len(answers[-1]), 1001)
            self.assertEqual(answers[-1][-1], [b"x" * 100] * 1000)

    def test_the_state_ends_with_the_connection(self):
        with Server() as server:
            with server.client() as client:
                client.call("MULTI")
                client.call("SET", "a", 0)
            self.assertEqual(server.call("EXISTS", "a"), 0)


if __name__ == "__main__":
    unittest.main()
