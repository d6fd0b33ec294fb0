# SPDX-License-Identifier: Apache-2.0
"""Debian packages in a folder of their own: nothing is installed, no list of the system changes."""

import os
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"
LIMIT_S = 240


class Missing(Exception):
    """Why the packages cannot be had."""


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S, **options)
    if done.returncode != 0:
        raise Missing(f"{command[0]}: {(done.stderr or done.stdout).strip()[-300:]}")


def unpack(folder, suite, *packages):
    """`packages` of the suite, and what they depend on, unpacked in folder/root; once."""
    root, apt = folder / "root", folder / "apt"
    if (folder / "done").exists():
        return root
    if not shutil.which("apt-get") or not os.path.exists(KEYRING):
        raise Missing("no apt with Debian's keys")
    for name in ("etc/apt/preferences.d", "etc/apt/apt.conf.d", "var/lib/apt/lists/partial",
                 "var/cache/apt/archives/partial", "var/lib/dpkg"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "var/lib/dpkg/status").touch()
    (apt / "etc/apt/sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
    settings = apt / "apt.conf"
    settings.write_text(f'Dir "{apt}";\nDir::State::status "{apt}/var/lib/dpkg/status";\n'
                        'APT::Sandbox::User "root";\nAcquire::Retries "1";\n')
    environment = {**os.environ, "APT_CONFIG": str(settings)}
    run("apt-get", "-qq", "update", env=environment)
    run("apt-get", "-qq", "-y", "--no-install-recommends", "--download-only", "install", *packages,
        env=environment)
    for package in sorted((apt / "var/cache/apt/archives").glob("*.deb")):
        run("dpkg-deb", "--extract", package, root)
    (folder / "done").touch()
    return root
