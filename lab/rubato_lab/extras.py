# SPDX-License-Identifier: Apache-2.0
"""Packages that only parts of the lab need, and the one line that says which is missing."""

import importlib

from rubato_lab.program import RubatoError

# The extra of pyproject.toml that brings each module.
EXTRAS = {"pandas": "pandas", "matplotlib.pyplot": "plot", "distributed": "sweep",
          "dask_jobqueue": "slurm", "pyarrow": "sweep", "pyarrow.parquet": "sweep",
          "duckdb": "sweep"}


def need(module):
    """The module. Raises RubatoError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0].replace("_", "-")
        raise RubatoError(f"this needs {missing}: pip install 'rubato-lab[{EXTRAS[module]}]' "
                          f"({error})") from error
