# SPDX-License-Identifier: Apache-2.0
"""What concurrent clients see is what one store would show them, whatever the policy, with requests
that are preempted, a server that is stalled, and kill -9 between."""

import os
import random
import signal
import tempfile
import threading
import time
import unittest

from linearizability import NEVER, Operation, check
from server import Client, Server
from waiting import eventually

CLIENTS = 6
KEYS = 3
SEED = int(os.environ.get("RUBATO_SEED", "20261123"))
ROUNDS = int(os.environ.get("RUBATO_ROUNDS", "1"))


class Checker(unittest.TestCase):
    """What the checker accepts and what not."""

    def verdict(self, *rows):
        return check([Operation(name, "k", argument, called, replied, result)
                      for name, argument, result, called, replied in rows]).holds

    def test_a_read_during_a_write_may_see_either(self):
        write = ("set", b"1", b"OK", 0, 10)
        self.assertTrue(self.verdict(write, ("get", None, None, 1, 2), ("get", None, b"1", 3, 4)))
        self.assertTrue(self.verdict(write, ("get", None, b"1", 1, 2), ("get", None, b"1", 3, 4)))
        self.assertFalse(self.verdict(write, ("get", None, b"1", 1, 2), ("get", None, None, 3, 4)))

    def test_a_stale_read_is_found(self):
        self.assertFalse(self.verdict(("set", b"1", b"OK", 0, 1), ("set", b"2", b"OK", 2, 3),
                                      ("get", None, b"1", 4, 5)))

    def test_a_lost_update_is_found(self):
        self.assertFalse(self.verdict(("incr", None, 1, 0, 3), ("incr", None, 1, 1, 4)))
        self.assertTrue(self.verdict(("incr", None, 1, 0, 3), ("incr", None, 2, 1, 4)))

    def test_what_was_not_answered_may_be_done_at_any_time_later_or_never(self):
        lost = ("set", b"1", None, 0, NEVER)
        for seen in (None, b"1"):
            self.assertTrue(self.verdict(lost, ("get", None, seen, 5, 6)))
        self.assertTrue(self.verdict(lost, ("get", None, None, 5, 6), ("get", None, b"1", 7, 8)))
        self.assertFalse(self.verdict(lost, ("get", None, b"1", 5, 6), ("get", None, None, 7, 8)))

    def test_two_that_exclude_each_other_are_found(self):
        rows = [("setnx", b"a", 1, 0, 5), ("setnx", b"b", 1, 1, 6)]
        self.assertFalse(self.verdict(*rows))
        rows[1] = ("setnx", b"b", 0, 1, 6)
        self.assertTrue(self.verdict(*rows))
        self.assertFalse(self.verdict(*rows, ("del", None, 0, 7, 8)))


class Recorder(threading.Thread):
    """A client that calls at random, and remembers what and when."""

    def __init__(self, number, seed):
        super().__init__()
        self.number = number
        self.rng = random.Random(seed)
        self.history = []
        self.port = None
        self.stop = threading.Event()
        self.failure = None

    def words(self, operation):
        more = () if operation.argument is None else (operation.argument,)
        return (operation.name, operation.key, *more)

    def next(self):
        name = self.rng.choice(("get", "get", "set", "getset", "setnx", "del", "append"))
        key = f"key{self.rng.randrange(KEYS)}"
        argument = None
        if name not in ("get", "del"):
            argument = f"{self.number}.{len(self.history)};".encode()
        if self.rng.random() < 0.2:
            name, key, argument = "incr", "count", None
        return Operation(name, key, argument, 0, client=self.number)

    def run(self):
        try:
            with Client(self.port) as client:
                while not self.stop.is_set():
                    operation = self.next()
                    operation.called = time.monotonic()
                    self.history.append(operation)
                    result = client.call(*self.words(operation))
                    operation.replied = time.monotonic()
                    operation.result = result
        except (OSError, EOFError):
            pass  # the server was killed: what was called last has no reply
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure


class Histories(unittest.TestCase):
    def record(self, server, count, seed, meanwhile=None):
        """Of so many operations; `meanwhile` is called when half of them are through."""
        recorders = [Recorder(i, seed * 100 + i) for i in range(CLIENTS)]
        for recorder in recorders:
            recorder.port = server.port
            recorder.start()

        def through():
            return sum(len(recorder.history) for recorder in recorders)

        if meanwhile is not None:
            eventually(through, lambda calls: calls > count / 2, patience_s=120)
            meanwhile()
        eventually(lambda: through() > count or not any(r.is_alive() for r in recorders),
                   patience_s=120)
        for recorder in recorders:
            recorder.stop.set()
        for recorder in recorders:
            recorder.join()
            self.assertIsNone(recorder.failure)
        return [operation for recorder in recorders for operation in recorder.history]

    def judge(self, history, what):
        verdict = check(history)
        self.assertTrue(verdict.holds,
                        f"{what}, RUBATO_SEED={SEED}: {verdict.operation} cannot be, as the value "
                        f"was one of {verdict.states}")
        self.assertGreater(len(history), 500)

    def test_under_every_kind_of_policy_with_interrupted_requests(self):
        for policy, preempt in (("synergy", "signal"), ("sbb", "timer"), ("steal", "none"),
                                ("darc", "none"), ("ps", "checkpoint"), ("altocumulus", "none")):
            with self.subTest(policy), Server("--policy", policy, "--preempt", preempt,
                                              "--workers", "3") as server:
                stop = threading.Event()
                long = threading.Thread(target=self.scan, args=(server, stop))
                long.start()
                try:
                    history = self.record(server, 1200, SEED)
                finally:
                    stop.set()
                    long.join()
                self.judge(history, policy)

    @staticmethod
    def scan(server, stop):
        """Long requests beside the others."""
        with server.client() as client:
            for i in range(2000):
                client.send("SET", f"filler{i}", b"x" * 100)
            for _ in range(2000):
                client.reply()
            while not stop.is_set():
                client.call("KEYS", "*")

    def test_over_kill_9_and_stalls_with_what_was_synced(self):
        rng = random.Random(SEED)
        for engine in ("sync", "async") * ROUNDS:
            history = []
            with self.subTest(engine), tempfile.TemporaryDirectory() as folder:
                for life in range(3):
                    with Server("--engine", "rocksdb", "--dir", folder, "--durability", engine,
                                "--workers", "2", "--preempt", "signal") as server:
                        def stall(process=server.process):
                            process.send_signal(signal.SIGSTOP)
                            eventually(lambda: self.is_stopped(process.pid))
                            process.send_signal(signal.SIGCONT)
                            if rng.random() < 0.7:
                                process.kill()
                        history += self.record(server, 800, SEED + life, stall)
                self.judge(history, engine)

    @staticmethod
    def is_stopped(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "Tt"


if __name__ == "__main__":
    unittest.main()
