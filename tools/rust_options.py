#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fields of rubato_options (include/rubato/options.h) as those of a struct in Rust, for
languages/rust/src/ffi.rs; tools/generated_docs.py calls this.
"""

import re
import sys
from pathlib import Path

HEADER = Path(__file__).resolve().parent.parent / "include" / "rubato" / "options.h"
KINDS = {"size_t": "usize", "uint32_t": "u32", "int32_t": "i32", "int64_t": "i64", "double": "f64"}
POINTERS = {"": "", "*": "*const c_char", "**": "*const *const c_char"}


def rust_fields(header):
    body = re.search(r"typedef struct rubato_options \{(.*?)\} rubato_options;", header, re.DOTALL)
    field = r"^ +(?:const )?(\w+)((?:\*| |const\b)*) (\w+);"
    for kind, pointer, name in re.findall(field, body.group(1), re.MULTILINE):
        pointer = re.sub(r"[^*]", "", pointer)
        yield f"    pub {name}: {POINTERS[pointer] or KINDS[kind]},\n"


def main():
    sys.stdout.writelines(rust_fields(HEADER.read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
