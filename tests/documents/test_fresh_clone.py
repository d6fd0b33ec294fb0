# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents, as they stand there, in a fresh clone: first how the library is
installed, with nothing else built, then all that README.md shows under 'Use'. Takes as long as
building the project does.

Two things a reader does and a document does not say: other programs may have the ports, so each
is replaced by a free one; and a server in the foreground is stopped once it has served."""

import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from documented import ROOT, library_commands, use_commands

BUILD_LIMIT_S = 3600
LIMIT_S = 300
PATIENCE_S = 60


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]

# What `rubato load` fails with where the machine is too busy for its figures, not for its requests.
SPOILED = re.compile(r"^rubato: (the generator fell behind|\S+ % of the requests were "
                     "never sent)", re.MULTILINE)


def with_ports(command, ports):
    """`command` with every port replaced, the same one by the same."""
    def replaced(match):
        return match.group(1) + str(ports.setdefault(match.group(2), free_port()))
    command = re.sub(r"(--(?:metrics-)?port |127\.0\.0\.1:)(\d+)\b", replaced, command)
    if serves(command) and "--port" not in command:
        command += f" --port {free_port()}"
    return command


def serves(command):
    return command.startswith("rubato serve ")


class Commands(unittest.TestCase):
    """Runs commands in the folder `tree`, with `environment`, behind the words of `prefix`."""

    prefix = []

    def run_all(self, commands, limit_s):
        script = "\n".join(["set -e", *commands])
        done = subprocess.run([*self.prefix, "bash", "-c", script], cwd=self.tree,
                              env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s,
                              check=False)
        spoiled = commands[-1].startswith("rubato load ") and SPOILED.search(done.stdout)
        if not (spoiled and done.returncode == 1):
            self.assertEqual(done.returncode, 0, f"{commands}\n{done.stdout[-4000:]}")

    def start(self, command):
        """A server that listens, and is stopped at the end of the test at the latest."""
        log = tempfile.TemporaryFile("w+")
        self.addCleanup(log.close)
        server = subprocess.Popen([*self.prefix, *shlex.split(command)], cwd=self.tree,
                                  env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(self.stop, server)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and server.poll() is None:
            log.seek(0)
            found = re.search(r" on \S+:(\d+)\n", log.read())
            if found:
                return server, int(found.group(1))
            time.sleep(0.05)
        log.seek(0)
        raise AssertionError(f"{command} does not serve:\n{log.read()}")

    def stop(self, server):
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(PATIENCE_S), 0)

    def use(self, port):
        """The traffic that a document leaves to its reader."""
        self.run_all([f"rubato load --target resp://127.0.0.1:{port} --load-keys --keys 1000 --mix "
                      "get:99,range/1000:1 --rate 1000 --duration 3"], LIMIT_S)

    def do(self, commands):
        ports = {}
        for command in commands:
            command = with_ports(command.removesuffix("&").strip(), ports) + \
                (" &" if command.endswith("&") else "")
            with self.subTest(command):
                if not serves(command):
                    self.run_all([command], LIMIT_S)
                elif command.endswith("&"):
                    self.start(command.removesuffix(" &"))
                else:
                    server, port = self.start(command)
                    self.use(port)
                    self.stop(server)


class FreshClone(Commands):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rubato-clone-")
        cls.addClassCleanup(folder.cleanup)
        cls.tree = Path(folder.name) / "rubato"
        subprocess.run(["git", "clone", "-q", ROOT, cls.tree], check=True)
        cls.environment = {**os.environ, "PREFIX": str(Path(folder.name) / "prefix")}

    def test_1_the_library_is_installed_and_the_examples_are_built(self):
        self.run_all(library_commands(), BUILD_LIMIT_S)
        built = self.tree / "build/release"
        self.assertFalse((built / "bin/rubato").exists(), "the targets of the library made more")

    def test_2_every_command_under_use_does_its_work(self):
        make, path, *commands = use_commands()
        self.run_all([make], BUILD_LIMIT_S)
        self.assertEqual(path, "PATH=$PWD/build/release/bin:$PATH")
        self.environment["PATH"] = f"{self.tree}/build/release/bin:{os.environ['PATH']}"
        self.do(commands)


if __name__ == "__main__":
    unittest.main()
