"""`ipu-report` reads executables and texts; both say the same of one program."""

import json
import os
import pathlib
import subprocess

import pytest

from ipu_core import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = """
variable @w: f32[4,4] {ipu=0}
stream @x: f32[4,4] {ipu=0}
stream @y: f32[4,4] {direction="device_to_host", ipu=0}
entry main = @main
graph @main() -> () {
  %w = variable.read() {variable=@w} : f32[4,4]
  %x = host_load() {stream=@x | ipu=0} : f32[4,4]
  %h = matmul(%x, %w) {| ipu=0} : f32[4,4] loc("model.py":4, "fc")
  host_store(%h) {stream=@y | ipu=0}
  return
}
"""


def report(*arguments, text=""):
    built = sorted(ROOT.glob("build/*/ipu-report"), key=lambda path: path.stat().st_mtime)
    tool = pathlib.Path(os.environ["IPU_OPT"]).with_name("ipu-report") if "IPU_OPT" in os.environ else built[-1]
    return subprocess.run([tool, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)


def test_an_executable_and_its_machine_form_give_one_report(tmp_path):
    session = _native.compile(TEXT, "test", 1, 1)
    _native.save_executable(session, str(tmp_path / "program"), {}, {})
    of_file = report(tmp_path / "program")
    assert of_file.returncode == 0, of_file.stderr
    assert "IPU 0: 192 of 940,572,672: 64 of variables" in of_file.stdout
    assert "w: f32[4,4], parameter, IPU 0, 64 bytes" in of_file.stdout
    assert "1 matmul: model.py:4 (1)" in of_file.stdout
    assert report("-", text=session.machine_text()).stdout == of_file.stdout == session.report_on("pod16")[0]
    assert of_file.stdout.endswith(session.report(1472 * 638976))
    assert "of 318,767,104:" in report("--system", "mk1-16", tmp_path / "program").stdout
    as_json = report("--json", "--replicas", 3, tmp_path / "program").stdout
    assert json.loads(as_json)["program"]["replicas"] == 3 and json.loads(session.report_on("pod16")[1])["version"] == 2


LOOP = """
variable @x: f32[192] {ipu=0}
entry main = @main
graph @main() -> () {
  %x = variable.read() {variable=@x | ipu=0} : f32[192]
  %y = loop(%x) {body=@body, carried=1, expected=4, trip=10, while=true} : f32[192]
  variable.assign(%y) {variable=@x | ipu=0}
  return
}
graph @body(%index: i32[], %x: f32[192]) -> (bool[], f32[192]) {
  %y = add(%x, %x) {| ipu=0} : f32[192]
  %go = constant() {value=dense<bool[]: true>} : bool[]
  return %go, %y
}
"""


def test_a_loop_that_a_value_ends_has_an_expected_and_a_maximum_time():
    figures = json.loads(report("-", "--json", text=LOOP).stdout)["time"]
    assert 10 * figures["cycles"] == 4 * figures["maximum_cycles"] > 0 and not figures["is_maximum"]
    assert 10 * figures["seconds"] == pytest.approx(4 * figures["maximum_seconds"])
    text = report("-", text=LOOP).stdout
    assert f"a run takes {figures['cycles']:,} cycles" in text
    assert f"loops are expected to run; to their bounds at most {figures['maximum_cycles']:,} cycles, " in text
    without = report("-", text=LOOP.replace("expected=4, ", "")).stdout
    assert f"a run takes at most {figures['maximum_cycles']:,} cycles" in without and "to their bounds" not in without


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["missing.ir"], "cannot read file [IPU-E504]: missing.ir: "),
        (
            ["-", "--system", "pod8"],
            "unknown machine 'pod8' (did you mean 'pod4'?) [IPU-E503]: known are bow, bow-pod16",
        ),
        (["-"], "parse error [IPU-E203]: -:1:1: expected 'graph'"),
    ],
)
def test_what_it_cannot_report_on_is_named(arguments, message):
    run = report(*arguments, text="" if "--system" in arguments else "grph")
    assert run.returncode == 1 and run.stdout == "" and run.stderr.startswith(message)
