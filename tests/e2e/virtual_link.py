# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with a virtual link between them, for one test."""

import contextlib
import os
import subprocess


def run_ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True)


@contextlib.contextmanager
def one_cpu():
    """Of the calling thread, and of the processes that it starts: what it sends by one socket
    arrives in that order. Each CPU has a queue of its own for what it sends over loopback and
    virtual links."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class VirtualLink:
    """Of a unittest.TestCase, which is skipped where namespaces are not permitted. The server's end
    is `vs` in ends[0], the client's `vc` in ends[1]."""

    ADDRESS = "10.79.0.1"

    def setUp(self):
        self.ends = [f"rubato-{end}{os.getpid()}" for end in "sc"]
        try:
            for end in self.ends:
                run_ip("netns", "add", end)
                self.addCleanup(run_ip, "netns", "del", end)
            self.make_link()
        except (OSError, subprocess.CalledProcessError) as problem:
            self.skipTest(f"network namespaces are not permitted here: {problem}")
        for end, link, host in zip(self.ends, ("vs", "vc"), (1, 2)):
            run_ip("-n", end, "addr", "add", f"10.79.0.{host}/24", "dev", link)
            run_ip("-n", end, "link", "set", "lo", "up")
            run_ip("-n", end, "link", "set", link, "up")
        self.in_server = ("ip", "netns", "exec", self.ends[0])
        self.in_client = ("ip", "netns", "exec", self.ends[1])

    def make_link(self):
        run_ip("link", "add", "vs", "netns", self.ends[0], "type", "veth", "peer", "name", "vc",
               "netns", self.ends[1])

    def read_metrics(self, server):
        """From a server at its end."""
        url = f"http://127.0.0.1:{server.metrics_port}/metrics"
        text = subprocess.run(
            [*self.in_server, "python3", "-c",
             f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"],
            check=True, capture_output=True, text=True).stdout
        return server.metrics(text)
