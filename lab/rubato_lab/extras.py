# SPDX-License-Identifier: Apache-2.0
"""Packages that only parts of the lab need, and the one line that says which is missing."""

import importlib
import importlib.util
import os
import sys

from rubato_lab.program import RubatoError

# The extra of pyproject.toml that brings each package.
EXTRAS = {"pandas": "pandas", "matplotlib": "plot", "distributed": "sweep",
          "dask_jobqueue": "slurm", "pyarrow": "sweep", "duckdb": "sweep"}
DEBIANS = "/usr/bin/python3"


def need(module):
    """The module. Raises RubatoError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        debian = "Debian's python3-matplotlib or " if missing == "matplotlib" else ""
        raise RubatoError(f"this needs {missing.replace('_', '-')}: {debian}pip install "
                          f"'rubato-lab[{EXTRAS[missing]}]' ({error})") from error


def use_a_python_with(module):
    """For a program of the checkout, at its start: goes on under Debian's Python, for which
    tools/setup.sh installs packages, if the one at hand has no such module."""
    if importlib.util.find_spec(module) or sys.executable == DEBIANS or not os.path.exists(DEBIANS):
        return
    os.execv(DEBIANS, [DEBIANS, *sys.orig_argv[1:]])
