# SPDX-License-Identifier: Apache-2.0
"""Nothing is installed on a user's machine that nothing here needs."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What an #include of each begins with; a new one is to be added here.
HEADERS = {"libcli11-dev": "CLI/", "libtomlplusplus-dev": "toml++/", "libfmt-dev": "fmt/",
           "nlohmann-json3-dev": "nlohmann/", "libgtest-dev": "gtest/",
           "libbenchmark-dev": "benchmark/", "librocksdb-dev": "rocksdb/",
           "libleveldb-dev": "leveldb/", "libboost-context-dev": "boost/context/",
           "zlib1g-dev": "zlib.h"}


def required():
    lines = (ROOT / "tools/packages.txt").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines]
    return [w[1] for w in words if w[:1] == ["required"] and w[1].endswith("-dev")]


class Packages(unittest.TestCase):
    def test_every_library_that_must_be_there_is_included_somewhere(self):
        for package in required():
            with self.subTest(package):
                self.assertIn(package, HEADERS, "say in this test what it is included as")
                pattern = f'^#include [<"]{re.escape(HEADERS[package])}'
                found = subprocess.run(["grep", "-rlE", "--include=*.cc", "--include=*.h", pattern,
                                        "src", "apps", "cli", "tests", "bench", "native"],
                                       cwd=ROOT, capture_output=True, text=True, check=False)
                self.assertNotEqual(found.stdout, "", f"no file includes {HEADERS[package]}")


if __name__ == "__main__":
    unittest.main()
