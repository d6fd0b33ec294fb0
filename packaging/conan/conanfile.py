# SPDX-License-Identifier: Apache-2.0
"""The library as a Conan 2 package: `conan create packaging/conan -s compiler.cppstd=20`, with the
packages of Debian that `make setup` installs. Tried with Conan 2.34: a program found the package by
find_package(rubato) and ran. Tests of this project do not build it, as that takes minutes."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class RubatoConan(ConanFile):
    name = "rubato"
    version = "0.2.0"
    license = "Apache-2.0"
    description = "A request scheduler in which long requests lend time"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "shared-library"

    def validate(self):
        if self.settings.os != "Linux":
            raise RuntimeError("rubato: Linux only")

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "tools/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["RUBATO_TESTS"] = False
        toolchain.cache_variables["RUBATO_BENCH"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="librubato")

    def package(self):
        CMake(self).install(component="library")

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # the package has its own
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "rubato")]
        self.cpp_info.libs = ["rubato"]
        self.cpp_info.system_libs = ["pthread"]
