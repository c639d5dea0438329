"""The command `poptorch`."""

import json

import pytest
import torch

import poptorch
from poptorch._impl import command_line


def output(capsys, *words):
    command_line.main(words)
    return capsys.readouterr().out


def test_machine_prints_every_number_with_its_source(capsys):
    text = output(capsys, "machine", "bow-pod16")
    assert text.startswith("bow-pod16: Bow Pod16: 16 IPUs\n")
    lines = text.splitlines()
    clock = next(number for number, line in enumerate(lines) if line.startswith("clock_hz"))
    assert lines[clock].split()[1:4] == ["1850000000", "Hz", "given"]
    assert lines[clock + 1].strip() == "Bow-2000 data sheet (machines/bow.json:5)"
    assert "peak fp16_16" in text and "3.486e+14 flop/s" in text


def test_machine_is_the_emulated_one_if_none_is_named(capsys, monkeypatch):
    monkeypatch.setenv("POPTORCH_EMULATED_SYSTEM", "pod4")
    assert output(capsys, "machine").startswith("pod4: ")
    monkeypatch.delenv("POPTORCH_EMULATED_SYSTEM")
    assert output(capsys, "machine").startswith("pod16: ")


def test_diff_prints_what_two_machines_do_not_share(capsys):
    lines = output(capsys, "machine", "--diff", "pod16", "bow-pod16").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["ipu_version", "clock_hz"]
    assert output(capsys, "machine", "--diff", "gc200", "gc200").count("\n") == 1


def test_list_names_the_machines_of_the_package(capsys):
    names = output(capsys, "machine", "--list").split()
    assert names == sorted(names) and {"gc2", "gc200", "bow", "c600", "pod64", "bow-pod64", "mk1-16", "toy"} <= set(names)


def test_an_unknown_machine_ends_the_command_with_the_nearest_name():
    with pytest.raises(SystemExit, match=r"poptorch: unknown machine 'pod61' \(did you mean 'pod64'\?\).*known are bow,"):
        command_line.main(["machine", "pod61"])


def test_a_path_is_a_machine_of_its_own(capsys, tmp_path):
    path = tmp_path / "desk.json"
    path.write_text('{"inherits": "pod4", "tiles": 64}')
    text = output(capsys, "machine", str(path))
    assert text.startswith("desk: one IPU-M2000: 4 IPUs\n") and f"this file ({path}:1)" in text
    path.with_name("broken.json").write_text('{"inherits": "pod4", "tilse": 64}')
    with pytest.raises(SystemExit, match=r"broken.json:1: 'tilse' is unknown \(did you mean 'tiles'\?\)"):
        command_line.main(["machine", str(path.with_name("broken.json"))])


@pytest.fixture
def executable(tmp_path):
    options = poptorch.Options().useOfflineIpuTarget()
    model = poptorch.inferenceModel(torch.nn.Linear(4, 2), options)
    path = tmp_path / "model.poptorch"
    model.compileAndExport(path, torch.zeros(3, 4), export_model=False)
    return path, model


def test_report_says_of_an_executable_what_its_model_says(capsys, executable, tmp_path):
    path, model = executable
    figures = json.loads(output(capsys, "report", str(path), "--json"))
    of_model = model.report().to_dict()
    assert figures["program"].pop("samples") == 0 and of_model["program"].pop("samples") == 3
    assert figures["time"].pop("samples_per_second") == 0 < of_model["time"].pop("samples_per_second")
    assert figures == of_model
    assert output(capsys, "report", str(path)).startswith("fits: ")
    assert " on mk1-16, " in output(capsys, "report", str(path), "--system", "mk1-16")
    assert output(capsys, "report", str(path), "--json", "--output", str(tmp_path / "out.json")) == ""
    assert json.loads((tmp_path / "out.json").read_text()) == json.loads(output(capsys, "report", str(path), "--json"))


def test_report_reads_a_machine_form_as_text(capsys, executable, tmp_path):
    text = tmp_path / "program.ir"
    text.write_text(executable[1]._executable.machine_text())
    figures = json.loads(output(capsys, "report", str(text), "--json", "--replicas", "4"))
    assert figures["program"]["replicas"] == 4 and figures["time"]["cycles"] >= executable[1].report().cycles


@pytest.mark.parametrize(
    "content, message",
    [
        (None, r"poptorch: cannot read file \[IPU-E504\]: .*program.ir: "),
        ("grph", r"poptorch: parse error \[IPU-E203\]: .*program.ir:1:1: expected 'graph'"),
        ("entry start = @a\ngraph @a() -> () {\n  return\n}\n", "the program has no entry point 'main'"),
        ("graph @a() -> () {\n  return\n}\n", "the program has no entry point 'main'"),
    ],
)
def test_report_says_what_is_wrong_with_a_file(content, message, tmp_path):
    path = tmp_path / "program.ir"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit, match=message):
        command_line.main(["report", str(path)])


def test_report_refuses_what_it_cannot_write_or_count(capsys, executable, tmp_path):
    with pytest.raises(SystemExit, match="poptorch: cannot write .*/nowhere/out: No such file or directory"):
        command_line.main(["report", str(executable[0]), "--output", str(tmp_path / "nowhere" / "out")])
    with pytest.raises(SystemExit):
        command_line.main(["report", str(executable[0]), "--replicas", "0"])
    assert "'0' is no whole number from 1 on" in capsys.readouterr().err
