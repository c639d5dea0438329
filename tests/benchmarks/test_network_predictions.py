"""Predictions of networks: what a row says of a step that takes so long, and that each program is compiled and priced once."""

import json
import pathlib
import sys
import types

import pytest

DEVICE_MODEL = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "device_model"
sys.path.insert(0, str(DEVICE_MODEL))

from ipu_core import _native  # noqa: E402
import measurements  # noqa: E402
import network_predictions  # noqa: E402
from networks import compilation, decoding, runs  # noqa: E402

ROWS = {row.id: row for row in measurements.read(DEVICE_MODEL / "calibration.csv")}
SMALL = decoding.machine_form(decoding.Decoder(1, 64, 4, 128, 256), 2, 1, 16)


@pytest.fixture
def compiled(monkeypatch):
    """The runs that are compiled, each to the same small program."""
    found = []

    def machine_form(run):
        found.append(run)
        return SMALL, 1

    monkeypatch.setattr(compilation, "machine_form", machine_form)
    monkeypatch.setattr(network_predictions, "_forms", {})
    return found


def predicted(id):
    row = ROWS[id]
    return network_predictions.network(row, row.machine)[0]


def step_seconds(id):
    return _native.MachineForm(SMALL).time(ROWS[id].machine, replicas=runs.find(ROWS[id]).replicas)["seconds"]


def test_rows_of_one_program_under_several_labels_are_compiled_once(compiled):
    assert predicted("model-train-0036") == predicted("model-train-0038")
    assert len(compiled) == 1


def test_rows_of_two_networks_are_two_programs(compiled):
    predicted("model-infer-0003"), predicted("model-infer-0009")
    assert len(compiled) == 2


def test_equal_programs_are_read_and_priced_once(compiled, monkeypatch):
    read, priced = [], []

    class Form:
        def __init__(self, text):
            read.append(text)
            self.form = _native.MachineForm(text)

        def time(self, machine, replicas):
            priced.append(machine)
            return self.form.time(machine, replicas=replicas)

    monkeypatch.setattr(network_predictions, "_native", types.SimpleNamespace(MachineForm=Form))
    network_predictions.parsed.cache_clear()
    predicted("model-infer-0003"), predicted("model-infer-0001"), predicted("model-infer-0004")
    assert len(compiled) == 2 and read == [SMALL] and priced == ["c600"]
    network_predictions.parsed.cache_clear()


def test_latency_of_a_server_is_that_of_the_batches_of_its_clients(compiled):
    batch, clients = 4, 4
    assert predicted("model-infer-0018") == pytest.approx(1e3 * clients * batch / predicted("model-infer-0017"))


def test_a_block_of_training_takes_its_samples_over_those_of_a_step(compiled):
    assert predicted("model-train-0034") == pytest.approx(175000 / 3072 * step_seconds("model-train-0034"))
    assert predicted("model-train-0012") == pytest.approx(1281167 / 2560 * step_seconds("model-train-0012"))


def test_time_to_accuracy_is_not_expressed_and_not_compiled(compiled):
    assert network_predictions.network(ROWS["model-train-0033"], "bow") is None and compiled == []


def test_a_network_compiled_twice_takes_the_same_time_to_the_byte():
    run = runs.find(ROWS["model-infer-0009"])
    texts = [compilation.machine_form(run)[0] for _ in range(2)]
    times = [json.dumps(_native.MachineForm(text).time("c600")) for text in texts]
    assert texts[0] == texts[1] and times[0] == times[1]
