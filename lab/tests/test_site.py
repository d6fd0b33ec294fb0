# SPDX-License-Identifier: Apache-2.0
"""What the page that simulates is given of the papers' figures."""

import json
import tempfile
import unittest
from pathlib import Path

from rubato_lab.reproduce import main, page, records, site
from rubato_lab.reproduce.papers import catalogue


class Site(unittest.TestCase):
    def test_every_figure_is_there_with_its_claims(self):
        found = records.load()
        figures = {f["id"]: f for paper in site.content(found)["papers"] for f in paper["figures"]}
        self.assertEqual(set(figures), set(catalogue()))
        for name, record in found.items():
            self.assertEqual([c["what"] for c in figures[name]["claims"]],
                             [c.what for c in record.claims])

    def test_the_cost_files_that_arguments_name_are_there(self):
        content = site.content(records.load())
        named = set()
        for paper in content["papers"]:
            for figure in paper["figures"]:
                for line in figure["lines"]:
                    for point in line["points"]:
                        words = point["arguments"]
                        self.assertTrue({"--load", "--rate"} & set(words))
                        named.add(words[words.index("--costs") + 1])
        files = {name for name in named if name.endswith(".toml")}
        self.assertGreater(len(files), 10)
        self.assertLessEqual(files, set(content["files"]))

    def test_records_that_are_not_those_of_the_figures_are_refused(self):
        found = records.load()
        del found["persephone-1"]
        with self.assertRaisesRegex(page.Stale, "persephone-1"):
            site.content(found)

    def test_the_command_writes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "papers.json"
            self.assertEqual(main.main(["--site", str(file)]), 0)
            self.assertEqual(json.loads(file.read_text(encoding="utf-8")).keys(),
                             {"files", "papers"})


if __name__ == "__main__":
    unittest.main()
