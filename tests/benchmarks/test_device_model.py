"""benchmarks/device_model.py: the model against measurements."""

import math
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import device_model
from device_model import accuracy, constants, measurements, page
from ipu_core import _native


CALIBRATION = device_model.CALIBRATION


def is_network(row):
    return row.kind.startswith("model-")


@pytest.fixture(scope="module")
def rows():
    """All but those of networks, which take longer: each is captured and compiled."""
    return [row for row in measurements.read(CALIBRATION) if not is_network(row)]


@pytest.fixture(scope="module")
def results(rows):
    return accuracy.predict(rows)


@pytest.fixture(scope="module")
def network_rows():
    return [row for row in measurements.read(CALIBRATION) if is_network(row)]


@pytest.fixture(scope="module")
def network_results(network_rows):
    return accuracy.predict(network_rows)


def outside(results):
    found = {}
    for name, target in accuracy.TARGETS.items():
        kind, sub_kind = name if isinstance(name, tuple) else (name, None)
        mine = [result for result in results if result.row.kind == kind and sub_kind in (None, result.row.sub_kind)]
        if mine:
            found[name] = accuracy.is_inside(accuracy.errors(mine)[0], target)
    return {name for name, inside in found.items() if not inside}, len(found)


def test_kinds_stay_within_their_targets(results):
    assert outside(results) == (set(), 22)


@pytest.mark.slow
def test_networks_stay_within_their_targets(network_results):
    assert outside(network_results) == (set(), 2)


def missing(rows, results):
    return {row.id for row in rows if row.kind in accuracy.predictions.KINDS} - {r.row.id for r in results}


def test_kinds_that_are_expressed_are_expressed_whole(rows, results):
    assert missing(rows, results) == {"stencil-0002"}  # a share of the time of another program


@pytest.mark.slow
def test_networks_that_are_not_expressed_are_known(network_rows, network_results):
    to_accuracy = {row.id for row in network_rows if row.metric.startswith("mean time to train")}
    others = {"model-infer-0021", "model-infer-0022"}  # fp8
    others |= {"model-infer-0027", "model-infer-0028"}  # RoFormer, whose size is not known
    others |= {"model-train-0095", "model-train-0103"}  # graphs of unknown sizes; iterations with evaluation
    assert missing(network_rows, network_results) == to_accuracy | others


def test_a_row_that_lacks_a_parameter_is_not_expressed():
    rows = rows_of("gemm", ("m=many;k=8;n=8", "throughput", 2.0)) + rows_of("spmm", ("m=k=64", "throughput", 2.0))
    rows += rows_of("exchange", ("words=8", "cycles", 2.0)) + rows_of("attention", ("seq=8", "cycles", 2.0))
    assert accuracy.predict(rows) == []
    assert list(accuracy.groups(rows, []))[1] == "not expressed of these kinds: exchange-0, gemm-0, spmm-0"


def test_no_product_is_faster_than_the_peak_of_its_machine(results):
    for result in results:
        if result.row.unit == "TFLOP/s":
            numbers = _native.machine_numbers(result.row.machine)
            name = accuracy.predictions.TYPES[result.row.dtype].replace(".", "_")
            peak = 2 * numbers[f"{name}_macs"][0] * numbers["tiles"][0] * numbers["clock_hz"][0]
            assert result.predicted < peak / 1e12


def test_predictions_are_finite_and_their_parts_positive(results):
    for result in results:
        assert 0 < result.predicted < math.inf and min(result.parts.values()) >= 0 < sum(result.parts.values())


def test_twice_the_rows_of_a_product_take_no_less(rows):
    for row in rows:
        if row.kind == "gemm" and {"m", "k", "n"} <= row.parameters.keys():
            shape = 1, *(int(row.parameters[name]) for name in "mkn")
            twice = 1, 2 * shape[1], *shape[2:]
            once, more = (_native.plan_product(row.machine, of, "fp16.16", 0.6)["cycles"] for of in (shape, twice))
            assert more >= once, row.id


@pytest.mark.slow  # of micro-benchmarks and random programs by the tests around, tests/report/report_test.cc
def test_times_of_networks_are_sane(network_rows, network_results):
    """Parts add up, no IPU works longer than the run, none beats its peak, and a Bow takes the cycles of a Mk2."""
    networks = accuracy.predictions.network_predictions
    seen = set()
    for row in network_rows:
        if row.id not in {result.row.id for result in network_results}:
            continue
        run = networks.runs.find(row)
        form = networks.parsed(networks.text_of(row, run)[0])
        if form in seen:
            continue
        seen.add(form)
        time = form.time(row.machine, replicas=run.replicas)
        numbers = {name: of[0] for name, of in _native.machine_numbers(row.machine).items()}
        peak = max(numbers[f"{kind}_macs"] for kind in ("fp16_16", "fp16_32", "fp32"))
        totals = [sum(of["total"] for of in time[table]) for table in ("kinds", "lines", "modules")]
        assert totals[0] == totals[1] == totals[2] >= sum(ipu["total"] for ipu in time["ipus"])
        assert max(ipu["total"] for ipu in time["ipus"]) <= time["cycles"] <= totals[0]
        for ipu in time["ipus"]:
            causes = ("compute", "exchange", "overhead", "links", "host", "streaming")
            assert sum(ipu[cause] for cause in causes) == ipu["total"]
            assert ipu["waiting"] == time["cycles"] - ipu["total"] >= 0
        assert time["operations"] <= 2 * peak * numbers["tiles"] * time["cycles"] * len(time["ipus"])
        mk2, bow = (form.time(machine, replicas=run.replicas) for machine in ("gc200", "bow"))
        for ours, theirs in zip(mk2["ipus"], bow["ipus"], strict=True):
            assert [ours[cause] for cause in causes[:3]] == [theirs[cause] for cause in causes[:3]]
    assert len(seen) > 30


def test_cycles_of_a_bow_are_those_of_a_mk2():
    shape = 1, 1000, 2000, 3000
    one, other = (_native.plan_product(machine, shape, "fp16.16", 0.6) for machine in ("gc200", "bow"))
    assert one == other


def test_parts_sum_to_the_whole():
    plan = _native.plan_product("toy", (1, 64, 64, 64), "fp16.16", 0.6)
    assert sum(plan["parts"].values()) == plan["cycles"] and plan["tiles"] <= 16


def test_the_table_ends_with_targets_rows_and_errors(capsys, tmp_path):
    lines = CALIBRATION.read_text().splitlines(keepends=True)
    (tmp_path / "rows.csv").write_text("".join(line for line in lines if not line.startswith("model-")))
    device_model.main([str(tmp_path / "rows.csv")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("inside the target: gemm, conv, spmm, memory-fit, stencil, reduction, ")
    assert lines[-3].endswith("; outside: none")
    assert lines[-2] == "expressed: 536 of 565 rows, 94.9 %"
    assert re.fullmatch(r"all: median [\d.]+ %, 90th percentile [\d.]+ %", lines[-1])
    assert any(re.match(r"gemm +39 +39 +39 .* 8 / 18 inside$", line) for line in lines)
    assert any(re.match(r"conv +227 +227 +195 ", line) for line in lines)
    assert any(re.match(r"  blur +53 +53 +21 ", line) for line in lines)
    assert any(re.match(r"exchange \* +10 +10 ", line) for line in lines)
    assert any(re.match(r"attention +9 +0$", line) for line in lines)
    assert sum(bool(re.match(r"[a-z-]+-\d{4} ", line)) for line in lines) == accuracy.WORST


def test_rows_of_a_kind_are_printed_one_a_line(capsys):
    device_model.main(["--rows", "amp-vertex"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16 and all(line.startswith("amp-vertex-") and "inner loops 100 %" in line for line in lines)


def test_a_fitted_number_can_be_left_out(rows, results):
    gemms = [result for result in results if result.row.kind == "gemm"]
    left_out = constants.with_values([result.row for result in gemms], {"phase_cycles": 0.0})
    assert all(result.predicted > with_it.predicted for result, with_it in zip(left_out, gemms))
    with pytest.raises(SystemExit):
        device_model.main(["--without", "tiles"])


def test_a_source_can_be_left_out_of_the_fit(monkeypatch, rows):
    monkeypatch.setattr(constants, "SCALES", (1.0, 1.2))
    monkeypatch.setattr(constants, "ROUNDS", 1)
    few = [row for row in rows if row.kind in ("vertex-loop", "amp-vertex")]
    said = device_model.leave_out(few, "tessellate-ipu")
    assert said[0] == "16 rows of 'tessellate-ipu'" and said[2].startswith("  fitted without these rows:   median")
    assert said[3:] == ["    loop_instructions 4.5 -> 5.4"]
    assert "no row" in device_model.leave_out(few, "nowhere")[0]


def test_a_fit_goes_on_while_it_gets_better_and_prices_nothing_twice(monkeypatch, rows):
    tried = []
    price = constants.with_values

    def with_values(rows, values):
        tried.append(tuple(values.values()))
        return price(rows, values)

    monkeypatch.setattr(constants, "with_values", with_values)
    loops = [row for row in rows if row.kind == "vertex-loop"]
    assert constants.fit(loops)["loop_instructions"] == 1.2 * constants.by_name("loop_instructions").value
    assert len(tried) == len(set(tried)) <= 60


def test_numbers_without_a_source_are_few():
    found = constants.fitted()
    fitted = {constant.name for constant in found if not constant.is_chosen}
    chosen = {constant.name for constant in found if constant.is_chosen}
    assert len(fitted) <= constants.MOST_FITTED
    assert len(fitted) + len(chosen) + len(constants.CHOICES) <= constants.MOST_CHOSEN
    assert len(constants.measured_names()) <= constants.MOST_MEASURED
    assert all(constant.meaning and constant.rows and constant.without for constant in found)


def test_errors_that_reports_show_are_those_of_the_rows(rows, results):
    shown = page.EXPECTED.read_text().splitlines()[1:]
    networks = [line for line in shown if '"model-' in line]
    assert list(page.expected_errors(rows, results)) == [line for line in shown if line not in networks]
    assert len(networks) == 2 and len(shown) == len(page.FIGURES)


@pytest.mark.slow
def test_the_page_of_the_documentation_is_up_to_date(rows, results, network_rows, network_results):
    rows, results = rows + network_rows, results + network_results
    assert page.stale(rows, results) == []
    assert page.PAGE.read_text().endswith("\n".join(page.constants_text(rows, results)) + "\n")


def test_a_convolution_is_planned_with_its_gradients():
    sizes = {"batch": 4, "rows": 14, "columns": 14, "inputs": 64, "outputs": 96, "kernel_rows": 3, "kernel_columns": 3}
    sizes |= {"padding_rows": 2, "padding_columns": 2}
    plans = [
        _native.plan_convolution("bow", sizes, "fp16.16", 0.6, of)
        for of in ("forward", "data gradient", "weight gradient")
    ]
    assert all(plan["method"] == "matrix unit" and 0 < plan["cycles"] < 1e6 for plan in plans)
    with pytest.raises(Exception, match="a convolution has no size 'height'"):
        _native.plan_convolution("bow", {"height": 1}, "fp32", 0.6, "forward")
    with pytest.raises(Exception, match="unknown pass of a convolution .backward."):
        _native.plan_convolution("bow", sizes, "fp32", 0.6, "backward")


def rows_of(kind, *differences):
    """Rows that differ in parameters, metric and value only."""
    return [
        measurements.Row(
            f"{kind}-{i}", "", "Bow", 1, "", "fp16", measurements.parameters_of(text), metric, value, "TFLOP/s"
        )
        for i, (text, metric, value) in enumerate(differences)
    ]


def test_one_value_over_a_sweep_of_the_proportion_is_one_measurement():
    rows = rows_of(
        "gemm",
        ("m=8;availableMemoryProportion=0.1", "throughput", 2.0),
        ("m=8;availableMemoryProportion=0.2", "throughput", 2.0),
        ("m=9;availableMemoryProportion=0.1", "throughput", 2.0),
    )
    assert [len(group) for group in measurements.grouped(rows)] == [2, 1]


def test_latency_and_throughput_of_a_server_are_one_measurement():
    rows = rows_of(
        "model-infer", ("bs=4", "throughput", 7062.0), ("bs=4", "latency", 2.24), ("bs=32", "throughput", 13542.0)
    )
    assert [len(group) for group in measurements.grouped(rows)] == [2, 1]


def test_one_run_under_several_labels_is_one_measurement():
    rows = rows_of(
        "model-train",
        ("framework=PopART;gbs=3072", "time", 75.97),
        ("framework=PaddlePaddle", "time", 75.79),
        ("framework=PaddlePaddle;submitter=Baidu", "time", 75.81),
        ("framework=PopART;gbs=4608", "time", 75.9),
        ("framework=PopART", "time", 123.4),
        ("sdk=3.1", "time", 123.5),
    )
    assert [len(group) for group in measurements.grouped(rows)] == [3, 1, 1, 1]
