# SPDX-License-Identifier: Apache-2.0
"""The wheel is for one platform if tools/wheel.py has put the program into rubato_lab/bin, and for
all of them otherwise; either way it is for every Python."""

import os

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

PLATFORM = os.environ.get("RUBATO_WHEEL_PLATFORM")


class WithProgram(Distribution):
    def has_ext_modules(self):
        return PLATFORM is not None


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", PLATFORM or "any"


setup(distclass=WithProgram, cmdclass={"bdist_wheel": Wheel})
