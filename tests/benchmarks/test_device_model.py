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


@pytest.mark.parametrize("kind", sorted(set(device_model.TARGETS) - {"model-train", "model-infer", "memory-fit"}))
def test_a_kind_stays_within_its_target(rows, results, kind):
    mine = [result for result in results if result.row.kind == kind]
    assert len(mine) >= sum(row.kind == kind for row in rows) - 1
    found, middle = device_model.errors(mine)
    median, most = device_model.TARGETS[kind]
    assert numpy.median(found) <= median and numpy.percentile(found, 90) <= most and 0.85 < middle < 1.1


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
    assert lines[-3].startswith("inside the target: gemm, conv, spmm, stencil, ")
    assert lines[-3].endswith("; outside: none")
    assert lines[-2] == "expressed: 521 of 650 rows, 80.2 %"
    assert re.fullmatch(r"all: median [\d.]+ %, 90th percentile [\d.]+ %", lines[-1])
    assert any(re.match(r"gemm +39 +39 +39 ", line) for line in lines)
    assert any(re.match(r"conv +227 +227 +195 ", line) for line in lines)
    assert any(re.match(r"  blur +53 +53 +21 ", line) for line in lines)
    assert any(re.match(r"attention +9 +0$", line) for line in lines)


def test_rows_of_a_kind_are_printed_one_a_line(capsys):
    device_model.main(["--rows", "amp-vertex"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16 and all(line.startswith("amp-vertex-") and "inner loops 100 %" in line for line in lines)


def test_a_fitted_number_can_be_left_out(rows, results):
    left_out = device_model.predict(rows, "phase_cycles")
    smaller = [result for result in left_out if result.row.kind == "gemm"]
    gemms = [result for result in results if result.row.kind == "gemm"]
    assert all(result.predicted > with_it.predicted for result, with_it in zip(smaller, gemms))
    with pytest.raises(SystemExit):
        device_model.main(["--without", "nothing"])


def test_a_convolution_is_planned_with_its_gradients():
    sizes = {"batch": 4, "rows": 14, "columns": 14, "inputs": 64, "outputs": 96, "kernel_rows": 3, "kernel_columns": 3}
    sizes |= {"padding_rows": 2, "padding_columns": 2}
    plans = [
        device_model._native.plan_convolution("bow", sizes, "fp16.16", 0.6, of)
        for of in ("forward", "data gradient", "weight gradient")
    ]
    assert all(plan["method"] == "matrix unit" and 0 < plan["cycles"] < 1e6 for plan in plans)
    with pytest.raises(Exception, match="a convolution has no size 'height'"):
        device_model._native.plan_convolution("bow", {"height": 1}, "fp32", 0.6, "forward")
    with pytest.raises(Exception, match="unknown pass of a convolution .backward."):
        device_model._native.plan_convolution("bow", sizes, "fp32", 0.6, "backward")


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
            1,
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
