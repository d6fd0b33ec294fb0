# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel`, as a user installs it: in a virtual environment of its own, with
nothing else. RUBATO_WHEEL_PROGRAM is the simulator that goes into it."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "lab"
PROGRAM = os.environ.get("RUBATO_WHEEL_PROGRAM", ROOT / "build/release/lab/rubato")
SETTINGS = ROOT / "site/test/settings.txt"
VERSION = re.compile(r'"version": "[^"]*"|`rubato tune` \S+')
LIMIT_S = 300
ASK = ("import rubato_lab as lab; from rubato_lab import program; run = lab.simulate('synergy', "
       "workload='zippydb', workers=4, requests=20000); print(program.path(), run.digest)")


def run(*command, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          timeout=LIMIT_S, **more)


@unittest.skipUnless(Path(PROGRAM).is_file(), "the target rubato_lab_cli has not been built")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        made = run(sys.executable, ROOT / "tools/wheel.py", "--program", PROGRAM, "--out",
                   cls.folder / "made")
        assert made.returncode == 0, made.stderr
        cls.wheel = Path(made.stdout.strip())
        env = cls.folder / "env"
        for command in ((sys.executable, "-m", "venv", env),
                        (env / "bin/pip", "install", "--quiet", "--no-index", cls.wheel)):
            done = run(*command)
            assert done.returncode == 0, done.stderr
        cls.bin = env / "bin"
        cls.environment = {k: v for k, v in os.environ.items()
                           if k not in ("PYTHONPATH", "RUBATO_BINARY")}

    def there(self, *command, **more):
        done = run(*command, cwd=self.folder, env={**self.environment, **more})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_module_is_in_it_and_can_be_imported(self):
        names = [".".join(path.relative_to(LAB).with_suffix("").parts).removesuffix(".__init__")
                 for path in LAB.glob("rubato_lab/**/*.py") if path.stem != "__main__"]
        self.assertIn("rubato_lab.reproduce.main", names)
        self.assertIn("rubato_lab.sweep.engine", names)
        where = self.there(self.bin / "python", "-c", f"import {', '.join(names)}; "
                           "print(rubato_lab.sweep.engine.__file__)")
        self.assertTrue(where.startswith(str(self.bin.parent)), where)

    def test_the_simulator_inside_answers_as_that_of_the_build(self):
        inside, digest = self.there(self.bin / "python", "-c", ASK).split()
        self.assertTrue(inside.startswith(str(self.bin.parent)), inside)
        built = os.environ.get("RUBATO_BINARY", PROGRAM)
        named, of_build = self.there(self.bin / "python", "-c", ASK, RUBATO_BINARY=built).split()
        self.assertEqual((named, of_build), (str(built), digest))

    def test_fifty_settings_have_equal_answers(self):
        """To the byte, but for the version; those of the page are compared in site/test."""
        settings = [line for line in SETTINGS.read_text(encoding="utf-8").splitlines()
                    if line and not line.startswith("#")]
        self.assertGreaterEqual(len(settings), 50)
        inside = self.there(self.bin / "python", "-c",
                            "from rubato_lab import program; print(program.path())").strip()
        built = os.environ.get("RUBATO_BINARY", PROGRAM)
        for line in settings:
            with self.subTest(line):
                ours, theirs = (VERSION.sub("", run(one, *line.split()).stdout)
                                for one in (inside, built))
                self.assertTrue(ours)
                self.assertEqual(ours, theirs)

    def test_a_report_needs_nothing_else(self):
        program = self.there(self.bin / "python", "-c",
                             "from rubato_lab import program; print(program.path())").strip()
        self.there(program, "sim", "--policy", "ps", "--requests", "2000", "--json", "run.json")
        self.there(self.bin / "python", "-m", "rubato_lab.report.main", "run.json")
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        self.assertIn("Dygraph", page)
        self.assertIn("<figure data-figure", page)

    def test_a_missing_extra_is_one_line(self):
        (self.folder / "sweep.toml").write_text('[axes]\nload = [0.5]\n[run]\npolicy = "ps"\n'
                                                'workload = "exp-1"\nrequests = 1000\n',
                                                encoding="utf-8")
        done = run(self.bin / "rubato-lab", "sweep", "sweep.toml", cwd=self.folder,
                   env=self.environment)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"pip install 'rubato-lab\[sweep\]'")

    def test_its_tag_is_true(self):
        self.assertRegex(self.wheel.name, r"-py3-none-manylinux_2_\d+_\w+\.whl$")
        shown = run(sys.executable, "-m", "auditwheel", "show", "--json", self.wheel)
        if shown.returncode != 0:
            shown = run(sys.executable, "-m", "auditwheel", "show", self.wheel)
        said = re.sub(r"\s+", " ", shown.stdout + shown.stderr)
        named = int(re.search(r"manylinux_2_(\d+)", self.wheel.name).group(1))
        told = [int(n) for n in re.findall(r"manylinux_2_(\d+)_", said)]
        self.assertTrue(told, said)
        self.assertLessEqual(min(told), named, said)


if __name__ == "__main__":
    unittest.main()
