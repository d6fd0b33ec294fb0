# SPDX-License-Identifier: Apache-2.0
"""`make docs`: Doxygen has nothing to complain of, and every link of a page leads somewhere."""

import html
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from urllib.parse import unquote

from documented import ROOT

LIMIT_S = 120


def anchors_of(page):
    return set(re.findall(r'\b(?:id|name)="([^"]+)"', page.read_text(encoding="utf-8")))


def broken_links(page):
    for link in re.findall(r'(?:href|src)="([^"#]*(?:#[^"]+)?)"', page.read_text(encoding="utf-8")):
        if not link or re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = html.unescape(link).partition("#")
        target = page.parent / unquote(name) if name else page
        known = target.exists() and (not anchor or target.suffix != ".html"
                                     or anchor in anchors_of(target))
        if not known:
            yield link


@unittest.skipUnless(shutil.which("doxygen"), "there is no doxygen")
class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        settings = (ROOT / "docs/Doxyfile").read_text(encoding="utf-8")
        done = subprocess.run(
            ["doxygen", "-"], cwd=ROOT, input=f"{settings}\nOUTPUT_DIRECTORY = {folder.name}\n",
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S,
            check=False)
        cls.said, cls.pages = done.stdout, Path(folder.name) / "html"

    def test_doxygen_has_nothing_to_complain_of(self):
        self.assertEqual(self.said, "")

    # What Doxygen makes by itself is its own business.
    def test_the_links_of_the_documents_lead_somewhere(self):
        written = [self.pages / "index.html", *self.pages.glob("*_md.html")]
        self.assertGreater(len(written), 20)
        for page in written:
            self.assertEqual(list(broken_links(page)), [], page.name)

    def test_the_public_headers_are_there(self):
        for name in ("checkpoint_8h.html", "server_8hpp.html", "rubato_8h.html"):
            self.assertTrue((self.pages / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
