# SPDX-License-Identifier: Apache-2.0
"""`python -m rubato_lab` is `rubato-lab`."""

import sys

from rubato_lab.main import main

if __name__ == "__main__":
    sys.exit(main())
