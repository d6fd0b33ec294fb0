# SPDX-License-Identifier: Apache-2.0
"""Classes of commands: how they are defined, share the time of what is underway, are refused in an
overload and counted, and where an operator sees them."""

import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from test_semantics import COUNT, Fixture, eventually
from valkey_process import BINARY, ReplyError, Server, free_port

SLOW = "slow commands hgetall,KEYS share 10"

SHOWN = ("commands", "ran_us", "suspensions", "suspended_us", "waits", "waited_us",
         "longest_wait_us", "held_up", "held_up_us", "refused")


def counts(client, name):
    """The figures of a class."""
    words = client.info()[f"rubato_class_{name}"].split(",")
    return {key: int(value) for key, value in (word.split("=") for word in words)}


def config(client, name):
    return client.call("CONFIG", "GET", name)[1].decode()


class Definitions(Fixture):
    options = ()

    def test_they_are_set_read_written_and_removed(self):
        both = f"{SLOW} scripts commands eval_ro share 300"
        self.assertEqual(config(self.admin, "rubato-class"), "")
        self.admin.call("CONFIG", "SET", "rubato-class", both)
        self.assertEqual(config(self.admin, "rubato-class"), both)
        self.admin.call("HGETALL", "hash")
        self.admin.call("HVALS", "hash")
        self.admin.call("EVAL_RO", "return 1", 0)
        found = {of: counts(self.admin, of)["commands"] for of in ("default", "slow", "scripts")}
        self.assertEqual(found, {"default": 1, "slow": 1, "scripts": 1})
        self.assertEqual(counts(self.admin, "scripts")["share"], 300)
        self.admin.call("CONFIG", "SET", "rubato-class", SLOW)
        self.assertNotIn("rubato_class_scripts", self.admin.info())
        self.admin.call("EVAL_RO", "return 1", 0)
        self.assertEqual(counts(self.admin, "default")["commands"], 3)  # with those that were
        self.admin.call("CONFIG", "SET", "rubato-class", "")
        self.assertEqual(config(self.admin, "rubato-class"), "")
        self.assertEqual(self.admin.info()["rubato_commands"], "4")

    def test_a_file_has_one_in_each_line_and_is_rewritten(self):
        path = Path(self.server.folder.name) / "conf"
        path.write_text("rubato-class slow commands keys share 5\n"
                        "rubato-class fast commands hgetall,hvals share 500\n")
        server = Server(config_file=path)
        try:
            client = server.client()
            text = "slow commands keys share 5 fast commands hgetall,hvals share 500"
            self.assertEqual(config(client, "rubato-class"), text)
            client.call("CONFIG", "SET", "rubato-class", "one commands lrange share 1")
            self.rewritten(server, client)
            lines = [line for line in path.read_text().split("\n") if "rubato-class" in line]
            self.assertEqual(lines, ["rubato-class one commands lrange share 1"])
        finally:
            self.assertEqual(server.stop(), "")

    def rewritten(self, server, client):
        """A server that begins with the file that this one has rewritten has the same classes."""
        classes = config(client, "rubato-class")
        client.call("CONFIG", "REWRITE")
        client.close()
        server.process.kill()
        server.process.wait()
        server.start()
        client = server.client()
        self.assertEqual(config(client, "rubato-class"), classes)
        client.close()

    def test_the_file_may_have_what_the_options_have(self):
        path = Path(self.server.folder.name) / "conf"
        path.write_text("rubato-class slow commands hvals share 5\n"
                        "rubato-class fast commands hkeys share 500\n")
        server = Server("--rubato-class", SLOW, config_file=path)
        try:
            client = server.client()
            self.assertEqual(config(client, "rubato-class"),
                             f"fast commands hkeys share 500 {SLOW}")
            self.rewritten(server, client)
        finally:
            self.assertEqual(server.stop(), "")

    def test_a_class_that_stays_keeps_its_counts(self):
        self.admin.call("CONFIG", "SET", "rubato-class", SLOW)
        self.admin.call("HGETALL", "hash")
        more = "scripts commands eval_ro share 300 slow commands hgetall share 20"
        self.admin.call("CONFIG", "SET", "rubato-class", more)
        self.assertEqual(counts(self.admin, "slow")["commands"], 1)
        with socket.create_server(("127.0.0.1", 0)) as taken, self.assertRaises(ReplyError):
            self.admin.call("CONFIG", "SET", "rubato-class", "",
                            "rubato-metrics-port", taken.getsockname()[1])
        self.assertEqual(config(self.admin, "rubato-class"), more)
        found = {of: counts(self.admin, of)["commands"] for of in ("default", "slow", "scripts")}
        self.assertEqual(found, {"default": 0, "slow": 1, "scripts": 0})
        for text in ("", "scripts commands eval_ro share 1", ""):
            self.admin.call("CONFIG", "SET", "rubato-class", text)
            self.assertEqual(counts(self.admin, "default")["commands"], 1)

    def test_counts_begin_anew_when_they_are_told_to(self):
        self.admin.call("CONFIG", "SET", "rubato-class", SLOW)
        for words in (("HGETALL", "hash"), ("HKEYS", "hash")):
            while int(self.admin.info()["rubato_preemptions"]) == 0:
                self.admin.call(*words)
        before = self.admin.info()
        self.admin.call("CONFIG", "SET", "rubato-class", "")  # another executor, no class
        after = self.admin.info()
        for name in ("rubato_commands", "rubato_suspensions", "rubato_preemptions"):
            self.assertGreater(int(before[name]), 0, name)
            self.assertEqual(before[name], after[name])
        self.admin.call("CONFIG", "RESETSTAT")
        counted = {name: value for name, value in self.admin.info().items()
                   if name not in ("rubato_enabled", "rubato_policy")}
        shown = ",".join(f"{name}=0" for name in SHOWN)
        self.assertEqual(counted.pop("rubato_class_default"), f"share=100,{shown}")
        self.assertEqual(set(counted.values()), {"0"}, counted)
        self.admin.call("HGETALL", "hash")
        self.assertEqual(self.admin.info()["rubato_commands"], "1")

    def test_what_is_wrong_is_refused_in_one_line(self):
        self.admin.call("CONFIG", "SET", "rubato-class", SLOW)
        for text, line in (
                ("slow", "expected NAME commands"),
                ("slow commands keys weight 1", "expected NAME commands"),
                ("slow commands  share 1", "slow: expected COMMAND,... before share"),
                ("slow commands keyz share 1", "slow: there is no command 'keyz'"),
                ("slow commands get share 1", "'get' is never suspended"),
                ("slow commands script|load share 1", "never suspended"),
                ("slow commands keys share 0", "share '0', expected 1 to 10000"),
                ("slow commands keys share x", "share 'x'"),
                ("a.b commands keys share 1", "a name has 1 to 32 letters"),
                ("a\0b commands keys share 1", "a name has 1 to 32 letters"),
                ("default commands keys share 1", "a name has"),
                ("a commands keys share 1 b commands keys share 1", "b: 'keys' is in a class"),
                ("a commands keys share 1 A commands hvals share 1", "a class of that name"),
                (" ".join(f"c{i} commands keys share 1" for i in range(15)), "at most 14")):
            with self.assertRaises(ReplyError) as caught:
                self.admin.call("CONFIG", "SET", "rubato-class", text)
            self.assertIn(line, str(caught.exception))
        self.assertEqual(config(self.admin, "rubato-class"), SLOW)


FILL = """for i = 1, ARGV[1] do
  redis.call('sadd', 'set', 'm' .. i) redis.call('sadd', 'more', 'm' .. i)
  redis.call('zadd', 'sorted', i, 'm' .. i)
end"""


class Busy(Fixture):
    """With commands that are long and have short replies, sent by clients without a pause."""

    def setUp(self):
        super().setUp()
        self.admin.call("EVAL", FILL, 0, COUNT)

    def beside(self, commands, check):
        """Calls check while a client sends each of the commands. Gives the errors."""
        stop = threading.Event()
        refused = []
        self.served = []

        def sends(words):
            client = self.server.client()
            while not stop.is_set():
                try:
                    self.served.append(client.call(*words))
                except ReplyError as error:
                    refused.append(str(error))
            client.close()

        parties = [threading.Thread(target=sends, args=(words,)) for words in commands]
        for party in parties:
            party.start()
        try:
            check(refused)
        finally:
            stop.set()
            for party in parties:
                party.join()
        return refused


class Shares(Busy):
    options = ("--rubato-class", "small commands sintercard share 20",
               "--rubato-class", "large commands zintercard share 180")

    def test_time_goes_by_share(self):
        def check(_):
            eventually(lambda: counts(self.admin, "large")["commands"] > 40, "many were served")
            small, large = (counts(self.admin, of) for of in ("small", "large"))
            # Nine times as much while both have work, which they not always have.
            self.assertGreater(large["ran_us"], 3 * small["ran_us"])
            self.assertGreater(small["commands"], 0)
            self.assertGreater(large["suspensions"], 0)

        self.beside((("SINTERCARD", 2, "set", "more"), ("ZINTERCARD", 2, "set", "sorted")) * 4,
                    check)


class Overload(Busy):
    options = ("--rubato-overload-target-us", "200")

    def test_what_waits_too_long_is_refused_and_counted(self):
        def check(refused):
            eventually(lambda: refused, "some are refused")
            self.assertEqual(self.admin.call("HSET", "hash", 1, 1), 0)

        refused = self.beside([("SINTERCARD", 2, "set", "more")] * 24, check)
        self.assertRegex(refused[0], "^OVERLOADED ")
        self.assertEqual(counts(self.admin, "default")["refused"], len(refused))
        self.assertEqual(counts(self.admin, "default")["commands"], len(self.served))
        errors = self.admin.info("errorstats")["errorstat_OVERLOADED"]
        self.assertEqual(errors, f"count={len(refused)}")
        self.assertEqual(self.underway(), 0)
        self.admin.call("CONFIG", "SET", "rubato-overload-target-us", 0)
        self.assertEqual(self.admin.call("SINTERCARD", 2, "set", "more"), COUNT)


class WhatOperatorsSee(Fixture):
    options = ("--rubato-stress", "5", "--rubato-class", SLOW)

    def test_who_holds_whom_up(self):
        reader, writer = self.suspended(), self.client()
        writer.send("HSET", "hash", "new", 1)
        eventually(lambda: self.waiting() == 1, "a writer waits")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(writer.receive(), 1)
        culprit, victim = counts(self.admin, "slow"), counts(self.admin, "default")
        self.assertEqual((culprit["held_up"], victim["waits"]), (1, 1))
        self.assertGreater(victim["waited_us"], 0)
        self.assertEqual(culprit["held_up_us"], victim["waited_us"])
        self.assertEqual((culprit["waits"], victim["held_up"]), (0, 0))
        self.assertGreater(culprit["suspended_us"], 0)

    def test_who_held_up_is_known_when_classes_have_changed(self):
        self.admin.call("CONFIG", "SET", "rubato-class", f"first commands hkeys share 1 {SLOW}")
        reader, changer, writer = self.suspended(), self.client(), self.client()
        changer.send("CONFIG", "SET", "rubato-class", SLOW)
        eventually(lambda: self.waiting() == 1, "the change waits")
        writer.send("HSET", "hash", "new", 1)
        eventually(lambda: self.waiting() == 2, "a writer waits")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual((changer.receive(), writer.receive()), (b"OK", 1))
        culprit, victim = counts(self.admin, "slow"), counts(self.admin, "default")
        self.assertEqual((culprit["held_up"], victim["held_up"]), (2, 0))
        self.assertEqual(culprit["held_up_us"], victim["waited_us"])

    def test_what_a_transaction_calls_has_not_waited_itself(self):
        self.admin.call("CONFIG", "SET", "slowlog-log-slower-than", 0,
                        "commandlog-request-larger-than", 0)
        reader, writer, other = self.suspended(), self.client(), self.client()
        for words in (("MULTI",), ("HSET", "hash", "new", 1)):
            writer.call(*words)
        writer.send("EXEC")
        other.send("HDEL", "hash", "none")
        eventually(lambda: self.waiting() == 2, "they wait")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual((writer.receive(), other.receive()), ([1], 0))
        slow, large = ({entry[3][0]: entry[3] for entry in
                        self.admin.call("COMMANDLOG", "GET", 20, kind)}
                       for kind in ("slow", "large-request"))
        self.assertEqual(slow[b"HSET"], [b"HSET", b"hash", b"new", b"1"])
        self.assertRegex(slow[b"HDEL"][-1], rb"^\(rubato: waited [1-9]")
        self.assertEqual(large[b"HDEL"], [b"HDEL", b"hash", b"none"])

    def test_the_logs_say_who_waited(self):
        self.admin.call("CONFIG", "SET", "slowlog-log-slower-than", 1000)
        self.admin.call("SLOWLOG", "RESET")
        reader, writer, script = self.suspended(), self.client(), self.client()
        writer.send("HSET", "hash", "new", 1)
        script.send("EVAL", "for i = 1, 9 do redis.call('append', 'x', i) end", 0)
        eventually(lambda: self.waiting() == 2, "both wait")
        begin = time.monotonic()
        while time.monotonic() < begin + 0.01:  # so long it waits at least
            pass
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual((writer.receive(), script.receive()), (1, None))
        for log in (("SLOWLOG", "GET"), ("COMMANDLOG", "GET", "10", "slow")):
            entries = {entry[3][0]: entry for entry in self.admin.call(*log)}
            self.assertNotIn(b"append", entries)  # what a script calls has not waited itself
            for name in (b"HSET", b"EVAL"):
                wait = entries[name]
                self.assertRegex(wait[3][-1], rb"^\(rubato: waited \d+ us for class slow, susp")
                self.assertGreaterEqual(wait[2], 10000)
            if b"HGETALL" in entries:  # its own time is short
                self.assertRegex(entries[b"HGETALL"][3][-1], rb"waited 0 us, suspended [1-9]")
        self.admin.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        writer.call("HSET", "hash", "new", 2)  # which did not wait
        newest = self.admin.call("SLOWLOG", "GET", 1)[0]
        self.assertEqual(newest[3], [b"HSET", b"hash", b"new", b"2"])

    def test_metrics_and_top_have_the_classes(self):
        port = free_port()
        self.admin.call("CONFIG", "SET", "rubato-metrics-port", port)
        self.admin.call("HGETALL", "hash")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            text = page.read().decode()
        self.assertIn('rubato_group_requests_total{group="slow"} 1\n', text)
        self.assertIn('rubato_latency_seconds_count{type="slow"} 1\n', text)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/state", timeout=30) as page:
            self.assertIn('"slow"', page.read().decode())
        with self.assertRaises(ReplyError):
            self.admin.call("CONFIG", "SET", "rubato-metrics-bind", "no such address")
        self.assertEqual(len(self.admin.call("HGETALL", "hash")), 2 * COUNT)
        self.admin.call("CONFIG", "SET", "rubato-metrics-port", 0)
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30)


class Metrics(Fixture):
    def setUp(self):
        self.port = free_port()
        self.options = ("--rubato-metrics-port", str(self.port))
        super().setUp()

    def check(self):
        """All is as it was configured, and reads are tasks."""
        before = int(self.admin.info()["rubato_commands"])
        self.assertEqual(len(self.admin.call("HGETALL", "hash")), 2 * COUNT)
        self.assertEqual(int(self.admin.info()["rubato_commands"]), before + 1)
        self.assertEqual(config(self.admin, "rubato-enabled"), "yes")
        self.assertEqual(config(self.admin, "rubato-metrics-port"), str(self.port))
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30).close()

    def test_settings_change_while_the_server_saves(self):
        self.admin.call("DEBUG", "POPULATE", 1000)
        self.admin.call("CONFIG", "SET", "rdb-key-save-delay", 100000)
        self.admin.call("BGSAVE")
        self.check()
        self.assertEqual(self.admin.call("CONFIG", "SET", "rubato-quantum-us", 60), b"OK")
        self.assertEqual(self.admin.info("persistence")["rdb_bgsave_in_progress"], "1")
        self.check()
        self.admin.call("BGSAVE", "CANCEL")

    def test_what_cannot_be_had_changes_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for words in (("rubato-metrics-port", taken.getsockname()[1]),
                          ("rubato-metrics-bind", "no such address"), ("rubato-metrics-bind", "")):
                with self.assertRaises(ReplyError):
                    self.admin.call("CONFIG", "SET", *words)
                self.check()
        self.assertEqual(config(self.admin, "rubato-metrics-bind"), "127.0.0.1")

    def test_a_server_does_not_start_without_its_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = subprocess.run([BINARY, "--port", str(free_port()), "--dir",
                                   self.server.folder.name, "--rubato-metrics-port", str(port)],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, f"rubato: .*{port}")
