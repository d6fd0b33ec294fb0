# SPDX-License-Identifier: Apache-2.0
"""`rubato lab open` serves the page that simulates, or says in a line why not."""

import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from server import BINARY, PATIENCE_S

PAGE = "<!doctype html><title>a page</title>"


class LabOpen(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check_served(self, *command):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as opened:
            try:
                address = opened.stdout.readline().strip()
                self.assertRegex(address, r"^http://127\.0\.0\.1:\d+/$")
                with urllib.request.urlopen(address, timeout=PATIENCE_S) as reply:
                    self.assertEqual(reply.headers["Content-Type"], "text/html; charset=utf-8")
                    self.assertEqual(reply.read().decode(), PAGE)
            finally:
                opened.send_signal(signal.SIGINT)
            self.assertEqual(opened.wait(PATIENCE_S), 0)

    def check_refused(self, message, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"^rubato: {message}\\n$")

    def test_a_page_that_is_named(self):
        page = self.folder / "page.html"
        page.write_text(PAGE)
        self.check_served(BINARY, "lab", "open", "--page", str(page))
        self.check_refused("cannot read '.*nothing'", BINARY, "lab", "open", "--page",
                           str(self.folder / "nothing"))

    def test_the_page_beside_the_program(self):
        program = self.folder / "bin/rubato"
        program.parent.mkdir()
        shutil.copy(BINARY, program)
        self.check_refused("there is no page: `make site` builds it.*", program, "lab", "open")
        page = self.folder / "share/rubato/site/index.html"
        page.parent.mkdir(parents=True)
        page.write_text(PAGE)
        self.check_served(program, "lab", "open")


if __name__ == "__main__":
    unittest.main()
