# SPDX-License-Identifier: Apache-2.0
"""Reports as the generator writes them, made up: a log-linear tail between p50 and p99.9."""

import math


def curve(p50_us, p999_us, points=60):
    """A CCDF through (p50, 0.5) and (p99.9, 0.001), straight on log-log paper."""
    steep = math.log(0.5 / 0.001) / math.log(p999_us / p50_us)
    found = []
    for i in range(points):
        at = p50_us / 2 * (4 * p999_us / p50_us) ** (i / (points - 1))
        found.append([at, min(1.0, 0.5 * (at / p50_us) ** -steep)])
    return found


def latency(p50_us, p999_us):
    return {"mean": p50_us * 1.2, "p50": p50_us, "p90": p50_us * 2,
            "p99": math.sqrt(p50_us * p999_us), "p999": p999_us, "max": p999_us * 3}


def type_object(name, share, count, p50_us, p999_us):
    return {"name": name, "service_us": None, "share": share, "count": count, "refused": 0,
            "errors": 0, "lost": 0, "latency_us": latency(p50_us, p999_us), "slowdown": None,
            "ccdf": curve(p50_us, p999_us)}


def undisturbed_object(name, count, of, p50_us, p999_us):
    return {"name": name, "count": count, "share": count / of,
            "latency_us": latency(p50_us, p999_us)}


def report_object(p999_us=300.0, scan_p999_us=4000.0, rps=10000.0, valid=True, scan="range"):
    """One run whose GETs have this p99.9."""
    slices = [{"start_s": i / 10, "latency_us": {
        "get": {"count": 990, "p50": 30.0, "p99": p999_us / 3 * (1 + i % 5),
                "p999": p999_us, "max": p999_us},
        scan: {"count": 10, "p50": 1000.0, "p99": 2000.0, "max": 3000.0}}} for i in range(20)]
    reason = {} if valid else {"invalid_reason": "fell behind its schedule"}
    return {
        "schema": "rubato.run/1", "kind": "live", "policy": "", "workers": 1,
        "workload": f"get:0.99,{scan}:0.01", "seed": 1, "offered_rps": rps,
        "achieved_rps": rps, "load": None, "requests": 20000, "refused": 0, "lost": 0,
        "valid": valid, **reason, "latency_us": latency(30.0, p999_us), "slowdown": None,
        "types": [type_object("get", 0.99, 19800, 30.0, p999_us),
                  type_object(scan, 0.01, 200, 1100.0, scan_p999_us)],
        "counters": None, "utilization": None, "wall_s": 2.0, "cost_model": "",
        "machine": {"cpu": "made up", "cores": 2}, "version": "0.1.0",
        "send_lag_us": {"p99": 5.0, "max": 90.0, "unsent": 0},
        "noise": {"gaps_over_50us_per_s": 20.0, "gaps_over_100us_per_s": 4.0,
                  "gaps_over_1ms_per_s": 0.1, "max_gap_us": 2100.0, "steal_percent": 0.2,
                  "stalls": 8, "stalled_ms": 16.0},
        "undisturbed": {"share": 0.9, "stalls": 8, "stalled_ms": 16.0, "server_threads": 1,
                        "rule": {"floor_us": 200.0, "reach_us": 10000.0, "aftermath": 5},
                        "latency_us": latency(30.0, p999_us), "types": [
                            undisturbed_object("get", 18000, 19800, 30.0, p999_us * 0.8),
                            undisturbed_object(scan, 180, 200, 1100.0, scan_p999_us)]},
        "timeline": {"slice_s": 0.1, "slices": slices}}


def run_object(live=False, policy="ps", load=None):
    """A run as `rubato load` or `rubato sim` reports it, with whole histograms."""
    found = report_object()
    for i, kind in enumerate(found["types"]):
        pairs = [(b + 64 * i, 2000 // (1 + j * j)) for j, b in enumerate(range(600, 1200, 20))]
        kind["latency_histogram_ns"] = {
            "layout": "log-linear-64-8", "sum": 1, "min": 1, "max": 1, "overflow": 0,
            "counts": " ".join(f"{bucket}:{count}" for bucket, count in pairs)}
    found["machine"] |= {"kernel": "Linux 6", "virtualised": "kvm"}
    if live:
        return found | {"target": "resp://127.0.0.1:6400", "loop": "open", "arrivals": "poisson",
                        "command": "rubato load --target resp://127.0.0.1:6400"}
    for key in ("noise", "send_lag_us", "undisturbed", "timeline"):
        del found[key]
    return found | {"kind": "sim", "policy": policy, "load": load, "workers": 4,
                    "cost_model": "ideal", "verdict": "steady"}
