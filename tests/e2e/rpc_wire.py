# SPDX-License-Identifier: Apache-2.0
"""What tests of servers that speak Rubato RPC share: the client library, and frames by hand."""

import os
import sys

from server import PATIENCE_S

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))

import rubato_rpc as rpc  # noqa: E402

SESSION = 7
# A busy machine is no overload: what is tested here is not how fast it is.
PATIENT = ("--target-delay", "1s")


def patient_client(port, **options):
    return rpc.Client("127.0.0.1", port,
                      **{"expire_s": PATIENCE_S, "answer_within_s": PATIENCE_S, **options})


def hello(session=SESSION, demand=0):
    return rpc.encode(rpc.HELLO, session, demand)


def frames(connection, count, kept=None):
    """So many frames of the server's; fewer if it closes. What came behind them goes to `kept`."""
    data, found = bytearray() if kept is None else kept, []
    while len(found) < count:
        frame, length = rpc.decode(data) if data else (None, 0)
        if frame is not None:
            found.append(frame)
            del data[:length]
            continue
        try:
            chunk = connection.recv(65536)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            break
        data += chunk
    return found
