# SPDX-License-Identifier: Apache-2.0
"""What happens around a command that is suspended: it is killed, the server stops, saves, forks,
replicates, evicts; its client pipelines, is subscribed, tracked, or gone.

A command is long here because its first checkpoint is far from its last one, in stress mode, where
it is suspended at most of them; that one is underway is asked of INFO, not guessed from time."""

import random
import signal
import socket
import threading
import time
import unittest

from valkey_process import ReplyError, Server, fields

COUNT = 30000


def eventually(condition, what, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never: {what}")
        time.sleep(0.002)


class Fixture(unittest.TestCase):
    """A server with a hash of COUNT fields."""

    options = ("--rubato-stress", "5")

    def setUp(self):
        self.server = Server(*self.options)
        self.admin = self.server.client()
        self.admin.call("EVAL", "for i = 1, ARGV[1] do redis.call('hset', 'hash', i, i) end", 0,
                        COUNT)
        self.clients = [self.admin]

    def tearDown(self):
        for client in self.clients:
            client.close()
        self.assertEqual(self.server.stop(), "")

    def client(self):
        self.clients.append(self.server.client())
        return self.clients[-1]

    def underway(self):
        return int(self.admin.info()["rubato_underway"])

    def waiting(self):
        return int(self.admin.info()["rubato_waiting"])

    def suspended(self, *words):
        """A client whose command is underway."""
        reader = self.client()
        before = self.underway()
        reader.send(*(words or ("HGETALL", "hash")))
        eventually(lambda: self.underway() > before, "a command underway")
        return reader


class Semantics(Fixture):
    def test_readers_overtake_and_writers_of_other_keys_do_not_wait(self):
        reader = self.suspended()
        other = self.client()
        self.assertEqual(other.call("HGET", "hash", 7), b"7")
        self.assertEqual(other.call("SET", "other", 1), b"OK")
        self.assertEqual(self.underway(), 1)
        self.assertEqual(len(reader.receive()), 2 * COUNT)

    def test_a_writer_of_the_key_waits_and_shows_it(self):
        reader = self.suspended()
        writer = self.client()
        writer.send("HSET", "hash", "new", 1)
        writer.send("HGET", "hash", "new")
        eventually(lambda: self.waiting() == 1, "a writer waits")
        listed = self.admin.call("CLIENT", "LIST").decode()
        self.assertIn("rubato=suspended", listed)
        self.assertRegex(listed, r"rubato=waits wait-us=\d+")
        self.assertEqual(self.underway(), 1)
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual((writer.receive(), writer.receive()), (1, b"1"))
        self.assertEqual(int(self.admin.info()["rubato_drains"]), 0)

    def test_keys_hold_the_database_but_no_other_one(self):
        self.admin.call("DEBUG", "POPULATE", 20000)
        reader = self.suspended("KEYS", "*")
        elsewhere, here = self.client(), self.client()
        elsewhere.call("SELECT", 3)
        self.assertEqual(elsewhere.call("SET", "x", 1), b"OK")
        here.send("SET", "x", 1)
        eventually(lambda: self.waiting() == 1, "a writer waits")
        self.assertEqual(len(reader.receive()), 20001)
        self.assertEqual(here.receive(), b"OK")

    def test_scripts_hold_every_database(self):
        reader = self.suspended("EVAL_RO", "while true do end", 0)
        elsewhere = self.client()
        elsewhere.call("SELECT", 3)
        elsewhere.send("SET", "x", 1)
        eventually(lambda: self.waiting() == 1, "a writer waits")
        self.admin.call("SCRIPT", "KILL")
        self.assertRaises(ReplyError, reader.receive)
        self.assertEqual(elsewhere.receive(), b"OK")

    def test_a_client_that_touches_nothing(self):
        reader = self.client()
        reader.call("CLIENT", "NO-TOUCH", "ON")
        self.assertEqual(len(reader.call("HGETALL", "hash")), 2 * COUNT)
        self.assertEqual(self.admin.info()["rubato_commands"], "1")

    def test_pipelined_commands_keep_their_order(self):
        reader = self.client()
        for words in (("PING", "a"), ("HLEN", "hash"), ("HGETALL", "hash"), ("PING", "b")):
            reader.send(*words)
        self.assertEqual((reader.receive(), reader.receive()), (b"a", COUNT))
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(reader.receive(), b"b")

    def test_a_client_is_killed(self):
        reader = self.suspended()
        name = next(line for line in self.admin.call("CLIENT", "LIST").decode().split("\n")
                    if "rubato=suspended" in line).split()[0].split("=")[1]
        self.assertEqual(self.admin.call("CLIENT", "KILL", "ID", name), 1)
        with self.assertRaises((ConnectionError, OSError)):
            reader.receive()
        eventually(lambda: self.underway() == 0, "the command ends")
        self.assertEqual(self.admin.call("HSET", "hash", 1, 1), 0)

    def fill(self, count):
        """Values of `count` elements, and the reads of them that may be suspended."""
        self.admin.call("EVAL", """
            for i = 1, ARGV[1] do
              redis.call('sadd', 'set', 'e' .. i)
              redis.call('sadd', 'numbers', i)
              redis.call('rpush', 'list', i)
              redis.call('zadd', 'sorted', i % 7, 'm' .. i)
              redis.call('zadd', 'other', i, 'm' .. i)
              redis.call('zadd', 'words', 0, 'm' .. i)
              redis.call('xadd', 'stream', i .. '-1', 'f', i)
              redis.call('set', 'w' .. i, i)
            end""", 0, count)
        return [line.split() for line in f"""
            HGETALL hash|HKEYS hash|HSCAN hash 0 COUNT {count}|KEYS *|SCAN 0 COUNT {count}
            SMEMBERS set|SUNION set numbers|SDIFF set numbers|SINTER set set|SINTERCARD 2 set set
            SSCAN set 0 COUNT {count}|SDIFF set numbers numbers numbers numbers
            LRANGE list 0 -1|XRANGE stream - +|XREVRANGE stream + -
            ZRANGE sorted 0 -1 WITHSCORES|ZREVRANGE sorted 0 -1|ZRANGEBYSCORE sorted -inf +inf
            ZRANGEBYLEX words - +|ZUNION 2 sorted set WITHSCORES|ZINTER 2 sorted other
            ZINTERCARD 2 sorted other|ZDIFF 2 sorted set|ZDIFF 4 sorted set numbers words
            ZSCAN sorted 0 COUNT {count}|SORT_RO list|SORT_RO set ALPHA|SORT_RO sorted ALPHA DESC
            SORT_RO list BY w* LIMIT 5 9|SORT_RO list BY w* ALPHA GET w*|SORT_RO list BY no
            SORT_RO sorted BY no LIMIT 0 {count - 1}""".replace("|", "\n").strip().splitlines()]

    def kills(self, words, suspensions):
        """Whether its client was killed while it was underway, and what was counted then."""
        reader = self.client()
        name = reader.call("CLIENT", "ID")
        reader.send(*words)
        self.admin.send("CLIENT", "KILL", "ID", name)
        self.admin.send("INFO", "rubato")
        self.assertEqual(self.admin.receive(), 1)
        seen = fields(self.admin.receive())
        if seen["rubato_underway"] == "0":
            return False
        suspensions.append(int(seen["rubato_suspensions"]))
        return True

    def test_a_killed_command_ends(self):
        for words in self.fill(COUNT):
            with self.subTest(words):
                before = []
                eventually(lambda words=words: self.kills(words, before), "killed underway")
                eventually(lambda: self.underway() == 0, "the command ends")
                suspensions = int(self.admin.info()["rubato_suspensions"]) - before[0]
                self.assertLess(suspensions, COUNT // 30)  # of COUNT / 12 or more to its end

    def test_commands_are_killed_anywhere(self):
        self.admin.call("DEL", "hash")
        self.admin.call("EVAL", "for i = 1, 1500 do redis.call('hset', 'hash', i, i) end", 0)
        commands = self.fill(1500)
        digest = self.admin.call("DEBUG", "DIGEST")
        readers = []
        for words in commands * 4:
            reader = self.client()
            readers.append(reader.call("CLIENT", "ID"))
            reader.send(*words)
        eventually(lambda: self.underway() > len(commands), "many underway")
        random.Random(5).shuffle(readers)
        for reader in readers:
            time.sleep(0.01)
            try:
                self.admin.call("CLIENT", "KILL", "ID", reader)
            except ReplyError:
                pass  # it is gone
        eventually(lambda: self.underway() == 0, "all commands end")
        self.assertEqual(self.admin.call("DEBUG", "DIGEST"), digest)

    def test_a_client_is_gone(self):
        reader = self.suspended()
        reader.close()
        eventually(lambda: self.underway() == 0, "the command ends")
        self.assertEqual(self.admin.call("PING"), b"PONG")

    def test_what_was_sent_before_a_connection_closed_is_done(self):
        self.admin.call("EVAL", "for i = 1, ARGV[1] do redis.call('sadd', 'set', 'e' .. i) end", 0,
                        COUNT)
        reader = self.suspended()
        half = self.suspended("SINTERCARD", 2, "set", "set")
        half.send("SET", "behind", "a read")
        half.socket.shutdown(socket.SHUT_WR)
        writer = self.client()
        writer.send("HSET", "hash", "new", 1)
        eventually(lambda: self.waiting() == 1, "a writer waits")
        writer.close()
        self.assertEqual(self.waiting(), 1)
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual((half.receive(), half.receive()), (COUNT, b"OK"))
        eventually(lambda: self.admin.call("HGET", "hash", "new") == b"1", "the write is done")

    def test_a_command_that_blocks_and_waits_keeps_its_timeout(self):
        self.admin.call("EVAL", "for i = 1, 3000 do redis.call('rpush', 'list', i) end", 0)
        mover = self.client()
        mover.send("BLMOVE", "source", "list", "LEFT", "LEFT", 1)
        eventually(lambda: self.admin.info("clients")["blocked_clients"] == "1", "it blocks")
        reader = self.suspended("LRANGE", "list", 0, -1)
        self.admin.call("RPUSH", "source", "x")
        self.assertEqual((self.waiting(), self.underway()), (1, 1))
        self.assertEqual(self.admin.call("LPOP", "source"), b"x")
        self.assertEqual(len(reader.receive()), 3000)
        self.assertIsNone(mover.receive())

    def test_a_suspended_or_waiting_client_is_not_unblocked(self):
        reader = self.suspended()
        writer = self.client()
        writer.send("CLIENT", "ID")
        number = writer.receive()
        writer.send("DEL", "hash")
        eventually(lambda: self.waiting() == 1, "a writer waits")
        for how in ("TIMEOUT", "ERROR"):
            self.assertEqual(self.admin.call("CLIENT", "UNBLOCK", number, how), 0)
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(writer.receive(), 1)

    def test_expired_keys_are_gone_for_readers_and_stay_while_held(self):
        self.admin.call("PEXPIRE", "hash", 300)
        reader = self.suspended()
        eventually(lambda: self.admin.call("EXISTS", "hash") == 0, "the key expires")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        eventually(lambda: self.admin.call("DBSIZE") == 0, "it is deleted afterwards")

    def test_other_keys_expire_beside_a_held_one(self):
        reader = self.suspended()
        self.admin.call("SET", "other", 1, "PX", 1)
        eventually(lambda: self.admin.info("stats")["expired_keys"] == "1", "it is deleted")
        self.assertEqual(self.underway(), 1)
        self.assertEqual(len(reader.receive()), 2 * COUNT)

    def test_a_transaction_with_a_write_waits_and_one_that_reads_does_not(self):
        reader = self.suspended()
        other, writer = self.client(), self.client()
        for client, command in ((other, ("HLEN", "hash")), (writer, ("HSET", "hash", "new", 2))):
            client.call("MULTI")
            client.call(*command)
        self.assertEqual(other.call("EXEC"), [COUNT])
        writer.send("EXEC")
        eventually(lambda: self.waiting() == 1, "the transaction waits")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(writer.receive(), [1])

    def test_flush_and_script_wait(self):
        reader = self.suspended()
        one, two = self.client(), self.client()
        one.send("EVAL", "return redis.call('set', 'x', 'y')", 0)
        two.send("FLUSHALL")
        eventually(lambda: self.waiting() == 2, "both wait")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual((one.receive(), two.receive()), (b"OK", b"OK"))

    def test_a_script_that_reads_is_suspended_and_killed(self):
        reader = self.suspended("EVAL_RO", "while true do end", 0)
        self.assertEqual(self.admin.call("HGET", "hash", 1), b"1")
        writer, other = self.client(), self.client()
        writer.send("SET", "x", 1)
        other.send("EVAL_RO", "return 7", 0)
        eventually(lambda: self.waiting() == 2, "a writer and a script wait")
        self.assertEqual(self.admin.call("SCRIPT", "KILL"), b"OK")
        with self.assertRaisesRegex(ReplyError, "killed"):
            reader.receive()
        self.assertEqual((writer.receive(), other.receive()), (b"OK", 7))
        with self.assertRaisesRegex(ReplyError, "NOTBUSY"):
            self.admin.call("SCRIPT", "KILL")

    def test_a_command_of_a_script_is_suspended(self):
        reader = self.suspended("EVAL_RO", "return redis.call('hgetall', 'hash')", 0)
        eventually(lambda: int(self.admin.info()["rubato_suspensions"]) > 100, "it is suspended")
        self.assertEqual(self.underway(), 1)
        self.assertEqual(self.admin.call("HGET", "hash", 1), b"1")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        stats = self.admin.info("commandstats")["cmdstat_hgetall"]
        spent = int(stats.split("usec=")[1].split(",")[0])
        self.assertLess(spent, int(self.admin.info()["rubato_suspended_us"]))

    def suspensions(self, *words):
        before = int(self.admin.info()["rubato_suspensions"])
        self.client().call(*words)
        return int(self.admin.info()["rubato_suspensions"]) - before

    def test_what_a_script_is_given_and_gives_is_suspended(self):
        self.admin.call("DEBUG", "POPULATE", 4000)
        alone = self.suspensions("KEYS", "*")
        called = self.suspensions("EVAL_RO", "return #redis.call('keys', '*')", 0)
        given = self.suspensions("EVAL_RO", "return redis.call('keys', '*')", 0)
        self.assertGreater(called, 1.5 * alone)
        self.assertGreater(given, called + alone / 2)

    def test_sorted_sets_are_sorted_in_parts(self):
        self.admin.call("EVAL", "for i = 1, 4000 do redis.call('zadd', 'z', i, i) end", 0)
        alone = self.suspensions("ZRANGE", "z", 1, 3990)
        # Nothing is compared; each element is taken and replied.
        self.assertGreater(
            self.suspensions("SORT_RO", "z", "BY", "none", "LIMIT", 1, 3990), 1.5 * alone)

    def test_scans_and_sorts_are_suspended(self):
        self.admin.call("DEBUG", "POPULATE", 20000)
        for words, count in ((("HSCAN", "hash", 0, "COUNT", COUNT * 2), 2 * COUNT),
                             (("SCAN", 0, "COUNT", COUNT * 2), 20001)):
            reader = self.suspended(*words)
            self.assertEqual(self.admin.call("HGET", "hash", 1), b"1")
            cursor, found = reader.receive()
            self.assertEqual((cursor, len(found)), (b"0", count))
        self.admin.call("EVAL", "for i = 1, 20000 do redis.call('rpush', 'list', 20000 - i) end", 0)
        reader, other = self.suspended("SORT_RO", "list"), self.suspended("SORT_RO", "list", "DESC")
        rising = [b"%d" % i for i in range(20000)]
        self.assertEqual(self.admin.call("LRANGE", "list", 0, 1), rising[:-3:-1])
        self.assertEqual(self.underway(), 2)
        self.assertEqual((reader.receive(), other.receive()), (rising, rising[::-1]))
        self.assertEqual(len(self.admin.call("HSCAN", "hash", 0)), 2)  # is short, so no task
        self.assertEqual(self.admin.info()["rubato_commands"], "4")

    def test_the_last_of_an_option_counts(self):
        self.admin.call("EVAL", "for i = 1, 2000 do redis.call('xadd', 'x', i, 'v', i) "
                        "redis.call('zadd', 'z', i, i) end", 0)
        for words in (("HSCAN", "hash", 0, "COUNT", 1, "COUNT", COUNT),
                      ("HSCAN", "hash", 0, "MATCH", "count", "COUNT", COUNT),
                      ("XRANGE", "x", "-", "+", "COUNT", 1, "COUNT", 2000),
                      ("ZRANGEBYSCORE", "z", 1, 2000, "LIMIT", 0, 1, "LIMIT", 0, 2000)):
            before = int(self.admin.info()["rubato_commands"])
            self.admin.call(*words)
            self.assertEqual(int(self.admin.info()["rubato_commands"]), before + 1, words)

    def test_what_a_scan_finds_expired_is_deleted_after_it(self):
        self.admin.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.admin.call("DEBUG", "POPULATE", 20000)
        self.admin.call("EVAL", "for i = 1, 9 do redis.call('set', 'e' .. i, 1, 'px', 1) end", 0)
        eventually(lambda: self.admin.call("EXISTS", "e9", "e1") == 0, "they expire")
        self.assertEqual(len(self.suspended("SCAN", 0, "COUNT", 50000).receive()[1]), 20001)
        self.assertEqual(self.admin.call("DBSIZE"), 20001)

    def test_a_sorted_set_is_not_converted_under_a_reader(self):
        self.admin.call("CONFIG", "SET", "zset-max-listpack-entries", 5000)
        self.admin.call("EVAL", "for i = 1, 4000 do redis.call('zadd', 'z', i, i) end", 0)
        for words in (("SORT_RO", "z", "LIMIT", 0, 2),
                      ("EVAL_RO", "return redis.call('sort_ro', 'z', 'limit', 0, 2)", 0)):
            self.admin.call("COPY", "z", "copy", "REPLACE")
            self.assertEqual(self.admin.call("OBJECT", "ENCODING", "z"), b"listpack")
            reader = self.suspended("ZRANGE", "z", 0, -1)
            other = self.client()
            self.assertEqual(other.call(*words), [b"1", b"2"])
            self.assertEqual(reader.receive(), [b"%d" % (i + 1) for i in range(4000)])
            self.assertEqual(self.admin.call("OBJECT", "ENCODING", "z"), b"skiplist")
            self.admin.call("RENAME", "copy", "z")

    def test_a_wait_is_not_time_of_the_command_that_a_script_called(self):
        self.admin.call("CONFIG", "SET", "zset-max-listpack-entries", 5000,
                        "rubato-class", "scripts commands eval_ro share 100")
        self.admin.call("EVAL", "for i = 1, 4000 do redis.call('zadd', 'z', i, i) end", 0)
        reader = self.suspended("ZRANGE", "z", 0, -1)
        # Without checkpoints.
        script = "return redis.call('sort_ro', 'z', 'by', 'none', 'limit', 0, 0)"
        self.client().call("EVAL_RO", script, 0)
        self.assertEqual(len(reader.receive()), 4000)
        stats = self.admin.info("commandstats")["cmdstat_sort_ro"]
        spent = int(stats.split("usec=")[1].split(",")[0])
        suspended = self.admin.info()["rubato_class_scripts"].split("suspended_us=")[1]
        self.assertLess(2 * spent, int(suspended.split(",")[0]))

    def test_an_endless_script_does_not_keep_the_server_from_stopping(self):
        reader = self.suspended("EVAL_RO", "while true do pcall(redis.call, 'get', 'x') end", 0)
        stopper = self.client()
        stopper.send("SHUTDOWN", "NOSAVE")
        eventually(lambda: self.server.process.poll() is not None, "the server stops")
        self.assertEqual(self.server.process.returncode, 0)
        with self.assertRaisesRegex(ReplyError, "killed"):
            reader.receive()
        self.server.stop()
        self.server = Server(*self.options)  # for tearDown

    def test_a_drain_ends_an_endless_script(self):
        self.admin.call("CONFIG", "SET", "busy-reply-threshold", 200)
        self.suspended("EVAL_RO", "while true do end", 0)
        primary = Server()
        try:
            # It becomes a replica when the script is gone, and loads, which drains.
            self.admin.send("REPLICAOF", "127.0.0.1", primary.port)
            with self.assertRaisesRegex(ReplyError, "BUSY"):
                self.admin.receive()
            self.admin.call("SCRIPT", "KILL")
            eventually(lambda: self.underway() == 0, "the script ends")
            self.assertEqual(self.admin.call("REPLICAOF", "127.0.0.1", primary.port), b"OK")
            self.suspended("EVAL_RO", "while true do end", 0)
            eventually(lambda: self.admin.info("replication")["master_link_status"] == "up",
                       "in sync")
            self.assertEqual(self.underway(), 0)
        finally:
            self.assertEqual(primary.stop(), "")

    def test_what_waits_for_a_busy_script_is_refused(self):
        self.admin.call("CONFIG", "SET", "busy-reply-threshold", 300)
        reader = self.suspended("EVAL_RO", "while true do end", 0)
        early, late = self.client(), self.client()
        early.send("SET", "x", 1)
        with self.assertRaisesRegex(ReplyError, "BUSY"):
            early.receive()
        for words in (("SET", "x", 1), ("EVAL_RO", "return 1", 0), ("FLUSHALL",)):
            with self.assertRaisesRegex(ReplyError, "BUSY"):
                late.call(*words)
        self.assertEqual(late.call("HGET", "hash", 1), b"1")
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(self.admin.call("SCRIPT", "KILL"), b"OK")
        with self.assertRaisesRegex(ReplyError, "killed"):
            reader.receive()
        self.assertEqual(early.call("SET", "x", 1), b"OK")

    def test_a_message_does_not_come_in_the_middle_of_a_reply(self):
        reader = self.client()
        reader.call("HELLO", 3)
        reader.call("SUBSCRIBE", "news")
        reader.send("HGETALL", "hash")
        eventually(lambda: self.underway() == 1, "a command underway")
        for _ in range(100):
            self.admin.call("PUBLISH", "news", "x" * 100)
        self.assertEqual(self.underway(), 1)
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        for _ in range(100):
            self.assertEqual(reader.receive(), (b">", [b"message", b"news", b"x" * 100]))
        self.assertEqual(int(self.admin.info()["rubato_pushes_kept"]) > 0, True)

    def test_a_tracked_read_is_invalidated_by_the_write_after_it(self):
        reader = self.client()
        reader.call("HELLO", 3)
        reader.call("CLIENT", "TRACKING", "ON")
        reader.send("HGETALL", "hash")
        eventually(lambda: self.underway() == 1, "a command underway")
        self.admin.send("HSET", "hash", 1, "new")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(reader.receive(), (b">", [b"invalidate", [b"hash"]]))
        self.assertEqual(self.admin.receive(), 0)

    def test_the_server_saves_forks_and_loads_beside_it(self):
        reader = self.suspended()
        self.admin.call("BGSAVE")
        eventually(lambda: self.admin.info("persistence")["rdb_bgsave_in_progress"] == "0", "saved")
        self.assertEqual(self.admin.info("persistence")["rdb_last_bgsave_status"], "ok")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        reader = self.suspended()
        self.assertEqual(self.admin.call("DEBUG", "RELOAD"), b"OK")  # waits before
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(self.admin.call("HLEN", "hash"), COUNT)

    def test_those_that_wait_go_in_order_and_are_counted_once(self):
        reader = self.suspended()
        first, gone, second = self.client(), self.client(), self.client()
        number = gone.call("CLIENT", "ID")
        before = int(self.admin.info()["rubato_waits"])
        for at, (client, words) in enumerate(((first, ("HSET", "hash", "n", "a")),
                                              (gone, ("DEL", "hash")),
                                              (second, ("HGETALL", "hash")))):
            client.send(*words)
            eventually(lambda want=at + 1: self.waiting() == want, "it waits")
        self.assertEqual(self.admin.call("CLIENT", "KILL", "ID", number), 1)
        self.assertEqual(self.waiting(), 2)
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(first.receive(), 1)
        self.assertEqual(len(second.receive()), 2 * COUNT + 2)
        eventually(lambda: self.waiting() == 0, "none waits")
        self.assertEqual(int(self.admin.info()["rubato_waits"]), before + 3)

    def test_the_end_of_a_pause_loses_no_count_of_those_that_wait(self):
        reader = self.suspended()
        writer = self.client()
        writer.send("HSET", "hash", "n", "a")
        eventually(lambda: self.waiting() == 1, "it waits")
        for _ in range(3):
            self.admin.call("CLIENT", "PAUSE", 10000, "WRITE")
            self.admin.call("CLIENT", "UNPAUSE")
            self.admin.call("PING")
            self.assertEqual((self.waiting(), self.underway()), (1, 1))
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(writer.receive(), 1)
        self.assertEqual(self.waiting(), 0)

    def test_one_that_waited_is_refused_and_does_not_count(self):
        reader = self.suspended()
        writer = self.client()
        writer.send("HSET", "hash", "n", "a")
        eventually(lambda: self.waiting() == 1, "it waits")
        self.admin.call("CONFIG", "SET", "min-replicas-to-write", 1)  # waits, too
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        writer.receive()
        with self.assertRaisesRegex(ReplyError, "NOREPLICAS"):
            writer.call("HSET", "hash", "n", "b")
        self.assertEqual(self.waiting(), 0)
        self.assertNotIn("rubato=waits", self.admin.call("CLIENT", "LIST").decode())

    def test_messages_that_are_kept_are_limited(self):
        self.admin.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 4000000 0 0")
        reader = self.client()
        reader.call("HELLO", 3)
        reader.call("SUBSCRIBE", "news")
        reader.send("HGETALL", "hash")
        eventually(lambda: self.underway() == 1, "a command underway")
        for _ in range(8):
            self.admin.call("PUBLISH", "news", "x" * 1000000)
        closed = self.admin.info("stats")["client_output_buffer_limit_disconnections"]
        self.assertEqual(closed, "1")
        with self.assertRaises((ConnectionError, OSError, ValueError)):
            while True:
                reader.receive()
        eventually(lambda: self.underway() == 0, "the command ends")

    def test_a_function_is_told_of_and_killed_as_one(self):
        self.admin.call("FUNCTION", "LOAD", "#!lua name=lib\nserver.register_function{"
                        "function_name='f', flags={'no-writes'}, "
                        "callback=function() while true do end end}")
        reader = self.suspended("FCALL_RO", "f", 0)
        eventually(lambda: self.admin.call("FUNCTION", "STATS")[1] is not None, "it has begun")
        self.assertEqual(self.admin.call("FUNCTION", "STATS")[1][1], b"f")
        with self.assertRaisesRegex(ReplyError, "BUSY"):
            self.admin.call("SCRIPT", "KILL")
        self.assertEqual(self.admin.call("FUNCTION", "KILL"), b"OK")
        with self.assertRaisesRegex(ReplyError, "killed"):
            reader.receive()
        self.assertIsNone(self.admin.call("FUNCTION", "STATS")[1])

    def test_a_failure_counts_beside_those_of_others(self):
        reader = self.suspended("EVAL_RO", "while true do end", 0)
        for _ in range(3):
            with self.assertRaises(ReplyError):
                self.admin.call("GET", "hash")
        self.admin.call("SCRIPT", "KILL")
        self.assertRaises(ReplyError, reader.receive)
        stats = self.admin.info("commandstats")
        self.assertIn("failed_calls=1", stats["cmdstat_eval_ro"])
        self.assertIn("failed_calls=3", stats["cmdstat_get"])

    def test_a_copy_into_a_held_database_waits(self):
        self.admin.call("DEBUG", "POPULATE", 20000)
        elsewhere = self.client()
        elsewhere.call("SELECT", 3)
        elsewhere.call("SET", "x", 1)
        elsewhere.call("SET", "y", 1)
        reader = self.suspended("KEYS", "*")
        for words in (("COPY", "x", "z", "DB", 0), ("MOVE", "y", 0)):
            elsewhere.send(*words)
        eventually(lambda: self.waiting() == 1, "it waits")
        self.assertEqual(len(reader.receive()), 20001)
        self.assertEqual((elsewhere.receive(), elsewhere.receive()), (1, 1))
        self.assertEqual(int(self.admin.info()["rubato_drains"]), 0)

    def test_without_eviction_memory_is_refused_at_once(self):
        self.admin.call("CONFIG", "SET", "maxmemory", 1000000)
        reader = self.suspended()
        with self.assertRaisesRegex(ReplyError, "OOM"):
            self.admin.call("SET", "x", 1)
        self.assertEqual(self.underway(), 1)
        self.assertEqual(len(reader.receive()), 2 * COUNT)

    def test_a_stop_answers_what_is_underway(self):
        self.admin.call("EVAL", "for i = 1, ARGV[1] do redis.call('sadd', 'set', 'e' .. i) end", 0,
                        COUNT)
        reader = self.suspended("SINTERCARD", 2, "set", "set")
        stopper = self.client()
        stopper.send("SHUTDOWN", "NOSAVE")
        eventually(lambda: self.server.process.poll() is not None, "the server stops")
        self.assertEqual(self.server.process.returncode, 0)
        self.assertEqual(reader.receive(), COUNT)
        self.server.stop()
        self.server = Server(*self.options)  # for tearDown

    def test_what_begins_while_a_stop_waits_for_replicas_is_answered(self):
        self.admin.call("EVAL", "for i = 1, ARGV[1] do redis.call('sadd', 'set', 'e' .. i) end", 0,
                        COUNT)
        replica = Server("--replicaof", f"127.0.0.1 {self.server.port}")
        try:
            eventually(lambda: "state=online" in self.admin.info("replication").get("slave0", ""),
                       "in sync")
            replica.process.send_signal(signal.SIGSTOP)
            self.admin.call("SET", "x", 1)
            stopper = self.client()
            stopper.send("SHUTDOWN", "NOSAVE")
            eventually(lambda: "shutdown_in" in self.admin.call("INFO", "server").decode(),
                       "the stop waits")
            reader = self.suspended("SINTERCARD", 2, "set", "set")
            replica.process.send_signal(signal.SIGCONT)
            self.assertEqual(reader.receive(), COUNT)
            eventually(lambda: self.server.process.poll() is not None, "the server stops")
            self.assertEqual(self.server.process.returncode, 0)
        finally:
            replica.process.send_signal(signal.SIGCONT)
            self.assertEqual(replica.stop(), "")
        self.server.stop()
        self.server = Server(*self.options)  # for tearDown

    def test_modes_change_while_commands_are_underway(self):
        reader = self.suspended()
        self.assertEqual(self.admin.call("CONFIG", "SET", "rubato-policy", "ps"), b"OK")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        reader = self.suspended()
        self.assertEqual(self.admin.call("CONFIG", "SET", "rubato-enabled", "no"), b"OK")
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(len(self.admin.call("HGETALL", "hash")), 2 * COUNT)
        self.assertEqual(self.underway(), 0)
        with self.assertRaisesRegex(ReplyError, "no-such"):
            self.admin.call("CONFIG", "SET", "rubato-policy", "no-such")

    def test_memory_is_evicted_afterwards(self):
        self.admin.call("DEBUG", "POPULATE", 20000, "key", 200)
        reader = self.suspended()
        used = int(self.admin.info("memory")["used_memory"])
        # Waits until nothing is underway, then evicts.
        self.admin.send("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory",
                        used - 1000000)
        self.assertEqual(len(reader.receive()), 2 * COUNT)
        self.assertEqual(self.admin.receive(), b"OK")
        eventually(lambda: int(self.admin.info("stats")["evicted_keys"]) > 0, "keys are evicted")

    def test_replicas_apply_writes_while_they_are_read(self):
        replica = Server(*self.options, "--replicaof", f"127.0.0.1 {self.server.port}")
        try:
            reader = replica.client()
            watcher = replica.client()
            self.clients += [reader, watcher]
            eventually(lambda: watcher.call("HLEN", "hash") == COUNT, "in sync")
            reader.send("HGETALL", "hash")
            eventually(lambda: watcher.info()["rubato_underway"] == "1", "underway there")
            self.assertEqual(self.admin.call("HSET", "hash", "new", "x"), 1)
            self.assertEqual(self.admin.call("WAIT", 1, 60000), 1)
            self.assertEqual(len(reader.receive()), 2 * COUNT)
            eventually(lambda: watcher.call("HGET", "hash", "new") == b"x", "applied")
        finally:
            self.assertEqual(replica.stop(), "")

    def test_a_replica_whose_primary_waits_goes_on_where_it_was(self):
        replica = Server(*self.options, "--replicaof", f"127.0.0.1 {self.server.port}")
        try:
            reader, watcher = replica.client(), replica.client()
            self.clients += [reader, watcher]

            def is_up():
                return watcher.info("replication")["master_link_status"] == "up"
            eventually(lambda: watcher.call("HLEN", "hash") == COUNT and is_up(), "in sync")
            reader.send("EVAL_RO", "while true do end", 0)
            eventually(lambda: watcher.info()["rubato_underway"] == "1", "underway there")
            self.admin.call("SET", "x", "y")
            eventually(lambda: watcher.info()["rubato_waiting"] == "1", "the primary waits")
            self.admin.call("CLIENT", "KILL", "TYPE", "replica")
            eventually(lambda: int(self.admin.info("stats")["sync_partial_ok"]) == 1
                       and is_up(), "it comes again")
            self.assertEqual(self.admin.info("stats")["sync_full"], "1")
            watcher.call("SCRIPT", "KILL")
            eventually(lambda: watcher.call("GET", "x") == b"y", "applied")
            self.admin.call("INCR", "n")
            eventually(lambda: watcher.call("GET", "n") == b"1", "applied")
        finally:
            self.assertEqual(replica.stop(), "")


class AsConfigured(Fixture):
    """Without stress, so what depends on time is as users have it."""

    options = ()

    def test_a_script_that_was_short_is_suspended_when_it_is_long(self):
        script = "for i = 1, tonumber(ARGV[1]) do end return 7"
        for _ in range(3):
            self.assertEqual(self.admin.call("EVAL_RO", script, 0, 1), 7)
        reader = self.suspended("EVAL_RO", script, 0, 10**15)
        self.assertEqual(self.admin.call("SCRIPT", "KILL"), b"OK")
        self.assertRaises(ReplyError, reader.receive)

    def test_scripts_are_suspended_without_a_busy_threshold(self):
        self.admin.call("CONFIG", "SET", "busy-reply-threshold", 0)
        reader = self.suspended("EVAL_RO", "while true do end", 0)
        self.assertEqual(self.admin.call("PING"), b"PONG")
        self.assertEqual(self.admin.call("SCRIPT", "KILL"), b"OK")
        self.assertRaises(ReplyError, reader.receive)
        self.assertEqual(self.admin.call("EVAL", "for i = 1, 1000000 do end return 7", 0), 7)

    def test_every_policy_lets_others_pass(self):
        with self.assertRaises(ReplyError) as caught:
            self.admin.call("CONFIG", "SET", "rubato-policy", "")
        policies = str(caught.exception).split("is not one of ")[1].split(", ")
        self.assertIn("synergy", policies)
        for policy in policies:
            self.admin.call("CONFIG", "SET", "rubato-policy", policy)
            reader = self.suspended("EVAL_RO", "while true do end", 0)
            self.assertEqual(self.admin.call("PING"), b"PONG", policy)
            self.assertEqual(self.underway(), 1)
            self.assertEqual(self.admin.call("SCRIPT", "KILL"), b"OK")
            self.assertRaises(ReplyError, reader.receive)

    def test_keys_expire_under_reads_without_end(self):
        self.admin.call("DEBUG", "POPULATE", 50000)
        stop = threading.Event()

        def reads():
            client = self.server.client()
            while not stop.is_set():
                client.call("KEYS", "no-such*")
            client.close()

        readers = [threading.Thread(target=reads) for _ in range(4)]
        for reader in readers:
            reader.start()
        try:
            self.admin.call("EVAL", "for i = 1, 2000 do redis.call('set', 'e' .. i, 1, 'px', 1) "
                            "end", 0)
            eventually(lambda: int(self.admin.info("stats")["expired_keys"]) >= 1900, "keys expire")
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        eventually(lambda: self.underway() == 0 and self.waiting() == 0, "nothing is left")


if __name__ == "__main__":
    unittest.main()
