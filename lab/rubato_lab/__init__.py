# SPDX-License-Identifier: Apache-2.0
"""Runs, compares and draws what Rubato measures.

Talks to the programs through their command line and their JSON only. The demo needs nothing but
Python's standard library.
"""
