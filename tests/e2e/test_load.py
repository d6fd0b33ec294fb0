# SPDX-License-Identifier: Apache-2.0
"""What `rubato load` ends with: a gate can rely on its exit status."""

import contextlib
import http.server
import itertools
import json
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from server import BINARY, PATIENCE_S, MemcachedServer, Server, status_of_load
from waiting import eventually, pass_time


def run_load(target, *args):
    """What ended, and the report."""
    with tempfile.NamedTemporaryFile("r") as report:
        done = subprocess.run([BINARY, "load", "--target", target, "--warmup", "0", "--json",
                               report.name, *args], capture_output=True, text=True,
                              timeout=3 * PATIENCE_S, check=False)
        return done, json.load(report)


def load(target, *args):
    """Exit status but for what a busy machine does to it, what went to stderr, and the report."""
    done, report = run_load(target, *args)
    return status_of_load(done), done.stderr, report


@contextlib.contextmanager
def answering(replies):
    """The target of a server whose one connection gets a reply of `replies` per line."""
    def serve(listener):
        link, _ = listener.accept()
        with link, link.makefile("rb") as requests:
            for _ in requests:
                link.sendall(next(replies))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"memcached://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(PATIENCE_S)


@contextlib.contextmanager
def started(command):
    """Its process, which ends with the block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def refusal(*args):
    """Exit status and stderr of a command line that is wrong."""
    done = subprocess.run([BINARY, "load", *args], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    return done.returncode, done.stderr


class ExitStatus(unittest.TestCase):
    def check_failed(self, run, reason):
        status, said, report = run
        self.assertEqual(status, 1, said)
        self.assertRegex(said, f"^rubato: .*{reason}.*\\n$")
        self.assertFalse(report["valid"])
        self.assertIn(report["invalid_reason"], said)

    def test_a_run_of_errors_fails(self):
        with Server() as server:
            self.check_failed(load(f"resp://127.0.0.1:{server.port}", "--mix", "lrange:1",
                                   "--rate", "200", "--duration", "0.5"),
                              "100.00 % of the requests got an error: ERR unknown command")

    def test_a_run_without_a_single_reply_fails(self):
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            self.check_failed(load(f"resp://127.0.0.1:{deaf.getsockname()[1]}", "--flows", "3",
                                   "--rate", "200", "--duration", "0.2", "--timeout", "0.1"),
                              "none was served: .* 3 without a reply")

    def test_a_run_whose_figures_are_not_to_be_trusted_fails_with_its_report(self):
        with Server(program="spin") as server:
            done, report = run_load(f"spin://127.0.0.1:{server.port}", "--workload",
                                    "long:20ms:100", "--flows", "1", "--rate", "500",
                                    "--duration", "0.5", "--timeout", "1")
            self.check_failed((done.returncode, done.stderr, report), "(never sent|fell behind)")

    def test_one_failed_request_of_a_valid_run_fails_it(self):
        """One error in 1000 requests or more: fewer than make a run invalid."""
        for seconds in ("0.5", "2", "8", "30"):  # until the machine makes so many, undisturbed
            replies = itertools.chain([b"END\r\n"] * 5, [b"SERVER_ERROR out of memory\r\n"],
                                      itertools.repeat(b"END\r\n"))
            with answering(replies) as target:
                done, report = run_load(target, "--closed", "1", "--duration", seconds)
            if report["requests"] >= 2000 and report["valid"]:
                break
        self.assertEqual((report["errors"], report["valid"], done.returncode), (1, True, 1), done)
        self.assertRegex(done.stderr, "requests 1 got an error and 0 no reply\n$")


class Commands(unittest.TestCase):
    def test_any_command_can_be_in_the_mix(self):
        mix = ("get:2,exists/{key}:2,strlen/{key}:2,setrange/n:{key}/2/{value}:1,"
               "getrange/{key}/0/3:1,GET/a%2Fb:1,dbsize:1")
        with Server() as server:
            server.call("SET", "a/b", "x")
            status, said, report = load(
                f"resp://127.0.0.1:{server.port}", "--mix", mix, "--keys", "50", "--value-size",
                "5", "--load-keys", "--rate", "1000", "--duration", "0.5", "--service-us",
                "strlen/{key}=2")
            self.assertEqual(status, 0, said)
            self.assertEqual(report["errors"] + report["lost"], 0, report)
            types = {entry["name"]: entry["count"] for entry in report["types"]}
            self.assertEqual(set(types), {entry.rsplit(":", 1)[0] for entry in mix.split(",")})
            self.assertTrue(all(types.values()), types)
            calls = server.call("INFO", "commandstats").decode()
            self.assertIn(f"cmdstat_strlen:calls={types['strlen/{key}']},", calls)
            written = [server.call("GET", f"n:key:{i:012}") for i in range(50)]
            self.assertTrue(set(written) <= {None, b"\0\0vvvvv"}, written)
            self.assertIn(b"\0\0vvvvv", written)

    def test_an_unknown_command_fails_the_run(self):
        with Server() as server:
            status, said, _ = load(f"resp://127.0.0.1:{server.port}", "--mix", "hgetalll/x:1",
                                   "--rate", "200", "--duration", "0.2")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "^rubato: .*ERR unknown command.*\n$")

    def test_a_malformed_template_is_one_line(self):
        for mix, what in (("strlen/{kay}:1", "neither {key} nor {value}"),
                          ("strlen/%zz:1", "two hexadecimal digits"),
                          ("lrange/a//3:1", "empty argument"),
                          ("7/x:1", "command's name"),
                          ("monitor:1", "exactly one reply"),
                          ("strlen/{key}", "weight")):
            status, said = refusal("--target", "resp://127.0.0.1:1", "--mix", mix)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, f"^rubato: --mix: .*{what}.*\n$")
        status, said = refusal("--target", "rpc+kv://127.0.0.1:1", "--mix", "strlen/{key}:1")
        self.assertEqual(status, 2, said)
        self.assertRegex(said, "^rubato: --mix: .*resp:// targets.*\n$")


class MemcachedTarget(unittest.TestCase):
    def test_every_verb_that_memcached_has(self):
        with MemcachedServer() as server:
            status, said, report = load(
                f"memcached://127.0.0.1:{server.other}", "--mix",
                "get:4,set:2,incr:2,del:1,mget/5:1,ping:1", "--keys", "300", "--value-size", "40",
                "--load-keys", "--rate", "1000", "--duration", "0.5", "--flows", "8")
            self.assertEqual(status, 0, said)
            self.assertEqual(report["errors"] + report["refused"] + report["lost"], 0, report)
            types = {entry["name"]: entry["count"] for entry in report["types"]}
            self.assertEqual(sorted(types), ["del", "get", "incr", "mget/5", "ping", "set"])
            self.assertTrue(all(types.values()), types)
            counters = [int(server.call("GET", f"counter:{i}")) for i in range(300)]
            self.assertEqual(sum(counters), types["incr"])

    def test_the_keys_are_set_first(self):
        with MemcachedServer() as server:
            status, said, _ = load(f"memcached://127.0.0.1:{server.other}", "--keys", "1200",
                                   "--value-size", "7", "--load-keys", "--rate", "50",
                                   "--duration", "0.1")
            self.assertEqual(status, 0, said)
            self.assertEqual(server.call("DBSIZE"), 1200)
            self.assertEqual(server.call("GET", "key:000000001199"), b"v" * 7)

    def test_a_miss_is_a_reply(self):
        with MemcachedServer() as server:
            status, said, report = load(f"memcached://127.0.0.1:{server.other}", "--mix",
                                        "get:1,incr:1,del:1", "--rate", "200", "--duration",
                                        "0.3", "--pick", "random", "--flows", "2")
            self.assertEqual(status, 0, said)
            self.assertEqual(report["errors"], 0)

    def test_an_error_of_the_server_is_one_line(self):
        with MemcachedServer() as server:
            run = refusal("--target", f"memcached://127.0.0.1:{server.other}", "--keys", "1",
                          "--value-size", "2000000", "--load-keys")
        self.assertEqual(run[0], 1, run)
        self.assertRegex(run[1], "^rubato: .*SERVER_ERROR object too large for cache\n$")

    def test_refusals_and_errors_are_counted_apart(self):
        replies = itertools.cycle([b"VALUE k 0 3\r\nabc\r\nEND\r\n",
                                   b"SERVER_ERROR overloaded short retry-after-ms 12\r\n",
                                   b"SERVER_ERROR out of memory\r\n", b"END\r\n"])

        with answering(replies) as target:
            status, said, report = load(target, "--closed", "1", "--duration", "0.3")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "got an error: SERVER_ERROR out of memory")
        quarter = report["requests"] / 4
        self.assertAlmostEqual(report["refused"], quarter, delta=1)
        self.assertAlmostEqual(report["errors"], quarter, delta=1)
        self.assertEqual(report["lost"], 0)

    def test_another_protocol_is_one_line(self):
        with Server() as server:
            for keys in [], ["--load-keys"]:
                run = refusal("--target", f"memcached://127.0.0.1:{server.port}", *keys)
                self.assertEqual(run[0], 1, run)
                self.assertRegex(run[1], "^rubato: .* is not memcached's text protocol.*\n$")

    def test_what_memcached_has_not_is_refused(self):
        for args, what in ((["--mix", "get:9,lrange:1"], "--mix.*'lrange'.*memcached"),
                           (["--mix", "exists:1"], "--mix.*'exists'.*memcached"),
                           (["--password", "x"], "--password"),
                           (["--workload", "fixed-1"], "--workload")):
            status, said = refusal("--target", "memcached://127.0.0.1", *args)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, f"^rubato: .*{what}.*\n$")


class Parts(unittest.TestCase):
    """Several generators as one run."""

    TOKEN = "a token of twenty-four b"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.token = self.file("token", self.TOKEN + "\n")

    def file(self, name, text):
        path = f"{self.folder.name}/{name}"
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def agent(self, token=None):
        """Its process and address."""
        process = subprocess.Popen(
            [BINARY, "load", "--agent", "0", "--token-file", token or self.token],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process, process.stdout.readline().split()[-1]

    def check_is_one_run(self, server, *args):
        status, said, report = load(f"spin://127.0.0.1:{server.port}", "--workload",
                                    "short:5us:90,long:50us:10", "--rate", "600", "--flows", "7",
                                    "--duration", "1", "--nap", *args)
        self.assertEqual(status, 0, said)
        self.assertEqual(report["lost"] + report["errors"], 0, report)
        # One Poisson process of the whole rate: within six standard deviations.
        self.assertAlmostEqual(report["requests"], 600, delta=150)
        self.assertEqual(report["requests"], sum(kind["count"] for kind in report["types"]))
        undisturbed = report["undisturbed"]
        self.assertEqual([kind["name"] for kind in undisturbed["types"]], ["short", "long"])
        counts = [kind["count"] for kind in undisturbed["types"]]
        self.assertAlmostEqual(undisturbed["share"], sum(counts) / report["requests"])
        return report

    def test_parts_begin_when_all_are_ready(self):
        """The second agent is this test, which is ready once the first one's connections stand."""
        _, address = self.agent()
        with Server() as server, socket.create_server(("127.0.0.1", 0)) as second:
            def calls():
                return server.call("INFO", "commandstats").decode().count("cmdstat_get:")

            agents = f"{address},127.0.0.1:{second.getsockname()[1]}"
            command = [BINARY, "load", "--target", f"resp://127.0.0.1:{server.port}", "--flows",
                       "10", "--duration", "300", "--nap", "--agents", agents, "--token-file",
                       self.token]
            with started(command) as asker:
                link, _ = second.accept()
                with link, link.makefile("rw") as lines:
                    self.assertIn("--flows", json.loads(lines.readline())["args"])
                    eventually(lambda: server.call("CLIENT", "LIST").count(b"\n"),
                               lambda count: count >= 5)
                    self.assertEqual(calls(), 0)
                    lines.write('{"ready": true}\n')
                    lines.flush()
                    # The duration, the time for replies and slack.
                    go = json.loads(lines.readline())
                    self.assertTrue(go["go"])
                    self.assertGreater(go["limit_s"], 300)
                    eventually(calls)
                    lines.write('{"refused": "no more"}\n')
                    lines.flush()
                    self.assertEqual(asker.wait(PATIENCE_S), 1)
                    self.assertRegex(asker.stderr.read(), "^rubato: agent .* refused: no more\n$")

    def test_a_part_that_ends_before_all_are_ready_ends_the_run(self):
        """Both agents are this test; the second one says nothing."""
        report = '{"status": 0, "said": "", "report": "{}"}\n'
        for words in (['{"ready": true}\n' + report], ['{"ready": true}\n', report]):
            with socket.create_server(("127.0.0.1", 0)) as first, \
                    socket.create_server(("127.0.0.1", 0)) as second:
                agents = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in (first, second))
                command = [BINARY, "load", "--target", "spin://127.0.0.1:1", "--duration", "1",
                           "--agents", agents, "--token-file", self.token]
                with started(command) as asker, contextlib.ExitStack() as links:
                    link = links.enter_context(first.accept()[0])
                    links.enter_context(second.accept()[0])
                    for word in words:
                        link.sendall(word.encode())
                        pass_time(0.3, "a silence between the two lines of an agent")
                    self.assertEqual(asker.wait(PATIENCE_S), 1)
                    self.assertRegex(asker.stderr.read(),
                                     "^rubato: agent .* ended before all were ready\n$")

    def test_peers_without_the_token_hold_up_nobody(self):
        _, address = self.agent()
        host, port = address.rsplit(":", 1)
        with contextlib.ExitStack() as silent, Server(program="spin") as server:
            for _ in range(70):
                silent.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
            self.check_is_one_run(server, "--agents", address, "--token-file", self.token)

    def test_an_interrupted_run_has_a_report(self):
        _, address = self.agent()
        for shared in (["--processes", "2"], ["--agents", address, "--token-file", self.token]):
            out = f"{self.folder.name}/interrupted.json"
            with Server() as server:
                command = [BINARY, "load", "--target", f"resp://127.0.0.1:{server.port}",
                           "--duration", "300", "--warmup", "0", "--nap", "--json", out, *shared]
                with started(command) as run:
                    eventually(lambda: b"cmdstat_get:" in server.call("INFO", "commandstats"))
                    run.send_signal(signal.SIGINT)
                    self.assertEqual(run.wait(PATIENCE_S), 1)
                    self.assertIn("interrupted before its end", run.stderr.read())
            with open(out, encoding="utf-8") as file:
                report = json.load(file)
            self.assertFalse(report["valid"])
            self.assertGreater(report["requests"], 0)

    def test_the_password_is_in_no_argument_of_a_generator(self):
        secret = "of-the-server-only"
        process, address = self.agent()
        with Server("--requirepass", secret) as server, server.client() as client:
            client.call("AUTH", secret)
            for shared in (["--processes", "2"], ["--agents", address, "--token-file", self.token]):
                command = [BINARY, "load", "--target", f"resp://127.0.0.1:{server.port}",
                           "--password", secret, "--duration", "300", "--nap", *shared]
                with started(command) as run:
                    parent = process.pid if "--agents" in shared else run.pid
                    children = eventually(lambda of=parent: children_of(of), bool)
                    for child in children:
                        # Until then it is a copy of who started it.
                        arguments = eventually(lambda of=child: arguments_of(of),
                                               lambda words: b"--part" in words)
                        self.assertNotIn(secret.encode(), arguments)
                    eventually(lambda: b"cmdstat_get:" in client.call("INFO", "commandstats"))
                    run.terminate()
                    run.wait(PATIENCE_S)
                client.call("CONFIG", "RESETSTAT")

    def test_an_agent_takes_no_other_options(self):
        status, said = refusal("--agent", "0", "--token-file", self.token, "--rate", "5")
        self.assertEqual(status, 2, said)
        self.assertRegex(said, "^rubato: --agent: goes without --rate.*\n$")

    def test_files_of_tls_are_those_of_the_agents(self):
        status, said = refusal("--target", "resp://127.0.0.1:1", "--tls", "--cacert", "/nowhere",
                               "--agents", "127.0.0.1:1", "--token-file", self.token)
        self.assertEqual(status, 1, said)
        self.assertIn("127.0.0.1:1", said)
        status, said = refusal("--target", "resp://127.0.0.1:1", "--tls", "--cacert", "/nowhere")
        self.assertEqual(status, 2, said)
        self.assertRegex(said, "^rubato: --cacert")

    def test_processes_share_the_rate_and_the_connections(self):
        with Server(program="spin") as server:
            report = self.check_is_one_run(server, "--processes", "3")
        self.assertEqual(report["settings"]["flows"], "7")
        self.assertEqual(report["settings"]["processes"], "3")

    def test_agents_generate_for_who_knows_the_token_and_go_on(self):
        first, second = self.agent(), self.agent()
        agents = f"{first[1]},{second[1]}"
        with Server(program="spin") as server:
            for _ in range(2):
                self.check_is_one_run(server, "--agents", agents, "--token-file", self.token)
            target = f"spin://127.0.0.1:{server.port}"
            wrong = self.file("wrong", "another token altogether")
            for args, what in (
                    (["--agents", first[1], "--token-file", wrong], "the token is another one"),
                    (["--agents", agents, "--token-file", self.token, "--arrivals", "trace:/none"],
                     "cannot read '/none'")):
                status, said = refusal("--target", target, *args)
                self.assertIn(status, (1, 2), said)
                self.assertRegex(said, f"^rubato: .*{what}.*\n$")
            self.check_is_one_run(server, "--agents", first[1], "--token-file", self.token)
        first[0].terminate()
        self.assertEqual(first[0].wait(PATIENCE_S), 0)

    def test_an_agent_ends_a_run_whose_asker_is_gone(self):
        process, address = self.agent()
        with Server(program="spin") as server:
            command = [BINARY, "load", "--target", f"spin://127.0.0.1:{server.port}", "--duration",
                       "300", "--agents", address, "--token-file", self.token]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as asker:
                eventually(lambda: len(children_of(process.pid)), bool)
                status, said = refusal(*command[2:])
                self.assertEqual(status, 1, said)
                self.assertRegex(said, "^rubato: agent .* is in another run\n$")
                asker.terminate()
                self.assertEqual(asker.wait(PATIENCE_S), 1)
                self.assertIn("interrupted", asker.stderr.read())
            eventually(lambda: children_of(process.pid), lambda found: not found)

    def test_an_agent_takes_no_file_names_to_write_and_no_nonsense(self):
        _, address = self.agent()
        host, port = address.rsplit(":", 1)
        version = subprocess.run([BINARY, "--version"], capture_output=True, text=True,
                                 check=True).stdout.split()[-1]
        for asked, what in ((b"GET / HTTP/1.1\n", "another language"),
                            (b'{"token": "no"}\n', "token is another"),
                            (json.dumps({"token": self.TOKEN, "version": "0"}), "is rubato"),
                            (json.dumps({"token": self.TOKEN, "version": 7}), "is rubato"),
                            (json.dumps({"token": self.TOKEN, "version": version, "args": 7}),
                             "a list of texts"),
                            (b"x" * (2 << 20), "at most 1048576 bytes"),
                            (json.dumps({"token": self.TOKEN, "version": version,
                                         "args": ["--json=/tmp/x"]}), "takes no --json")):
            with socket.create_connection((host, int(port)), PATIENCE_S) as link:
                link.sendall(asked if isinstance(asked, bytes) else asked.encode() + b"\n")
                with link.makefile() as lines:
                    self.assertIn(what, json.loads(lines.readline())["refused"])

    def test_what_does_not_go_with_parts_is_refused(self):
        for args, what in ((["--processes", "2", "--timeline"], "--processes.*--timeline"),
                           (["--processes", "2", "--flows", "1"], "--flows.*one a part"),
                           (["--processes", "3", "--rate", "0.2"], "--processes.*less than 0.1"),
                           (["--agents", "127.0.0.1:1"], "--agents.*--token-file"),
                           (["--agents", "nowhere"], "--agents.*HOST:PORT"),
                           (["--bind", "::1"], "--bind.*--agent"),
                           (["--difference"], "--difference.*--closed and --rate")):
            status, said = refusal("--target", "spin://127.0.0.1:1", *args)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, f"^rubato: .*{what}.*\n$")
        short = self.file("short", "short")
        for args, what in ((["--agent", "0"], "--token-file"), ([], "--target"),
                           (["--agent", "0", "--token-file", short], "16 bytes")):
            status, said = refusal(*args)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, f"^rubato: .*{what}.*\n$")


class WebHandler(http.server.BaseHTTPRequestHandler):
    """/chunks answers in chunks, /bad with 404, /busy with 503, /last once per connection, /end
    until its end; others tell lengths."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # pylint: disable=invalid-name
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, self.headers["Host"], len(body)))
        status = {"/bad": 404, "/busy": 503}.get(self.path, 200)
        self.send_response(status)
        if self.path == "/chunks":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\n0\r\n\r\n")
            return
        if self.path in ("/last", "/end"):
            self.send_header("Connection", "close")  # makes the handler close it, too
        if self.path != "/end":
            self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    do_POST = do_GET

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def web_server(tls=None):
    """An HTTP/1.1 server; what it has seen is in `seen`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), WebHandler)
    server.seen = []
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class HttpTarget(unittest.TestCase):
    def load(self, server, mix, *args):
        port = server.server_address[1]
        return load(f"http://127.0.0.1:{port}", "--mix", mix, "--rate", "200", "--duration", "0.5",
                    "--flows", "4", "--nap", *args)

    def test_requests_and_their_replies(self):
        with web_server() as server:
            status, said, report = self.load(
                server, "get/a/{key}?x=1:2,post/b:1,get/chunks:1", "--keys", "3", "--value-size",
                "70")
            seen = set(server.seen)
            host = f"127.0.0.1:{server.server_address[1]}"
        self.assertEqual(status, 0, said)
        self.assertEqual(report["errors"] + report["refused"] + report["lost"], 0)
        self.assertEqual(
            seen, {("GET", f"/a/key:{i:012}?x=1", host, 0) for i in range(3)}
            | {("POST", "/b", host, 70), ("GET", "/chunks", host, 0)})

    def test_errors_and_refusals(self):
        with web_server() as server:
            status, said, report = self.load(server, "get/bad:1,get/busy:1,get/:2")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "got an error: HTTP/1.1 404 Not Found")
        kinds = {kind["name"]: kind for kind in report["types"]}
        self.assertGreater(kinds["get/bad"]["errors"], 0)
        self.assertGreater(kinds["get/busy"]["refused"], 0)
        self.assertEqual(kinds["get/"]["errors"] + kinds["get/"]["refused"], 0)

    def test_connections_that_the_server_closes_lose_nothing(self):
        with web_server() as server:
            status, said, report = self.load(server, "get/last:1,get/end:1,get/:1")
        self.assertEqual(status, 0, said)
        self.assertEqual(report["errors"] + report["refused"] + report["lost"], 0)
        self.assertTrue(all(kind["count"] for kind in report["types"]), report["types"])

    def test_what_is_no_http_is_one_line(self):
        with Server() as server:
            status, said = refusal("--target", f"http://127.0.0.1:{server.port}")
        self.assertEqual(status, 1)
        self.assertRegex(said, "^rubato: .*HTTP/1.1.*right port.\n$")
        for args, what in ((["--mix", "head/:1"], "--mix.*'head/'.*get, delete, post or put"),
                           (["--mix", "get/a b:1"], "--mix.*%XX"), (["--load-keys"], "--load-keys"),
                           (["--password", "x"], "--password")):
            status, said = refusal("--target", "http://127.0.0.1:1", *args)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, f"^rubato: {what}.*\n$" if what.startswith("--") else what)


class Replay(unittest.TestCase):
    def test_a_recording_is_replayed_request_by_request(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, again = f"{folder}/a.trace", f"{folder}/b.trace"
            with Server("--record", trace, program="spin") as server:
                _, _, first = load(f"spin://127.0.0.1:{server.port}", "--workload",
                                   "short:5us:90,long:500us:10", "--rate", "300", "--duration",
                                   "1", "--nap")
                server.terminate()
                server.wait()
            with Server("--record", again, program="spin") as server:
                status, said, report = load(f"spin://127.0.0.1:{server.port}", "--replay", trace,
                                            "--nap")
                server.terminate()
                server.wait()
            self.assertEqual(status, 0, said)
            self.assertEqual(report["arrivals"], f"trace:{trace}")
            self.assertEqual(report["requests"], first["requests"])
            self.assertAlmostEqual(report["offered_rps"] / first["offered_rps"], 1, delta=0.15)
            status, said = refusal("--target", "resp://127.0.0.1:1", "--replay", trace)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, "^rubato: --replay: the trace has requests of type")
            status, said = refusal("--target", "spin://127.0.0.1:1", "--replay", BINARY)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, "^rubato: --replay: .*\n$")


class Loops(unittest.TestCase):
    def test_the_difference_between_closed_and_open_is_told(self):
        with Server(program="spin") as server:
            done, report = run_load(f"spin://127.0.0.1:{server.port}", "--workload",
                                    "short:5us:95,long:5ms:5", "--closed", "1", "--rate", "200",
                                    "--flows", "64", "--difference", "--duration", "1", "--nap")
        self.assertEqual(status_of_load(done), 0, done.stderr)
        closed, opened = report["runs"]
        self.assertEqual((closed["loop"], opened["loop"]), ("closed", "open"))
        self.assertLessEqual(closed["requests"], 201)
        self.assertRegex(done.stdout, "what the closed loop hid.*\n.*closed +open +times")


def arguments_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as words:
        return words.read().split(b"\0")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
        return listed.read().split()


if __name__ == "__main__":
    unittest.main()
