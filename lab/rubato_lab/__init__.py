# SPDX-License-Identifier: Apache-2.0
"""Asks Rubato's simulator from Python, draws what it answers, and runs sweeps of questions:
docs/LAB.md. Talks to the program through its command line and its JSON only, and needs nothing but
Python's standard library; DataFrames, plots and sweeps need the extras of pyproject.toml."""

from rubato_lab.api import compare, find_max, help, known_policies, profile, simulate, tune
from rubato_lab.policy import Policy, Queue, Request, ordered, own, shared
from rubato_lab.program import RubatoError
from rubato_lab.results import (MaxLoad, MaxLoads, Percentiles, Profile, ProfileType, Run, Runs,
                                Tuned, TypeResult)
from rubato_lab.plots import plot_ccdf, plot_load, plot_max

__all__ = ["MaxLoad", "MaxLoads", "Percentiles", "Policy", "Profile", "ProfileType", "Queue",
           "Request", "RubatoError", "Run", "Runs", "Tuned", "TypeResult", "compare", "find_max",
           "help", "known_policies", "ordered", "own", "plot_ccdf", "plot_load", "plot_max",
           "profile", "shared", "simulate", "tune"]
