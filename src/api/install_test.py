#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the library into a fresh prefix, compiles each header by itself, builds examples with
pkg-config, with the static library and in a project in C, runs them and talks to them over TCP.
With find_package all are built by tests/documents/test_library.py, which calls the checks of this
file. Exit status 77 is a skip with its reason."""

import argparse
import contextlib
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients/python"))

import rubato_rpc  # noqa: E402

DEADLINE_S = 120
SKIP = 77
# A request of so many million steps is still running when this many short ones have been answered.
LONG_MILLIONS = 400
SHORT_ONES = 5

# What headers of ours include that a machine may be without.
FOREIGN = {"grpc.hpp": "grpcpp", "asio.hpp": "boost"}


def run(*command, **options):
    """Runs a command to its end; a failure shows what it said."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          timeout=DEADLINE_S * 2, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} -> {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Lines:
    """The framing of lines, on one connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.unread = b""

    def send(self, text):
        self.socket.sendall(text.encode() + b"\n")

    def receive(self):
        while b"\n" not in self.unread:
            self.more()
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode()

    def more(self):
        got = self.socket.recv(65536)
        if not got:
            raise AssertionError(f"connection closed after {self.unread!r}")
        self.unread += got

    def call(self, text):
        self.send(text)
        return self.receive()

    def has_reply(self):
        return bool(self.unread) or bool(select.select([self.socket], [], [], 0)[0])


class Prefixed(Lines):
    """The framing with a length of four bytes in front."""

    def send(self, text):
        self.socket.sendall(struct.pack(">I", len(text)) + text.encode())

    def receive(self):
        while len(self.unread) < 4:
            self.more()
        size = struct.unpack_from(">I", self.unread)[0]
        while len(self.unread) < 4 + size:
            self.more()
        text, self.unread = self.unread[4:4 + size], self.unread[4 + size:]
        return text.decode()


class Example:
    """A running example, stopped with SIGTERM at the end; it must then exit with status 0."""

    def __init__(self, binary, environment, *arguments):
        self.process = subprocess.Popen([str(binary), "0", *arguments], stdout=subprocess.PIPE,
                                        text=True, env=environment)
        first = self.process.stdout.readline()
        found = re.match(r"listening on (\d+)$", first)
        if not found:
            self.process.kill()
            raise AssertionError(f"{binary} said {first!r}")
        self.port = int(found.group(1))

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=DEADLINE_S)
        finally:
            self.process.kill()
            self.output = self.process.stdout.read()
            self.process.stdout.close()
        if failure[0] is None:
            assert status == 0, f"exit status {status}"


def expect(got, wanted):
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"


def overtakes(long_one, short_one, request, question, answer):
    """Sends a long request on one connection, and sees short ones on another answered first."""
    expect(short_one.call(question), answer)
    long_one.send(request)
    for _ in range(SHORT_ONES):
        expect(short_one.call(question), answer)
    assert not long_one.has_reply(), "the long request was not long enough to be overtaken"
    return long_one.receive()


def check_kv_handler(binary, environment):
    with Example(binary, environment) as server:
        client, other = Lines(server.port), Lines(server.port)
        expect(client.call("PING"), "PONG")
        expect(client.call("SET answer forty two"), "OK")
        expect(client.call("GET answer"), "forty two")
        expect(client.call("GET nothing"), "(none)")
        expect(client.call("FILL 1000"), "OK")
        expect(client.call("COUNT 99"), "19")
        client.socket.sendall(b"SET a 1\r\nGET a\r\nSET a 2\nGET a\n")
        expect([client.receive() for _ in range(4)], ["OK", "1", "OK", "2"])
        expect(overtakes(client, other, "FILL 1500000", "GET answer", "forty two"), "OK")


def check_server_loop(binary, environment):
    with Example(binary, environment) as server:
        client, other = Prefixed(server.port), Prefixed(server.port)
        expect(client.call(""), "")
        expect(client.call("x" * 100000), "x" * 100000)
        reply = overtakes(client, other, f"work {LONG_MILLIONS}", "short", "short")
        assert reply.startswith("worked "), reply
    assert re.search(r"^[1-9]\d* preemptions$", server.output, re.MULTILINE), server.output


def check_three_hooks(binary, environment):
    with Example(binary, environment) as server:
        client, other = Lines(server.port), Lines(server.port)
        expect(client.call("tempo"), "unknown: tempo")
        reply = overtakes(client, other, f"work {LONG_MILLIONS}", "time", "Zeit")
        assert reply.startswith("worked "), reply


def check_c_handler(binary, environment):
    with Example(binary, environment) as server:
        client, other = Lines(server.port), Lines(server.port)
        expect(client.call(""), "")
        reply = overtakes(client, other, f"work {LONG_MILLIONS}", "hello", "hello")
        assert reply.startswith("worked "), reply


def check_rpc_echo(binary, environment):
    with Example(binary, environment) as server:
        patience = {"expire_s": DEADLINE_S, "answer_within_s": DEADLINE_S}
        with rubato_rpc.Client("127.0.0.1", server.port, **patience) as client, \
                rubato_rpc.Client("127.0.0.1", server.port, **patience) as other:
            expect(client.call(b"hello"), b"hello")
            slow = client.submit(f"work {LONG_MILLIONS}".encode())
            # A busy machine may be an overloaded one.
            for _ in range(SHORT_ONES):
                with contextlib.suppress(rubato_rpc.Refused):
                    expect(other.call(b"short"), b"short")
            assert slow.result(DEADLINE_S).startswith(b"worked ")


def check_own_sockets(binary, environment):
    with Example(binary, environment) as server:
        client, other = Lines(server.port), Lines(server.port)
        client.socket.sendall(b"one\ntwo\nthree\n")
        expect([client.receive() for _ in range(3)], ["one", "two", "three"])
        reply = overtakes(client, other, f"work {LONG_MILLIONS}", "hello", "hello")
        assert reply.startswith("worked "), reply


def check_fan_out(binary, environment):
    """Each service answers only when all three have been asked."""
    asked = threading.Barrier(3)

    def serve(listener, name):
        with listener, listener.accept()[0] as client:
            line = client.makefile().readline()
            asked.wait(DEADLINE_S)
            client.sendall(f"{name}: {line}".encode())

    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    services = [threading.Thread(target=serve, args=pair) for pair in zip(listeners, "abc")]
    ports = [str(listener.getsockname()[1]) for listener in listeners]
    for service in services:
        service.start()
    with Example(binary, environment, *ports) as server:
        reply = Lines(server.port).call("hello")
        expect(sorted(reply.split("; ")), ["", "a: hello", "b: hello", "c: hello"])
    for service in services:
        service.join()


CHECKS = {"fan_out": check_fan_out, "own_sockets": check_own_sockets, "rpc_echo": check_rpc_echo,
          "kv_handler": check_kv_handler, "server_loop": check_server_loop,
          "three_hooks": check_three_hooks, "c_handler": check_c_handler}


def check_exports(prefix):
    """What the shared library exports is what the headers declare."""
    library = next(prefix.glob("lib*/**/librubato.so"))
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    exported = {line.split()[-1].split("@")[0] for line in lines}
    exported = {name for name in exported if name != "RUBATO_0"}
    text = "".join((prefix / "include/rubato" / name).read_text()
                   for name in ("rubato.h", "executor.h", "completions.h", "wait.h",
                                "checkpoint.h"))
    code = re.sub(r"//[^\n]*", "", text)
    declared = set(re.findall(r"\b(rubato_\w+)\([^;{}]*\);", code)) | {"rubato_checkpoint_budget"}
    declared -= {"rubato_checkpoint_inline"}
    expect(sorted(exported), sorted(declared))


def check_headers(prefix, compilers):
    """Each installed header compiles on its own, with no other folder of ours in sight."""
    for header in sorted((prefix / "include/rubato").iterdir()):
        foreign = FOREIGN.get(header.name)
        if foreign and not Path("/usr/include", foreign).exists():
            continue
        languages = ["c++"] if header.suffix == ".hpp" else ["c++", "c"]
        for language in languages:
            standard = "-std=c++20" if language == "c++" else "-std=c11"
            run(compilers[language], standard, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
                "-Wconversion", "-Wsign-conversion", "-Werror", "-fsyntax-only", "-x", language,
                f"-I{prefix / 'include'}", "-", input=f"#include <rubato/{header.name}>\n" * 2)


def check_pkg_config(prefix, examples, work, compilers):
    """The C example linked with either library, a C++ one with the static one."""
    folder = next(prefix.glob("lib*/**/pkgconfig"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = run("pkg-config", "--cflags", "--libs", "rubato", env=environment).split()
    shared = work / "c_handler"
    run(compilers["c"], "-O2", examples / "c_handler.c", "-o", shared, *flags)
    check_c_handler(shared, {**os.environ, "LD_LIBRARY_PATH": str(folder.parent)})
    print("pkg-config: c_handler answers")
    hook = run("pkg-config", "--cflags", "--libs", "rubato-rocksdb", env=environment).split()
    hooked = work / "c_handler_hooked"
    run(compilers["c"], "-O2", examples / "c_handler.c", "-o", hooked, "-Wl,--as-needed", *hook)
    assert "librubato-rocksdb" in run("readelf", "--dynamic", hooked), "it was linked in vain"
    cflags = run("pkg-config", "--cflags", "rubato", env=environment).split()
    static = work / "server_loop"
    run(compilers["c++"], "-std=c++20", "-O2", examples / "server_loop.cc", "-o", static, *cflags,
        folder.parent / "librubato.a", "-pthread")
    check_server_loop(static, None)
    print("static library: server_loop answers")
    hooked = work / "server_loop_hooked"
    run(compilers["c++"], "-std=c++20", "-O2", examples / "server_loop.cc", "-o", hooked, *cflags,
        folder.parent / "librubato.a", *(flag for flag in hook if flag != "-lrubato"), "-pthread",
        f"-Wl,-rpath,{folder.parent}")
    check_server_loop(hooked, None)
    print("static library: server_loop answers beside librubato-rocksdb")
    flags = run("pkg-config", "--static", "--cflags", "--libs", "rubato", env=environment).split()
    in_c = work / "c_handler_static"
    run(compilers["c"], "-O2", examples / "c_handler.c", "-o", in_c,
        *("-l:librubato.a" if flag == "-lrubato" else flag for flag in flags))
    check_c_handler(in_c, None)
    print("static library: c_handler answers, linked by a C compiler")


def check_project_in_c(prefix, examples, work, compilers):
    """A project without C++ links either library."""
    (work / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(c LANGUAGES C)\n"
        "find_package(rubato REQUIRED)\nforeach(kind rubato static)\n"
        f"  add_executable(${{kind}} {examples}/c_handler.c)\n"
        "  target_link_libraries(${kind} PRIVATE rubato::${kind})\nendforeach()\n")
    run("cmake", "-S", work, "-B", work / "c", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={compilers['c']}")
    run("cmake", "--build", work / "c")
    for kind in ("rubato", "static"):
        check_c_handler(work / "c" / kind, None)
        print(f"project in C: c_handler answers with rubato::{kind}")


def skip_reason(args):
    if args.sanitized:
        return "a sanitized library asks the same of the programs that link it"
    for tool in ("cmake", "pkg-config", "nm", "readelf"):
        if shutil.which(tool) is None:
            return f"{tool} is missing"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=Path)
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--sanitized", default="")
    args = parser.parse_args()
    reason = skip_reason(args)
    if reason:
        print(f"skipped: {reason}")
        return SKIP
    compilers = {"c": args.cc, "c++": args.cxx}
    with tempfile.TemporaryDirectory(prefix="rubato-install-") as folder:
        work = Path(folder)
        prefix, examples = work / "prefix", work / "examples"
        run("cmake", "--install", args.build, "--prefix", prefix, "--component", "library")
        shutil.copytree(args.source / "examples", examples)
        check_headers(prefix, compilers)
        check_exports(prefix)
        check_pkg_config(prefix, examples, work, compilers)
        check_project_in_c(prefix, examples, work, compilers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
