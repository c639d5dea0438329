"""Predictions of whole networks: compiled by this project on meta tensors and priced as reports are."""

import functools
import re

from ipu_core import _native
import measurements
from networks import compilation, runs

IMAGES = 1281167  # of an epoch
LABELS = measurements.LABELS | {"sdk"}  # of a row, which its program does not depend on

_forms = {}


@functools.cache
def parsed(text):
    """Equal programs of several rows are one form."""
    return _native.MachineForm(text)


def text_of(row, run):
    """The machine form of a row as text, and its steps. Rows that differ in metric, machine and labels are one program, compiled once."""
    given = sorted((name, value) for name, value in row.parameters.items() if name not in LABELS)
    key = repr((row.workload, row.source, row.ipus, row.dtype, given))
    if key not in _forms:
        _forms[key] = compilation.machine_form(run)
    return _forms[key]


@functools.cache
def priced(form, machine, replicas):
    """Each form is priced once on a machine."""
    time = form.time(machine, replicas=replicas)
    return {name: time[name] for name in ("seconds", "cycles", "ipus")}


def step_time(row, run, machine):
    """Of a step, as the binding says it."""
    text, steps = text_of(row, run)
    time = priced(parsed(text), machine, run.replicas)
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
