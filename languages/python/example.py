# SPDX-License-Identifier: Apache-2.0
"""Coroutines await work that Rubato's workers do: python3 example.py. With native functions in
place of the lambdas, and without foreign_runtime, short ones also overtake long ones."""

import asyncio
import hashlib

import rubato_executor


async def main():
    with rubato_executor.Executor(workers=2, foreign_runtime=True) as executor:
        blocks = [bytes([i]) * 1_000_000 for i in range(20)]
        digests = await asyncio.gather(*(
            asyncio.wrap_future(executor.submit(lambda b=b: hashlib.sha256(b).hexdigest()))
            for b in blocks))
        print(len(set(digests)), "digests")

asyncio.run(main())
