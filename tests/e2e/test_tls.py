# SPDX-License-Identifier: Apache-2.0
"""TLS on the ports of `serve kv`: RESP, Rubato RPC and the metrics; certificates of both sides and
their reload; clients that break the rules. The certificates are made by the openssl command."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import socketserver
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from rpc_wire import PATIENT, patient_client, rpc
from server import BINARY, PATIENCE_S, Client, ReplyError, Server, encode, refused, status_of_load
from waiting import eventually

MIB = 1 << 20


def setUpModule():
    if shutil.which("openssl") is None:
        raise unittest.SkipTest("there is no openssl command")
    if "has no TLS" in refused("serve", "kv", "--tls-port", "0")[1]:
        raise unittest.SkipTest("the binary has no TLS")


class Authority:
    """Signs certificates, which are files of its folder."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", f"/CN={name}", "-keyout", self.key(name), "-out",
                 self.cert(name))

    def run(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def cert(self, name):
        return os.path.join(self.folder, name + ".crt")

    def key(self, name):
        return os.path.join(self.folder, name + ".key")

    def sign(self, name, serial, file=None):
        """A certificate for localhost, in files called `file`."""
        file = file or name
        request, extension = self.cert(file) + ".csr", self.cert(file) + ".ext"
        with open(extension, "w", encoding="ascii") as text:
            text.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout",
                 self.key(file), "-out", request)
        self.run("x509", "-req", "-in", request, "-CA", self.cert(self.name), "-CAkey",
                 self.key(self.name), "-days", "2", "-set_serial", str(serial), "-extfile",
                 extension, "-out", self.cert(file))

    def context(self, shows=None):
        """Of a client that trusts this authority and shows that certificate."""
        context = ssl.create_default_context(cafile=self.cert(self.name))
        if shows:
            context.load_cert_chain(self.cert(shows), self.key(shows))
        return context


class TlsClient(Client):
    def __init__(self, port, context, timeout=PATIENCE_S):
        super().__init__(port, timeout)
        self.reader.close()
        plain = self.socket
        try:
            self.socket = context.wrap_socket(plain, server_hostname="localhost")
        except OSError:
            plain.close()
            raise
        self.reader = self.socket.makefile("rb")

    def serial(self):
        return int(self.socket.getpeercert()["serialNumber"], 16)


class TlsServer(Server):
    def __init__(self, authority, *args, clients="no", **popen):
        self.authority = authority
        super().__init__("--tls-port", "0", "--tls-cert-file", authority.cert("server"),
                         "--tls-key-file", authority.key("server"), "--tls-ca-cert-file",
                         authority.cert("ca"), "--tls-auth-clients", clients, *args, **popen)

    def client(self, timeout=PATIENCE_S, shows="client"):
        return TlsClient(self.port, self.authority.context(shows), timeout)

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def stats(self):
        lines = self.call("INFO", "stats").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def failed(self):
        return int(self.stats()["tls_handshakes_failed"])


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.authority = Authority(cls.folder.name)
        cls.authority.sign("localhost", 100, "server")
        cls.authority.sign("client", 101)

    def serve(self, *args, **options):
        server = TlsServer(self.authority, *args, **options)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def client(self, server, **options):
        client = server.client(**options)
        self.addCleanup(client.close)
        return client

    def check_alive(self, server):
        with server.client() as client:
            self.assertEqual(client.call("SET", "alive", "1"), b"OK")
            self.assertEqual(client.call("GET", "alive"), b"1")


class Commands(Case):
    def test_both_versions_are_spoken(self):
        server = self.serve()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.authority.context()
            context.minimum_version = context.maximum_version = version
            with TlsClient(server.port, context) as client:
                self.assertEqual(client.call("SET", "a", version.name), b"OK")
                self.assertEqual(client.call("GET", "a"), version.name.encode())
                self.assertEqual(client.socket.version().replace(".", "_"), version.name)

    def test_versions_and_ciphers_are_chosen(self):
        server = self.serve("--tls-protocols", "TLSv1.3", "--tls-ciphersuites",
                            "TLS_AES_128_GCM_SHA256")
        self.assertEqual(self.client(server).socket.cipher()[0], "TLS_AES_128_GCM_SHA256")
        old = self.authority.context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.assertRaises(ssl.SSLError):
            TlsClient(server.port, old)
        server = self.serve("--tls-protocols", "TLSv1.2", "--tls-ciphers",
                            "ECDHE-RSA-AES256-GCM-SHA384")
        both = self.client(server).socket
        self.assertEqual(both.cipher()[:2], ("ECDHE-RSA-AES256-GCM-SHA384", "TLSv1.2"))

    def test_a_pipeline_of_ten_megabytes_is_answered_in_order(self):
        server = self.serve("--workers", "2")
        client = self.client(server)
        commands = 10 * MIB // 1024
        sent = b"".join(encode("SET", f"key{i}", b"v" * 960 + b"%06d" % i) for i in range(commands))
        self.assertGreater(len(sent), 10_000_000)
        client.socket.sendall(sent)
        for _ in range(commands):
            self.assertEqual(client.reply(), b"OK")
        client.socket.sendall(b"".join(encode("GET", f"key{i}") for i in range(commands)))
        for i in range(commands):
            self.assertEqual(client.reply()[-6:], b"%06d" % i)

    def test_a_value_of_many_records_comes_back_whole(self):
        client = self.client(self.serve())
        value = os.urandom(5 * MIB)
        self.assertEqual(client.call("SET", "big", value), b"OK")
        self.assertEqual(client.call("GET", "big"), value)

    def test_a_request_in_tiny_pieces_is_one_request(self):
        client = self.client(self.serve())
        for byte in encode("SET", "a", "b"):
            client.socket.sendall(bytes([byte]))
        self.assertEqual(client.reply(), b"OK")

    def test_a_slow_reader_keeps_nobody_waiting_and_loses_nothing(self):
        server = self.serve()
        slow = self.client(server)
        slow.call("SET", "big", b"x" * MIB)
        for _ in range(40):
            slow.send("GET", "big")
        for _ in range(20):
            self.check_alive(server)
        for _ in range(40):
            self.assertEqual(len(slow.reply()), MIB)

    def test_who_never_reads_is_held_back(self):
        server = self.serve()
        client = self.client(server)
        client.call("SET", "big", b"x" * MIB)
        client.socket.setblocking(False)
        burst, sent = encode("GET", "big") * 1000, 0
        try:
            while sent < 64 * MIB:
                sent += client.socket.send(burst)
        except (ssl.SSLWantWriteError, BlockingIOError):
            pass
        self.check_alive(server)
        self.assertLess(server.resident_kib(), 512 * 1024)

    def test_many_clients_on_workers_that_exchange_them(self):
        server = self.serve("--policy", "sbb", "--workers", "3")
        troubles = []

        def work(name):
            try:
                with server.client() as client:
                    for i in range(100):
                        if client.call("SET", name, i) != b"OK":
                            troubles.append((name, i))
                        if client.call("GET", name) != str(i).encode():
                            troubles.append((name, i))
            except Exception as trouble:  # pylint: disable=broad-except
                troubles.append(trouble)

        threads = [threading.Thread(target=work, args=(f"n{i}",)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(troubles, [])

    def test_a_long_request_lets_tls_clients_in(self):
        server = self.serve("--workers", "1")
        busy = self.client(server)
        busy.send("DEBUG", "SLEEP", "1")
        with server.client() as client:
            self.assertEqual(client.call("PING"), b"PONG")
        self.assertEqual(busy.reply(), b"OK")

    @unittest.skipUnless(shutil.which("redis-cli"), "there is no redis-cli")
    def test_redis_cli_speaks_it(self):
        server = self.serve(clients="yes")
        files = ["--cacert", self.authority.cert("ca"), "--cert", self.authority.cert("client"),
                 "--key", self.authority.key("client")]
        command = ["redis-cli", "-p", str(server.port), "--tls", *files]
        done = subprocess.run([*command, "INCR", "n"], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        if "Unrecognized option" in done.stdout + done.stderr:
            self.skipTest("redis-cli has no TLS")
        self.assertEqual(done.stdout, "1\n", done.stderr)


class Clients(Case):
    def is_served(self, server, shows, authority=None):
        try:
            context = self.authority.context()
            if shows:
                authority = authority or self.authority
                context.load_cert_chain(authority.cert(shows), authority.key(shows))
            with TlsClient(server.port, context) as client:
                return client.call("PING") == b"PONG"
        except (OSError, EOFError):
            return False

    def test_who_must_show_a_certificate_is_refused_without(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        others = Authority(folder.name)
        others.sign("stranger", 1)
        for clients, alone, with_strange in (("yes", False, False), ("optional", True, False),
                                             ("no", True, True)):
            with self.subTest(clients=clients):
                server = self.serve(clients=clients)
                self.assertTrue(self.is_served(server, "client"))
                self.assertEqual(self.is_served(server, None), alone)
                self.assertEqual(self.is_served(server, "stranger", others), with_strange)
                expected = (not alone) + (not with_strange)
                eventually(server.failed, lambda failed, wanted=expected: failed == wanted)

    def test_who_speaks_no_tls_is_closed_and_counted(self):
        server = self.serve()
        with server.plain() as plain:
            plain.sendall(b"*1\r\n$4\r\nPING\r\n")
            self.assertNotIn(b"PONG", plain.makefile("rb").read())
        eventually(server.failed, lambda failed: failed == 1)
        self.assertEqual(server.stats()["tls_last_failure"], "wrong version number")
        self.check_alive(server)

    def test_half_a_handshake_keeps_nobody_waiting(self):
        server = self.serve("--workers", "1")
        silent = [server.plain() for _ in range(20)]
        for i, connection in enumerate(silent):
            self.addCleanup(connection.close)
            connection.sendall(b"\x16\x03\x01\x02\x00\x01"[:i % 7])
        self.check_alive(server)
        for connection in silent:
            connection.close()
        eventually(server.failed, lambda failed: failed == 20)
        self.check_alive(server)

    def test_a_handshake_that_does_not_end_is_ended(self):
        server = self.serve()
        with server.plain() as silent:
            silent.sendall(b"\x16\x03\x01")
            self.assertEqual(silent.recv(1), b"")
        self.assertEqual(int(server.stats()["timed_out_connections"]), 1)

    def test_garbage_ends_its_own_connection(self):
        server = self.serve()
        for garbage in (b"\x00" * 100, b"\xff" * 5000, b"GET / HTTP/1.1\r\n\r\n",
                        b"\x16\x03\x01\xff\xff" + b"\x01" * 70000):
            with server.plain() as plain:
                try:
                    plain.sendall(garbage)
                    while plain.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.check_alive(server)

    def test_connections_that_break_in_the_middle_leave_nothing_behind(self):
        server = self.serve()
        for reset in (False, True):
            for _ in range(10):
                client = server.client()
                client.call("SET", "big", b"x" * MIB)
                for _ in range(8):
                    client.send("GET", "big")
                if reset:
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                             b"\x01\0\0\0\0\0\0\0")
                client.close()
        clients = rb"connected_clients:1\r"
        eventually(lambda: server.call("INFO", "clients"), lambda text: re.search(clients, text))

    def test_tls_on_the_plain_port_is_no_command(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = self.serve("--port", str(port))
        self.assertEqual(server.port, port)
        with Client(port) as plain:
            self.assertEqual(plain.call("SET", "a", "1"), b"OK")
            with self.assertRaises(OSError):
                TlsClient(port, self.authority.context())
            tls_port = int(server.wait_for(r"RESP with TLS on \S+:(\d+)\n"))
            with TlsClient(tls_port, self.authority.context()) as client:
                self.assertEqual(client.call("GET", "a"), b"1")
            self.assertEqual(plain.call("PING"), b"PONG")

    def test_a_stop_answers_what_is_in_flight_and_says_goodbye(self):
        server = self.serve()
        client = self.client(server)
        client.call("PING")  # the server's part of the handshake is over
        server.begin(client, "DEBUG", "SLEEP", "0.3")
        server.terminate()
        self.assertEqual(client.reply(), b"OK")
        self.assertEqual(client.socket.recv(1), b"")
        self.assertEqual(server.wait(), 0)


class Reload(Case):
    def setUp(self):
        self.authority.sign("localhost", 100, "server")

    def reload(self, server):
        before = len(server.output())
        server.process.send_signal(signal.SIGHUP)
        done = re.compile(r"(to read again|everything stays as it was)")
        eventually(lambda: done.search(server.output(), before))
        return server.output()[before:]

    def test_new_connections_get_the_new_certificate(self):
        server = self.serve()
        old = self.client(server)
        self.assertEqual(old.serial(), 100)
        self.authority.sign("localhost", 200, "server")
        self.assertIn("info reload: the files of TLS are read again", self.reload(server))
        self.assertEqual(self.client(server).serial(), 200)
        self.assertEqual(old.call("PING"), b"PONG")

    def test_a_bad_certificate_is_refused_with_one_line_and_the_old_one_stays(self):
        server = self.serve()
        for file, name in ((self.authority.cert("server"), "--tls-cert-file"),
                           (self.authority.key("server"), "--tls-key-file"),
                           (self.authority.cert("ca"), None)):
            with self.subTest(file=file):
                with open(file, encoding="ascii") as whole:
                    kept = whole.read()
                with open(file, "w", encoding="ascii") as broken:
                    broken.write(kept[:100])
                said = self.reload(server)
                with open(file, "w", encoding="ascii") as whole:
                    whole.write(kept)
                if name:
                    self.assertRegex(said, rf"error reload: {name}: .*; everything stays as it was")
                    self.assertEqual(said.count("\n"), 1)
                self.assertEqual(self.client(server).serial(), 100)


@contextlib.contextmanager
def answering(context, end, reply):
    """The port of a server with TLS that sends `reply` for each `end`."""
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with context.wrap_socket(self.request, server_side=True) as link:
                with contextlib.suppress(OSError):
                    waiting = b""
                    while piece := link.recv(4096):
                        waiting += piece
                        link.sendall(reply * waiting.count(end))
                        waiting = waiting.rpartition(end)[2]

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


class Load(Case):
    """`rubato load --tls`, under the names of redis-benchmark's options."""

    def load(self, port, *args, scheme="resp"):
        return subprocess.run(
            [BINARY, "load", "--target", f"{scheme}://127.0.0.1:{port}", "--tls", "--rate", "300",
             "--duration", "0.3", "--warmup", "0", "--flows", "4", "--keys", "100", "--json", "-",
             *args], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def trusts(self):
        return ("--cacert", self.authority.cert("ca"))

    def shows(self, name="client"):
        return ("--cert", self.authority.cert(name), "--key", self.authority.key(name))

    def check_served(self, done, may_refuse=False):
        self.assertEqual(status_of_load(done), 0, done.stderr)
        report = json.loads(done.stdout[done.stdout.index("{"):])
        self.assertGreater(report["requests"], 0)
        self.assertEqual((report["errors"], report["lost"]), (0, 0))
        self.assertTrue(may_refuse or report["refused"] == 0, report["refused"])

    def check_refused(self, done, line, status):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(line, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_keys_are_loaded_and_large_replies_come_whole(self):
        server = self.serve()
        self.check_served(self.load(server.port, *self.trusts(), "--load-keys", "--value-size",
                                    "20000", "--mix", "get:9,set:1,range/30:1"))
        self.assertEqual(server.failed(), 0)
        self.check_served(self.load(server.port, *self.trusts(), "--sni", "localhost", "--nap"))

    def test_rpc_has_it_too(self):
        server = self.serve("--rpc-port", "0", "--tls-rpc", "yes")
        port = server.wait_for(r"RPC with TLS on \S+:(\d+)\n")
        self.check_served(self.load(port, *self.trusts(), "--mix", "set:1", scheme="rpc+kv"),
                          may_refuse=True)  # by admission, where the machine stalls

    def test_memcached_and_http_have_it_too(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority.cert("server"), self.authority.key("server"))
        for scheme, end, reply, mix in (
                ("memcached", b"\r\n", b"END\r\n", "get:1"),
                ("http", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", "get/:1")):
            with answering(context, end, reply) as port:
                self.check_served(self.load(port, *self.trusts(), "--mix", mix, scheme=scheme))

    def test_a_certificate_that_is_asked_for_is_shown(self):
        server = self.serve(clients="yes")
        self.check_served(self.load(server.port, *self.trusts(), *self.shows()))
        self.check_refused(self.load(server.port, *self.trusts()),
                           "TLS: tlsv13 alert certificate required", 1)

    def test_a_server_that_is_not_the_right_one_is_refused_in_one_line(self):
        server = self.serve()
        with tempfile.TemporaryDirectory() as folder:
            other = Authority(folder)
            self.check_refused(self.load(server.port, "--cacert", other.cert("ca")),
                               f"cannot connect to 127.0.0.1:{server.port}: TLS: "
                               "unable to get local issuer certificate", 1)
        self.check_refused(self.load(server.port), "TLS: ", 1)
        self.check_refused(self.load(server.port, *self.trusts(), "--sni", "other.example"),
                           "hostname mismatch", 1)
        self.check_served(self.load(server.port, "--insecure", "--sni", "other.example"))

    def test_a_port_without_tls_is_told(self):
        with Server() as plain:
            self.check_refused(self.load(plain.port, "--insecure"), "TLS: ", 1)

    def test_options_that_do_not_fit_are_one_line(self):
        key = self.authority.key("client")
        missing = os.path.join(self.folder.name, "missing")
        for args, line in ((("--cacert", missing), "--cacert: cannot read"),
                           (("--cacert", key), "--cacert: '" + key + "' holds no certificate"),
                           (("--cert", self.authority.cert("client")), "--key: takes"),
                           (("--cert", self.authority.cert("server"), "--key", key),
                            "--key: the key in")):
            self.check_refused(self.load(1, *args), line, 2)
        self.check_refused(self.load(1, scheme="rpc+udp"), "--tls: is for TCP", 2)
        status, output = refused("load", "--target", "resp://127.0.0.1:1", "--insecure")
        self.assertEqual((status, "need --tls" in output), (2, True), output)


class Options(Case):
    def refusal(self, *args):
        for check in ((), ("--check-config",)):
            status, text = refused("serve", "kv", "--port", "0", *check, *args)
            self.assertEqual(status, 2, text)
            self.assertEqual(text.count("\n"), 1, text)
        return text

    def test_what_is_missing_or_does_not_fit_is_one_line(self):
        cert, key = self.authority.cert("server"), self.authority.key("server")
        pair = ("--tls-cert-file", cert, "--tls-key-file", key)
        port = ("--tls-port", "0")
        for args, says in (
                (port, "--tls-cert-file: takes the name of a file"),
                ((*port, "--tls-cert-file", cert), "--tls-key-file: takes the name of a file"),
                ((*port, "--tls-cert-file", cert, "--tls-key-file", "/no"),
                 "--tls-key-file: cannot read '/no': No such file"),
                ((*port, "--tls-cert-file", cert, "--tls-key-file", self.authority.key("client")),
                 "--tls-key-file: the key in"),
                ((*port, "--tls-cert-file", key, "--tls-key-file", key),
                 "holds no certificate in PEM form"),
                ((*port, *pair), "--tls-ca-cert-file: is needed to check"),
                ((*port, *pair, "--tls-ca-cert-file", "/no"), "--tls-ca-cert-file: cannot read"),
                ((*port, *pair, "--tls-auth-clients", "maybe"), "--tls-auth-clients"),
                ((*port, *pair, "--tls-auth-clients", "no", "--tls-ciphers", "ROT13"),
                 "--tls-ciphers: 'ROT13' names no cipher"),
                ((*port, *pair, "--tls-auth-clients", "no", "--tls-ciphersuites", "ROT13"),
                 "--tls-ciphersuites: takes cipher suites"),
                ((*port, *pair, "--tls-protocols", "SSLv3"), "--tls-protocols"),
                (("--tls-port", "70000"), "--tls-port"),
                (pair, "--tls-cert-file: needs --tls-port"),
                (("--tls-rpc", "yes"), "--tls-rpc: needs --rpc-port"),
                (("--tls-metrics", "yes"), "--tls-metrics: needs --metrics-port"),
                ((*port, *pair, "--tls-auth-clients", "no", "--stack", "64KiB"), "--stack: "),
                (("--tls-port", "7001", "--rpc-port", "7001"), "takes another port than")):
            with self.subTest(says=says):
                self.assertIn(says, self.refusal(*args))

    def test_good_files_pass_the_check(self):
        status, text = refused("serve", "kv", "--check-config", "--tls-port", "0",
                               "--tls-cert-file", self.authority.cert("server"), "--tls-key-file",
                               self.authority.key("server"), "--tls-auth-clients", "no")
        self.assertEqual((status, text), (0, "the configuration is valid\n"))


class OtherPorts(Case):
    def test_metrics_come_over_https(self):
        server = self.serve("--metrics-port", "0", "--tls-metrics", "yes")
        port = server.wait_for(r"metrics on https://\S+:(\d+)/metrics\n")
        with server.plain() as plain:
            plain.sendall(b"no TLS\r\n")
            plain.makefile("rb").read()

        def metrics():
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", timeout=PATIENCE_S,
                                        context=self.authority.context()) as answer:
                return answer.read().decode()

        eventually(metrics, lambda text: "\nrubato_tls_handshakes_failed_total 1\n" in text)
        with socket.create_connection(("127.0.0.1", int(port)), PATIENCE_S) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            self.assertNotIn(b"HTTP/1.1 200", plain.makefile("rb").read())

    def test_top_and_its_page_read_a_metrics_port_with_tls(self):
        server = self.serve("--metrics-port", "0", "--tls-metrics", "yes")
        address = "127.0.0.1:" + server.wait_for(r"metrics on https://\S+:(\d+)/metrics\n")

        def top(*args):
            return subprocess.run([BINARY, "top", address, "--once", "--interval", "0.1", *args],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)

        done = top("--tls", "--cacert", self.authority.cert("ca"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"^{address} +synergy +pid {server.process.pid} ")
        for args, status, what in (((), 1, "with TLS \\(--tls\\)|closed|Connection reset"),
                                   (("--tls",), 1, "TLS: "), (("--insecure",), 2, "need --tls")):
            done = top(*args)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, f"^rubato: .*({what}).*\n$")
        with urllib.request.urlopen(f"https://{address}/top", timeout=PATIENCE_S,
                                    context=self.authority.context()) as answer:
            self.assertIn("<title>Rubato top</title>", answer.read().decode())

    def test_rpc_is_spoken_over_tls(self):
        server = self.serve("--rpc-port", "0", "--tls-rpc", "yes", "--workers", "2", *PATIENT)
        port = int(server.wait_for(r"Rubato RPC with TLS on \S+:(\d+)\n"))
        with patient_client(port, tls=self.authority.context(), queue=200) as client:
            value = b"v" * 100_000
            self.assertEqual(client.call(rpc.command("SET", "a", value)), b"+OK\r\n")
            futures = [client.submit(rpc.command("GET", "a")) for _ in range(200)]
            for future in futures:
                self.assertEqual(future.result(PATIENCE_S), b"$100000\r\n" + value + b"\r\n")
        self.check_alive(server)

    def test_a_password_is_asked_over_tls_as_well(self):
        server = self.serve("--requirepass", "hush")
        with server.client() as client:
            with self.assertRaisesRegex(ReplyError, "NOAUTH"):
                client.call("GET", "a")
            self.assertEqual(client.call("AUTH", "hush"), b"OK")


if __name__ == "__main__":
    unittest.main()
