# SPDX-License-Identifier: Apache-2.0
"""MULTI is refused, and nothing of what a client sends with it is run."""

import tempfile
import unittest

from server import ReplyError, Server, encode

PIPELINE = [("MULTI",), ("SET", "tx", 1), ("INCR", "tx"), ("EXEC",)]


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


def client_library(client, commands):
    """What redis-py's Pipeline.execute() does: raises the first error where EXEC was aborted."""
    answers = replies(client, [("MULTI",), *commands, ("EXEC",)])
    if str(answers[-1]).startswith("EXECABORT"):
        raise ReplyError(next(a for a in answers if isinstance(a, str)))
    return answers[-1]


class Transactions(unittest.TestCase):
    def test_a_refused_transaction_leaves_nothing_behind(self):
        for engine in ("memory", "rocksdb"):
            with self.subTest(engine), tempfile.TemporaryDirectory() as folder, \
                    Server("--engine", engine, "--dir", folder) as server, \
                    server.client() as client:
                multi, *commands, aborted = replies(client, PIPELINE)
                self.assertIn("ERR MULTI is refused", multi)
                for answer in commands:
                    self.assertIn("ERR not run", answer)
                self.assertTrue(aborted.startswith("EXECABORT Transaction discarded"), aborted)
                self.assertEqual(client.call("EXISTS", "tx"), 0)
                self.assertEqual(client.call("SET", "tx", 1), b"OK")

    def test_a_client_library_raises_one_clear_error(self):
        with Server() as server, server.client() as client:
            with self.assertRaisesRegex(ReplyError, "no transactions"):
                client_library(client, [("SET", "a", 1), ("GET", "a")])
            self.assertEqual(client.call("DBSIZE"), 0)
            self.assertEqual(client.call("INCR", "a"), 1)

    def test_the_state_ends_with_the_connection(self):
        with Server() as server:
            with server.client() as client:
                client.send("MULTI")
                with self.assertRaises(ReplyError):
                    client.reply()
            self.assertEqual(server.call("SET", "a", 1), b"OK")


if __name__ == "__main__":
    unittest.main()
