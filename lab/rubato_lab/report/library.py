# SPDX-License-Identifier: Apache-2.0
"""dygraphs, which draws the figures of reports and is written into each: of Debian's
libjs-dygraphs, or of the wheel, which brings it."""

from pathlib import Path

from rubato_lab.program import RubatoError

BUNDLED = Path(__file__).resolve().parent.parent / "bin"
PLACES = (BUNDLED, Path("/usr/share/javascript/dygraphs"))
NAMES = ("dygraph.min.js", "dygraph.min.css")


def texts():
    """(script, style). Raises RubatoError."""
    for place in PLACES:
        files = [place / name for name in NAMES]
        if all(file.is_file() for file in files):
            return tuple(file.read_text(encoding="utf-8") for file in files)
    raise RubatoError("figures of a report are drawn by dygraphs, which is missing: install "
                      "libjs-dygraphs, or the wheel of `make wheel`, which brings it")
