# SPDX-License-Identifier: Apache-2.0
"""Reproduces figures of the papers with `rubato sim`: sweeps, drawings, and claims to check.

simulator.py runs the binary, slo.py searches for the load that meets an objective, figure.py says
what a figure is, synergy.py and persephone.py define them, plot.py and output.py draw and write,
main.py is the command line."""
