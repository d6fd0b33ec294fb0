# SPDX-License-Identifier: Apache-2.0
"""`rubato top` on live servers: in a terminal (tmux; that part is skipped without), and --once."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from server import BINARY, PATIENCE_S, Server, refused
from waiting import eventually

TMUX = shutil.which("tmux")


def top(*args):
    done = subprocess.run([BINARY, "top", *args], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def serve(program, *args):
    server = Server("--metrics-port", "0", *args, program=program)
    port = server.wait_for(r"metrics on http://127.0.0.1:(\d+)/metrics")
    return server, f"127.0.0.1:{port}"


class Once(unittest.TestCase):
    def test_tells_what_a_server_serves(self):
        server, address = serve("kv")
        with server, server.client() as client:
            client.call("SET", "a", "b")
            watch = subprocess.Popen([BINARY, "top", address, "--once", "--json"], text=True,
                                     stdout=subprocess.PIPE)
            while watch.poll() is None:
                client.call("GET", "a")
            with watch.stdout:
                seen = json.load(watch.stdout)["servers"][0]
            self.assertEqual(watch.returncode, 0)
            types = {one["name"]: one for one in seen["types"]}
            self.assertGreater(types["get"]["second"]["count"], 0)
            self.assertAlmostEqual(types["get"]["rate_per_s"] * seen["second_s"],
                                   types["get"]["second"]["count"], delta=1)
            self.assertEqual(types["set"]["second"]["count"], 0)
            self.assertEqual(seen["pid"], server.process.pid)
            status, text, said = top(f"http://{address}/metrics", "--once", "--interval", "0.1")
            self.assertEqual((status, said), (0, ""))
            self.assertIn("get ", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
            self.assertNotIn("\033", text)

    def test_says_in_one_line_that_a_server_is_away(self):
        server, address = serve("spin")
        with server:
            pass
        status, text, said = top(address, "--once", "--interval", "0.1")
        self.assertEqual((status, text), (1, ""))
        self.assertEqual(said, f"rubato: cannot connect to {address}: Connection refused\n")

    def test_says_so_if_the_port_is_that_of_something_else(self):
        with Server() as server:
            status, _, said = top(str(server.port), "--once", "--interval", "0.1")
            self.assertEqual(status, 1)
            self.assertRegex(said, "^rubato: .* is no metrics port of a Rubato server.*\n$")

    def test_bad_arguments_are_one_line(self):
        with tempfile.NamedTemporaryFile("w") as broken:
            broken.write("no\n")
            broken.flush()
            for args, message in [
                    ((), "HOST:PORT: names the metrics port of a server"),
                    (("https://here:1/metrics",),
                     "HOST:PORT: takes https://here:1/metrics with --tls"),
                    (("here:http",), "HOST:PORT: takes HOST:PORT with a port of 1 to 65535"),
                    (("9", "--json"), "--json: needs --once"),
                    (("9", "--interval", "0"), "--interval: takes"),
                    (("9",), "top: takes a terminal"),
                    (("9", "--replay", broken.name), "--replay: takes the servers from the file"),
                    (("9", "--once", "--record", "/no/where"), "--record: cannot write"),
                    (("--replay", "/no/where"), "--replay: cannot read '/no/where'"),
                    (("--replay", broken.name), "line 1 takes at_s, server")]:
                status, text, said = top(*args)
                self.assertEqual((status, text), (2, ""), args)
                self.assertIn(message, said)
                self.assertEqual(said.count("\n"), 1, said)


class WithToken(unittest.TestCase):
    """Who has the server's token."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.token, self.wrong = (os.path.join(folder.name, name) for name in ("token", "wrong"))
        for path, token in ((self.token, "of the server, 16 bytes"), (self.wrong, "w" * 20)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(token + "\n")


class Setting(WithToken):
    def test_sets_options_of_a_server_that_lets_it(self):
        server, address = serve("kv", "--metrics-set-token", self.token)
        with server:
            status, text, said = top(address, "--set", "policy=ps", "--set", "set=quantum=7us",
                                     "--token-file", self.token)
            self.assertEqual((status, text, said), (0, "", ""))
            self.assertEqual(server.call("CONFIG", "GET", "policy"), [b"policy", b"ps"])
            self.assertIn(b"quantum=7us", server.call("CONFIG", "GET", "set")[1])
            for args, message in (
                    (("--set", "policy=no", "--token-file", self.token), "refuses: policy: "),
                    (("--set", "port=1", "--token-file", self.token), "port: no such option"),
                    (("--set", "policy=fcfs", "--token-file", self.wrong), "another one")):
                status, text, said = top(address, *args)
                self.assertEqual((status, text, said.count("\n")), (1, "", 1), said)
                self.assertIn(message, said)
            self.assertEqual(server.call("CONFIG", "GET", "policy"), [b"policy", b"ps"])

    def test_sighup_reads_the_token_again(self):
        server, address = serve("spin", "--metrics-set-token", self.token)
        with server:
            old = shutil.copy(self.token, self.token + ".old")
            shutil.copy(self.wrong, self.token)
            self.assertEqual(top(address, "--set", "policy=ps", "--token-file", old)[0], 0)
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: top(address, "--set", "policy=fcfs", "--token-file",
                                   self.wrong)[0], lambda status: status == 0)
            status, _, said = top(address, "--set", "policy=ps", "--token-file", old)
            self.assertEqual(status, 1)
            self.assertIn("another one", said)
            self.assertIn("the token is another one peer=127.0.0.1:", server.output())
            self.assertRegex(server.output(), "set by the metrics port .*peer=127.0.0.1:")

    def test_a_server_is_read_only_unless_it_says_otherwise(self):
        server, address = serve("spin")
        with server:
            status, _, said = top(address, "--set", "policy=ps", "--token-file", self.token)
            self.assertEqual(status, 1)
            self.assertIn("read only: the server has no --metrics-set-token", said)
        for args, message in ((("9", "--set", "policy=ps"), "--set: needs --token-file"),
                              (("9", "--set", "policy"), "--set: takes NAME=VALUE"),
                              (("9", "--token-file", "/no/where"), "--token-file: cannot read")):
            status, _, said = top(*args)
            self.assertEqual((status, said.count("\n")), (2, 1), said)
            self.assertIn(message, said)
        for args, message in ((["--metrics-set-token", self.token], "needs --metrics-port"),
                              (["--metrics-set-token", ""], "takes the name of a file"),
                              (["--metrics-port", "0", "--metrics-set-token", "/dev/null"],
                               "--metrics-set-token: '/dev/null' is empty")):
            status, said = refused("serve", "spin", *args)
            self.assertEqual((status, said.count("\n")), (2, 1), said)
            self.assertIn(message, said)


@unittest.skipIf(TMUX is None, "tmux is not installed")
class InATerminal(WithToken):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.recording = os.path.join(folder.name, "recording")
        self.socket = os.path.join(folder.name, "tmux")

    def tmux(self, *args):
        return subprocess.run([TMUX, "-S", self.socket, "-f", "/dev/null", *args], check=True,
                              capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def start(self, command):
        """The shell lives on, so that what is left on its screen can be seen."""
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", f"{command}; echo status $?; cat")
        self.addCleanup(self.tmux, "kill-server")

    def screen_with(self, *parts):
        """The screen once all of these are on it."""
        return eventually(lambda: self.tmux("capture-pane", "-p"),
                          lambda screen: all(part in screen for part in parts))

    def test_shows_a_loaded_server_follows_keys_and_leaves_the_terminal_as_it_was(self):
        server, address = serve("spin")
        with server:
            load = subprocess.Popen([BINARY, "load", "--target",
                                     f"spin://127.0.0.1:{server.port}", "--workload",
                                     "short:5us:95,long:2ms:5", "--rate", "300", "--duration",
                                     "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(load.wait)
            self.addCleanup(load.kill)
            self.start(f"{BINARY} top {address} --interval 0.2 --record {self.recording}")
            screen = self.screen_with("\nshort ", "\nlong ", "by rate", "synergy")
            self.assertEqual(len(screen.splitlines()), 24)
            self.tmux("send-keys", "/")
            self.tmux("send-keys", "lon")
            self.tmux("send-keys", "Enter")
            self.assertNotIn("\nshort   ", self.screen_with("only 'lon'", "types 1 "))
            self.tmux("send-keys", "f")
            self.screen_with("FROZEN")
            self.tmux("send-keys", "f")
            self.tmux("resize-window", "-x", "60", "-y", "12")
            self.assertEqual(len(self.screen_with("only 'lon'").splitlines()), 12)
        self.screen_with("away: cannot connect", "Connection refused")
        self.tmux("send-keys", "q")
        self.assertNotIn("away", self.screen_with("status 0"))
        status, text, _ = top("--replay", self.recording, "--once")
        self.assertEqual(status, 1)  # it was away at the end
        self.assertIn("\nshort ", text)

    def test_an_option_is_typed_and_set(self):
        server, address = serve("kv", "--metrics-set-token", self.token)
        with server:
            self.start(f"{BINARY} top {address} --interval 0.2 --token-file {self.token}")
            self.screen_with(" synergy ")
            self.tmux("send-keys", ":")
            self.tmux("send-keys", "policy=ps")
            self.screen_with("set: policy=ps_")
            self.tmux("send-keys", "Enter")
            self.screen_with(" ps ", "\nset policy=ps")
            self.assertEqual(server.call("CONFIG", "GET", "policy"), [b"policy", b"ps"])

    def test_signal_ends_it_with_the_terminal_restored(self):
        server, address = serve("spin")
        with server:
            self.start(f"{BINARY} top {address}")
            self.screen_with("synergy")
            self.tmux("send-keys", "C-c")
            self.assertNotIn("synergy", self.screen_with("status 0"))
            self.tmux("send-keys", "echoed", "Enter")  # keys are shown again
            self.screen_with("echoed\nechoed")


if __name__ == "__main__":
    unittest.main()
