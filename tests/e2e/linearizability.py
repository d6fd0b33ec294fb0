# SPDX-License-Identifier: Apache-2.0
"""Is a history of concurrent clients linearisable (Herlihy and Wing 1990)? Each operation must seem
to happen at one moment between its call and its reply, so that all replies are those of one client
after the other. Keys are independent objects, so each is checked by itself (their locality).

The check goes through calls and replies in their order and keeps all states that are possible, each
with the pending operations that it has taken effect of (Lowe 2017, "just-in-time linearisation").
"""

import math
from dataclasses import dataclass, field

# The time of a reply that did not come: the operation may be done, now or later, or never.
NEVER = math.inf


@dataclass
class Operation:
    name: str
    key: str
    argument: object
    called: float
    replied: float = NEVER
    result: object = None
    client: int = 0


@dataclass
class Verdict:
    holds: bool
    operation: Operation | None = None  # whose reply cannot be
    states: list = field(default_factory=list)  # that were possible before it


def apply(state, operation):
    """The new state and the reply of a store of strings."""
    name, argument = operation.name, operation.argument
    if name == "get":
        return state, state
    if name == "set":
        return argument, b"OK"
    if name == "getset":
        return argument, state
    if name == "setnx":
        return (argument, 1) if state is None else (state, 0)
    if name == "del":
        return None, 0 if state is None else 1
    if name == "append":
        grown = (state or b"") + argument
        return grown, len(grown)
    if name == "incr":
        number = int(state or b"0") + 1
        return str(number).encode(), number
    raise ValueError(f"no operation {name}")


def events_of(operations):
    """Calls and replies in the order of time; at the same time calls first, as they may overlap."""
    events = []
    for number, operation in enumerate(operations):
        events.append((operation.called, 0, number))
        if operation.replied != NEVER:
            events.append((operation.replied, 1, number))
    return sorted(events)


def after(configurations, pending, wanted, operations):
    """The configurations in which `wanted` has taken effect with its reply: each is a state and the
    pending operations that have taken effect."""
    found, seen, stack = set(), set(configurations), list(configurations)
    while stack:
        state, done = stack.pop()
        if wanted in done:
            found.add((state, done - {wanted}))
            continue
        for number in pending - done:
            operation = operations[number]
            new_state, result = apply(state, operation)
            if operation.replied != NEVER and result != operation.result:
                continue
            configuration = (new_state, done | {number})
            if configuration not in seen:
                seen.add(configuration)
                stack.append(configuration)
    return found


def check_key(operations, first=None):
    """Of one key, which is `first` at the start."""
    configurations = {(first, frozenset())}
    pending = set()
    for _, is_reply, number in events_of(operations):
        if not is_reply:
            pending.add(number)
            continue
        possible = after(configurations, pending, number, operations)
        if not possible:
            return Verdict(False, operations[number], sorted({str(s) for s, _ in configurations}))
        pending.discard(number)
        configurations = possible
    return Verdict(True)


def check(operations):
    """Of any keys, which are all absent at the start."""
    by_key = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    for of_key in by_key.values():
        verdict = check_key(of_key)
        if not verdict.holds:
            return verdict
    return Verdict(True)
