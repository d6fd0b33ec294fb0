# SPDX-License-Identifier: Apache-2.0
"""`rubato report`: a page of runs, and what is told where it cannot be made."""

import os
import shutil
import subprocess
import tempfile
import unittest

from server import BINARY, PATIENCE_S, Server, refused


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_there(self, *args, **environment):
        return subprocess.run([BINARY, *args], cwd=self.folder.name, capture_output=True,
                              text=True, timeout=3 * PATIENCE_S, check=False,
                              env={**os.environ, **environment})

    @unittest.skipUnless(os.path.isdir("/usr/share/javascript/dygraphs"), "no libjs-dygraphs here")
    def test_live_and_simulated_runs_are_one_page(self):
        with Server(program="spin") as server:
            self.run_there("load", "--target", f"spin://127.0.0.1:{server.port}", "--rate", "100",
                           "--duration", "0.5", "--nap", "--timeline", "--note", "x=it's",
                           "--json", "live.json")
        self.run_there("sim", "--policy", "ps", "--requests", "2000", "--json", "sim.json")
        with open(os.path.join(self.folder.name, "json.py"), "w", encoding="utf-8") as other:
            other.write("raise SystemExit('the current directory is no place of modules')\n")
        done = self.run_there("report", "--output", "a.html", "live.json", "sim.json")
        self.assertEqual((done.returncode, done.stdout), (0, "a.html\n"), done.stderr)
        with open(os.path.join(self.folder.name, "a.html"), encoding="utf-8") as text:
            page = text.read()
        self.assertNotRegex(page.replace("https://github.com/danvk/dygraphs", ""),
                            r"<(script|link|img)[^>]+(src|href)=")
        self.assertIn("rubato load --target spin://127.0.0.1:", page)
        self.assertIn("--note &#x27;x=it&#x27;", page)
        self.assertIn("rubato sim --policy ps", page)

    def test_without_python_or_the_lab_one_line_says_so(self):
        self.run_there("sim", "--policy", "ps", "--requests", "2000", "--json", "sim.json")
        done = self.run_there("report", "sim.json", PATH="/nonexistent")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^rubato: a page takes Python: cannot start python3: .*\n$")
        elsewhere = os.path.join(self.folder.name, "rubato")
        shutil.copy2(BINARY, elsewhere)
        # A machine may have the lab installed: this one comes first.
        os.mkdir(os.path.join(self.folder.name, "none"))
        with open(os.path.join(self.folder.name, "none", "rubato_lab.py"), "w",
                  encoding="utf-8") as lab:
            lab.write("raise ImportError('none here')\n")
        done = subprocess.run([elsewhere, "report", "sim.json"], cwd=self.folder.name, text=True,
                              capture_output=True, check=False,
                              env={**os.environ, "PYTHONPATH": f"{self.folder.name}/none"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^rubato: a page takes Python 3.11 with the lab, .*\n$")

    def test_what_is_no_report_is_refused(self):
        done = self.run_there("report", "none.json")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "rubato: none.json: No such file or directory\n")
        self.assertIn("takes merge or page", refused("report")[1])


if __name__ == "__main__":
    unittest.main()
