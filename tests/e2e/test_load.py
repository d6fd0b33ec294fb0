# SPDX-License-Identifier: Apache-2.0
"""What `rubato load` ends with: a gate can rely on its exit status."""

import contextlib
import itertools
import json
import socket
import subprocess
import tempfile
import threading
import unittest

from server import BINARY, PATIENCE_S, MemcachedServer, Server, status_of_load


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
        """One error in 2000 requests: fewer than make a run invalid."""
        replies = itertools.chain([b"END\r\n"] * 5, [b"SERVER_ERROR out of memory\r\n"],
                                  itertools.repeat(b"END\r\n"))
        with answering(replies) as target:
            done, report = run_load(target, "--closed", "1", "--duration", "1")
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
                           (["--tls"], "--tls.*RESP and Rubato RPC"),
                           (["--password", "x"], "--password"),
                           (["--workload", "fixed-1"], "--workload")):
            status, said = refusal("--target", "memcached://127.0.0.1", *args)
            self.assertEqual(status, 2, said)
            self.assertRegex(said, f"^rubato: .*{what}.*\n$")


if __name__ == "__main__":
    unittest.main()
