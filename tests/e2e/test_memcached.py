# SPDX-License-Identifier: Apache-2.0
"""The port that speaks memcached's text protocol, byte by byte and with libmemcached's tools."""

import os
import random
import shutil
import socket
import subprocess
import tempfile
import unittest

from server import MemcachedServer, ReplyError, encode, refused
from waiting import eventually

TOOLS = shutil.which("memccp") and shutil.which("memccat") and shutil.which("memccapable")


class Memcached(unittest.TestCase):
    def setUp(self):
        self.server = MemcachedServer()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.link = self.server.connect()
        self.addCleanup(self.link.close)

    def expect(self, request, reply):
        self.link.sendall(request)
        self.assertEqual(self.receive(len(reply)), reply, request)

    def receive(self, size):
        text = b""
        while len(text) < size:
            chunk = self.link.recv(size - len(text))
            if not chunk:
                break
            text += chunk
        return text

    def receive_until(self, end):
        text = b""
        while not text.endswith(end):
            chunk = self.link.recv(65536)
            self.assertTrue(chunk, text)
            text += chunk
        return text

    def test_items_with_flags(self):
        self.expect(b"get a\r\n", b"END\r\n")
        self.expect(b"set a 0 0 3\r\none\r\n", b"STORED\r\n")
        self.expect(b"set b 7 0 5\r\n\r\n\r\n\0\r\n", b"STORED\r\n")
        self.expect(b"get a none b\r\n",
                    b"VALUE a 0 3\r\none\r\nVALUE b 7 5\r\n\r\n\r\n\0\r\nEND\r\n")
        # Data that look like the mark of an item with flags.
        self.expect(b"set c 0 0 8\r\n\0mc\x01abcd\r\n", b"STORED\r\n")
        self.expect(b"get c\r\n", b"VALUE c 0 8\r\n\0mc\x01abcd\r\nEND\r\n")

    def test_data_are_those_of_resp_clients(self):
        self.server.call("SET", "k", "from resp")
        self.expect(b"get k\r\n", b"VALUE k 0 9\r\nfrom resp\r\nEND\r\n")
        self.expect(b"append k 9 0 1\r\n!\r\n", b"STORED\r\n")
        self.assertEqual(self.server.call("GET", "k"), b"from resp!")
        self.assertIn(b"cmd=append", self.server.call("CLIENT", "LIST"))

    def test_conditions(self):
        self.expect(b"replace k 0 0 1\r\nx\r\n", b"NOT_STORED\r\n")
        self.expect(b"append k 0 0 1\r\nx\r\n", b"NOT_STORED\r\n")
        self.expect(b"add k 3 0 1\r\nx\r\n", b"STORED\r\n")
        self.expect(b"add k 0 0 1\r\ny\r\n", b"NOT_STORED\r\n")
        self.expect(b"prepend k 0 0 2\r\nab\r\n", b"STORED\r\n")
        self.expect(b"get k\r\n", b"VALUE k 3 3\r\nabx\r\nEND\r\n")
        token = self.token(b"k")
        self.expect(b"cas none 0 0 1 " + token + b"\r\nz\r\n", b"NOT_FOUND\r\n")
        self.expect(b"cas k 0 0 1 " + token + b"\r\nz\r\n", b"STORED\r\n")
        self.expect(b"cas k 0 0 1 " + token + b"\r\nz\r\n", b"EXISTS\r\n")

    def token(self, key):
        self.link.sendall(b"gets " + key + b"\r\n")
        return self.receive_until(b"END\r\n").split()[4]

    def test_cas_stores_only_where_nobody_has_written_since(self):
        self.expect(b"set k 0 0 1\r\na\r\n", b"STORED\r\n")
        token = self.token(b"k")
        for value in (b"b", b"a"):
            self.expect(b"set k 0 0 1\r\n" + value + b"\r\n", b"STORED\r\n")
        self.expect(b"cas k 0 0 1 " + token + b"\r\nz\r\n", b"EXISTS\r\n")
        self.expect(b"delete k\r\n", b"DELETED\r\n")
        self.expect(b"set k 0 0 1\r\na\r\n", b"STORED\r\n")
        self.expect(b"cas k 0 0 1 " + token + b"\r\nz\r\n", b"EXISTS\r\n")
        token = self.token(b"k")
        self.server.call("SET", "k", "a")
        self.expect(b"cas k 0 0 1 " + token + b"\r\nz\r\n", b"EXISTS\r\n")
        token = self.token(b"k")
        self.expect(b"touch k 100\r\n", b"TOUCHED\r\n")
        self.expect(b"cas k 0 0 1 " + token + b"\r\nz\r\n", b"STORED\r\n")

    # With the token a hash of the item, these bytes made the eight before them count for nothing.
    def test_no_other_value_has_the_token(self):
        tail = bytes.fromhex("3ba7ca8485ae67bb")
        tokens = set()
        for head in (b"aaaaaaaa", b"bbbbbbbb"):
            self.expect(b"set k 0 0 16\r\n" + head + tail + b"\r\n", b"STORED\r\n")
            tokens.add(self.token(b"k"))
        self.assertEqual(len(tokens), 2)

    def test_a_token_from_before_a_restart_is_no_other_value_s(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("--engine", "rocksdb", "--dir", folder)
            with MemcachedServer(*arguments) as server, server.connect() as self.link:
                self.expect(b"set k 0 0 1\r\na\r\n", b"STORED\r\n")
                first = self.token(b"k")
                server.terminate()
                server.wait()
            with MemcachedServer(*arguments) as server, server.connect() as self.link:
                self.assertEqual(self.token(b"k"), first)
                self.expect(b"set k 0 0 1\r\nb\r\n", b"STORED\r\n")
                self.expect(b"cas k 0 0 1 " + first + b"\r\nz\r\n", b"EXISTS\r\n")

    def test_numbers_times_and_the_rest(self):
        self.expect(b"incr n 1\r\n", b"NOT_FOUND\r\n")
        self.expect(b"set n 5 0 20\r\n18446744073709551615\r\n", b"STORED\r\n")
        self.expect(b"incr n 2\r\n", b"1\r\n")
        self.expect(b"decr n 5\r\n", b"0\r\n")
        self.expect(b"get n\r\n", b"VALUE n 5 1\r\n0\r\nEND\r\n")
        self.expect(b"set t 0 0 1\r\nx\r\nincr t 1\r\n",
                    b"STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
        self.expect(b"touch t 100\r\n", b"TOUCHED\r\n")
        self.assertIn(self.server.call("TTL", "t"), (99, 100))
        self.expect(b"touch t -1\r\nget t\r\ntouch t 0\r\n", b"TOUCHED\r\nEND\r\nNOT_FOUND\r\n")
        self.expect(b"set past 0 -1 1\r\nx\r\nget past\r\n", b"STORED\r\nEND\r\n")
        self.expect(b"delete n\r\ndelete n\r\n", b"DELETED\r\nNOT_FOUND\r\n")
        self.expect(b"delete n nonsense\r\n", b"CLIENT_ERROR bad command line format.  "
                    b"Usage: delete <key> [noreply]\r\n")
        self.expect(b"verbosity 1\r\n", b"OK\r\n")
        self.expect(b"set x 0 0 1 noreply\r\nx\r\ndelete y noreply\r\nflush_all\r\nget x\r\n",
                    b"OK\r\nEND\r\n")
        self.expect(b"version\r\n", b"VERSION 1.6.18\r\n")
        self.link.sendall(b"stats\r\n")
        text = self.receive_until(b"END\r\n")
        self.assertIn(b"STAT curr_items 0\r\n", text)
        # By verb.
        for line in (b"cmd_set 4", b"cmd_flush 1", b"cmd_touch 3", b"touch_misses 1",
                     b"decr_hits 1", b"incr_misses 1", b"delete_misses 2", b"threads 1"):
            self.assertIn(b"STAT " + line + b"\r\n", text)
        self.assertIn(b"STAT version 1.6.18\r\n", text)
        self.expect(b"quit\r\n", b"")
        self.assertEqual(self.link.recv(1), b"")

    def test_wrong_requests_are_told_and_the_next_one_is_served(self):
        self.expect(b"GET a\r\nmz a\r\n", b"ERROR\r\nERROR\r\n")
        self.expect(b"get " + b"k" * 251 + b"\r\n", b"CLIENT_ERROR bad command line format\r\n")
        self.expect(b"set k 0 0 1\r\ntoo long\r\n", b"CLIENT_ERROR bad data chunk\r\nERROR\r\n")
        self.expect(b"set k 0 0 -1\r\nversion\r\n",
                    b"CLIENT_ERROR bad command line format\r\nVERSION 1.6.18\r\n")
        self.expect(b"set k 0 0 1\r\na\r\n", b"STORED\r\n")
        # The old item must not be taken for the one that was too large.
        large = b"set k 0 0 3000000\r\n" + b"x" * 3000000 + b"\r\n"
        self.expect(large + b"get k\r\n", b"SERVER_ERROR object too large for cache\r\nEND\r\n")

    def test_what_browsers_send_is_closed_and_does_nothing(self):
        for line in (b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n", b"Host: x\r\n"):
            with self.server.connect() as link:
                link.sendall(line + b"set k 0 0 1\r\nx\r\n")
                try:
                    self.assertEqual(link.recv(100), b"")
                except ConnectionResetError:
                    pass
        self.expect(b"get k\r\n", b"END\r\n")

    def test_meta_commands(self):
        self.expect(b"mn\r\nmg none v\r\nmg none v q\r\nmn\r\n", b"MN\r\nEN\r\nMN\r\n")
        self.expect(b"ms k 2 F7 T100 Oab k\r\nhi\r\n", b"HD Oab kk\r\n")
        self.expect(b"mg k f s t k v O9\r\n", b"VA 2 f7 s2 t100 kk O9\r\nhi\r\n")
        self.expect(b"mg k\r\nmg k T0 t\r\nmg k t\r\n", b"HD\r\nHD t-1\r\nHD t-1\r\n")
        self.expect(b"ms k 1 ME\r\nx\r\nms k 1 MA\r\n!\r\nmg k v\r\n",
                    b"NS\r\nHD\r\nVA 3\r\nhi!\r\n")
        self.expect(b"ms no 1 MR\r\nx\r\nms no 1 MA\r\nx\r\nms no 1 MA N0\r\nx\r\nmg no v\r\n",
                    b"NS\r\nNS\r\nHD\r\nVA 1\r\nx\r\n")
        self.link.sendall(b"mg k c\r\n")
        token = self.receive_until(b"\r\n").split()[1][1:]
        self.expect(b"ms k 1 C1\r\nx\r\nms k 1 C" + token + b" q\r\ny\r\nmg k v\r\n",
                    b"EX\r\nVA 1\r\ny\r\n")
        self.expect(b"md k C1\r\nmd k q\r\nmd k q\r\nmd k\r\n", b"EX\r\nNF\r\n")
        self.expect(b"ms k 2 T100\r\nhi\r\nme none\r\n", b"HD\r\nEN\r\n")
        self.link.sendall(b"me k\r\n")
        self.assertRegex(self.receive_until(b"\r\n"),
                         rb"^ME k exp=(99|100) la=0 cas=\d+ fetch=no size=2\r\n$")
        self.expect(b"ma n\r\nma n N0 J5 v\r\nma n D2 v\r\nma n MD D10 v t\r\n",
                    b"NF\r\nVA 1\r\n5\r\nVA 1\r\n7\r\nVA 1 t-1\r\n0\r\n")
        # base64 of "n"
        self.expect(b"mg bg== b k v\r\n", b"VA 1 kbg== b\r\n0\r\n")
        self.expect(b"mg bg= b v\r\nmg n z\r\nma n Dx\r\nma n M!\r\n",
                    b"CLIENT_ERROR bad command line format\r\nCLIENT_ERROR invalid flag\r\n"
                    b"CLIENT_ERROR bad token in command line format\r\n"
                    b"CLIENT_ERROR invalid mode for ma\r\n")

    def test_what_the_engine_does_not_keep_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            with MemcachedServer("--engine", "rocksdb", "--dir", folder) as server:
                with server.connect() as self.link:
                    line = (b"CLIENT_ERROR flags h and l need --engine memory, this one keeps no "
                            b"times of use\r\n")
                    self.expect(b"mg k h N30\r\nmg k v l N30\r\nmg k t\r\n", line * 2 + b"EN\r\n")
                    self.expect(b"ms k 1\r\nx\r\nmg k v u\r\n", b"HD\r\nVA 1\r\nx\r\n")
                    self.link.sendall(b"me k\r\n")
                    self.assertRegex(self.receive_until(b"\r\n"),
                                     rb"^ME k exp=-1 cas=\d+ size=1\r\n$")

    def test_one_client_fetches_what_is_missing_stale_or_about_to_expire(self):
        self.expect(b"mg k s v N30 t\r\nmg k v N30\r\n", b"VA 0 s0 t30 W\r\n\r\nVA 0 Z\r\n\r\n")
        self.link.sendall(b"ms k 3 c T100\r\nnew\r\n")
        token = self.receive_until(b"\r\n").split()[1][1:]
        self.expect(b"mg k v R200\r\nmg k v R200\r\nmg k v R50\r\n",
                    b"VA 3 W\r\nnew\r\nVA 3 Z\r\nnew\r\nVA 3 Z\r\nnew\r\n")
        self.expect(b"ms k 3 T100\r\nnew\r\nmd k I T20\r\nmg k v t\r\nmg k\r\n",
                    b"HD\r\nHD\r\nVA 3 t20 W X\r\nnew\r\nHD X Z\r\n")
        # Who had it before it was stale may replace it, by what is stale as well.
        self.expect(b"ms k 3 c C" + token + b"\r\nold\r\nms k 3 I T100 C1\r\nold\r\nmg k v t\r\n",
                    b"EX c0\r\nHD\r\nVA 3 t20 X Z\r\nold\r\n")
        self.expect(b"set k 5 0 3\r\nnew\r\nmg k v f\r\n", b"STORED\r\nVA 3 f5\r\nnew\r\n")

    def test_a_line_may_ask_for_many_keys(self):
        self.expect(b"set key 0 0 1\r\nx\r\n", b"STORED\r\n")
        many = 20_000
        self.expect(b"get" + b" key" * many + b"\r\n",
                    b"VALUE key 0 1\r\nx\r\n" * many + b"END\r\n")

    def test_get_and_touch(self):
        self.expect(b"set a 7 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n", b"STORED\r\nSTORED\r\n")
        self.expect(b"gat 100 a none b\r\n", b"VALUE a 7 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\n")
        self.assertIn(self.server.call("TTL", "b"), (99, 100))
        token = self.token(b"a")
        self.expect(b"gats 0 a\r\n", b"VALUE a 7 1 " + token + b"\r\nx\r\nEND\r\n")
        self.assertEqual(self.server.call("TTL", "a"), -1)

    def test_a_flush_may_wait(self):
        self.expect(b"set a 0 0 1\r\nx\r\nflush_all 1\r\n", b"STORED\r\nOK\r\n")
        self.assertEqual(self.server.call("GET", "a"), b"x")
        eventually(lambda: self.server.call("EXISTS", "a"), lambda there: there == 0)

    def test_statistics_by_operand(self):
        self.link.sendall(b"stats settings\r\n")
        self.assertIn(b"STAT item_size_max 1048576\r\n", self.receive_until(b"END\r\n"))
        self.expect(b"stats items\r\nstats sizes\r\n", b"END\r\nEND\r\n")
        self.expect(b"stats nonsense\r\nstats reset\r\n", b"ERROR\r\nRESET\r\n")
        self.expect(b"stats detail on\r\nget p:1\r\nstats detail dump\r\n",
                    b"OK\r\nEND\r\nPREFIX p get 1 hit 0 set 0 del 0\r\nEND\r\n")
        self.assertEqual(self.server.call("PING"), b"PONG")

    def test_random_bytes_crash_nothing(self):
        seed = int(os.environ.get("RUBATO_SEED", "20261121"))
        print(f"seed {seed} (RUBATO_SEED replays)")
        rng = random.Random(seed)
        for _ in range(100):
            data = bytearray(b"set k 1 0 5\r\nabcde\r\ngets k j\r\nincr k 1\r\n"
                             b"cas k 0 0 1 7\r\nx\r\n")
            for _ in range(rng.randrange(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with self.server.connect() as link:
                link.sendall(data + b"\r\nquit\r\n")
                link.shutdown(socket.SHUT_WR)
                try:
                    while link.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
        self.assertEqual(self.server.call("PING"), b"PONG")

    def test_an_overloaded_server_says_so(self):
        with MemcachedServer("--policy", "fcfs", "--workers", "1", "--overload", "aqm",
                             "--target-delay", "100us") as server:
            def ask():
                busy.socket.sendall(encode("DEBUG", "SLEEP", "0.02") * 10)
                self.link.sendall(b"get k\r\n" * 50 + b"version\r\n")
                return self.receive_until(b"VERSION 1.6.18\r\n")

            with server.client() as busy, server.connect() as self.link:
                text = eventually(ask, lambda text: b"overloaded" in text)
            self.assertRegex(text, rb"SERVER_ERROR overloaded short retry-after-ms [1-9]\d*\r\n")
            replies = text.count(b"END\r\n") + text.count(b"SERVER_ERROR overloaded")
            self.assertEqual(replies, 50)

    def test_no_port_without_passwords_beside_one_with(self):
        status, text = refused("serve", "kv", "--memcached-port", "0", "--requirepass", "x")
        self.assertEqual(status, 2)
        self.assertIn("--memcached-port", text)

    def test_two_protocols_do_not_share_a_port(self):
        status, text = refused("serve", "kv", "--engine", "memory", "--port",
                               str(self.server.other + 1), "--memcached-port",
                               str(self.server.other + 1))
        self.assertEqual(status, 2)
        self.assertIn("--memcached-port: takes another port than --port", text)

    def test_no_password_while_it_runs_either(self):
        with self.server.client() as client:
            with self.assertRaisesRegex(ReplyError, "has no passwords"):
                client.call("CONFIG", "SET", "requirepass", "x")
            self.assertEqual(client.call("CONFIG", "SET", "requirepass", ""), b"OK")

    @unittest.skipIf(not TOOLS, "libmemcached-tools is not installed")
    def test_the_tools_of_libmemcached(self):
        address = f"--servers=127.0.0.1:{self.server.other}"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "item")
            with open(path, "wb") as out:
                out.write(os.urandom(50_000))
            with open(path, "rb") as item:
                data = item.read()
            subprocess.run(["memccp", address, path], check=True, timeout=20)
            done = subprocess.run(["memccat", address, "--file=" + path + ".back", "item"],
                                  check=True, timeout=20)
            self.assertEqual(done.returncode, 0)
            with open(path + ".back", "rb") as back:
                self.assertEqual(back.read(), data)
        done = subprocess.run(["memccapable", "-a", "-h", "127.0.0.1", "-p",
                               str(self.server.other)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
