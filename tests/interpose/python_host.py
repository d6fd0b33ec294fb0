# SPDX-License-Identifier: Apache-2.0
"""A server whose handler is Python, through ctypes: python_host.py LIBRARY INCLUDES FOREIGN. Prints
its port. A line is answered with the number of threads that Python knows, the identity of this
one, and a checksum of work that takes milliseconds."""

import ctypes
import re
import sys
import threading

LIBRARY, INCLUDES, FOREIGN = sys.argv[1:]
TYPES = {"size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32,
         "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64, "double": ctypes.c_double}
HANDLE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LINES = 1
TIMER = 4


def struct(name, header):
    """A struct of the C header; pointers are all alike here."""
    with open(f"{INCLUDES}/rubato/{header}", encoding="utf-8") as file:
        code = re.sub(r"//.*", "", file.read())
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), code, re.S).group(1)
    fields = []
    for field in body.split(";"):
        found = re.search(r"(\w+)\s*$", field) or re.search(r"\(\*(\w+)\)", field)
        if found is None:
            continue
        kind = TYPES.get(field.split()[0])
        function = re.search(r"\(\*(\w+)\)", field)
        if function is not None or "*" in field:
            kind = ctypes.c_void_p
        fields.append(((function or found).group(1), kind))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def main():
    library = ctypes.CDLL(LIBRARY)
    options = struct("rubato_options", "options.h")()
    library.rubato_options_init(ctypes.byref(options), ctypes.sizeof(options))
    options.workers = 2
    options.preempt = TIMER
    options.handle_signals = 1
    options.foreign_runtime = int(FOREIGN)
    settings = (ctypes.c_char_p * 1)(b"fixed_quantum=200us")
    options.set = ctypes.cast(settings, ctypes.c_void_p)
    options.set_count = 1
    application = struct("rubato_application", "rubato.h")()
    library.rubato_application_init(ctypes.byref(application), ctypes.sizeof(application))
    application.framing = LINES
    library.rubato_request_payload.restype = ctypes.c_void_p
    local = threading.local()

    @HANDLE
    def handle(_, request):
        size = ctypes.c_size_t()
        payload = library.rubato_request_payload(ctypes.c_void_p(request), ctypes.byref(size))
        number = int(ctypes.string_at(payload, size.value))
        local.number = number
        total = 0
        for i in range(number):
            total = (total * 31 + i) % 1_000_003
        assert local.number == number
        reply = f"{total} {threading.get_native_id()} {threading.get_ident()}".encode()
        return library.rubato_request_reply(ctypes.c_void_p(request), reply, len(reply))

    application.handle = ctypes.cast(handle, ctypes.c_void_p)
    error = ctypes.create_string_buffer(256)
    library.rubato_server_create.restype = ctypes.c_void_p
    server = library.rubato_server_create(ctypes.byref(options), ctypes.byref(application), error)
    if server is None:
        sys.exit(error.value.decode())
    print(library.rubato_server_port(ctypes.c_void_p(server)), flush=True)
    status = library.rubato_server_run(ctypes.c_void_p(server), error)
    sys.exit(error.value.decode() if status < 0 else status)


main()
