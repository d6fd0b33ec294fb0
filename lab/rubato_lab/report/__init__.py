# SPDX-License-Identifier: Apache-2.0
"""Reports: one self-contained page of any run, sweep or demo."""
