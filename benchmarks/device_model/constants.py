"""Numbers of the machine files that no source gives: leaving them out, moving them, fitting them."""

import dataclasses
import functools
import itertools
import json
import pathlib
import tempfile

import accuracy
from ipu_core import _native
import measurements
import numpy

MACHINES = sorted(set(measurements.MACHINES.values()))
MOST_FITTED, MOST_CHOSEN, MOST_MEASURED = 15, 30, 60

# Numbers and choices of the model itself without a source, which count as constants: what, and on what they were decided.
CHOICES = {
    "operands of a product keep their roles": "rows of gemm: swapping them where it is cheaper is 10 / 102",
    "sweeps whose best is published are planned at proportion 0.9": "rows of gemm: 0.6 gives 6.1 / 13.4",
    "4 cycles save the registers of a worker, 7 are saved by it": "rows of amp-vertex and the worked example",
    "1.4 of the operand of a depthwise convolution with what lies around it": "no rows",
    "half a phase for a pass": "no rows",
    "1.5 reductions for a norm": "no rows",
    "at most 40 partial sums of a result come to a tile": "no rows",
    "fewer operands than workers are few": "no rows",
    "parts of a stencil take 1.9 of their cells in two images": "rows of memory-fit",
}
# Rules without a number of their own.
RULES = {
    "matrix products in fp16 sum in fp16, convolutions in fp32": "rows of gemm and conv; poplin's defaults",
    "results of convolutions in fp32 with up to 4 channels are copied": "rows of conv (blur)",
    "few channels are padded to blocks with several rows of the kernel": "rows of conv (plain) and of networks",
    "operands of groups without whole blocks are copied": "rows of conv (8 channels and more)",
    "sparse products take the dense split": "rows of spmm: a search of their own is 32 / 213",
    "a gradient of weights writes its operand out in atoms of 8 bytes": "no rows",
    "parts of stencils are squares": "rows of stencil and bsp-breakdown",
    "a sum over tiles starts later by the logarithm of their number": "rows of reduction",
    "several IPUs sum by a tree": "rows of reduction",
}


@dataclasses.dataclass(frozen=True)
class Constant:
    name: str
    value: float
    meaning: str
    rows: str
    without: str
    is_factor: bool

    @property
    def is_chosen(self):
        return self.rows.startswith("none")

    @property
    def neutral(self):
        """The value that says nothing."""
        return 1.0 if self.is_factor else 0.0


def fitted():
    """The fitted numbers of all machine files, each once."""
    found = {}
    for machine in _native.machine_names():
        for name, (value, tag, source, rows, without, _) in _native.machine_numbers(machine).items():
            if tag == "fitted":
                found.setdefault((name, value), Constant(name, value, source, rows, without, name.endswith("_factor")))
    return sorted(found.values(), key=lambda constant: (constant.is_chosen, constant.name))


def measured_names():
    return {
        name
        for machine in _native.machine_names()
        for name, (_, tag, *_) in _native.machine_numbers(machine).items()
        if tag == "measured"
    }


class Machines:
    """Machine files in which fitted numbers have other values; a number that a machine does not fit stays as it is."""

    def __init__(self, values):
        self.values = values
        self.folder = tempfile.TemporaryDirectory()
        self.files = {}

    def __call__(self, machine):
        if machine not in self.files:
            numbers = _native.machine_numbers(machine)
            changed = {name: value for name, value in self.values.items() if numbers[name][1] == "fitted"}
            path = pathlib.Path(self.folder.name) / f"{machine}.json"
            path.write_text(json.dumps({"inherits": machine, **changed}))
            self.files[machine] = str(path) if changed else machine
        return self.files[machine]


def with_values(rows, values):
    return accuracy.predict(rows, Machines(values))


def by_name(name):
    return next((constant for constant in fitted() if constant.name == name), None)


def worth(rows):
    """Each constant with the results without it, and with it smaller and larger by a fifth."""
    for constant in fitted():
        values = (constant.neutral, 0.8 * constant.value, 1.2 * constant.value)
        yield constant, [with_values(rows, {constant.name: value}) for value in values]


SCALES = (0.8, 0.9, 1.0, 1.1, 1.2)
ROUNDS = 2


def fit(rows):
    """Values of the fitted constants for which the middle error of the rows is least: from those of the files each goes from one
    scale to the next as long as that is better, one constant after the other, twice."""
    names = [constant.name for constant in fitted() if not constant.is_chosen]

    def scaled(at):
        return {name: by_name(name).value * SCALES[i] for name, i in zip(names, at)}

    @functools.cache
    def error(at):
        return float(numpy.mean(numpy.minimum(accuracy.errors(with_values(rows, scaled(at)))[0], 100)))

    best = (SCALES.index(1.0),) * len(names)
    for _, number, step in itertools.product(range(ROUNDS), range(len(names)), (-1, 1)):
        while 0 <= best[number] + step < len(SCALES):
            tried = (*best[:number], best[number] + step, *best[number + 1 :])
            if error(tried) >= error(best) - 1e-9:
                break
            best = tried
    return scaled(best)
