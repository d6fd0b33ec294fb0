# SPDX-License-Identifier: Apache-2.0
"""Sweeps of `rubato sim` on Dask, whose rows are kept in Parquet: docs/LAB.md."""
