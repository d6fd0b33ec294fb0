# SPDX-License-Identifier: Apache-2.0
"""What an operator's other programs read: metrics, dashboard, unit, manual pages, completion."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import exposition
from server import BINARY, Server
from waiting import PATIENCE_S, eventually

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
BRIEF_BYTES = 40_000


def scrape(port, accept=None, path="/metrics"):
    """The content type and the text."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return reply.headers["Content-Type"], reply.read().decode()


class Metrics(unittest.TestCase):
    SERVE = ("--metrics-port", "0", "--rpc-port", "0", "--best-effort", "sleep 60",
             "--best-effort-no-group")

    def port(self, server):
        return int(server.wait_for(r"metrics on http://\S+:(\d+)/metrics\n"))

    def test_both_formats_and_both_lengths_keep_the_rules(self):
        with Server(*self.SERVE) as server:
            port = self.port(server)
            server.call("SET", "k", "v")
            for path in ("/metrics", "/metrics?detail=all"):
                kind, text = scrape(port, OPEN_METRICS, path)
                self.assertTrue(kind.startswith("application/openmetrics-text"), kind)
                new = exposition.parse(text, open_metrics=True)
                kind, text = scrape(port, None, path)
                self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)
                old = exposition.parse(text, open_metrics=False)
                self.assertEqual(exposition.names(new), exposition.names(old))

    def test_what_grows_is_a_counter_and_no_counter_goes_back(self):
        with Server(*self.SERVE) as server:
            port = self.port(server)
            before = exposition.parse(scrape(port, OPEN_METRICS)[1], True)
            for i in range(50):
                server.call("SET", f"k{i}", "v")
                server.call("DBSIZE")
            after = exposition.parse(scrape(port, OPEN_METRICS)[1], True)
        for name, family in before.items():
            if family.kind == "gauge":
                continue
            for key, value in family.samples.items():
                self.assertGreaterEqual(after[name].samples[key], value, (name, key))
        for name in ("rubato_busy_seconds", "rubato_core_seconds", "process_cpu_seconds"):
            self.assertEqual(after[name].kind, "counter")

    def test_every_process_s_metrics_are_there(self):
        with Server(*self.SERVE) as server:
            found = exposition.parse(scrape(self.port(server), OPEN_METRICS)[1], True)
            value = {name: next(iter(family.samples.values())) for name, family in found.items()
                     if family.samples}
            self.assertEqual(value["rubato_build_info"], 1)
            self.assertLess(abs(value["process_resident_memory_bytes"] / 1024 -
                                server.resident_kib()), 8192)
            # The server has one more while it answers, and closes that some time after the reply.
            eventually(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) + 1,
                       lambda open_fds: open_fds == value["process_open_fds"])
            begun = os.stat(f"/proc/{os.getpid()}").st_ctime
            self.assertGreater(value["process_start_time_seconds"], begun - 1)

    def test_a_scrape_is_brief_however_many_commands_and_workers_there_are(self):
        with Server("--metrics-port", "0", "--workers", "16", "--policy", "darc") as server:
            port = self.port(server)
            with server.client() as client:
                names = [row[0].decode() for row in client.call("COMMAND")]
                for name in names:
                    if name in ("shutdown", "quit", "subscribe", "hello", "multi", "exec"):
                        continue
                    client.send(name, "a", "1")
                client.send("PING")
                client.socket.settimeout(PATIENCE_S)
                while b"PONG" not in client.socket.recv(65536):
                    pass
            text = scrape(port)[1]
            self.assertLess(len(text), BRIEF_BYTES)
            self.assertIn('rubato_latency_seconds_count{type="other"}', text)
            self.assertGreater(len(scrape(port, path="/metrics?detail=all")[1]), BRIEF_BYTES)

    def test_the_dashboard_asks_for_metrics_that_exist(self):
        with open(os.path.join(ROOT, "packaging", "grafana-dashboard.json"),
                  encoding="utf-8") as file:
            board = json.load(file)
        queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        queries += [variable["query"] for variable in board["templating"]["list"]]
        asked = set(re.findall(r"\b(?:rubato|process)_\w+", " ".join(queries)))
        self.assertGreater(len(asked), 10)
        with Server(*self.SERVE) as server:
            server.call("PING")
            found = exposition.names(exposition.parse(
                scrape(self.port(server), OPEN_METRICS)[1], True))
        self.assertEqual(asked - found, set())


class Rules(unittest.TestCase):
    """The checker finds what it is for."""

    def test_each_broken_rule_is_found(self):
        good = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n"
        self.assertEqual(exposition.names(exposition.parse(good, False)), {"a_total"})
        for bad in (good.replace("a_total", "a"), good.replace("# HELP a_total A.\n", ""),
                    good + "a_total 1\n", good.replace("total 1", "total one"),
                    good.replace("a_total", "a_ms_total"), good + good, good + "b 1\n",
                    good[:-1], good.replace("counter", "gauge")):
            with self.assertRaises((ValueError, AttributeError), msg=bad):
                exposition.parse(bad, False)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build = os.environ.get("RUBATO_BUILD") or os.path.dirname(os.path.dirname(BINARY))
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run(["cmake", "--install", build, "--prefix", cls.folder.name, "--component",
                        "program"], check=True, capture_output=True, timeout=PATIENCE_S)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return file.read()

    def test_every_command_has_a_page_with_its_options(self):
        pages = os.listdir(self.path("share", "man", "man1"))
        self.assertLessEqual({"rubato.1", "rubato-serve-kv.1", "rubato-load.1"}, set(pages))
        page = self.read("share", "man", "man1", "rubato-serve-kv.1")
        for option in ("drain\\-limit", "log\\-file", "maxmemory", "set"):
            self.assertIn(".B \\-\\-" + option, page)
        if shutil.which("groff"):
            for name in pages:
                done = subprocess.run(["groff", "-man", "-Tutf8", "-ww",
                                       self.path("share", "man", "man1", name)],
                                      capture_output=True, text=True, timeout=PATIENCE_S,
                                      check=True)
                self.assertEqual(done.stderr, "", name)

    def complete(self, *words):
        script = self.path("share", "bash-completion", "completions", "rubato")
        quoted = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(
            ["bash", "--norc", "-c", f'. {script}; COMP_WORDS=({quoted}); '
             f'COMP_CWORD={len(words) - 1}; _rubato; printf "%s\\n" "${{COMPREPLY[@]}}"'],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertIn("serve", self.complete("rubato", "se"))
        self.assertEqual(self.complete("rubato", "serve", ""), ["kv", "spin"])
        self.assertIn("--drain-limit", self.complete("rubato", "serve", "kv", "--dr"))
        self.assertEqual(self.complete("rubato", "serve", "kv", "--log-format", ""),
                         ["text", "json"])
        self.assertEqual(self.complete("rubato", "serve", "kv", "--engine", "m"), ["memory"])
        self.assertIn("--policy", self.complete("rubato", "sim", "--pol"))

    def test_other_shells_understand_their_scripts(self):
        scripts = {"zsh": self.path("share", "zsh", "site-functions", "_rubato"),
                   "fish": self.path("share", "fish", "vendor_completions.d", "rubato.fish")}
        for shell, script in scripts.items():
            self.assertGreater(os.path.getsize(script), 1000)
            if shutil.which(shell):
                subprocess.run([shell, "-n", script], check=True, timeout=PATIENCE_S)

    def test_the_unit_is_one_of_systemd_s_and_starts_what_is_installed(self):
        unit = self.path("lib", "systemd", "system", "rubato.service")
        text = self.read("lib", "systemd", "system", "rubato.service")
        self.assertRegex(text, r"(?m)^Type=notify$")
        self.assertRegex(text, r"(?m)^WatchdogSec=\d+$")
        self.assertRegex(text, r"(?m)^ExecStart=/\S+/rubato serve kv --config ")
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is missing")
        # With a binary and a configuration that exist here.
        mine = re.sub(r"(?m)(ExecStart\w*=)\S+/rubato", rf"\1{os.path.abspath(BINARY)}", text)
        with open(unit, "w", encoding="utf-8") as file:
            file.write(mine)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertNotIn(unit, done.stderr)

    def test_the_sample_configuration_is_valid(self):
        done = subprocess.run([BINARY, "serve", "kv", "--config",
                               self.path("share", "rubato", "kv.toml"), "--check-config"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
