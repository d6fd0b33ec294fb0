# SPDX-License-Identifier: Apache-2.0
"""`--otlp` as a collector of OpenTelemetry meets it: fields as opentelemetry-proto names them."""

import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from server import Server, refused
from waiting import eventually

VALUES = {"stringValue", "intValue", "doubleValue", "boolValue"}


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.hanging:
            self.server.hung.set()
            self.server.go_on.wait()
            return
        status = self.server.statuses.get(self.path, 200)
        if status != 200:
            self.send_error(status)
            return
        self.server.messages.append((self.path, self.headers["Content-Type"], json.loads(body)))
        reply = json.dumps(self.server.replies.get(self.path, {})).encode()
        if self.server.interim:
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.messages, server.statuses, server.replies, server.hanging = [], {}, {}, False
    server.interim = False
    server.hung, server.go_on = threading.Event(), threading.Event()
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


def url(server, path=""):
    return f"http://127.0.0.1:{server.server_address[1]}{path}"


def counter(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        return int(re.search(rf"\n{name} (\d+)", reply.read().decode()).group(1))


# A resolver without an answer for one name.
HUNG_RESOLVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char* node, const char* service, const void* hints, void** found) {
  while (node != 0 && strcmp(node, "collector.test") == 0) pause();
  int (*real)(const char*, const char*, const void*, void**) = dlsym(RTLD_NEXT, "getaddrinfo");
  return real(node, service, hints, found);
}
"""
# No thread while there is a file.
NO_THREADS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
int pthread_create(void* thread, const void* attributes, void* begin, void* argument) {
  if (access(getenv("NO_THREADS"), F_OK) == 0) return EAGAIN;
  int (*real)(void*, const void*, void*, void*) = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, begin, argument);
}
"""
CAN_PRELOAD = shutil.which("cc") is not None and not os.environ.get("RUBATO_SANITIZE")


def preloaded(folder, source, **variables):
    """What runs a server with a library of that source before others."""
    library = os.path.join(folder, "preloaded.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True,
                   input=source.encode())
    return ("env", f"LD_PRELOAD={library}", *(f"{k}={v}" for k, v in variables.items()))


def spans_of(messages):
    return [span for path, _, body in list(messages) if path.endswith("/v1/traces")
            for resource in body["resourceSpans"] for scope in resource["scopeSpans"]
            for span in scope["spans"]]


class Otlp(unittest.TestCase):
    def check_attributes(self, attributes):
        for attribute in attributes:
            self.assertEqual(set(attribute), {"key", "value"})
            self.assertEqual(len(attribute["value"]), 1)
            self.assertLessEqual(set(attribute["value"]), VALUES)

    def check_time(self, text):
        self.assertIsInstance(text, str)
        self.assertLess(abs(int(text) / 1e9 - time.time()), 3600)

    def check_span(self, span):
        self.assertLessEqual({"traceId", "spanId", "name", "kind", "startTimeUnixNano",
                              "endTimeUnixNano", "attributes"}, set(span))
        self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
        self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
        self.assertEqual(span["kind"], 2)
        self.check_time(span["startTimeUnixNano"])
        self.assertGreaterEqual(int(span["endTimeUnixNano"]), int(span["startTimeUnixNano"]))
        self.check_attributes(span["attributes"])

    def check_metric(self, metric):
        kinds = set(metric) - {"name", "description"}
        self.assertEqual(len(kinds), 1)
        kind = kinds.pop()
        self.assertIn(kind, {"sum", "gauge", "histogram", "summary"})
        for point in metric[kind]["dataPoints"]:
            self.check_time(point["timeUnixNano"])
            self.check_attributes(point["attributes"])
            if kind == "histogram":
                self.assertEqual(len(point["bucketCounts"]), len(point["explicitBounds"]) + 1)
                self.assertEqual(sum(map(int, point["bucketCounts"])), int(point["count"]))
            elif kind != "summary":
                self.assertIsInstance(point["asDouble"], (int, float))
        if kind in ("sum", "histogram"):
            self.assertEqual(metric[kind]["aggregationTemporality"], 2)

    def test_metrics_and_spans_reach_a_collector(self):
        with collector() as sink:
            with Server("--otlp", url(sink, "/otel/"), "--otlp-sample", "1", "--otlp-interval",
                        "0.2") as server:
                for _ in range(40):
                    server.call("GET", "a")
                eventually(lambda: [s for s in spans_of(sink.messages) if s["name"] == "get"],
                           lambda found: len(found) == 40)
                server.terminate()
                self.assertEqual(server.wait(), 0, server.output())
            paths = {path for path, _, _ in sink.messages}
            self.assertEqual(paths, {"/otel/v1/metrics", "/otel/v1/traces"})
            self.assertEqual({kind for _, kind, _ in sink.messages}, {"application/json"})
            spans = spans_of(sink.messages)
            for span in spans:
                self.check_span(span)
            self.assertEqual(len({span["traceId"] for span in spans}), len(spans))
            body = [body for path, _, body in sink.messages if path.endswith("metrics")][-1]
            resource = body["resourceMetrics"][0]
            names = {a["key"]: a["value"]["stringValue"]
                     for a in resource["resource"]["attributes"]}
            self.assertEqual(names["service.name"], "rubato-kv")
            metrics = {m["name"]: m for m in resource["scopeMetrics"][0]["metrics"]}
            for metric in metrics.values():
                self.check_metric(metric)
            self.assertIn("rubato_otlp_spans", metrics)
            self.assertTrue(any("histogram" in metric for metric in metrics.values()))

    def test_a_part_of_the_requests_is_drawn(self):
        with collector() as sink, Server("--otlp", url(sink), "--otlp-sample", "0.1",
                                         "--otlp-interval", "0.2") as server:
            for _ in range(1000):
                server.call("GET", "a")
            server.terminate()
            server.wait()
            # Binomial: within six standard deviations.
            self.assertAlmostEqual(len(spans_of(sink.messages)), 100, delta=57)

    def test_spans_go_with_a_recording_of_the_same_requests(self):
        with tempfile.TemporaryDirectory() as folder, collector() as sink:
            file = os.path.join(folder, "requests")
            with Server("--otlp", url(sink), "--otlp-sample", "1", "--otlp-interval", "0.2",
                        "--record", file) as server:
                def spans(name):
                    return [span for span in spans_of(sink.messages) if span["name"] == name]
                for _ in range(40):
                    server.call("GET", "a")
                eventually(lambda: len(spans("get")), lambda count: count == 40)
                server.call("CONFIG", "SET", "recording", "no")
                for _ in range(7):
                    server.call("SET", "a", "b")
                eventually(lambda: len(spans("set")), lambda count: count == 7)
                server.terminate()
                self.assertEqual(server.wait(), 0, server.output())
                # `config` is of the control plane.
                self.assertRegex(server.output(), r"requests recorded .*recorded=40 left_out=0")

    def test_a_collector_that_is_away_holds_up_nothing(self):
        with collector() as sink, Server("--otlp", url(sink), "--otlp-sample", "1",
                                         "--otlp-interval", "0.1", "--metrics-port",
                                         "0") as server:
            sink.statuses = {"/v1/metrics": 503, "/v1/traces": 503}
            for _ in range(10):
                server.call("GET", "a")
            server.wait_for(r"(takes no spans reason=.HTTP status 503. again=yes)")
            sink.statuses = {}
            eventually(lambda: len(spans_of(sink.messages)), lambda count: count >= 10)
            server.wait_for(r"(takes spans again)")
            server.terminate()
            self.assertEqual(server.wait(), 0)
        with Server("--otlp", "http://127.0.0.1:1", "--otlp-interval", "0.1") as server:
            self.assertEqual(server.call("SET", "a", "b"), b"OK")
            server.terminate()
            self.assertEqual(server.wait(), 0)

    def test_spans_reach_a_collector_that_takes_no_metrics(self):
        """More than fit into a message, so that there are several."""
        with collector() as sink, Server("--otlp", url(sink), "--otlp-sample", "1",
                                         "--otlp-interval", "1") as server:
            sink.statuses = {"/v1/metrics": 404}
            with server.client() as client:
                for _ in range(1300):
                    client.call("GET", "a")
            eventually(lambda: len([s for s in spans_of(sink.messages) if s["name"] == "get"]),
                       lambda count: count == 1300)
            sizes = [len(spans_of([message])) for message in sink.messages]
            self.assertLessEqual(max(sizes), 512)
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertEqual(server.output().count("takes no metrics"), 1, server.output())
            self.assertNotIn("takes metrics again", server.output())

    def test_spans_that_are_refused_for_good_are_dropped_and_counted(self):
        with collector() as sink, Server("--otlp", url(sink), "--otlp-sample", "1",
                                         "--otlp-interval", "0.1", "--metrics-port",
                                         "0") as server:
            sink.statuses = {"/v1/traces": 400}
            for _ in range(10):
                server.call("GET", "a")
            port = server.wait_for(r"metrics on http://127.0.0.1:(\d+)/metrics")
            eventually(lambda: counter(port, "rubato_otlp_spans_dropped_total"),
                       lambda count: count >= 10)
            sink.statuses = {}
            server.call("SET", "a", "b")
            eventually(lambda: [s["name"] for s in spans_of(sink.messages)],
                       lambda names: "set" in names)
            self.assertNotIn("get", [s["name"] for s in spans_of(sink.messages)])
            server.terminate()
            self.assertEqual(server.wait(), 0)

    def test_a_part_that_is_refused_of_a_message_that_is_taken_is_counted(self):
        with collector() as sink, Server("--otlp", url(sink), "--otlp-sample", "1",
                                         "--otlp-interval", "0.1", "--metrics-port",
                                         "0") as server:
            sink.interim = True
            sink.replies = {"/v1/traces": {"partialSuccess": {"rejectedSpans": "1",
                                                              "errorMessage": "too old"}}}
            port = server.wait_for(r"metrics on http://127.0.0.1:(\d+)/metrics")
            server.call("GET", "a")
            server.wait_for(r"(refuses a part of the spans reason=.too old)")
            eventually(lambda: counter(port, "rubato_otlp_spans_dropped_total"),
                       lambda count: count >= 1)
            self.assertEqual(counter(port, "rubato_otlp_failures_total"), 0)
            server.terminate()
            self.assertEqual(server.wait(), 0)

    @unittest.skipUnless(CAN_PRELOAD, "takes cc, and no sanitizer")
    def test_a_resolver_that_hangs_ends_with_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server("--otlp", "http://collector.test", "--otlp-sample", "1",
                        "--otlp-interval", "0.1",
                        wrapper=preloaded(folder, HUNG_RESOLVER)) as server:
                server.call("GET", "a")
                server.wait_for(r"(takes no metrics reason=.the name of its host is not resolved)")
                server.terminate()
                self.assertEqual(server.wait(), 0)
                self.assertIn("has not taken all spans before the end", server.output())

    @unittest.skipUnless(CAN_PRELOAD, "takes cc, and no sanitizer")
    def test_a_resolver_that_gets_no_thread_is_tried_again(self):
        with tempfile.TemporaryDirectory() as folder, collector() as sink:
            full = os.path.join(folder, "full")
            with Server("--otlp", url(sink), "--otlp-interval", "3",
                        wrapper=preloaded(folder, NO_THREADS, NO_THREADS=full)) as server:
                open(full, "w", encoding="utf-8").close()
                server.wait_for(r"(takes no metrics reason=.there is no thread to resolve)")
                os.remove(full)
                server.wait_for(r"(takes metrics again)")
                server.terminate()
                self.assertEqual(server.wait(), 0, server.output())

    def test_a_collector_that_hangs_ends_with_the_server(self):
        with collector() as sink, Server("--otlp", url(sink), "--otlp-sample", "1",
                                         "--otlp-interval", "0.1") as server:
            sink.hanging = True
            server.call("GET", "a")
            self.assertTrue(sink.hung.wait(60))
            server.call("GET", "a")
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertIn("has not taken all spans before the end", server.output())
            self.assertNotIn(" stalled: ", server.output())

    def test_mistakes_are_one_line(self):
        for args, said in ((["--otlp", "127.0.0.1"], "--otlp: takes http://"),
                           (["--otlp", "http://"], "--otlp: takes http://"),
                           (["--otlp-sample", "0.1"], "--otlp-sample: needs --otlp"),
                           (["--otlp-interval", "3"], "--otlp-interval: needs --otlp"),
                           (["--otlp", "http://x", "--otlp-sample", "1.1"], "--otlp-sample")):
            status, text = refused("serve", "spin", "--port", "0", *args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertTrue(re.search(said, text), text)


if __name__ == "__main__":
    unittest.main()
