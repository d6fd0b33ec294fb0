#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a build of Rubato consists of as SPDX 2.3 (JSON): the programs and libraries with
their checksums, the Debian packages whose libraries they are linked with, and those whose headers
are compiled in. The same build gives the same bytes.

    tools/sbom.py --build build/release [--output rubato.spdx.json]"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ("bin/rubato", "src/api/librubato.so", "src/adapters/librubato-rocksdb.so",
         "src/mechanism/preempt/interpose/librubato-interpose.so")
# The packages of tools/packages.txt of which headers end up in the program.
COMPILED_IN = ("libcli11-dev", "libtomlplusplus-dev", "libfmt-dev", "nlohmann-json3-dev")
NOT_KNOWN = "NOASSERTION"


def say(*command):
    """What a command prints; nothing where it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(rubato VERSION (\S+)", text).group(1)


def created():
    """The time of the commit, or what SOURCE_DATE_EPOCH says."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or say("git", "-C", ROOT, "log", "-1",
                                                         "--format=%ct").strip() or "0"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds)))


def linked(binary):
    """The libraries that the loader finds for it, but those of this build."""
    found = re.findall(r"=> (/\S+)", say("ldd", binary))
    return [path for path in found if "librubato" not in path]


def package_of(path):
    real = os.path.realpath(path)
    for name in (real, real.replace("/usr/lib/", "/lib/", 1), path):
        owner = say("dpkg-query", "--search", name).partition(":")[0]
        if owner:
            return owner
    return None


def spdx_id(kind, name):
    return f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def describe_package(name):
    form = "-f=${Version}\t${Architecture}\t${Homepage}"
    fields = say("dpkg-query", "-W", form, name).split("\t")
    number, architecture, page = fields if len(fields) == 3 else (NOT_KNOWN, "", "")
    described = {"SPDXID": spdx_id("Package", name), "name": name, "versionInfo": number,
                 "downloadLocation": NOT_KNOWN, "filesAnalyzed": False,
                 "licenseConcluded": NOT_KNOWN, "licenseDeclared": NOT_KNOWN,
                 "copyrightText": NOT_KNOWN, "supplier": "Organization: Debian",
                 "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                   "referenceLocator": f"pkg:deb/debian/{name}@{number}"
                                   f"?arch={architecture}"}]}
    if page.startswith("http"):
        described["homepage"] = page
    return described


def describe_file(build, path):
    data = (build / path).read_bytes()
    return {"SPDXID": spdx_id("File", path), "fileName": f"./{path}",
            "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                          {"algorithm": "SHA256",
                           "checksumValue": hashlib.sha256(data).hexdigest()}],
            "licenseConcluded": "Apache-2.0", "copyrightText": NOT_KNOWN}


def document(build):
    built = [path for path in BUILT if (build / path).exists()]
    if not built:
        raise SystemExit(f"sbom: --build: takes a folder with {BUILT[0]} or {BUILT[1]}, not "
                         f"{build}")
    needs = {path: sorted({package_of(library) for library in linked(build / path)} - {None})
             for path in built}
    compiled_in = COMPILED_IN if BUILT[0] in built else ()
    names = sorted({name for packages in needs.values() for name in packages} | set(compiled_in))
    files = [describe_file(build, path) for path in built]
    whole = hashlib.sha1("".join(sorted(file["checksums"][0]["checksumValue"]
                                        for file in files)).encode()).hexdigest()
    rubato = {"SPDXID": "SPDXRef-Package-rubato", "name": "rubato", "versionInfo": version(),
              "downloadLocation": NOT_KNOWN, "filesAnalyzed": True,
              "packageVerificationCode": {"packageVerificationCodeValue": whole},
              "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
              "licenseInfoFromFiles": ["Apache-2.0"], "copyrightText": NOT_KNOWN,
              "hasFiles": [file["SPDXID"] for file in files]}
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package-rubato")]
    relations += [("SPDXRef-Package-rubato", "CONTAINS", file["SPDXID"]) for file in files]
    relations += [(spdx_id("File", path), "DYNAMIC_LINK", spdx_id("Package", name))
                  for path in built for name in needs[path]]
    relations += [("SPDXRef-Package-rubato", "STATIC_LINK", spdx_id("Package", name))
                  for name in compiled_in]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"rubato-{version()}",
            "documentNamespace": f"https://spdx.org/spdxdocs/rubato-{version()}-{whole}",
            "creationInfo": {"created": created(), "creators": ["Tool: rubato-sbom"]},
            "packages": [rubato, *(describe_package(name) for name in names)],
            "files": [{**file, "licenseInfoInFiles": ["Apache-2.0"]} for file in files],
            "relationships": [{"spdxElementId": one, "relationshipType": how,
                               "relatedSpdxElement": other} for one, how, other in relations]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    text = json.dumps(document(arguments.build), indent=1) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")
        print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
