# SPDX-License-Identifier: Apache-2.0
import re
import unittest

from documented import ROOT, block, library_commands, section, use_commands, words_after
from test_fresh_clone import with_ports

PAGE = """# Page

## First
```sh
make one
```

## Second
Text.
```sh
make two   # of which it says this
# nothing
load --a b \\
  --target c d --mix get:1#2 && run
```
"""


class Documented(unittest.TestCase):
    def test_commands_are_found_by_their_section_and_joined(self):
        commands = block(section(PAGE, "Second"))
        self.assertEqual(commands, ["make two", "load --a b    --target c d --mix get:1#2 && run"])
        self.assertEqual(words_after("--target", commands), ["c", "d"])
        self.assertEqual(words_after("--mix", commands), ["get:1#2"])

    def test_what_is_not_there_is_told(self):
        self.assertRaisesRegex(ValueError, "Third", section, PAGE, "Third")
        self.assertRaisesRegex(ValueError, "block", block, "no code")
        self.assertRaisesRegex(ValueError, "--into", words_after, "--into", ["make"])

    def test_the_documents_have_the_commands_that_are_looked_for(self):
        self.assertEqual(words_after("--component", library_commands()), ["library"])
        self.assertEqual(use_commands()[0], "make build")

    def test_the_program_of_the_readme_is_the_smallest_example(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        shown = re.search(r"^```cpp\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL).group(1)
        example = (ROOT / "examples/hello.cc").read_text(encoding="utf-8")
        self.assertEqual(shown, example.partition("\n")[2])

    def test_a_port_becomes_the_same_free_one_everywhere(self):
        ports = {}
        served = with_ports("rubato serve kv --port 6400", ports)
        self.assertEqual(with_ports("rubato load --target resp://127.0.0.1:6400", ports),
                         f"rubato load --target resp://127.0.0.1:{ports['6400']}")
        self.assertEqual(served, f"rubato serve kv --port {ports['6400']}")
        self.assertRegex(with_ports("rubato serve kv --config kv.toml", ports), r" --port \d+$")


if __name__ == "__main__":
    unittest.main()
