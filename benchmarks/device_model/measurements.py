"""Rows of measurements: reading them, and which of them are one measurement."""

import collections
import csv
import dataclasses

# By the first word that the hardware of a row has: a C600 has a Mk2, too.
MACHINES = {"C600": "c600", "Bow": "bow", "Mk1": "gc2", "GC200": "gc200", "Mk2": "gc200"}

SWEPT = {"availableMemoryProportion"}  # a value that does not change over a sweep was measured once
SERVED = {"model-infer"}  # latency = clients x batch / throughput
LABELS = {"division", "framework", "submitter"}  # of one run, if the values agree within
SAME = 0.02


@dataclasses.dataclass(frozen=True)
class Row:
    id: str
    source: str
    hardware: str
    ipus: int
    workload: str
    dtype: str
    parameters: dict
    metric: str
    value: float
    unit: str

    @property
    def kind(self):
        return self.id.rsplit("-", 1)[0]

    @property
    def sub_kind(self):
        """What the rows of a kind are told apart by: the layers of convolutions, otherwise the type."""
        if self.kind != "conv":
            return self.dtype
        if "image" in self.parameters:
            return "blur"
        groups = int(self.parameters["groups"])
        if groups == 1:
            return "plain"
        return "8 channels and more" if int(self.parameters["Cin"]) // groups >= 8 else "narrow groups"

    @property
    def machine(self):
        """The machine file of the hardware, or None."""
        return next((name for word, name in MACHINES.items() if word in self.hardware), None)

    @property
    def measurement(self):
        """Rows with the same text were measured once: one value that holds over a sweep of the memory proportion, or a latency
        and a throughput of one server."""
        parameters = sorted((key, value) for key, value in self.parameters.items() if key not in SWEPT)
        what = (self.kind, self.hardware, self.ipus, self.workload, self.dtype, parameters)
        return repr((*what, self.source) if self.kind in SERVED else (*what, self.metric, self.value))

    def repeats(self, other):
        """Whether it is the same run under another label."""
        common = set(self.parameters) & set(other.parameters) - LABELS
        return (
            (self.kind, self.source, self.hardware, self.ipus, self.workload, self.metric)
            == (other.kind, other.source, other.hardware, other.ipus, other.workload, other.metric)
            and bool(LABELS & set(self.parameters))
            and all(self.parameters[key] == other.parameters[key] for key in common)
            and abs(self.value - other.value) <= SAME * other.value
        )


def parameters_of(text):
    """ "m=8;n<=9;inside" as {"m": "8", "n<": "9", "inside": ""}."""
    return dict(part.strip().partition("=")[::2] for part in text.split(";"))


def read(path):
    with open(path, newline="") as file:
        return [
            Row(
                *(row[name] for name in ("id", "source", "hardware")),
                int(row["n_ipus"]),
                *(row[name] for name in ("workload", "dtype")),
                parameters_of(row["parameters"]),
                row["metric"],
                float(row["value"]),
                row["unit"],
            )
            for row in csv.DictReader(file)
        ]


def grouped(rows):
    """The rows of each measurement."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row.measurement].append(row)
    found = []
    for group in groups.values():
        same = next((other for other in found if group[0].repeats(other[0])), None)
        if same is None:
            found.append(group)
        else:
            same += group
    return found
