# SPDX-License-Identifier: Apache-2.0
"""`--handover PATH`: each process of a server takes the listeners of the one before, which drains
and ends; no connection is refused and no acknowledged write is lost."""

import itertools
import json
import os
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

from server import BINARY, PATIENCE_S, Client, Server
from test_handover import PORTS, Visitor
from waiting import eventually

RESTARTS = 4
GREETING = b"rubato handover 1"


def is_free(port):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_ports(count):
    """Ports that nobody has, and that the kernel gives to no connection."""
    first, below = 10000, 30000
    begin = os.getpid() * 7 % (below - first)
    ports = (first + (begin + i) % (below - first) for i in range(below - first))
    return list(itertools.islice(filter(is_free, ports), count))


class Writer(threading.Thread):
    """Writes key after key, each on a connection of its own."""

    def __init__(self, port, name):
        super().__init__()
        self.port, self.name = port, name
        self.written = 0
        self.failures = []
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                with Client(self.port) as client:
                    client.call("SET", f"{self.name}:{self.written}", self.written)
                self.written += 1
            except (OSError, EOFError) as error:
                self.failures.append(repr(error))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(self.folder, "handover")
        self.ports = dict(zip(PORTS, free_ports(len(PORTS))))
        self.port = self.ports["--port"]

    def serve(self, *args):
        server = Server("--port", str(self.port), "--workers", "2", "--handover", self.path, *args)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def start(self, *args, path=None):
        """A server that may not come to serve: its process."""
        process = subprocess.Popen(
            [BINARY, "serve", "kv", "--engine", "memory", "--workers", "1", "--port",
             str(self.port), "--handover", self.path if path is None else path, *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def refusal(self, *args, path=None):
        process = self.start(*args, path=path)
        self.assertEqual(process.wait(PATIENCE_S), 2)
        output = process.stdout.read()
        self.assertEqual(output.count("\n"), 1, output)
        return output


class Files(Case):
    def test_what_the_server_before_has_recorded_is_kept(self):
        files = [os.path.join(self.folder, name) for name in ("requests", "trace")]
        options = ["--record", files[0], "--trace", files[1]]
        servers = []
        for _ in range(3):
            servers.append(self.serve(*options))
            with servers[-1].client() as client:
                client.call("SET", "a", "b")
            if len(servers) > 1:
                self.assertEqual(servers[-2].wait(), 0, servers[-2].output())
        servers[-1].terminate()
        self.assertEqual(servers[-1].wait(), 0)
        for file in files:
            self.assertIn(f"the file of the server before is kept file={file} as={file}.1",
                          servers[-1].output())
            for name in (file, file + ".1", file + ".2"):
                with self.subTest(file=name):
                    self.assertGreater(os.path.getsize(name), 0)
        for name in (files[1], files[1] + ".1", files[1] + ".2"):
            with open(name, encoding="utf-8") as text:
                events = json.load(text)["traceEvents"]
            self.assertEqual([e["name"] for e in events if e.get("cat") == "request"], ["set"])


    def test_a_file_that_can_have_no_other_name_is_kept_and_the_server_serves(self):
        file = os.path.join(self.folder, "trace")
        before = self.serve("--trace", file)
        for number in range(1, 6):
            os.mkdir(f"{file}.{number}")
        os.mkdir(f"{file}.5/full")
        after = self.serve("--trace", file)
        self.assertEqual(before.wait(), 0, before.output())
        with after.client() as client:
            client.call("SET", "a", "b")
        after.terminate()
        self.assertEqual(after.wait(), 0, after.output())
        self.assertIn("--trace waits until it is set, to keep the file of the server before",
                      after.output())
        with open(file, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
        self.assertNotIn("set", [event["name"] for event in events])


class Restarts(Case):
    def test_restarts_refuse_no_connection_and_lose_no_write(self):
        store = ["--engine", "rocksdb", "--dir", os.path.join(self.folder, "store")]
        store += [word for option, port in self.ports.items() if option != "--port"
                  for word in (option, str(port))]
        clients = [Writer(self.port, "a"), Writer(self.port, "b")]
        clients += [Visitor(port, option) for option, port in self.ports.items()]
        servers = [self.serve(*store)]
        try:
            for client in clients:
                client.start()
            for _ in range(RESTARTS):
                seen = clients[0].written
                eventually(lambda: clients[0].written > seen + 20)
                servers.append(self.serve(*store))
                self.assertEqual(servers[-2].wait(), 0, servers[-2].output())
        finally:
            for client in clients:
                client.stopping.set()
        for client in clients:
            client.join(PATIENCE_S)
        self.assertEqual([failure for client in clients for failure in client.failures], [])
        with servers[-1].client() as client:
            for writer in clients[:2]:
                for i in range(writer.written):
                    self.assertEqual(client.call("GET", f"{writer.name}:{i}"), str(i).encode())
        servers[-1].terminate()
        self.assertEqual(servers[-1].wait(), 0)
        self.assertFalse(os.path.exists(self.path))

    def test_a_request_in_flight_is_answered_before_the_next_server_begins(self):
        first = self.serve("--drain-limit", "20s")
        client = first.client()
        self.addCleanup(client.close)
        first.begin(client, "DEBUG", "SLEEP", "1")
        later = self.start()
        late = eventually(lambda: "the listeners are the next server's" in first.output()
                          and Client(self.port))
        self.addCleanup(late.close)
        late.send("PING")
        self.assertEqual(client.reply(), b"OK")
        self.assertEqual(late.reply(), b"PONG")
        self.assertEqual(first.wait(), 0)
        self.assertIsNone(later.poll())

    def test_another_takes_the_place_of_one_that_ends_while_it_waits(self):
        given = "the listeners are the next server's"
        first = self.serve("--drain-limit", "60s")
        client = first.client()
        self.addCleanup(client.close)
        first.begin(client, "DEBUG", "SLEEP", "60")  # until its client goes
        waiting = self.start()
        first.wait_for(f"({given})")
        waiting.kill()
        first.wait_for("(the next server has ended before this one)")
        with Client(self.port) as late:
            late.send("PING")
            third = self.start()
            eventually(lambda: first.output().count(given) == 2)
            client.close()
            self.assertEqual(late.reply(), b"PONG")
        first.wait()
        self.assertIsNone(third.poll())

    def test_of_a_server_that_is_killed_while_it_drains_the_next_one_serves(self):
        first = self.serve("--drain-limit", "60s")
        client = first.client()
        self.addCleanup(client.close)
        first.begin(client, "DEBUG", "SLEEP", "60")
        later = self.start()
        first.wait_for("(the listeners are the next server's)")
        with Client(self.port) as late:
            late.send("PING")
            first.process.kill()
            self.assertEqual(late.reply(), b"PONG")
            with self.assertRaises((EOFError, OSError)):
                client.reply()
        self.assertIsNone(later.poll())

    def test_of_a_server_that_is_killed_as_it_hands_over_the_next_one_has_the_listeners(self):
        for gave_them in (False, True):
            with self.subTest(gave_them=gave_them), \
                    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door, \
                    socket.create_server(("127.0.0.1", self.port)) as listener:
                door.bind(self.path)
                door.listen()
                later = self.start()
                server, _ = door.accept()
                self.assertEqual(server.recv(100), GREETING)
                if gave_them:
                    socket.send_fds(server, [GREETING], [door.fileno(), listener.fileno()])
                    self.assertEqual(server.recv(100), b"taken")
                    waiting = self.enterContext(Client(self.port))
                    waiting.send("PING")
                for each in (listener, door, server):
                    each.close()
                if gave_them:
                    self.assertEqual(waiting.reply(), b"PONG")
                else:
                    self.assertIn("PONG", eventually(lambda: self.ping(later)))
                later.terminate()
                self.assertEqual(later.wait(PATIENCE_S), 0)

    def test_what_a_killed_server_gave_is_kept_though_the_next_one_starts_and_is_killed_too(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door, \
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door_of_next, \
                socket.create_server(("127.0.0.1", self.port)) as listener:
            door.bind(self.path)
            door.listen()
            later = self.start()
            first, _ = door.accept()
            self.assertEqual(first.recv(100), GREETING)
            socket.send_fds(first, [GREETING], [door.fileno(), listener.fileno()])
            self.assertEqual(first.recv(100), b"taken")
            waiting = self.enterContext(Client(self.port))
            waiting.send("PING")
            os.unlink(self.path)
            door_of_next.bind(self.path)
            door_of_next.listen()
            for each in (listener, door, first):
                each.close()
            second, _ = door_of_next.accept()
            self.assertEqual(second.recv(100), GREETING)
            door_of_next.close()
            second.close()
            self.assertEqual(waiting.reply(), b"PONG")
            later.terminate()
            self.assertEqual(later.wait(PATIENCE_S), 0)

    def ping(self, process):
        self.assertIsNone(process.poll())
        try:
            with Client(self.port) as client:
                return client.call("PING").decode()
        except OSError:
            return ""

    def test_a_port_that_is_new_is_opened_and_one_that_is_gone_is_closed(self):
        memcached, agent = self.ports["--memcached-port"], self.ports["--agent-port"]
        self.serve("--memcached-port", str(memcached))
        self.serve("--agent-port", str(agent))
        socket.create_connection(("127.0.0.1", agent), PATIENCE_S).close()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", memcached), PATIENCE_S)

    def test_a_server_that_was_killed_leaves_a_path_for_the_next(self):
        with self.serve() as first:
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
            first.process.kill()
        self.assertEqual(self.serve().call("PING"), b"PONG")


class Refusals(Case):
    def check_serves(self, server):
        self.assertEqual(server.call("PING"), b"PONG")
        self.assertIsNone(server.process.poll())

    def test_what_is_no_socket_of_a_server_is_refused_and_left_alone(self):
        file = os.path.join(self.folder, "file")
        with open(file, "w", encoding="ascii") as text:
            text.write("kept")
        self.assertIn("--handover: '" + file + "' is there and is no socket",
                      self.refusal(path=file))
        with open(file, encoding="ascii") as text:
            self.assertEqual(text.read(), "kept")
        other = os.path.join(self.folder, "other")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(other)
            listener.listen()
            self.assertIn("is the socket of another program", self.refusal(path=other))
        self.assertIn("takes a path of 107 bytes at most", self.refusal(path="/" + "x" * 107))
        self.assertIn("--handover: takes the path", self.refusal(path=""))
        self.assertIn("--metrics-port: takes a port, not 0", self.refusal("--metrics-port", "0"))

    def test_another_version_is_refused_and_the_server_goes_on(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen()
            asker = self.start()
            server, _ = listener.accept()
            with server:
                self.assertEqual(server.recv(100), GREETING)
                server.send(b"rubato handover 7")
                self.assertEqual(asker.wait(PATIENCE_S), 2)
            self.assertIn("speaks version 7 of the handover, this program 1", asker.stdout.read())
        os.unlink(self.path)
        server = self.serve()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(PATIENCE_S)
            client.connect(self.path)
            client.send(b"rubato handover 7")
            answer, descriptors, _, _ = socket.recv_fds(client, 100, 16)
            self.assertEqual((answer, descriptors), (GREETING, []))
        self.check_serves(server)

    def test_who_goes_away_before_it_has_taken_them_changes_nothing(self):
        server = self.serve()
        for said in (b"", GREETING):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.settimeout(PATIENCE_S)
                client.connect(self.path)
                if said:
                    client.send(said)
                    _, descriptors, _, _ = socket.recv_fds(client, 100, 16)
                    self.assertEqual(len(descriptors), 2)
                    for each in descriptors:
                        os.close(each)
        self.check_serves(server)

    def test_a_wrong_option_ends_no_server(self):
        server = self.serve()
        self.assertIn("--set", self.refusal("--set", "nonsense=1"))
        self.check_serves(server)


if __name__ == "__main__":
    unittest.main()
