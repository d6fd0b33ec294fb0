# SPDX-License-Identifier: Apache-2.0
"""The Python client's rules, most of them without sockets; and the example of docs/RPC.md."""

import pathlib
import random
import socket
import threading
import unittest

import rubato_rpc as rpc

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/RPC.md"
KINDS = {"hello": rpc.HELLO, "request": rpc.REQUEST, "demand": rpc.DEMAND, "goodbye": rpc.GOODBYE,
         "welcome": rpc.WELCOME, "response": rpc.RESPONSE, "credit": rpc.CREDIT,
         "refusal": rpc.REFUSED, "error": rpc.ERROR, "ranked": rpc.RANKED, "probe": rpc.PROBE,
         "load": rpc.LOADED, "level": rpc.LEVEL}


class Page(unittest.TestCase):
    def test_the_example_is_what_is_sent(self):
        block = PAGE.read_text(encoding="utf-8").split("<!-- frames -->")[1].split("```")[1]
        lines = [line.split() for line in block.strip().splitlines()]
        self.assertEqual(len(lines), 15)
        for _, name, *words in lines:
            data = bytes.fromhex("".join(words))
            frame, length = rpc.decode(data)
            self.assertEqual((frame.kind, length), (KINDS[name], len(data)))
            self.assertEqual(rpc.encode(*frame), data)


class Rules(unittest.TestCase):
    def setUp(self):
        self.ends = {}

    def session(self, **options):
        def ended(tag, outcome):
            self.ends.setdefault(tag, []).append(outcome)
        return rpc.Session(ended, **options)

    def sent(self, session, now=0.0):
        frames = []
        while (data := session.next_frame(now)) is not None:
            frames.append(rpc.decode(data)[0])
        return frames

    def open_without_credit(self, session):
        """It has had its first request, too."""
        session.submit("first", b"x", 0)
        first, = self.sent(session)
        self.hear(session, rpc.WELCOME, 1)
        self.hear(session, rpc.REFUSED, 0, first.id, rpc.REFUSAL.pack(1, 0, 0, 0))

    def hear(self, session, kind, amount, request_id=0, body=b"", now=0.0):
        session.receive(rpc.encode(kind, 1, amount, request_id, body), now)

    def test_the_first_request_goes_with_the_hello(self):
        session = self.session()
        session.submit("a", b"A", 0)
        session.submit("b", b"B", 0)
        hello, = self.sent(session)
        self.assertEqual((hello.kind, hello.body, hello.amount), (rpc.HELLO, b"A", 1))
        self.hear(session, rpc.WELCOME, 1)
        self.assertEqual(self.sent(session), [])
        self.hear(session, rpc.RESPONSE, 1, hello.id, b"reply")
        self.assertEqual(self.ends["a"], [b"reply"])
        self.assertEqual(len(self.sent(session)), 1)

    def test_the_first_request_of_a_session_needs_no_credit(self):
        session = self.session()
        self.sent(session)
        self.hear(session, rpc.WELCOME, 0)
        session.submit("a", b"x", 0)
        session.submit("b", b"x", 0)
        first, = self.sent(session)
        self.assertEqual((first.kind, first.amount), (rpc.REQUEST, 1))
        self.hear(session, rpc.RESPONSE, 0, first.id)
        self.assertEqual(self.sent(session), [])  # that there is another, the first has said
        session.lost()
        self.assertEqual([f.kind for f in self.sent(session)], [rpc.HELLO])

    def test_a_request_with_a_rank_goes_behind_the_hello(self):
        session = self.session()
        session.submit("a", b"ping", 0, (2, 5))
        hello, = self.sent(session)
        self.assertEqual((hello.kind, hello.id), (rpc.HELLO, 0))
        self.hear(session, rpc.WELCOME, 0)
        ranked, = self.sent(session)
        self.assertEqual((ranked.kind, ranked.body), (rpc.RANKED, b"\x02\x05\0\0ping"))

    def test_what_the_server_refuses_by_its_level_is_not_sent(self):
        session = self.session(expire_s=0)
        self.open_without_credit(session)
        self.hear(session, rpc.CREDIT, 10)
        self.hear(session, rpc.LEVEL, 192, now=1.0)
        session.submit("over", b"x", 1.0, (1, 64))
        session.submit("under", b"x", 1.0, (1, 63))
        self.assertEqual(len(self.sent(session, 1.0)), 1)
        self.assertIsInstance(self.ends["over"][0], rpc.Withheld)
        session.submit("asks", b"x", 2.1, (7, 0))
        session.submit("another", b"x", 2.1, (7, 0))
        self.assertEqual(len(self.sent(session, 2.1)), 1, "one asks whether it is still so")
        self.assertNotIn("asks", self.ends)
        self.hear(session, rpc.LEVEL, rpc.LEVELS, now=2.2)
        session.submit("all", b"x", 2.2, (7, 127))
        self.assertEqual(len(self.sent(session, 2.2)), 1)

    def test_a_probe_brings_the_load_of_its_id(self):
        session = self.session()
        self.assertIsNone(session.probe("early", 0))
        self.open_without_credit(session)
        one = rpc.decode(session.probe("one", 0))[0]
        two = rpc.decode(session.probe("two", 0))[0]
        self.hear(session, rpc.LOADED, 3, two.id, rpc.LOAD.pack(250, 0))
        self.assertEqual(self.ends["two"], [rpc.Load(3, 250e-6)])
        self.assertEqual(session.credit, 0, "a load is no credit")
        session.poll(2.0)
        self.assertIsInstance(self.ends["one"][0], rpc.Lost)
        self.assertNotEqual(one.id, two.id)

    def test_a_user_has_a_cohort_and_a_priority_its_range(self):
        self.assertEqual(rpc.rank_of(3, "ann"), rpc.rank_of(3, "ann"))
        self.assertLess(rpc.rank_of(3)[1], rpc.COHORTS)
        for wrong in (-1, 8):
            with self.assertRaises(ValueError):
                rpc.rank_of(wrong)

    def test_no_more_is_unanswered_than_the_credit(self):
        session = self.session()
        self.sent(session)
        self.hear(session, rpc.WELCOME, 3)
        for tag in range(10):
            session.submit(tag, b"x", 0)
        self.assertEqual([f.amount for f in self.sent(session)], [9, 8, 7])

    def test_unsent_requests_say_why(self):
        session = self.session(queue=2, expire_s=1.0)
        self.open_without_credit(session)
        for tag in "abc":
            session.submit(tag, b"x", 0)
        self.assertIsInstance(self.ends["a"][0], rpc.Overflowed)
        session.poll(1.5)
        self.assertIsInstance(self.ends["b"][0], rpc.Expired)
        self.assertIsInstance(self.ends["c"][0], rpc.Expired)

    def test_demand_is_said_once_and_taken_back(self):
        session = self.session(expire_s=1.0)
        self.open_without_credit(session)
        session.submit("a", b"x", 0)
        self.assertEqual([(f.kind, f.amount) for f in self.sent(session)], [(rpc.DEMAND, 1)])
        self.assertEqual(self.sent(session), [])
        self.assertEqual([(f.kind, f.amount) for f in self.sent(session, 2.0)], [(rpc.DEMAND, 0)])

    def test_demand_is_said_though_a_request_is_unanswered(self):
        session = self.session()
        session.submit("a", b"long", 0)
        self.sent(session)
        self.hear(session, rpc.WELCOME, 1)
        session.submit("b", b"x", 0)
        self.assertEqual([(f.kind, f.amount) for f in self.sent(session)], [(rpc.DEMAND, 1)])
        session.submit("c", b"x", 0)
        self.assertEqual(self.sent(session), [])

    def test_rejected_failed_and_lost(self):
        session = self.session(answer_within_s=1.0)
        self.sent(session)
        self.hear(session, rpc.WELCOME, 3)
        for tag in "abc":
            session.submit(tag, b"x", 0)
        a, b, _ = self.sent(session)
        self.hear(session, rpc.REFUSED, 2, a.id, rpc.REFUSAL.pack(1, 2, 0, 500))
        self.hear(session, rpc.ERROR, 9, b.id, b"no")
        session.poll(2.0)
        self.assertIsInstance(self.ends["a"][0], rpc.Refused)
        self.assertEqual((self.ends["a"][0].of_class, self.ends["a"][0].retry_after_s), (2, 0.0005))
        self.assertIsInstance(self.ends["b"][0], rpc.Failed)
        self.assertIsInstance(self.ends["c"][0], rpc.Lost)
        self.assertEqual(session.credit, 2)

    def test_an_error_without_id_ends_the_session(self):
        session = self.session()
        with self.assertRaises(rpc.ProtocolError):
            self.hear(session, rpc.ERROR, 8, 0, b"full")

    def test_whatever_comes_every_request_ends_once(self):
        dice = random.Random(1)
        for _ in range(300):
            self.ends.clear()
            session, now, tags = self.session(), 0.0, 0
            for _ in range(30):
                now += dice.random() * 0.004
                session.submit(tags, b"x", now)
                tags += 1
                self.sent(session, now)
                data = bytearray(rpc.encode(0x81 + dice.randrange(5), 1, dice.randrange(5),
                                            dice.randrange(3), b"12345678"))
                if dice.randrange(4) == 0:
                    data[dice.randrange(len(data))] = dice.randrange(256)
                try:
                    session.receive(data, now)
                except rpc.ProtocolError:
                    session.lost()
            session.lost()
            queued = {queued[0] for queued in session.queue}
            for tag in range(tags):
                self.assertEqual(len(self.ends.get(tag, [])), 0 if tag in queued else 1)


class Sockets(unittest.TestCase):
    def test_a_server_that_cannot_be_reached_holds_nobody_up(self):
        """Connecting again takes until the end of the test; requests end by their own limits."""
        reachable = threading.Event()

        def connect():
            reachable.wait(60)
            raise OSError("no route")

        with socket.create_server(("127.0.0.1", 0)) as server:
            with rpc.Client(*server.getsockname(), expire_s=0.01) as client:
                connection, _ = server.accept()
                client._connect = connect
                connection.close()
                self.assertIsInstance(client.submit(b"x").exception(30), rpc.RequestError)
                for _ in range(3):
                    self.assertIsInstance(client.submit(b"x").exception(30), rpc.Expired)
            # It has closed, too, while that goes on.
            self.assertFalse(reachable.is_set())
        reachable.set()

    def test_a_client_connects_again_to_a_server_that_came_back(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            with rpc.Client(*server.getsockname(), expire_s=30) as client:
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as stream:
                    stream.read(rpc.HEADER.size)  # a hello without a request
                future = client.submit(b"ping")
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as stream:
                    frame, _ = rpc.decode(stream.read(rpc.HEADER.size + 4))
                    self.assertEqual((frame.kind, frame.body), (rpc.HELLO, b"ping"))
                    connection.sendall(rpc.encode(rpc.WELCOME, 1, 1)
                                       + rpc.encode(rpc.RESPONSE, 1, 1, frame.id, b"pong"))
                    self.assertEqual(future.result(30), b"pong")

    def test_a_command_is_an_array_of_bulk_strings(self):
        self.assertEqual(rpc.command("SET", b"k\0", 7),
                         b"*3\r\n$3\r\nSET\r\n$2\r\nk\0\r\n$1\r\n7\r\n")

    def test_what_cannot_be_sent_is_refused_where_it_is_submitted(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            with rpc.Client(*server.getsockname()) as client:
                for body in ("text", 5, None):
                    with self.assertRaises(TypeError):
                        client.submit(body)
                with self.assertRaises(ValueError):
                    client.submit(bytes(rpc.MAX_BODY + 1))
                self.assertIsNotNone(client.submit(bytearray(b"bytes")))


if __name__ == "__main__":
    unittest.main()
