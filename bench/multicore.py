#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Entry of `make multicore`; the work is in lab/rubato_lab/multicore. See --help."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

from rubato_lab.extras import use_a_python_with  # noqa: E402
from rubato_lab.multicore.main import main  # noqa: E402

if __name__ == "__main__":
    use_a_python_with("matplotlib")
    sys.exit(main())
