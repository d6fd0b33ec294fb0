# SPDX-License-Identifier: Apache-2.0
"""The Debian packages in a bare Debian 12: what they depend on is all they need. The examples are
built from what rubato-doc ships, by find_package and by pkg-config, and all that README.md shows
under 'Use' does its work. Takes root, mmdebstrap and Debian's mirror."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import test_fresh_clone
from documented import ROOT, library_commands, use_commands

MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("librubato0.2", "librubato-dev", "rubato", "rubato-doc")
# What a reader has who builds programs; the packages bring the rest.
TOOLS = ("cmake", "g++", "make", "pkg-config")
LIMIT_S = 3600
SHIPPED = "/usr/share/doc/rubato/examples"


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} -> {done.returncode}\n{done.stdout}{done.stderr}"[-4000:])
    return done.stdout


@unittest.skipUnless(os.geteuid() == 0, "a bare root takes root")
@unittest.skipUnless(shutil.which("mmdebstrap"), "mmdebstrap is missing")
class BareRoot(test_fresh_clone.Commands):
    @classmethod
    def setUpClass(cls):
        packages = [next((ROOT / "build/deb").glob(f"{name}_*.deb"), None) for name in PACKAGES]
        if None in packages:
            if not shutil.which("dh") or not shutil.which("lintian"):
                raise unittest.SkipTest("no debhelper, no lintian")
            run(ROOT / "tools/deb.sh")
            packages = [next((ROOT / "build/deb").glob(f"{name}_*.deb")) for name in PACKAGES]
        cls.root = Path(tempfile.mkdtemp(prefix="rubato-root-"))
        cls.addClassCleanup(run, "rm", "-rf", "--one-file-system", cls.root)
        run("mmdebstrap", "--variant=minbase", f"--include={','.join(TOOLS)}", "bookworm", cls.root,
            MIRROR)
        run("mount", "-t", "proc", "proc", cls.root / "proc")
        cls.addClassCleanup(run, "umount", cls.root / "proc")
        cls.prefix = ["chroot", str(cls.root)]
        cls.tree = "/"
        cls.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                           "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        for package in packages:
            shutil.copy(package, cls.root / "root")
        # A bare root leaves the pages out, which is where the examples are.
        for names in cls.root.glob("etc/dpkg/dpkg.cfg.d/*"):
            names.unlink()
        shutil.copy("/etc/resolv.conf", cls.root / "etc/resolv.conf")
        names = [f"/root/{package.name}" for package in packages]
        for command in (["update"], ["install", "--no-install-recommends", *names]):
            run(*cls.prefix, "apt-get", "-qq", "-y", *command, env=cls.environment)

    def test_1_the_examples_are_built_against_what_is_installed(self):
        commands = [command.replace("-DCMAKE_PREFIX_PATH=$PREFIX", "").replace("examples", SHIPPED)
                    for command in library_commands()
                    if not command.startswith(("cmake --preset", "cmake --install", "export"))]
        commands = [command.replace(f"build/{SHIPPED}", "build/examples") for command in commands]
        self.assertEqual([command.split()[0] for command in commands], ["cmake", "c++"])
        self.run_all(["cd /root", *commands, "test -x build/examples/example_kv_handler"], LIMIT_S)

    def test_2_every_command_under_use_does_its_work(self):
        _, _, *commands = use_commands()
        self.do(commands)

    def test_3_the_manual_is_there(self):
        self.run_all(["test -e /usr/share/man/man1/rubato.1.gz",
                      "test -e /usr/share/doc/rubato/html/index.html"], LIMIT_S)


if __name__ == "__main__":
    unittest.main()
