"""Log lines: format, levels on both sides, destinations, repeats, and the progress bar."""

import re

import pytest
from python_programs import run_program

import poptorch

PYTHON = re.compile(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[poptorch::python\] \[(\w+)\] (.*)")
NATIVE = re.compile(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[poptorch:cpp\] \[(\w+)\] (.*)")


def run(program, **environment):
    result = run_program(program, environment=environment)
    assert result.returncode == 0, result.stderr
    return result


COMPILE = "import torch, poptorch\npoptorch.inferenceModel(lambda x: x * 2)(torch.ones(2))\n"


@pytest.mark.parametrize(
    "level, kinds",
    [
        (None, set()),
        ("OFF", set()),
        ("INFO", {"info"}),
        ("DEBUG", {"info", "debug"}),
        ("TRACE", {"info", "debug", "trace"}),
    ],
)
def test_level_of_the_environment_rules_native_lines(level, kinds):
    environment = {} if level is None else {"POPTORCH_LOG_LEVEL": level}
    lines = [NATIVE.fullmatch(line) for line in run(COMPILE, **environment).stderr.splitlines()]
    assert {match.group(1) for match in lines if match} == kinds


def test_unknown_level_of_the_environment_is_refused():
    result = run_program("import poptorch", environment={"POPTORCH_LOG_LEVEL": "LOUD"})
    assert (
        "ValueError: Unknown log level 'LOUD'. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN." in result.stderr
    )


@pytest.mark.parametrize("destination", ["stdout", "file"])
def test_native_lines_go_where_the_environment_says(destination, tmp_path):
    path = tmp_path / "log.txt"
    result = run(
        COMPILE, POPTORCH_LOG_LEVEL="INFO", POPTORCH_LOG_DEST="stdout" if destination == "stdout" else str(path)
    )
    text = result.stdout if destination == "stdout" else path.read_text()
    assert re.search(r"\[poptorch:cpp\] \[info\] compiled in ", text) and "compiled in" not in result.stderr


def test_destination_that_cannot_be_written():
    result = run_program("import poptorch", environment={"POPTORCH_LOG_DEST": "/nowhere/at/all"})
    assert "cannot write the log [IPU-E503]: '/nowhere/at/all': No such file or directory" in result.stderr


def test_back_end_level_alone():
    result = run(COMPILE, POPART_LOG_LEVEL="INFO")
    assert "Z popart:ir " in result.stderr and "[poptorch:cpp]" not in result.stderr
    result = run("import poptorch\npoptorch._logging.setPopartLogLevel('INFO')\n" + COMPILE)
    assert "Z popart:ir " in result.stderr and "[poptorch" not in result.stderr
    result = run(COMPILE, POPTORCH_LOG_LEVEL="INFO", POPART_LOG_LEVEL="ERR")
    assert "[poptorch:cpp] [info] compiled in" in result.stderr and "popart:" not in result.stderr


@pytest.mark.shows("poptorch_core.setLogLevel")
def test_native_level_alone():
    result = run("import poptorch\npoptorch.poptorch_core.setLogLevel(2)\npoptorch.logger.info('silent')\n" + COMPILE)
    assert "[poptorch:cpp] [info] compiled in" in result.stderr and "[poptorch::python]" not in result.stderr
    quiet = run("import poptorch\npoptorch.setLogLevel('INFO')\npoptorch.poptorch_core.setLogLevel(6)\n" + COMPILE)
    assert "[poptorch:cpp]" not in quiet.stderr


@pytest.mark.shows("setLogLevel")
def test_python_lines_have_the_documented_format():
    program = (
        "import poptorch\n"
        "for name in ('TRACE', 'DEBUG', 'INFO', 'WARN', 'ERR', 'OFF', 'TRACE_ALL', 'DEBUG_IR', 0, 1, 2, 3, 4, 6):\n"
        "    poptorch.setLogLevel(name)\n"
        "    poptorch.logger.debug('one of %s', name)\n"
        "poptorch.setLogLevel('DEBUG')\n"
        "for level in ('debug', 'info', 'warning', 'error', 'critical'):\n"
        "    getattr(poptorch.logger, level)('a line')\n"
    )
    matches = [PYTHON.fullmatch(line) for line in run(program).stderr.splitlines()]
    assert all(matches)
    assert [m.group(1) for m in matches if m.group(2) == "a line"] == ["debug", "info", "warning", "error", "critical"]
    shown = ["TRACE", "DEBUG", "TRACE_ALL", "DEBUG_IR", "0", "1"]
    assert [m.group(2) for m in matches if m.group(2) != "a line"] == [f"one of {name}" for name in shown]


def test_handlers_of_the_program_see_the_records(caplog):
    with caplog.at_level("INFO"):
        poptorch.logger.warning("to %s", "everybody")
    record = next(record for record in caplog.records if record.name == "poptorch::python")
    assert (record.levelname, record.getMessage()) == ("WARNING", "to everybody")


def test_lines_go_to_the_standard_error_of_the_moment():
    program = (
        "import io, sys, poptorch\n"
        "before, sys.stderr = sys.stderr, io.StringIO()\n"
        "poptorch.logger.warning('kept')\n"
        "kept, sys.stderr = sys.stderr, before\n"
        "poptorch.logger.warning('shown')\n"
        "assert kept.getvalue().endswith('kept\\n'), kept.getvalue()\n"
        "sys.stderr = None\n"
        "poptorch.logger.warning('lost')\n"
        "sys.stderr = before\n"
    )
    lines = [PYTHON.fullmatch(line).group(2) for line in run(program).stderr.splitlines()]
    assert lines == ["shown"]


@pytest.mark.parametrize("level", [3, 1.5, None, [], "LOUD", "info"])
def test_level_of_the_back_end_is_a_name(level):
    with pytest.raises(ValueError, match="Unknown log level .* Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN"):
        poptorch._logging.setPopartLogLevel(level)


@pytest.mark.shows("Options.maxRepeatLogs")
def test_identical_lines_are_written_as_often_as_the_option_says():
    program = (
        "import torch, poptorch\n"
        "poptorch.inferenceModel(torch.nn.Linear(1, 1), poptorch.Options().maxRepeatLogs(2))\n"
        "for _ in range(5): poptorch.logger.warning('again')\n"
        "poptorch.logger.warning('next')\n"
    )
    lines = [PYTHON.fullmatch(line).group(2) for line in run(program).stderr.splitlines()]
    assert lines == ["again", "again", "(the line above was repeated 3 more times)", "next"]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.shows("Options.showCompilationProgressBar")
def test_progress_of_a_compilation_is_shown_and_can_be_switched_off(terminal):
    program = (
        "import sys, torch, poptorch\n"
        f"sys.stderr.isatty = lambda: {terminal}\n"
        "poptorch.inferenceModel(lambda x: x * 2, poptorch.Options().showCompilationProgressBar({}))(torch.ones(2))\n"
    )
    shown = run(program.format(True)).stderr
    line = r"Graph compilation: 100%\|.+\| 3/3 \[00:\d\d\]"
    if terminal:  # drawn over and over, with the phase
        assert re.search(rf"Graph compilation:  33%\|.+\| 1/3 .*, capture.*{line}, attach", shown, re.DOTALL)
    else:
        assert re.fullmatch(line + "\n", shown)
    assert run(program.format(False)).stderr == ""


def test_a_compilation_that_fails_is_not_shown_as_complete():
    program = (
        "import torch, poptorch\n"
        "try:\n"
        "    poptorch.inferenceModel(lambda x: 1 / 0)(torch.ones(2))\n"
        "except ZeroDivisionError:\n"
        "    pass\n"
    )
    assert run(program).stderr == ""


def test_stages_are_named_at_debug_level():
    program = (
        "import torch, poptorch\n"
        "def f(x):\n"
        "    poptorch.Block.start('front', ipu_id=0)\n"
        "    return x * 2\n"
        "poptorch.inferenceModel(f)(torch.ones(2))\n"
    )
    assert "block 'front': stage 0, IPU 0" in run(program, POPTORCH_LOG_LEVEL="DEBUG").stderr


def test_messages_of_many_lines_go_to_a_file(tmp_path):
    program = (
        "import poptorch\n"
        "try:\n"
        "    poptorch.poptorch_core._validateOptions({'x' + '\\n' * 100: True})\n"
        "except poptorch.Error as e:\n"
        "    print(e.message)\n"
    )
    result = run_program(program, cwd=tmp_path)
    assert result.stdout.endswith("\nThe whole message is in poptorch_error.log\n"), result.stderr
    assert (tmp_path / "poptorch_error.log").read_text().count("\n") > 80
