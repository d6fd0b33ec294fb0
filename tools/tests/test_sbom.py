# SPDX-License-Identifier: Apache-2.0
import re
import shutil
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401, finds the tools

import sbom


@unittest.skipUnless(shutil.which("dpkg-query") and shutil.which("ldd"), "no Debian here")
class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.build = Path(folder.name)
        (cls.build / "bin").mkdir()
        shutil.copy("/bin/bash", cls.build / "bin/rubato")  # something that is linked with others
        cls.document = sbom.document(cls.build)

    def test_what_spdx_requires_is_there(self):
        top = self.document
        self.assertEqual((top["spdxVersion"], top["dataLicense"]), ("SPDX-2.3", "CC0-1.0"))
        self.assertRegex(top["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        names = [part["SPDXID"] for part in top["packages"] + top["files"]]
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            self.assertRegex(name, r"^SPDXRef-[A-Za-z0-9.-]+$")
        for relation in top["relationships"]:
            self.assertIn(relation["relatedSpdxElement"], names)
            self.assertIn(relation["spdxElementId"], [*names, "SPDXRef-DOCUMENT"])

    def test_every_library_of_the_loader_belongs_to_a_package_of_it(self):
        listed = {package["name"] for package in self.document["packages"]}
        libraries = sbom.linked(self.build / "bin/rubato")
        self.assertTrue(libraries)
        for library in libraries:
            self.assertIn(sbom.package_of(library), listed)
        for package in self.document["packages"][1:]:
            if package["versionInfo"] != sbom.NOT_KNOWN:
                purl = package["externalRefs"][0]["referenceLocator"]
                self.assertTrue(re.match(r"pkg:deb/debian/[a-z0-9.+-]+@", purl), purl)

    def test_the_same_build_gives_the_same_document(self):
        self.assertEqual(sbom.document(self.build), self.document)

    def test_a_folder_without_a_build_is_named(self):
        with self.assertRaisesRegex(SystemExit, "--build"):
            sbom.document(self.build / "nowhere")


if __name__ == "__main__":
    unittest.main()
