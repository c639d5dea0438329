"""The command `poptorch`."""

import pytest

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
