# SPDX-License-Identifier: Apache-2.0
"""GETs beside KEYS: the client that sends KEYS, and what is told of it."""

import socket
import threading
import unittest

from rubato_lab import html_report, keys_beside, table
from test_telling import demo_record

BESIDE = [keys_beside.Beside("fcfs", 150.0, 60.0, 2400.0, 5000.0, 9000.0, 8),
          keys_beside.Beside("redis", 140.0, 55.0, 35000.0, None, 40000.0, 8)]


def array(count):
    return b"*%d\r\n" % count + b"".join(b"$5\r\nkey:%d\r\n" % (i % 10) for i in range(count))


class Answering:
    """Answers each KEYS by the next of `replies`, in two pieces; the last one for ever."""

    def __init__(self, *replies):
        self.replies = replies
        self.asked = threading.Semaphore(0)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        link, _ = self.listener.accept()
        with link:
            served = 0
            while link.recv(1000):
                reply = self.replies[min(served, len(self.replies) - 1)]
                link.sendall(reply[:len(reply) // 2])
                link.sendall(reply[len(reply) // 2:])
                served += 1
                self.asked.release()


class Client(unittest.TestCase):
    def ask(self, times, *replies):
        server = Answering(*replies)
        self.addCleanup(server.listener.close)
        client = keys_beside.KeysClient(server.port, None)
        client.start()
        for _ in range(times):
            self.assertTrue(server.asked.acquire(timeout=10))
        client.stop()
        return client

    def test_it_reads_each_reply_whole_before_it_asks_again(self):
        client = self.ask(2, array(30_000), b"*0\r\n")
        self.assertEqual(client.trouble, "")
        self.assertGreaterEqual(len(client.took_us), 2)

    def test_an_error_is_a_reply_of_one_line(self):
        self.assertEqual(self.ask(1, b"-ERR no\r\n").trouble, "")

    def test_a_server_that_is_not_there_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        client = keys_beside.KeysClient(port, None)
        client.start()
        client.stop()
        self.assertTrue(client.trouble)
        self.assertEqual(client.took_us, [])


class Told(unittest.TestCase):
    def test_every_server_has_a_line(self):
        lines = table.beside_lines(BESIDE, 100_000)
        self.assertIn("100 000 keys", lines[0])
        self.assertRegex(lines[2], r"^  fcfs +150 µs +2.4 ms +5 ms +9 ms$")
        self.assertRegex(lines[3], r"^  redis +140 µs +35 ms +- +40 ms$")

    def test_nothing_measured_is_nothing_told(self):
        self.assertEqual(table.beside_lines([], 1), [])
        self.assertNotIn("beside KEYS", html_report.page_of(demo_record()).body())

    def test_the_report_has_it_first(self):
        record = demo_record()
        record.settings["keys"] = 100_000
        record.beside = BESIDE
        page = html_report.page_of(record).body()
        self.assertLess(page.index("35 ms"), page.index("<figure"))


if __name__ == "__main__":
    unittest.main()
