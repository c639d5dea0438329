"""benchmarks/device_model.py: the model against measurements."""

import pathlib
import re
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import device_model


@pytest.fixture(scope="module")
def rows():
    return device_model.measurements.read(ROOT / "benchmarks" / "device_model" / "calibration.csv")


@pytest.fixture(scope="module")
def results(rows):
    return device_model.predict(rows)


@pytest.mark.parametrize("kind", ["gemm", "amp-vertex"])
def test_a_kind_stays_within_its_target(rows, results, kind):
    mine = [result for result in results if result.row.kind == kind]
    assert len(mine) == sum(row.kind == kind for row in rows)
    found, middle = device_model.errors(mine)
    median, most = device_model.TARGETS[kind]
    assert numpy.median(found) <= median and numpy.percentile(found, 90) <= most and 0.9 < middle < 1.1


def test_no_product_is_faster_than_the_peak_of_its_machine(results):
    for result in results:
        if result.row.unit == "TFLOP/s":
            numbers = device_model._native.machine_numbers(result.row.machine)
            name = device_model.predictions.TYPES[result.row.dtype].replace(".", "_")
            peak = 2 * numbers[f"{name}_macs"][0] * numbers["tiles"][0] * numbers["clock_hz"][0]
            assert result.predicted < peak / 1e12


def test_parts_sum_to_the_whole():
    plan = device_model._native.plan_product("toy", (1, 64, 64, 64), "fp16.16", 0.6)
    assert sum(plan["parts"].values()) == plan["cycles"] and plan["tiles"] <= 16


def test_the_table_ends_with_targets_rows_and_errors(capsys):
    device_model.main([])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("inside the target: gemm, amp-vertex; outside: none")
    assert lines[-2] == "expressed: 55 of 650 rows, 8.5 %"
    assert re.fullmatch(r"all: median [\d.]+ %, 90th percentile [\d.]+ %", lines[-1])
    assert any(re.match(r"gemm +39 +39 +39 ", line) for line in lines)
    assert any(re.match(r"conv +227 +0$", line) for line in lines)


def test_rows_of_a_kind_are_printed_one_a_line(capsys):
    device_model.main(["--rows", "amp-vertex"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16 and all(line.startswith("amp-vertex-") and "inner loops 100 %" in line for line in lines)


def test_a_fitted_number_can_be_left_out(rows, results):
    left_out = device_model.predict(rows, "phase_cycles")
    smaller = [result for result in left_out if result.row.kind == "gemm"]
    assert all(result.predicted > with_it.predicted for result, with_it in zip(smaller, results[16:]))
    with pytest.raises(SystemExit):
        device_model.main(["--without", "nothing"])


def test_one_value_over_a_sweep_of_the_proportion_is_one_measurement():
    row = device_model.measurements.Row
    texts = [
        "m=8;availableMemoryProportion=0.1",
        "m=8;availableMemoryProportion=0.2",
        "m=9;availableMemoryProportion=0.1",
    ]
    rows = [
        row(
            f"gemm-{i}",
            "",
            "Bow",
            "",
            "fp16",
            device_model.measurements.parameters_of(text),
            "throughput",
            2.0,
            "TFLOP/s",
        )
        for i, text in enumerate(texts)
    ]
    assert [len(group) for group in device_model.measurements.grouped(rows)] == [2, 1]
