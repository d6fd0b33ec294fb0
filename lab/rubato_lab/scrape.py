# SPDX-License-Identifier: Apache-2.0
"""What a server says on its metrics port."""

import re
import urllib.request

TIMEOUT_S = 10
SAMPLE = re.compile(r"^rubato_(\w+?)(?:_total)?(?:\{(.*)\})? ([-+.\deE]+)$", re.MULTILINE)


def fetch(port, page):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=TIMEOUT_S) as reply:
        return reply.read().decode()


def samples(port):
    """{(family, labels): value}. Raises OSError."""
    found = SAMPLE.findall(fetch(port, "metrics?detail=all"))
    return {(name, labels): float(value) for name, labels, value in found}


def label(labels, name):
    return re.search(rf'{name}="([^"]*)"', labels).group(1)
