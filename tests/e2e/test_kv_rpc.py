# SPDX-License-Identifier: Apache-2.0
"""`serve kv` over Rubato RPC: commands, errors, overload, and clients that break the rules, beside
clients of RESP."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import unittest

from rpc_wire import PATIENT, SESSION, frames, hello, patient_client, rpc
from server import BINARY, PATIENCE_S, ReplyError, Server, refused, status_of_load
from waiting import eventually


class KvRpcServer(Server):
    def __init__(self, *args):
        super().__init__("--rpc-port", "0", *args)
        self.rpc_port = int(self.wait_for(r"Rubato RPC on \S+:(\d+)\n"))

    def good_client(self, **options):
        return patient_client(self.rpc_port, **options)

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.rpc_port), PATIENCE_S)

    def info(self, section):
        lines = self.call("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def wait_until(self, done):
        return eventually(lambda: self.info("overload"), done)

    def load(self, *args, status=0):
        done = subprocess.run(
            [BINARY, "load", "--target", f"rpc+kv://127.0.0.1:{self.rpc_port}", "--json", "-",
             *args], capture_output=True, text=True, timeout=60, check=False)
        if status_of_load(done) != status:
            raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout), done.stderr


def request(request_id, *words, session=SESSION):
    return rpc.encode(rpc.REQUEST, session, 0, request_id, rpc.command(*words))


class Case(unittest.TestCase):
    def serve(self, *args):
        server = KvRpcServer(*(args or PATIENT))
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def check_alive(self, server):
        with server.good_client() as client:
            self.assertEqual(client.call(rpc.command("SET", "alive", "1")), b"+OK\r\n")
        self.assertEqual(server.call("GET", "alive"), b"1")

    def wait_for_credit(self, *clients):
        eventually(lambda: min(client.credit for client in clients) >= 1)

    def check_books_even(self, server):
        """Nobody is there any more: nothing is issued, and nothing leaked."""
        info = server.wait_until(lambda i: i["rpc_sessions"] == "0")
        self.assertEqual((info["rpc_credits_issued"], info["rpc_drained_sessions"]), ("0", "0"))


class Good(Case):
    def test_both_ports_have_the_same_data(self):
        server = self.serve("--workers", "2", *PATIENT)
        with server.good_client() as client:
            self.assertEqual(client.call(rpc.command("SET", "k", "by rpc")), b"+OK\r\n")
            self.assertEqual(server.call("GET", "k"), b"by rpc")
            server.call("SET", "k", "by resp")
            self.assertEqual(client.call(rpc.command("GET", "k")), b"$7\r\nby resp\r\n")
            for _ in range(200):
                client.call(rpc.command("INCR", "n"))
            self.assertEqual(server.call("GET", "n"), b"200")
            self.assertIn(b"cmd=incr", server.call("CLIENT", "LIST"))
        self.check_books_even(server)

    def test_errors_are_those_of_resp(self):
        server = self.serve()
        server.call("SET", "text", "x")
        with server.good_client() as client, server.client() as resp:
            for words in (("INCR", "text"), ("GET",), ("NONSENSE", "a"), ("SUBSCRIBE", "c"),
                          ("EXEC",), ("BLPOP", "l", "0"), ("SELECT", "1"), ("AUTH", "x")):
                with self.assertRaises(ReplyError) as error:
                    resp.call(*words)
                self.assertEqual(client.call(rpc.command(*words)),
                                 f"-{error.exception}\r\n".encode())
            for body in (b"", b"no line", b"*1\r\n$9\r\nPING", rpc.command("PING") * 2, b"\0" * 99):
                self.assertTrue(client.call(body).startswith(b"-ERR Protocol error"), body)
            self.assertEqual(client.call(rpc.command("PING")), b"+PONG\r\n")

    def test_a_transaction_is_one_of_its_session(self):
        server = self.serve()
        with server.good_client() as client:
            for words in (("MULTI",), ("SET", "a", "1"), ("INCR", "a")):
                self.assertIn(client.call(rpc.command(*words)), (b"+OK\r\n", b"+QUEUED\r\n"))
            self.assertIsNone(server.call("GET", "a"))
            self.assertEqual(client.call(rpc.command("EXEC")), b"*2\r\n+OK\r\n:2\r\n")

    def test_values_of_all_sizes(self):
        server = self.serve()
        with server.good_client() as client:
            for size in (0, 1, 1000, 5000, 100_000, 5_000_000):
                value = os.urandom(size)
                self.assertEqual(client.call(rpc.command("SET", "v", value)), b"+OK\r\n")
                self.assertEqual(client.call(rpc.command("GET", "v")),
                                 b"$%d\r\n%s\r\n" % (size, value))
            # What is larger than a frame fails alone.
            server.call("SET", "v", b"x" * (16 << 20))
            with self.assertRaises(rpc.Failed):
                client.call(rpc.command("GET", "v"))
            self.assertEqual(client.call(rpc.command("STRLEN", "v")), b":16777216\r\n")
        self.assertLess(server.resident_kib(), 512 * 1024)

    def test_a_password_is_asked_for(self):
        server = self.serve("--requirepass", "secret", *PATIENT)
        with server.good_client() as client:
            self.assertTrue(client.call(rpc.command("GET", "k")).startswith(b"-NOAUTH"))
            self.assertTrue(client.call(rpc.command("AUTH", "x")).startswith(b"-WRONGPASS"))
            self.assertEqual(client.call(rpc.command("AUTH", "secret")), b"+OK\r\n")
            self.assertEqual(client.call(rpc.command("GET", "k")), b"$-1\r\n")

    def test_info_counts_them_like_others(self):
        server = self.serve()
        with server.good_client() as client:
            for _ in range(50):
                client.call(rpc.command("GET", "k"))
            client.call(rpc.command("GET"))
            self.assertEqual(server.wait_until(lambda i: i["rpc_served"] == "51")["rpc_sessions"],
                             "1")
        by_rpc = server.info("commandstats")["cmdstat_get"]
        server.call("CONFIG", "RESETSTAT")
        with server.client() as resp:
            for _ in range(50):
                resp.call("GET", "k")
            with self.assertRaises(ReplyError):
                resp.call("GET")
        by_resp = server.info("commandstats")["cmdstat_get"]
        untimed = re.compile("usec.*?,")
        self.assertEqual(untimed.sub("", by_rpc), untimed.sub("", by_resp))
        self.assertIn("rejected_calls=1,", by_rpc)

    def test_slow_ones_are_in_the_slow_log(self):
        server = self.serve("--slowlog-log-slower-than", "1000", *PATIENT)
        with server.good_client() as client:
            client.call(rpc.command("DEBUG", "SLEEP", "0.01"))
        self.assertEqual(server.call("SLOWLOG", "GET")[0][3], [b"DEBUG", b"SLEEP", b"0.01"])

    def test_a_long_scan_does_not_hold_up_another_session(self):
        server = self.serve("--workers", "1", "--policy", "synergy", *PATIENT)
        subprocess.run([BINARY, "load", "--target", f"resp://127.0.0.1:{server.port}", "--keys",
                        "200000", "--load-keys", "--rate", "10", "--duration", "0.1"],
                       capture_output=True, timeout=60, check=False)
        self.assertEqual(server.call("DBSIZE"), 200000)
        with server.good_client() as scans, server.good_client() as gets:
            self.wait_for_credit(scans, gets)
            scan = scans.submit(rpc.command("KEYS", "*9*9*9*9*"))
            for _ in range(20):
                gets.call(rpc.command("GET", "k"))
            self.assertTrue(scan.result(PATIENCE_S).startswith(b"*"))
            self.assertTrue(scans.call(rpc.command("KEYS", "*"), PATIENCE_S).startswith(b"*20000"))
        self.assertGreater(int(server.scheduler()["preemptions"]), 0)

    def test_terminate_answers_what_is_in_flight(self):
        server = self.serve()
        with server.good_client() as client:
            client.call(rpc.command("PING"))
            used = server.cpu_seconds()
            future = client.submit(rpc.command("DEBUG", "SLEEP", "0.3"))
            eventually(lambda: server.is_busy_since(used) or future.done())
            server.terminate()
            self.assertEqual(future.result(PATIENCE_S), b"+OK\r\n")
        self.assertEqual(server.wait(), 0)

    @unittest.skipUnless(shutil.which("redis-cli"), "needs redis-cli")
    def test_redis_cli_works_beside_it(self):
        server = self.serve()
        with server.good_client() as client:
            client.call(rpc.command("SET", "k", "v"))
            said = subprocess.run(["redis-cli", "-p", str(server.port), "GET", "k"], text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=True)
            self.assertEqual(said.stdout, "v\n")

    def test_options_that_do_not_fit_are_refused(self):
        for args, names in ((("--rpc-port", "70000"), "--rpc-port"),
                            (("--rpc-port", "x"), "--rpc-port"),
                            (("--port", "7001", "--rpc-port", "7001"), "--rpc-port"),
                            (("--rpc-port", "7001", "--memcached-port", "7001"), "--rpc-port")):
            status, text = refused("serve", "kv", *args)
            self.assertEqual((status, text.count("\n")), (2, 1), (args, text))
            self.assertIn(names, text)
        for args in (("--load-keys",), ("--workload", "exp-1"), ("--password", "x")):
            status, text = refused("load", "--target", "rpc+kv://127.0.0.1:1", *args)
            self.assertEqual(status, 2, (args, text))


class Overload(Case):
    def test_what_cannot_be_served_is_unsent_or_refused_and_reported(self):
        server = self.serve()
        report, table = server.load("--mix", "debugsleep/2000:1", "--rate", "2000", "--flows", "50",
                                    "--duration", "2", "--timeout", "10")
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
        self.check_books_even(server)

    def test_a_closed_loop_sends_the_next_when_the_last_was_answered(self):
        server = self.serve()
        report, _ = server.load("--mix", "get:1", "--closed", "8", "--duration", "1",
                                "--rpc-expire", "0")
        self.assertGreater(report["achieved_rps"], 0)
        self.assertEqual((report["errors"], report["lost"], report["refused"]), (0, 0, 0))

    def test_errors_of_the_application_are_no_replies(self):
        server = self.serve("--requirepass", "secret", *PATIENT)
        report, _ = server.load("--mix", "get:1", "--rate", "100", "--duration", "1", status=1)
        self.assertEqual(sum(t["count"] for t in report["types"]), 0)
        self.assertGreater(report["errors"], 0)

    def test_refusals_count_as_rejected_calls(self):
        server = self.serve("--target-delay", "1ms", "--policy", "fcfs", "--preempt", "none")
        with server.raw() as slow, server.raw() as late:
            for connection in (slow, late):
                connection.sendall(hello())
                self.assertEqual(frames(connection, 1)[0].kind, rpc.WELCOME)
            used = server.cpu_seconds()
            slow.sendall(request(1, "DEBUG", "SLEEP", "1"))
            # What comes when it has begun waits for the rest of a second.
            eventually(lambda: server.is_busy_since(used))
            late.sendall(request(1, "GET", "k"))
            unread = bytearray()
            answer = frames(late, 1, unread)[0]
            if answer.kind == rpc.CREDIT:  # the first it had, sent by itself
                answer = frames(late, 1, unread)[0]
            self.assertEqual((answer.kind, answer.amount), (rpc.REFUSED, 0))
            reason, of_class, _, retry_us = rpc.REFUSAL.unpack(answer.body)
            self.assertEqual((reason, of_class), (1, 1))
            self.assertGreater(retry_us, 0)
        info = server.info("overload")
        self.assertEqual(info["rpc_refused_overloaded"], "1")
        stats = server.info("commandstats")["cmdstat_get"]
        self.assertIn("calls=0,", stats)
        self.assertIn("rejected_calls=1,", stats)
        self.assertEqual(server.info("errorstats")["errorstat_OVERLOADED"], "count=1")


class Hostile(Case):
    def test_dies_in_the_middle_of_requests(self):
        server = self.serve()
        for i in range(100):
            connection = server.raw()
            connection.sendall(hello() + request(1, "DEBUG", "SLEEP", "0.001")
                               + request(2, "GET", "k")[:10 + i % 30])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self.check_alive(server)
        self.check_books_even(server)

    def test_one_that_never_reads_stops_only_itself(self):
        server = self.serve()
        server.call("SET", "v", b"x" * 100_000)
        before = server.resident_kib()
        with socket.socket() as deaf, server.good_client() as client:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.rpc_port))
            deaf.setblocking(False)
            deaf.send(hello())
            sent = 0
            for i in range(1, 3000):
                try:
                    sent += deaf.send(request(i, "GET", "v"))
                except BlockingIOError:
                    break
                if i % 100 == 0:
                    self.assertEqual(client.call(rpc.command("PING")), b"+PONG\r\n")
            self.assertGreater(sent, 0)
            self.assertLess(server.resident_kib() - before, 32 * 1024)
        self.check_alive(server)

    def test_frames_that_are_the_servers_to_send_and_other_protocols(self):
        server = self.serve()
        for data in (hello() + rpc.encode(rpc.CREDIT, SESSION, 60), b"*1\r\n$4\r\nPING\r\n",
                     b"GET / HTTP/1.1\r\n\r\n", hello() + hello(),
                     hello() + request(1, "PING", session=8),
                     hello()[:4] + b"\xff\xff\xff\xff"):
            with server.raw() as connection:
                connection.sendall(data)
                answers = frames(connection, 9)
                self.assertEqual(answers[-1].kind, rpc.ERROR, data)
                self.assertEqual(answers[-1].id, 0)
        self.assertEqual(server.info("overload")["rpc_faults"], "6")
        self.check_alive(server)
        self.check_books_even(server)

    def test_oversized_requests(self):
        server = self.serve("--requirepass", "secret", *PATIENT)
        header = rpc.HEADER.pack(rpc.MAGIC, rpc.VERSION, rpc.REQUEST, 1 << 20, SESSION, 0, 1)
        with server.raw() as unknown, server.raw() as known:
            unknown.sendall(hello() + header)
            self.assertEqual([(f.kind, f.amount) for f in frames(unknown, 9)][1:],
                             [(rpc.ERROR, 4)])
            known.sendall(hello() + request(1, "AUTH", "secret") + header)
            self.assertEqual([f.kind for f in frames(known, 2)], [rpc.WELCOME, rpc.RESPONSE])
            known.sendall(b"x" * (1 << 20))
            self.assertTrue(frames(known, 1)[0].body.startswith(b"-ERR Protocol error"))

    def test_more_connections_than_are_taken_are_told_so_on_each_port(self):
        server = self.serve("--max-connections", "2", *PATIENT)
        with server.raw() as first, server.client() as second:
            first.sendall(hello())
            self.assertEqual(frames(first, 1)[0].kind, rpc.WELCOME)
            self.assertEqual(second.call("PING"), b"PONG")
            with server.raw() as third:
                answers = frames(third, 9)
                self.assertEqual([(a.kind, a.amount) for a in answers], [(rpc.ERROR, 8)])
            with self.assertRaises(ReplyError) as error:
                server.call("PING")
            self.assertEqual(str(error.exception), "ERR max number of clients reached")


if __name__ == "__main__":
    unittest.main()
