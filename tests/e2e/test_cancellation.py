# SPDX-License-Identifier: Apache-2.0
"""Requests whose reply nobody wants any more: they end early, and a stop does not wait for them."""

import socket
import time
import unittest

from server import Server, encode, reset
from waiting import eventually

LONG_S = 3600  # a test that has to wait for the end of one fails


def counted(server, name):
    return int(server.scheduler()[name])


class Cancellation(unittest.TestCase):
    def busy(self, server, *argv):
        """A client whose request runs."""
        client = server.client()
        server.begin(client, *argv or ("DEBUG", "SLEEP", LONG_S))
        return client

    def check_ended(self, server, policy):
        # Under fcfs the one worker answers once the request has ended; under synergy it may before.
        eventually(lambda: counted(server, "cancelled"))
        server.terminate()
        self.assertEqual(server.wait(), 0, policy)

    def test_a_reset_ends_what_runs(self):
        for policy in ("fcfs", "synergy"):
            with Server("--policy", policy) as server:
                reset(self.busy(server))
                self.check_ended(server, policy)

    def test_client_kill_ends_what_runs(self):
        with Server("--policy", "synergy") as server, self.busy(server) as client:
            address = "%s:%d" % client.socket.getsockname()
            self.assertEqual(server.call("CLIENT", "KILL", address), b"OK")
            with self.assertRaises((EOFError, ConnectionError)):
                client.reply()
            self.check_ended(server, "synergy")

    def test_sigterm_does_not_wait_for_a_client_that_is_gone(self):
        for leave in (reset, lambda client: client.close()):
            with Server("--drain-limit", "3600s") as server:
                leave(self.busy(server))
                server.terminate()
                self.assertEqual(server.wait(), 0)

    def test_sigterm_does_not_wait_for_a_spin_that_nobody_wants(self):
        with Server("--drain-limit", "3600s", program="spin") as server:
            reset(self.busy(server, "SPIN", 10_000_000_000, "LONG"))
            start = time.monotonic()
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertLess(time.monotonic() - start, 8)

    def test_a_close_ends_what_runs_for_long(self):
        with Server("--policy", "synergy") as server:
            self.busy(server).close()
            self.check_ended(server, "synergy")

    def test_a_half_closed_client_gets_all_its_replies(self):
        """Of a pipeline that takes longer, in all, than one request of such a client may."""
        with Server("--half-closed-limit", "1s") as server, server.client() as client:
            client.socket.sendall(encode("DEBUG", "SLEEP", "0.05") * 25)
            client.socket.shutdown(socket.SHUT_WR)
            for _ in range(25):
                self.assertEqual(client.reply(), b"OK")
            self.assertEqual(counted(server, "cancelled"), 0)


if __name__ == "__main__":
    unittest.main()
