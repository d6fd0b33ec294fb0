# SPDX-License-Identifier: Apache-2.0
"""Random requests for compat_test.py: every command, over few keys, with good and bad arguments."""
import time

KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"empty", b"", b"user:1", b"user:2", b"\x00\xff"]
NUMBERS = [b"0", b"1", b"-1", b"2", b"10", b"100", b"-100", b"9223372036854775807",
           b"-9223372036854775808", b"9223372036854775808", b"1.5", b"abc", b"", b" 1", b"01",
           b"-0", b"3.0e3", b"nan", b"inf", b"0.1", b"1e-5", b"536870912"]
VALUES = [b"", b"x", b"hello world", b"12345", b"-7", b"10.5", b"v" * 44, b"v" * 45, b"y" * 5000,
          b"\r\n$1\r\n", b"\x00\x01\x02"]
PATTERNS = [b"*", b"key:*", b"?", b"[ab]", b"[^a]", b"user:[1-2]", b"\\a", b"*:*", b"", b"k*1",
            b"[", b"[a-", b"a**"]


class Pick:
    """Random arguments over the shared keys."""

    def __init__(self, rng):
        self.rng = rng
        self._lengths = 0

    def one(self, *choices):
        return self.rng.choice(choices)

    def key(self):
        return self.rng.choice(KEYS)

    def value(self):
        return self.rng.choice(VALUES)

    def shown(self):
        """For error texts: Redis cuts them at a zero byte, which says nothing."""
        return self.rng.choice(VALUES[:-1])

    def number(self):
        return self.rng.choice(NUMBERS)

    def small(self):
        return b"%d" % self.rng.randint(-12, 12)

    def soon(self):
        return self.one(b"-1", b"0", b"1000", b"2000", b"100000")

    def apart(self, unit):
        """A length of time ten seconds or more from all others, in units of 1/unit seconds: GT and
        LT compare, and the two servers get a request in different milliseconds."""
        self._lengths += 1
        seconds = 3000 + self._lengths * 7919 % 100003 * 10
        return self.one(b"-1", b"0", *[b"%d" % (seconds * unit)] * 3)

    def moment(self):
        return b"%d" % (int(time.time()) + self.one(-100, 1000, 5000))

    def moment_ms(self):
        return self.moment() + b"000"

    def keys(self):
        return [self.key() for _ in range(self.rng.randint(1, 4))]

    def pairs(self):
        return sum([[self.key(), self.value()] for _ in range(self.rng.randint(1, 3))], [])

    def set_options(self):
        words = []
        for _ in range(self.rng.randint(0, 3)):
            words += self.one([b"NX"], [b"XX"], [b"GET"], [b"KEEPTTL"], [b"EX", self.soon()],
                              [b"PX", self.soon()], [b"EXAT", self.moment()],
                              [b"PXAT", self.moment_ms()], [b"bogus"], [b"EX"],
                              [b"ex", self.number()])
        return words

    def getex_options(self):
        return self.one([], [b"PERSIST"], [b"EX", self.soon()], [b"PX", self.soon()],
                        [b"EXAT", self.moment()], [b"PXAT", self.moment_ms()], [b"NX"],
                        [b"EX", b"x"], [b"EX", b"100", b"PERSIST"], [b"KEEPTTL"])

    def expire_options(self):
        return self.one([], [], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"NX", b"GT"],
                        [b"GT", b"LT"], [b"bogus"], [b"XX", b"GT"])


# Each family: functions from a Pick to one request.
STRINGS = [
    lambda p: [b"SET", p.key(), p.value()],
    lambda p: [b"SET", p.key(), p.number()],
    lambda p: [b"SET", p.key(), p.value()] + p.set_options(),
    lambda p: [b"SETNX", p.key(), p.value()],
    lambda p: [b"SETEX", p.key(), p.soon(), p.value()],
    lambda p: [b"PSETEX", p.key(), p.soon(), p.value()],
    lambda p: [b"GETSET", p.key(), p.value()],
    lambda p: [b"GET", p.key()],
    lambda p: [b"GETDEL", p.key()],
    lambda p: [b"GETEX", p.key()] + p.getex_options(),
    lambda p: [b"APPEND", p.key(), p.value()],
    lambda p: [b"STRLEN", p.key()],
    lambda p: [b"GETRANGE", p.key(), p.small(), p.small()],
    lambda p: [b"SUBSTR", p.key(), p.small(), p.small()],
    lambda p: [b"GETRANGE", p.key(), p.number(), p.number()],
    lambda p: [b"SETRANGE", p.key(), b"%d" % p.rng.randint(-1, 20), p.value()],
    lambda p: [b"SETRANGE", b"big", p.number(), p.one(b"", b"abc")],
    lambda p: [b"DEL", b"big"],
    lambda p: [b"INCR", p.key()],
    lambda p: [b"DECR", p.key()],
    lambda p: [b"INCRBY", p.key(), p.number()],
    lambda p: [b"DECRBY", p.key(), p.number()],
    lambda p: [b"INCRBYFLOAT", p.key(), p.number()],
    lambda p: [b"MGET"] + p.keys(),
    lambda p: [b"MSET"] + p.pairs(),
    lambda p: [b"MSETNX"] + p.pairs(),
]
KEYSPACE = [
    lambda p: [b"DEL"] + p.keys(),
    lambda p: [b"UNLINK"] + p.keys(),
    lambda p: [b"EXISTS"] + p.keys(),
    lambda p: [b"TOUCH"] + p.keys(),
    lambda p: [b"TYPE", p.key()],
    lambda p: [b"EXPIRE", p.key(), p.apart(1)] + p.expire_options(),
    lambda p: [b"PEXPIRE", p.key(), p.apart(1000)] + p.expire_options(),
    lambda p: [b"EXPIREAT", p.key(), p.moment()] + p.expire_options(),
    lambda p: [b"PEXPIREAT", p.key(), p.moment_ms()] + p.expire_options(),
    lambda p: [b"EXPIRE", p.key(), p.number()],
    lambda p: [b"PERSIST", p.key()],
    lambda p: [b"TTL", p.key()],
    lambda p: [b"PTTL", p.key()],
    lambda p: [b"EXPIRETIME", p.key()],
    lambda p: [b"PEXPIRETIME", p.key()],
    lambda p: [b"KEYS", p.rng.choice(PATTERNS)],
    lambda p: [b"RENAME", p.key(), p.key()],
    lambda p: [b"RENAMENX", p.key(), p.key()],
    lambda p: [b"COPY", p.key(), p.key()] + p.one([], [b"REPLACE"], [b"bogus"], [b"DB", b"x"]),
    lambda p: [b"DBSIZE"],
    lambda p: [b"FLUSHALL"] if p.rng.random() < 0.1 else [b"RANDOMKEY"],
    lambda p: [b"SCAN", p.one(b"x", b"0"), p.one(b"COUNT", b"MATCH", b"bogus")],
    lambda p: [b"SCAN", b"0", b"COUNT", p.one(b"0", b"-1", b"x")],
]
SERVER = [
    lambda p: [b"ECHO", p.value()],
    lambda p: [b"PING"],
    lambda p: [b"PING", p.value()],
    lambda p: [b"OBJECT", p.one(b"FREQ", b"REFCOUNT"), b"none"],
    lambda p: [b"OBJECT", b"FREQ", p.key()],
    lambda p: [b"OBJECT", p.one(b"bogus", b"ENCODING")],
    lambda p: [b"CLIENT", b"GETNAME"],
    lambda p: [b"CLIENT", b"SETNAME", p.one(b"x", b"a b", b"")],
    lambda p: [b"CLIENT", b"KILL", p.one(b"1.2.3.4:5", b"ID")],
    lambda p: [b"CLIENT", b"KILL", b"ID", b"x"],
    lambda p: [b"CLIENT", b"LIST", b"TYPE", b"bogus"],
    lambda p: [b"CLIENT", b"NO-EVICT", p.one(b"on", b"x")],
    lambda p: [b"CLIENT"],
    lambda p: [p.one(b"EXEC", b"DISCARD", b"UNWATCH")] + p.one([], [], [b"x"]),
    lambda p: [b"SELECT", p.one(b"0", b"99", b"x", b"-1")],
    lambda p: [b"CONFIG", b"GET", p.one(b"maxmemory", b"save", b"timeout", b"nope")],
    lambda p: [b"CONFIG", b"SET", p.one(b"nope", b"timeout"), p.one(b"x", b"0")],
    lambda p: [b"CONFIG", b"bogus", b"x"],
    lambda p: [b"SLOWLOG", p.one(b"LEN", b"RESET", b"bogus")],
    lambda p: [b"SLOWLOG", b"GET", b"-2"],
    lambda p: [b"LATENCY", p.one(b"LATEST", b"RESET")],
    lambda p: [b"LATENCY", b"HISTORY", b"command"],
    lambda p: [b"COMMAND", b"GETKEYS", b"GET", b"a"],
    lambda p: [b"COMMAND", b"GETKEYS", b"bogus"],
    lambda p: [b"COMMAND", b"bogus"],
    lambda p: [b"WAIT", b"0", p.one(b"0", b"-1", b"x")],
    lambda p: [b"FLUSHALL", b"bogus"],
    lambda p: [b"AUTH"] + [b"x"] * p.rng.randint(1, 3),
    lambda p: [b"HELLO", p.one(b"5", b"x")],
    lambda p: [b"HELLO", b"3", b"bogus"],
    lambda p: [p.one(b"nope", b"LOL\r\nX"), p.shown(), p.shown()],
]
ARITY = [b"GET", b"SET", b"SETEX", b"MSET", b"DEL", b"EXPIRE", b"TTL", b"RENAME", b"COPY",
         b"KEYS", b"SCAN", b"INCRBY", b"SELECT", b"CONFIG", b"OBJECT", b"ECHO", b"STRLEN",
         b"GETEX", b"RANDOMKEY", b"DBSIZE", b"PING", b"MSETNX", b"HELLO", b"LATENCY"]


def random_request(pick):
    rng = pick.rng
    if rng.random() < 0.03:
        return [rng.choice(ARITY)] + [pick.shown() for _ in range(rng.randint(0, 6))]
    family = rng.choice([STRINGS, STRINGS, STRINGS, KEYSPACE, KEYSPACE, SERVER])
    words = rng.choice(family)(pick)
    if rng.random() < 0.1:
        words[0] = bytes(rng.choice([c, c ^ 0x20]) if chr(c).isalpha() else c for c in words[0])
    return words
