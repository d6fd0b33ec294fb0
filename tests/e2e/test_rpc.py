# SPDX-License-Identifier: Apache-2.0
"""Rubato RPC end to end: good clients, overload, and clients that break the rules."""

import json
import os
import random
import re
import socket
import struct
import subprocess
import unittest
import urllib.request

from rpc_wire import PATIENT, SESSION, frames, hello, patient_client, rpc
from server import BINARY, PATIENCE_S, Server, refused, status_of_load
from waiting import eventually, sends_until_stuck

OVER_CREDIT = 4  # the reason of a reject


class RpcServer(Server):
    def __init__(self, *args, transport="tcp"):
        self.udp = transport == "udp"
        super().__init__("--rpc", transport, "--metrics-port", "0", *args, program="spin")
        self.metrics_port = int(self.wait_for(r"metrics on \S+:(\d+)/"))

    def good_client(self, **options):
        return patient_client(self.port, udp=self.udp, **options)

    def raw(self, source="127.0.0.1"):
        kind = socket.SOCK_DGRAM if self.udp else socket.SOCK_STREAM
        connection = socket.socket(socket.AF_INET, kind)
        connection.settimeout(PATIENCE_S)
        connection.bind((source, 0))
        connection.connect(("127.0.0.1", self.port))
        return connection

    def token(self, connection):
        """What a client sends before each frame."""
        if not self.udp:
            return b""
        connection.sendall(bytes(rpc.TOKEN_BYTES) + hello())
        answer = frames(connection, 1)[0]
        assert answer.kind == rpc.TOKEN, answer
        return answer.id.to_bytes(rpc.TOKEN_BYTES, "big")

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics",
                                    timeout=PATIENCE_S) as reply:
            text = reply.read().decode()
        return {name: float(value) for name, value in
                re.findall(r"^(rubato_rpc_\S+) (\S+)$", text, re.MULTILINE)}

    def wait_until(self, done):
        return eventually(self.metrics, done)

    def load(self, *args):
        scheme = "rpc+udp" if self.udp else "rpc"
        done = subprocess.run(
            [BINARY, "load", "--target", f"{scheme}://127.0.0.1:{self.port}", "--json", "-", *args],
            capture_output=True, text=True, timeout=60, check=False)
        if status_of_load(done) != 0:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout), done.stderr


def request(request_id, body=b"1000", demand=0, session=SESSION):
    return rpc.encode(rpc.REQUEST, session, demand, request_id, body)


class Case(unittest.TestCase):
    def serve(self, *args, **kwargs):
        server = RpcServer(*(args or PATIENT), **kwargs)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def check_alive(self, server):
        with server.good_client() as client:
            self.assertEqual(client.call(b"1000"), b"OK")

    def check_books_even(self, server):
        """Nobody is there any more: nothing is issued, and nothing leaked."""
        metrics = server.wait_until(lambda m: m["rubato_rpc_sessions"] == 0)
        for kind in ("issued", "pending"):
            self.assertEqual(metrics[f'rubato_rpc_credits{{kind="{kind}"}}'], 0)
        self.assertEqual(metrics["rubato_rpc_drained_sessions"], 0)


class Good(Case):
    def check_calls(self, transport):
        server = self.serve("--workers", "2", *PATIENT, transport=transport)
        with server.good_client() as client:
            for _ in range(100):
                self.assertEqual(client.call(b"1000 SHORT"), b"OK")
            self.assertGreaterEqual(client.credit, 1)
            with self.assertRaises(rpc.Failed):
                client.call(b"nonsense")
            self.assertEqual(client.call(b"1000 LONG"), b"OK")
        metrics = server.wait_until(lambda m: m["rubato_rpc_sessions"] == 0)
        self.assertEqual(metrics["rubato_rpc_served_total"], 102)
        self.check_books_even(server)

    def test_calls_are_answered_over_tcp(self):
        self.check_calls("tcp")

    def test_calls_are_answered_over_udp(self):
        self.check_calls("udp")

    def check_overtaking(self, transport):
        server = self.serve("--workers", "1", "--policy", "synergy", "--credits-set", "alpha=1",
                            *PATIENT, transport=transport)
        with server.good_client() as client:
            for _ in range(10):  # until there is more than one credit
                self.assertEqual(client.call(b"1000 SHORT"), b"OK")
            long = client.submit(b"500000000 LONG")
            server.wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] == 1)
            for _ in range(10):
                self.assertEqual(client.call(b"1000 SHORT"), b"OK")
            self.assertFalse(long.done())
            self.assertEqual(long.result(PATIENCE_S), b"OK")
        self.check_books_even(server)

    def test_a_short_request_overtakes_a_long_one_of_its_session_over_tcp(self):
        self.check_overtaking("tcp")

    def test_a_short_request_overtakes_a_long_one_of_its_session_over_udp(self):
        self.check_overtaking("udp")

    def test_many_requests_of_one_session_all_end(self):
        server = self.serve()
        with server.good_client(queue=1000) as client:
            futures = [client.submit(b"100000") for _ in range(300)]
            self.assertEqual([f.result(PATIENCE_S) for f in futures], [b"OK"] * 300)

    def test_a_full_queue_is_shed_by_the_client_and_told_apart(self):
        server = self.serve()
        with server.good_client(queue=4) as client:
            futures = [client.submit(b"5000000") for _ in range(50)]
            for future in futures:
                try:
                    future.result(PATIENCE_S)
                except rpc.Unsent:
                    pass
            self.assertGreater(client.counts["Overflowed"], 0)
            self.assertEqual(client.counts["Overflowed"] + client.counts["Reply"], 50)
        self.assertEqual(server.metrics()["rubato_rpc_served_total"], client.counts["Reply"])

    def test_a_client_gives_up_what_waits_for_too_long(self):
        server = self.serve()
        with server.good_client(expire_s=0.05, queue=100) as client:
            # One slow request, and as many behind it as there are credits, hold the others up.
            futures = [client.submit(b"300000000") for _ in range(20)]
            ends = [type(f.exception(PATIENCE_S)) for f in futures]
        self.assertIn(rpc.Expired, ends)
        self.assertIs(ends[0], type(None))

    def test_a_server_that_goes_away_loses_what_was_sent(self):
        server = self.serve()
        with server.good_client() as client:
            self.assertEqual(client.call(b"1000"), b"OK")
            future = client.submit(b"9000000000")
            server.wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] == 1)
            server.process.kill()
            self.assertIsInstance(future.exception(PATIENCE_S), rpc.Lost)

    def test_terminate_answers_what_is_in_flight(self):
        server = self.serve()
        with server.good_client() as client:
            client.call(b"1000")
            future = client.submit(b"300000000")
            server.wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] == 1)
            server.terminate()
            self.assertEqual(future.result(PATIENCE_S), b"OK")
        self.assertEqual(server.wait(), 0)

    def test_options_that_do_not_fit_are_refused(self):
        for args in (("serve", "spin", "--rpc", "sctp"),
                     ("serve", "spin", "--rpc", "tcp", "--overload", "aqm"),
                     ("serve", "spin", "--rpc", "tcp", "--target-delay", "0"),
                     ("serve", "spin", "--sessions-per-address", "1"),
                     ("serve", "spin", "--rpc", "tcp", "--sessions-per-address", "-1"),
                     ("serve", "kv", "--sessions-per-address", "1"),
                     ("load", "--target", "rpc://127.0.0.1:1", "--load-keys"),
                     ("load", "--target", "rpc://127.0.0.1:1", "--mix", "get:1"),
                     ("load", "--target", "spin://127.0.0.1:1", "--rpc-queue", "3"),
                     ("load", "--target", "rpc://127.0.0.1:1", "--rpc-queue", "0"),
                     ("load", "--target", "tcp://127.0.0.1:1")):
            status, text = refused(*args)
            self.assertEqual(status, 2, (args, text))


class Overload(Case):
    """More than can be served: what is not served is refused or stays unsent, and counted."""

    def check_overload(self, transport):
        server = self.serve(transport=transport)
        # A request takes 2 ms of the one worker at least, so 2 000 per second are four times what
        # it can do on the fastest machine.
        report, table = server.load("--workload", "w:2ms:100",
                                    "--rate", "2000", "--flows", "50", "--duration", "2",
                                    "--timeout", "10")
        unsent = report["unsent"]["expired"] + report["unsent"]["overflowed"]
        replies = sum(t["count"] for t in report["types"])
        self.assertGreater(replies, 0)
        self.assertGreater(unsent, 0)
        self.assertEqual(report["errors"], 0)
        self.assertIn("never sent by the clients", table)
        self.assertEqual(report["requests"],
                         replies + unsent + report["refused"] + report["lost"]
                         + report["send_lag_us"]["unsent"])
        self.check_alive(server)

    def test_over_tcp(self):
        self.check_overload("tcp")

    def test_over_udp(self):
        self.check_overload("udp")

    def test_requests_that_wait_too_long_are_refused_with_reason_and_time(self):
        server = self.serve("--target-delay", "1ms", "--classify", "feedback")
        with server.raw() as slow, server.raw() as late:
            late.sendall(hello())
            self.assertEqual(frames(late, 1)[0].kind, rpc.WELCOME)
            slow.sendall(hello() + request(1, b"3000000000 SHORT"))
            server.wait_until(lambda m: m['rubato_rpc_credits{kind="pending"}'] == 1)
            late.sendall(request(1))
            unread = bytearray()
            answer = frames(late, 1, unread)[0]
            self.assertEqual((answer.kind, answer.amount), (rpc.REFUSED, 0))
            reason, of_class, _, retry_us = rpc.REFUSAL.unpack(answer.body)
            self.assertEqual((reason, of_class), (1, 1))
            self.assertGreater(retry_us, 0)
            # It is told by itself once there is a credit again.
            credit = frames(late, 1, unread)[0]
            self.assertEqual(credit.kind, rpc.CREDIT)
            self.assertGreaterEqual(credit.amount, 1)
            late.sendall(request(2))
            self.assertEqual(frames(late, 1)[0].kind, rpc.RESPONSE)
        metrics = server.metrics()
        self.assertEqual(metrics['rubato_rpc_refused_total{reason="overloaded"}'], 1)
        self.assertGreaterEqual(metrics["rubato_rpc_pushed_credits_total"], 1)


class Hostile(Case):
    def test_connects_and_closes_before_hello(self):
        server = self.serve()
        for _ in range(200):
            server.raw().close()
        self.check_alive(server)
        self.check_books_even(server)

    def test_a_demand_after_a_demand(self):
        server = self.serve()
        with server.raw() as connection:
            connection.sendall(hello(demand=5))
            for demand in (3, 0, 0xffffffff, 7):
                connection.sendall(rpc.encode(rpc.DEMAND, SESSION, demand))
            kinds = [frame.kind for frame in frames(connection, 5)]
            self.assertEqual(kinds, [rpc.WELCOME] + [rpc.CREDIT] * 4)
        self.check_alive(server)
        self.check_books_even(server)

    def test_dies_in_the_middle_of_requests(self):
        server = self.serve()
        for i in range(100):
            connection = server.raw()
            connection.sendall(hello() + request(1, b"1000000") + request(2)[:10 + i % 20])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self.check_alive(server)
        self.check_books_even(server)

    def test_one_that_lies_about_its_demand_does_not_keep_others_out(self):
        server = self.serve()
        with server.raw() as liar, server.good_client() as client:
            liar.sendall(hello(demand=0xffffffff))
            self.assertEqual(frames(liar, 1)[0].kind, rpc.WELCOME)
            for i in range(1, 200):
                liar.sendall(request(i, demand=0xffffffff))
                frame = frames(liar, 1)[0]
                self.assertLessEqual(frame.amount, 63)
                self.assertEqual(client.call(b"1000"), b"OK")

    def test_one_that_sends_without_credit_harms_only_itself(self):
        server = self.serve()
        with server.raw() as flood, server.good_client() as client:
            flood.sendall(hello() + b"".join(request(i, b"100000") for i in range(1, 3000)))
            for _ in range(100):
                self.assertEqual(client.call(b"1000"), b"OK")
            answers = frames(flood, 3000)[1:]
        self.assertEqual(sorted(a.id for a in answers), list(range(1, 3000)))
        over = [a for a in answers if a.kind == rpc.REFUSED]
        self.assertEqual({rpc.REFUSAL.unpack(a.body)[0] for a in over}, {OVER_CREDIT})

    def test_one_that_never_reads_stops_only_itself(self):
        server = self.serve()
        before = server.resident_kib()
        with socket.socket() as deaf, server.good_client() as client:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.port))
            deaf.setblocking(False)
            deaf.send(hello())
            batch = b"".join(rpc.encode(rpc.DEMAND, SESSION, i % 5) for i in range(1000))
            for _ in sends_until_stuck(deaf, batch, 64 << 20):
                self.assertEqual(client.call(b"1000"), b"OK")
            self.assertLess(server.resident_kib() - before, 32 * 1024)
        self.check_alive(server)

    def test_frames_that_are_the_servers_to_send(self):
        server = self.serve()
        for kind in (rpc.WELCOME, rpc.RESPONSE, rpc.CREDIT, rpc.REFUSED, rpc.ERROR):
            with server.raw() as connection:
                connection.sendall(hello() + rpc.encode(kind, SESSION, 60, 1, b""))
                answers = frames(connection, 9)
                self.assertEqual([a.kind for a in answers], [rpc.WELCOME, rpc.ERROR])
                self.assertEqual(answers[1].amount, 3)
        self.assertEqual(server.metrics()["rubato_rpc_faults_total"], 5)
        self.check_books_even(server)

    def test_other_protocols_are_told_so_and_closed(self):
        server = self.serve()
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n", b"RB\x02\x01", b"\x00",
                     rpc.encode(rpc.REQUEST, SESSION, 0, 1, b"1000"),
                     hello()[:4] + b"\xff\xff\xff\xff"):
            with server.raw() as connection:
                connection.sendall(data)
                answers = frames(connection, 9)
                self.assertEqual([a.kind for a in answers], [rpc.ERROR], data)
                self.assertTrue(answers[0].body)
        self.check_alive(server)

    def test_random_bytes(self):
        seed = int(os.environ.get("RUBATO_SEED", "20261121"))
        print(f"seed {seed} (RUBATO_SEED replays)")
        rng = random.Random(seed)
        for transport in ("tcp", "udp"):
            server = self.serve(transport=transport)
            for _ in range(300):
                parts = [bytearray(f) for f in (hello(), request(1), request(2, b"x" * 40),
                                                rpc.encode(rpc.DEMAND, SESSION, 3))]
                for _ in range(rng.randrange(1, 6)):
                    part = rng.choice(parts)
                    part[rng.randrange(len(part))] = rng.randrange(256)
                with server.raw() as connection:
                    token = server.token(connection)
                    try:
                        if transport == "udp":
                            for part in parts:
                                connection.send(token + part)
                        else:
                            connection.sendall(b"".join(parts))
                    except OSError:
                        pass  # closed already
            self.check_alive(server)
            if transport == "tcp":
                self.check_books_even(server)

    def test_ten_thousand_idle_sessions_change_nothing_for_the_others(self):
        count = int(os.environ.get("RUBATO_RPC_SESSIONS", "10000"))
        server = self.serve("--max-connections", str(count + 10), *PATIENT)
        with server.good_client() as client:
            crowd = []
            try:
                for i in range(count):
                    connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
                    connection.sendall(hello(i + 1))
                    crowd.append(connection)
                    if i % 100 == 0:
                        self.assertEqual(client.call(b"1000"), b"OK")
                server.wait_until(lambda m: m["rubato_rpc_sessions"] == count + 1)
                for _ in range(200):
                    self.assertEqual(client.call(b"1000"), b"OK")
                self.assertEqual(client.counts["Reply"], sum(client.counts.values()))
                self.assertLess(server.resident_kib(), 512 * 1024)
            finally:
                for connection in crowd:
                    connection.close()
            self.assertEqual(client.call(b"1000"), b"OK")
        self.check_books_even(server)

    def test_more_sessions_than_are_taken_are_told_so(self):
        server = self.serve("--max-connections", "2", *PATIENT)
        with server.raw() as first, server.raw() as second, server.raw() as third:
            for connection in (first, second):
                connection.sendall(hello())
                self.assertEqual(frames(connection, 1)[0].kind, rpc.WELCOME)
            answers = frames(third, 9)
            self.assertEqual([(a.kind, a.amount) for a in answers], [(rpc.ERROR, 8)])

    def check_sessions_of_one_address(self, transport):
        """The limit leaves those alone that come from elsewhere, and ends with a session."""
        server = self.serve("--sessions-per-address", "1", "--bind", "*", *PATIENT,
                            transport=transport)
        with server.raw() as first, server.raw() as second, server.raw("127.0.0.2") as elsewhere:
            for connection, kind in ((first, rpc.WELCOME), (second, rpc.ERROR),
                                     (elsewhere, rpc.WELCOME)):
                connection.sendall(server.token(connection) + hello())
                answer = frames(connection, 1)[0]
                self.assertEqual(answer.kind, kind)
                self.assertEqual(answer.amount == 8, kind == rpc.ERROR)
            metrics = server.metrics()
            self.assertEqual(metrics["rubato_rpc_sessions_refused_of_address_total"], 1)
            first.sendall(server.token(first) + rpc.encode(rpc.GOODBYE, SESSION, 0))
            server.wait_until(lambda m: m["rubato_rpc_sessions"] == 1)
            with server.raw() as third:
                third.sendall(server.token(third) + hello())
                self.assertEqual(frames(third, 1)[0].kind, rpc.WELCOME)

    def test_one_address_has_no_more_sessions_than_it_may_over_tcp(self):
        self.check_sessions_of_one_address("tcp")

    def test_hellos_under_forged_addresses_take_no_session(self):
        server = self.serve("--max-connections", "10", *PATIENT, transport="udp")
        with server.raw() as forger:
            for session in range(1, 1001):
                forger.send(bytes(rpc.TOKEN_BYTES) + hello(session))
            with server.good_client() as client:
                self.assertEqual(client.call(b"1000"), b"OK")
            self.assertEqual(server.metrics()["rubato_rpc_sessions_opened_total"], 1)

    def test_one_address_has_no_more_sessions_than_it_may_over_udp(self):
        self.check_sessions_of_one_address("udp")


if __name__ == "__main__":
    unittest.main()
