# SPDX-License-Identifier: Apache-2.0
"""M/M/16 in SimPy as its text book has it (a process for each request, a resource of 16), for
against_simulators.py: mm16_simpy.py REQUESTS SEED prints the requests served, the CPU time, and the
mean latency in mean services."""

import json
import random
import sys
import time

import simpy

WORKERS, LOAD = 16, 0.8


def main(requests, seed):
    draws = random.Random(seed)
    latencies = []
    env = simpy.Environment()
    workers = simpy.Resource(env, capacity=WORKERS)

    def request():
        arrived = env.now
        with workers.request() as turn:
            yield turn
            yield env.timeout(draws.expovariate(1))
        latencies.append(env.now - arrived)

    def clients():
        for _ in range(requests):
            yield env.timeout(draws.expovariate(LOAD * WORKERS))
            env.process(request())

    begun = time.process_time()
    env.process(clients())
    env.run()
    print(json.dumps({"requests": requests, "cpu_s": time.process_time() - begun,
                      "mean": sum(latencies) / requests}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
