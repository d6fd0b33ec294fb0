# SPDX-License-Identifier: Apache-2.0
"""How tests in Python wait: for a condition that they can observe, or for a span of time if that
span is the behaviour under test. No other module of the tests sleeps (tools/check_tidy.py)."""

import select
import time

PATIENCE_S = 20.0
PAUSE_S = 0.02


def eventually(read, done=bool, patience_s=PATIENCE_S, pause_s=PAUSE_S):
    """Polls `read` until `done` accepts its result, and returns that. When the patience ends, the
    test fails with the last result."""
    deadline = time.monotonic() + patience_s
    while True:
        state = read()
        if done(state):
            return state
        if time.monotonic() > deadline:
            raise AssertionError(f"in vain for {patience_s} s: {state!r}")
        time.sleep(pause_s)


def is_readable(connection):
    """Whether a socket holds bytes or its end."""
    return bool(select.select([connection], [], [], 0)[0])


def sends_until_stuck(connection, data, limit_bytes, stuck_s=0.5):
    """Sends `data` again and again to a peer that may have stopped reading, and yields after each
    piece. Ends at the limit, or when the peer has taken nothing for `stuck_s`."""
    sent, rest = 0, memoryview(data)
    while sent < limit_bytes and select.select([], [connection], [], stuck_s)[1]:
        taken = connection.send(rest)
        sent += taken
        rest = rest[taken:] or memoryview(data)
        yield sent


def pass_time(seconds, why):
    """Lets time pass that is itself under test: a silence, a pause, a measured period. `why` names
    it. Never a means of synchronisation."""
    assert why
    time.sleep(seconds)
