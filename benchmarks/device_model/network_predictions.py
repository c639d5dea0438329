"""Predictions of whole networks: compiled by this project on meta tensors and priced as reports are."""

import functools
import re

from ipu_core import _native
from networks import compilation, runs

IMAGES = 1281167  # of an epoch


@functools.cache
def _form(key):
    return compilation.machine_form(_RUNS[key])


_RUNS = {}


def step_time(row, run, machine):
    """Of a step, as the binding says it."""
    # Rows that differ in the metric alone are one program.
    key = repr((row.workload, row.source, row.ipus, row.dtype, sorted(row.parameters.items())))
    _RUNS[key] = run
    text, steps = _form(key)
    time = _native.program_time(text, machine, replicas=run.replicas)
    return {**time, "seconds": time["seconds"] / steps}


def parts_of(time):
    """Of the IPU that is busiest."""
    busiest = max(time["ipus"], key=lambda ipu: ipu["total"])
    return {
        name: busiest[name] for name in ("compute", "exchange", "overhead", "links", "host", "streaming", "waiting")
    }


def network(row, machine):
    run = runs.find(row)
    if run is None:
        return None
    value = None
    block = re.search(r"time per evaluation block of (\d+) training sequences", row.metric)
    samples = int(block[1]) if block else IMAGES if row.metric.startswith("median epoch time") else None
    served = row.metric in ("average latency", "latency per decoding step", "latency per token", "time (approx.)")
    if not (samples or served or row.unit.endswith("/s")):
        return None
    time = step_time(row, run, machine)
    if "compute time" in row.workload:
        host = max(ipu["host"] for ipu in time["ipus"])
        time["seconds"] *= 1 - host / time["cycles"]
    rate = run.items_per_step / time["seconds"]
    if samples:
        value = samples / rate
    elif served:
        waiting = run.clients if row.metric == "average latency" else 1
        value = 1000 * waiting * time["seconds"]
    else:
        value = rate
    return value, parts_of(time)


KINDS = {"model-train": network, "model-infer": network}
