# SPDX-License-Identifier: Apache-2.0
"""What concurrent clients read of collections is always one state of them, and the states come in
the order of their writes, while commands are suspended at most checkpoints.

Each collection has one writer, which gives all its elements a version at once, 1, 2, 3, ...; so a
read that is not atomic shows two versions. A read must show a version that was not replaced before
it began and had begun to be written before it ended, and never an older one than a read that was
over when it began: with one writer that is linearisability.
"""

import os
import random
import threading
import time
import unittest

from valkey_process import ReplyError, Server

SEED = int(os.environ.get("RUBATO_SEED", "20261126"))
SECONDS = float(os.environ.get("RUBATO_SECONDS", "4"))
SIZE = 40  # elements of a collection
FIELDS = range(SIZE)
# Tables and chains in place of small collections' packed form.
TABLES = [word for kind in ("hash", "set", "zset")
          for word in (f"--{kind}-max-listpack-entries", "8")] + ["--list-max-listpack-size", "4"]


def transaction(client, *commands):
    client.send("MULTI")
    for command in commands:
        client.send(*command)
    client.send("EXEC")
    for _ in range(len(commands) + 1):
        client.receive()
    for result in client.receive():
        if isinstance(result, ReplyError):
            raise result


def tagged(version):
    return [f"{version}:{i}" for i in FIELDS]


# How a writer gives a collection a version: of the client and that version.
def write_hash(client, version):
    client.call("HSET", "hash", *(w for i in FIELDS for w in (f"f{i}", version)))


def write_list(client, version):
    # So long that compression pays.
    transaction(client, ("DEL", "list"),
                ("RPUSH", "list", *("x" * 60 + f":{tag}" for tag in tagged(version))))


def write_set(client, version):
    transaction(client, ("DEL", "set"), ("SADD", "set", *tagged(version)))


def write_sets(client, version):
    transaction(client, ("DEL", "left", "right"), ("SADD", "left", *tagged(version)),
                ("SADD", "right", *tagged(version), f"{version}:more"))


def write_sorted(client, version):
    client.call("ZADD", "sorted", *(w for i in FIELDS for w in (version, f"m{i}")))


def write_sorted_pair(client, version):
    client.call("EVAL", "for i = 1, ARGV[2] do redis.call('zadd', KEYS[1], ARGV[1], i) "
                "redis.call('zadd', KEYS[2], ARGV[1], i) end", 2, "za", "zb", version, SIZE)


def write_keys(client, version):
    gone = ("DEL", *(f"key:{version - 1}:{i}" for i in FIELDS))
    new = ("MSET", *(w for i in FIELDS for w in (f"key:{version}:{i}", "x")))
    transaction(client, gone, new)


def write_renamed(client, version):
    client.call("HSET", "next", *(w for i in FIELDS for w in (f"f{i}", version)))
    client.call("RENAME", "next", "renamed")


def write_stream(client, version):
    transaction(client, ("DEL", "stream"),
                *(("XADD", "stream", f"{i + 1}-1", "v", version) for i in FIELDS))


def versions_of_tagged(found):
    return [int(element.split(b":")[-2]) for element in found]


def counted(found, count):
    """All elements are there, else there is no version."""
    return found if len(found) == count else [*found, -1]


def tagged_reader(*words, count=SIZE):
    return lambda client: counted(versions_of_tagged(client.call(*words)), count)


def numbers(found, count=SIZE):
    """Of a reply that has names and numbers in turn."""
    return counted([int(float(v)) for v in found[1::2]], count)


def scored(client, *words, count=SIZE):
    return numbers(client.call(*words), count)


def unversioned(*words):
    return lambda client: [] if len(client.call(*words)) == SIZE else [-1, -2]


def scanned(client, *words):
    """The elements of a scan that passes all at once."""
    cursor, found = client.call(*words, "COUNT", 1000)
    return found if cursor == b"0" else []


SCRIPT = """local seen = {}
for round = 1, 20 do
  for i = 0, 3 do seen[#seen + 1] = redis.call('hget', KEYS[1], 'f' .. i) end
end
return seen"""

# Collection: how it is written, and how it is read: a reader gives the versions that it saw.
COLLECTIONS = {
    "hash": (write_hash, [
        lambda c: counted([int(v) for v in c.call("HGETALL", "hash")[1::2]], SIZE),
        lambda c: counted([int(v) for v in c.call("HVALS", "hash")], SIZE),
        lambda c: [int(v) for v in c.call("EVAL_RO", SCRIPT, 1, "hash")],
        lambda c: numbers(c.call("EVAL_RO", "return redis.call('hgetall', KEYS[1])", 1, "hash")),
        lambda c: numbers(scanned(c, "HSCAN", "hash", 0)),
        lambda c: [int(c.call("HGET", "hash", "f7"))]]),
    "list": (write_list, [tagged_reader("LRANGE", "list", 0, -1),
                          tagged_reader("LRANGE", "list", 5, 14, count=10),
                          tagged_reader("SORT_RO", "list", "ALPHA"),
                          tagged_reader("SORT_RO", "list", "BY", "no:*", "GET", "#"),
                          tagged_reader("EVAL_RO", "return redis.call('lrange', 'list', 0, -1)",
                                        0),
                          tagged_reader("EVAL_RO", "return redis.call('sort_ro', 'list', "
                                        "'alpha')", 0),
                          lambda c: versions_of_tagged([c.call("LINDEX", "list", SIZE // 2)])]),
    "set": (write_set, [tagged_reader("SMEMBERS", "set"),
                        tagged_reader("SORT_RO", "set", "ALPHA", "DESC", "LIMIT", 3, 10, count=10),
                        lambda c: counted(versions_of_tagged(scanned(c, "SSCAN", "set", 0)),
                                          SIZE)]),
    "sets": (write_sets, [tagged_reader("SUNION", "left", "right", count=SIZE + 1),
                          tagged_reader("SINTER", "left", "right"),
                          tagged_reader("SDIFF", "right", "left", count=1)]),
    "sorted": (write_sorted, [
        lambda c: scored(c, "ZRANGE", "sorted", 0, -1, "WITHSCORES"),
        lambda c: scored(c, "ZRANGEBYSCORE", "sorted", "-inf", "+inf", "WITHSCORES"),
        lambda c: numbers(scanned(c, "ZSCAN", "sorted", 0)),
        # These may convert it, by themselves and in a script, and show no version.
        unversioned("SORT_RO", "sorted", "ALPHA"),
        unversioned("EVAL_RO", "return redis.call('sort_ro', 'sorted', 'alpha')", 0),
        lambda c: scored(c, "ZREVRANGE", "sorted", 0, 9, "WITHSCORES", count=10)]),
    "pair": (write_sorted_pair, [
        lambda c: [v / 2 if v % 2 == 0 else -1 for v in scored(
            c, "ZUNION", 2, "za", "zb", "WITHSCORES")],
        lambda c: scored(c, "ZINTER", 2, "za", "zb", "AGGREGATE", "MAX", "WITHSCORES"),
        lambda c: counted(c.call("ZDIFF", 2, "za", "zb"), 0)]),
    "stream": (write_stream, [
        lambda c: counted([int(fields[1]) for _, fields in c.call("XRANGE", "stream", "-", "+")],
                          SIZE),
        lambda c: counted([int(fields[1]) for _, fields in c.call(
            "XREVRANGE", "stream", "+", "-", "COUNT", 7)], 7)]),
    "keys": (write_keys, [
        tagged_reader("KEYS", "key:*"),
        lambda c: counted(versions_of_tagged(scanned(c, "SCAN", 0, "MATCH", "key:*")), SIZE)]),
    "renamed": (write_renamed, [
        lambda c: counted([int(v) for v in c.call("HGETALL", "renamed")[1::2]], SIZE)]),
}


class Clock:
    """The order of the beginnings and ends of calls, by all clients of the test."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = 0

    def tick(self):
        with self.lock:
            self.now += 1
            return self.now


class Party(threading.Thread):
    """A client that does one thing until the time is over."""

    def __init__(self, server, act, until):
        super().__init__()
        self.client = server.client()
        self.act = act
        self.until = until
        self.failure = None

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.act(self.client)
        except Exception as error:  # for the test's thread to raise
            self.failure = error


class Histories(unittest.TestCase):
    def run_parties(self, *options, disturb=(), seconds=SECONDS):
        server = Server("--rubato-threshold", "1", *options)
        clock = Clock()
        written = {name: [] for name in COLLECTIONS}  # (begin, end) of version 1, 2, ...
        reads = {name: [] for name in COLLECTIONS}    # (begin, end, versions)
        rng = random.Random(SEED)

        def writer(name, write):
            def act(client):
                begin = clock.tick()
                written[name].append([begin, None])
                write(client, len(written[name]))
                written[name][-1][1] = clock.tick()
                time.sleep(0.002)
            return act

        def reader(name, readers, seed):
            own = random.Random(seed)

            def act(client):
                begin = clock.tick()
                versions = own.choice(readers)(client)
                reads[name].append((begin, clock.tick(), versions))
            return act

        setup = server.client()
        for name, (write, _) in COLLECTIONS.items():
            written[name].append([clock.tick(), None])
            write(setup, 1)
            written[name][0][1] = clock.tick()
        until = time.monotonic() + seconds
        parties = [Party(server, writer(name, of[0]), until) for name, of in COLLECTIONS.items()]
        parties += [Party(server, reader(name, of[1], rng.random()), until)
                    for name, of in COLLECTIONS.items() for _ in range(2)]
        parties += [Party(server, act, until) for act in disturb]
        for party in parties:
            party.start()
        for party in parties:
            party.join(120)
        info = setup.info()
        crash = server.stop()
        for party in parties:
            party.client.close()
        setup.close()
        self.assertEqual(crash, "")
        for party in parties:
            self.assertFalse(party.is_alive(), "a client hangs")
            if party.failure is not None:
                raise party.failure
        for name in COLLECTIONS:
            self.check(name, written[name], reads[name])
        return info, reads, written

    def check(self, name, written, reads):
        for begin, end, versions in reads:
            if not versions:
                continue
            version = versions[0]
            self.assertEqual(set(versions), {version}, f"{name}: a read of two states")
            self.assertTrue(1 <= version <= len(written), f"{name}: {version} was never written")
            self.assertLess(written[int(version) - 1][0], end, f"{name}: read before its write")
            if version < len(written) and written[int(version)][1] is not None:
                self.assertGreater(written[int(version)][1], begin, f"{name}: a stale read")
        newest = 0
        ends = sorted((end, versions[0]) for _, end, versions in reads if versions)
        at = 0
        for begin, _, versions in sorted(r for r in reads if r[2]):
            while at < len(ends) and ends[at][0] < begin:
                newest = max(newest, ends[at][1])
                at += 1
            self.assertGreaterEqual(versions[0], newest, f"{name}: reads go back in time")

    def test_suspended_at_most_checkpoints(self):
        info, reads, written = self.run_parties("--rubato-stress", str(SEED), *TABLES)
        self.assertGreater(int(info["rubato_suspensions"]), 1000)
        self.assertGreater(int(info["rubato_waits"]), 10)
        self.assertEqual(int(info["rubato_underway"]), 0)
        print(f"\n  {sum(map(len, reads.values()))} reads, {sum(map(len, written.values()))} "
              f"writes, {info['rubato_suspensions']} suspensions, {info['rubato_waits']} waits, "
              f"{info['rubato_drains']} drains")

    def test_of_small_collections_too(self):
        self.run_parties("--rubato-stress", str(SEED + 3), seconds=SECONDS / 2)

    def test_of_compressed_lists(self):
        self.run_parties("--rubato-stress", str(SEED + 4), "--list-compress-depth", "1", *TABLES,
                         seconds=SECONDS / 2)

    def test_while_the_database_is_saved_scanned_and_maintained(self):
        def saves(client):
            try:
                client.call("BGSAVE")
            except ReplyError:
                pass  # one is underway
            time.sleep(0.05)

        def expires(client):
            client.call("SET", "volatile", "x", "PX", 3)
            client.call("GET", "volatile")
            client.call("RANDOMKEY")
            client.call("SCAN", 0, "COUNT", 1000)

        def flushes(client):
            client.call("SELECT", 1)
            client.call("SET", "there", 1)
            client.call("FLUSHDB")
            client.call("CONFIG", "SET", "hz", 50)
            client.call("DEBUG", "SLEEP", 0)
            time.sleep(0.01)

        def watches(client):
            client.call("WATCH", "mine")
            mine = int(client.call("GET", "mine") or 0)
            transaction(client, ("SET", "mine", mine + 1), ("HGETALL", "hash"))

        info, _, _ = self.run_parties(
            "--rubato-stress", str(SEED + 1), "--appendonly", "yes", *TABLES,
            disturb=(saves, expires, flushes, watches))
        self.assertGreater(int(info["rubato_suspensions"]), 1000)

    def test_with_other_threads_for_sockets(self):
        self.run_parties("--rubato-stress", str(SEED + 2), "--io-threads", "3",
                         "--io-threads-do-reads", "yes", seconds=SECONDS / 2)

    def test_the_checker_finds_two_states(self):
        with self.assertRaises(AssertionError):
            self.check("x", [[0, 1], [2, 3]], [(4, 5, [1, 2])])
        with self.assertRaises(AssertionError):
            self.check("x", [[0, 1], [2, 3]], [(4, 5, [1])])
        with self.assertRaises(AssertionError):
            self.check("x", [[0, 1], [2, 9]], [(3, 4, [2]), (5, 6, [1])])
        self.check("x", [[0, 1], [2, 9]], [(3, 4, [1]), (5, 6, [2])])


if __name__ == "__main__":
    unittest.main()
