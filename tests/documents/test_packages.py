# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: they are built twice, byte for byte alike (those of Valkey and for AArch64
once), lintian has nothing to say, and what is in them works."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 7000
EM_AARCH64 = 183
PACKAGES = ("rubato", "rubato-dpdk", "librubato0.2", "librubato-dev", "rubato-doc")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} -> {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def extracted(case, folder, patterns):
    """A folder, there until the tests of the class have ended, with what the packages hold, of
    which each pattern names one."""
    root = Path(tempfile.mkdtemp(prefix="packages"))
    case.addClassCleanup(shutil.rmtree, root)
    for pattern in patterns:
        (package,) = (ROOT / folder).glob(pattern)
        run("dpkg-deb", "--extract", package, root)
    return root


@unittest.skipUnless(shutil.which("dh") and shutil.which("lintian"), "no debhelper, no lintian")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run(ROOT / "tools/deb.sh", "--twice")
        cls.root = extracted(cls, "build/deb", [f"{name}_*.deb" for name in PACKAGES])
        (cls.libraries,) = (cls.root / "usr/lib").glob("*-linux-gnu")
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.libraries)}

    def test_the_program_simulates_and_has_its_pages(self):
        program = self.root / "usr/bin/rubato"
        self.assertIn("synergy", run(program, "policies", env=self.environment))
        for page in ("rubato.1.gz", "rubato-serve-kv.1.gz"):
            self.assertTrue((self.root / "usr/share/man/man1" / page).exists(), page)
        self.assertTrue((self.root / "lib/systemd/system/rubato.service").exists())

    def test_dpdk_is_a_plugin_that_only_its_package_needs(self):
        doctor = run(self.root / "usr/bin/rubato", "doctor", env=self.environment)
        self.assertIn("by the plugin librubato-dpdk.so", doctor)
        (package,) = (ROOT / "build/deb").glob("rubato_*.deb")
        self.assertNotIn("librte", run("dpkg-deb", "--field", package, "Depends"))

    def test_a_program_builds_against_the_headers_and_serves(self):
        program = self.root / "own_sockets"
        run("c++", "-std=c++20", "-O1", ROOT / "examples/own_sockets.cc", "-o", program,
            "-I", self.root / "usr/include", "-L", self.libraries, "-lrubato")
        with subprocess.Popen([program], env=self.environment, stdout=subprocess.PIPE,
                              text=True) as server:
            try:
                port = int(server.stdout.readline().split()[-1])
                with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                    client.sendall(b"hello\n")
                    self.assertEqual(client.makefile().readline(), "hello\n")
            finally:
                server.terminate()
            self.assertEqual(server.wait(60), 0)

    def test_the_documents_are_there(self):
        documents = self.root / "usr/share/doc/rubato"
        self.assertTrue((documents / "html/index.html").exists())
        self.assertTrue((documents / "examples/own_sockets.cc").exists())


@unittest.skipUnless(shutil.which("dh") and shutil.which("lintian"), "no debhelper, no lintian")
@unittest.skipUnless(shutil.which("qemu-aarch64") and shutil.which("mmdebstrap"),
                     "no qemu-user, no mmdebstrap")
@unittest.skipUnless(os.geteuid() == 0, "a root file system takes root")
class Aarch64Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run(ROOT / "tools/deb.sh", "--arm64")
        cls.root = extracted(cls, "build/arm64-deb",
                             [f"{name}_*_arm64.deb" for name in PACKAGES[:-1]])
        cls.libraries = cls.root / "usr/lib/aarch64-linux-gnu"
        cls.program = ("qemu-aarch64", "-L", ROOT / "build/arm64-deb-root", "-E",
                       f"LD_LIBRARY_PATH={cls.libraries}", cls.root / "usr/bin/rubato")

    def test_programs_and_libraries_are_of_that_processor(self):
        (library,) = self.libraries.glob("librubato.so.*.*.*")
        for file in (library, self.libraries / "rubato/librubato-dpdk.so",
                     self.root / "usr/bin/rubato"):
            with open(file, "rb") as image:
                header = image.read(20)
            self.assertEqual(header[:5], b"\x7fELF\x02", file)
            self.assertEqual(int.from_bytes(header[18:], "little"), EM_AARCH64, file)

    def test_the_program_has_its_pages_and_preempts_by_signals(self):
        self.assertTrue((self.root / "usr/share/man/man1/rubato.1.gz").exists())
        self.assertRegex(run(*self.program, "--version"), r"0\.2\.0")
        doctor = run(*self.program, "doctor")
        for mechanism in ("signal", "timer"):
            self.assertRegex(doctor, rf"(?m)^ok +{mechanism} ")

    def test_its_simulations_are_those_of_the_native_program(self):
        native = Path(os.environ["RUBATO_BUILD"], "bin/rubato")
        run(sys.executable, ROOT / "tools/same_results.py", native, *self.program)


@unittest.skipUnless(shutil.which("dh") and shutil.which("lintian"), "no debhelper, no lintian")
class ValkeyPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run(ROOT / "tools/deb.sh", "--valkey")
        cls.root = extracted(cls, "build/valkey-deb", ["rubato-valkey_*.deb"])

    def test_it_has_no_file_of_another_package(self):
        for file in self.root.rglob("*"):
            if not file.is_dir():
                self.assertIn("rubato-valkey", str(file.relative_to(self.root)))

    def test_the_server_runs_with_its_configuration(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [self.root / "usr/libexec/rubato-valkey/valkey-server",
                   self.root / "etc/rubato-valkey/valkey.conf", "--port", str(port), "--dir",
                   self.root / "var/lib/rubato-valkey"]
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                              text=True) as server:
            try:
                for line in server.stdout:
                    if "Ready to accept" in line:
                        break
                with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                    client.sendall(b"CONFIG GET rubato-enabled\r\n")
                    self.assertEqual(client.recv(5), b"*2\r\n$")
            finally:
                server.terminate()
            server.stdout.read()
            self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
