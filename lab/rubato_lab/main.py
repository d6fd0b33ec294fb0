# SPDX-License-Identifier: Apache-2.0
"""`rubato-lab`: sweeps of the simulator. Exit status 0 done, 1 something failed or was stopped,
2 bad arguments."""

import argparse
import sys

from rubato_lab.program import RubatoError
from rubato_lab.sweep import main as sweeps


def parser():
    p = argparse.ArgumentParser(prog="rubato-lab", description="Sweeps of Rubato's simulator, on "
                                "this machine or a cluster: docs/LAB.md.")
    sweeps.add_commands(p.add_subparsers(required=True, metavar="COMMAND"))
    return p


def main(arguments=None):
    options = parser().parse_args(arguments)
    try:
        return options.call(options)
    except RubatoError as error:
        print(f"rubato-lab: {str(error).removeprefix('rubato: ')}", file=sys.stderr)
        return 2 if error.status == 2 else 1
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
