# SPDX-License-Identifier: Apache-2.0
"""Packages that only parts of the lab need, and the one line that says which is missing."""

import importlib

from rubato_lab.program import RubatoError

# The extra of pyproject.toml that brings each package.
EXTRAS = {"pandas": "pandas", "matplotlib": "plot", "distributed": "sweep",
          "dask_jobqueue": "slurm", "pyarrow": "sweep", "duckdb": "sweep"}


def need(module):
    """The module. Raises RubatoError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        debian = "Debian's python3-matplotlib or " if missing == "matplotlib" else ""
        raise RubatoError(f"this needs {missing.replace('_', '-')}: {debian}pip install "
                          f"'rubato-lab[{EXTRAS[missing]}]' ({error})") from error
