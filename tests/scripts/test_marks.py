"""Marks of tests: a worthless one is found, a wrong one is refused, and states of names follow from them."""

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import compatibility
import prove_marks
import public_names

START = "import subprocess, sys\nimport pytest\nimport poptorch\n\n\n"


def write(folder, text, name="test_a.py", start=START):
    (folder / name).write_text(start + text)
    return folder


def run(script, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    command = [sys.executable, SCRIPTS / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def prove(folder, *names):
    result = run("prove_marks.py", "--tests", folder, *(names or ["--all"]))
    return result.returncode, result.stdout.splitlines(), result.stderr.splitlines()


def test_a_worthless_mark_is_found(tmp_path):
    text = """
@pytest.mark.shows("Options.deviceIterations")
def test_the_number_is_stored():
    assert poptorch.Options().deviceIterations(4).device_iterations == 4


@pytest.mark.shows("Options.deviceIterations")
def test_the_call_is_possible():
    assert hasattr(poptorch.Options, "deviceIterations") and poptorch.Options().deviceIterations(4) is not None
"""
    worthless = "test_a.py::test_the_call_is_possible passes without Options.deviceIterations"
    assert prove(write(tmp_path, text)) == (1, ["Options.deviceIterations: passes without it"], [worthless])


def test_only_the_marked_arguments_count(tmp_path):
    text = """
@pytest.mark.parametrize(
    "count", [4, pytest.param(1, marks=pytest.mark.shows("Options.deviceIterations"))]
)
def test_the_number_is_stored(count):
    assert poptorch.Options().deviceIterations(count).device_iterations == count
"""
    code, _, lines = prove(write(tmp_path, text))
    assert code == 1 and lines == ["test_a.py::test_the_number_is_stored passes without Options.deviceIterations"]


def test_every_kind_of_name_is_replaced(tmp_path):
    text = """
@pytest.mark.shows("isRunningOnIpu", "Stage", "OutputMode", "PoplarExecutor.isCompiled")
def test_all():
    assert poptorch.inferenceModel(lambda x: x).isCompiled() is False and poptorch.isRunningOnIpu() is False
    assert poptorch.Stage("a").ipu(1) != poptorch.Stage("a") and poptorch.OutputMode.All == 2


@pytest.mark.shows("createPoptorchError")
def test_in_a_program():
    program = "import poptorch; assert poptorch.createPoptorchError('x').message == 'x'"
    subprocess.run([sys.executable, "-c", program], check=True)
"""
    code, lines, errors = prove(write(tmp_path, text))
    assert code == 0, errors
    assert len(lines) == 5 and all(line.endswith(": shown") for line in lines)


def test_a_test_that_fails_anyway_proves_nothing(tmp_path):
    write(tmp_path, '@pytest.mark.shows("load")\ndef test_broken():\n    assert False\n')
    assert prove(tmp_path, "load") == (1, ["load: shown"], ["test_a.py::test_broken fails as it is"])


OF_POPART = """
import os, subprocess, sys
import popart, popxl
import pytest
from popxl import ops

"""


def write_of_popart(folder, text):
    return write(folder, text, start=OF_POPART)


def test_names_of_popart_and_popxl_are_made_to_do_nothing(tmp_path):
    text = """
TABLE = {"exp": ops.exp}


@pytest.mark.shows("popxl.ops.exp")
def test_a_function_in_a_table():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable([1.0])
        assert TABLE["exp"](x) is not x


@pytest.mark.shows("popart.SessionOptions.accumulationFactor")
def test_a_field_is_set():
    options = popart.SessionOptions()
    options.accumulationFactor = 4
    assert options.accumulationFactor == 4


@pytest.mark.shows("popart.TileSet")
def test_a_member_means_what_it_says():
    assert popart.InputSettings(popart.TileSet.IO).tileSet().name == "IO"


@pytest.mark.shows("popart.popart_exception", "popart.Builder.addInputTensor")
def test_in_a_program():
    program = "import popart; popart.popart_exception; assert popart.Builder().addInputTensor('FLOAT', [2], 'x') == 'x'"
    subprocess.run([sys.executable, "-c", program], check=True)
"""
    code, lines, errors = prove(write_of_popart(tmp_path, text))
    assert code == 0, errors
    assert len(lines) == 5 and all(line.endswith(": shown") for line in lines)


def test_tests_that_list_names_or_look_whether_they_are_there_prove_nothing(tmp_path):
    text = """
@pytest.mark.shows("popart.SessionOptions.accumulationFactor")
def test_a_field_takes_its_own_value_and_no_text():
    options = popart.SessionOptions()
    options.accumulationFactor = options.accumulationFactor
    with pytest.raises(TypeError):
        options.accumulationFactor = "4"


@pytest.mark.shows("popart.TileSet")
def test_members():
    assert {name: member.value for name, member in popart.TileSet.__members__.items()}["IO"] == 1
    assert len(list(popart.TileSet)) == len(popart.TileSet) and popart.InputSettings(popart.TileSet.IO)


@pytest.mark.shows("popxl.ops.exp")
def test_it_is_there():
    assert callable(ops.exp)


@pytest.mark.shows("popxl.name_scope")
def test_it_can_be_entered():
    with popxl.Ir().main_graph, popxl.name_scope("a"):
        pass
"""
    code, lines, errors = prove(write_of_popart(tmp_path, text))
    assert code == 1 and all(line.endswith(": passes without it") for line in lines)
    assert [line.split(" passes without ")[1] for line in errors] == [line.split(":")[0] for line in lines]
    assert len(lines) == 4


def test_a_test_that_ends_its_process_has_failed_and_no_other_has(tmp_path):
    text = """
@pytest.mark.shows("popart.SessionOptions.accumulationFactor")
def test_it_ends_the_process():
    options = popart.SessionOptions()
    options.accumulationFactor = 4
    if options.accumulationFactor != 4:
        os._exit(3)


@pytest.mark.shows("popart.SessionOptions.accumulationFactor")
def test_it_is_there():
    assert popart.SessionOptions().accumulationFactor == 1
"""
    code, _, errors = prove(write_of_popart(tmp_path, text))
    assert code == 1 and errors == ["test_a.py::test_it_is_there passes without popart.SessionOptions.accumulationFactor"]


def test_a_sample_is_the_same_for_the_same_seed():
    names = [f"popxl.ops.{number}" for number in range(100)]
    first = prove_marks.sample_of(names, 10, 1)
    assert len(set(first)) == 10 and first == prove_marks.sample_of(names[::-1], 10, 1) != prove_marks.sample_of(names, 10, 2)
    assert sorted(prove_marks.sample_of(names, 1000, 1)) == sorted(names)


def test_a_sample_leaves_slow_tests_out(tmp_path):
    text = """
@pytest.mark.slow
@pytest.mark.shows("popxl.ops.exp", "popxl.ops.log")
def test_slow():
    pass


@pytest.mark.shows("popxl.ops.exp")
def test_quick():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable([1.0])
        assert ops.exp(x) is not x
"""
    code, lines, _ = prove(write_of_popart(tmp_path, text), "--sample", "2")
    assert code == 0 and sorted(lines) == ["popxl.ops.exp: shown", "popxl.ops.log: not run"]


def test_a_mark_with_an_unknown_name_is_an_error(tmp_path):
    write(tmp_path, '@pytest.mark.shows("load", "Options.devices")\ndef test_one():\n    pass\n')
    result = run("compatibility.py", "--check", "--tests", tmp_path)
    assert result.returncode == 1
    assert result.stderr == "test_a.py:6: 'Options.devices' is not in scripts/public_names.txt\n"


@pytest.mark.parametrize(
    "text", ['shown = [pytest.mark.shows("load")]\n', '@pytest.mark.shows("load")\ndef helper():\n    pass\n']
)
def test_a_mark_that_marks_no_test_is_an_error(tmp_path, text):
    result = run("compatibility.py", "--check", "--tests", write(tmp_path, text))
    assert result.returncode == 1 and result.stderr == "test_a.py:6: this mark is not on a test function\n"


def test_marks_of_functions_arguments_and_modules_are_read(tmp_path):
    write(tmp_path, 'pytestmark = [pytest.mark.tiny, pytest.mark.shows("Options")]\n\n\ndef test_one():\n    pass\n')
    text = '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.shows("load"))])\n'
    write(tmp_path, text + '@pytest.mark.shows("Options")\ndef test_two(x):\n    pass\n', "test_b.py")
    marks = public_names.read_marks(tmp_path, ["Options", "load"])
    assert marks == {"Options": ["test_a.py::test_one", "test_b.py::test_two"], "load": ["test_b.py::test_two"]}


def test_states_follow_from_marks_reasons_and_what_is_there():
    names = ["marked", "reasoned", "bare", "absent"]
    rows = compatibility.rows(lambda name: name != "absent", names, {"reasoned": "why"}, {"marked": ["t.py::test_it"]})
    assert list(rows) == [
        ("marked", "works", "`t.py::test_it`"),
        ("reasoned", "no effect", "why"),
        ("bare", "there, not shown by a test", ""),
        ("absent", "not yet", ""),
    ]


@pytest.mark.parametrize(
    "there, reasons, message",
    [
        (False, {}, "'name' is not there, but t.py::test_it says it is"),
        (True, {"name": "why"}, "'name' has no effect by scripts/public_names.txt, but t.py::test_it shows one"),
    ],
)
def test_contradictions_are_errors(there, reasons, message):
    with pytest.raises(SystemExit) as stopped:
        list(compatibility.rows(lambda name: there, ["name"], reasons, {"name": ["t.py::test_it"]}))
    assert str(stopped.value) == message


def test_every_sharp_edge_that_is_there_has_a_test():
    edges = public_names.read_edges()
    assert list(edges) == [f"22.{row}" for row in range(1, 62)]
    marks = public_names.read_marks(public_names.ROOT / "tests", edges, "edge", public_names.EDGES)
    assert [row for row, (state, *_) in edges.items() if (state != "not yet") != (row in marks)] == []


def test_sharp_edges_say_what_is_done_here():
    found = {"22.1": ("kept", "a", ""), "22.2": ("fixed", "b", "c"), "22.3": ("not yet", "d", "")}
    assert compatibility.edges(found, {"22.1": ["t.py::one"], "22.2": ["t.py::two", "t.py::more"]}).splitlines()[2:] == [
        "| 22.1 | a | kept | `t.py::one` |",
        "| 22.2 | b | fixed: c | `t.py::two` |",
        "| 22.3 | d | not yet |  |",
    ]


@pytest.mark.parametrize(
    "state, marks, message",
    [
        ("kept", {}, "row 22.1 of scripts/sharp_edges.txt is 'kept', and 0 tests show it"),
        ("not yet", {"22.1": ["t.py::one"]}, "row 22.1 of scripts/sharp_edges.txt is 'not yet', and 1 tests show it"),
    ],
)
def test_an_edge_and_its_tests_must_agree(state, marks, message):
    with pytest.raises(SystemExit) as stopped:
        compatibility.edges({"22.1": (state, "a", "")}, marks)
    assert str(stopped.value) == message


@pytest.mark.parametrize("line", ["22.1 kept", "22.1 maybe | a", "22.1 fixed | a", "22.1 kept | a | b"])
def test_a_row_that_says_too_little_is_an_error(tmp_path, line):
    path = tmp_path / "edges.txt"
    path.write_text(line + "\n")
    with pytest.raises(SystemExit, match="edges.txt: a row is"):
        public_names.read_edges(path)


def test_a_mark_may_stand_for_each_entry_of_a_table(tmp_path):
    text = """
TABLE = {"exp": 1, "log": 2}


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in TABLE), *(f"popxl.{name}" for name in "Ir Graph".split()))
def test_one():
    pass
"""
    names = ["popxl.ops.exp", "popxl.ops.log", "popxl.Ir", "popxl.Graph"]
    marks = public_names.read_marks(write(tmp_path, text), names, source=public_names.POPXL)
    assert marks == dict.fromkeys(names, ["test_a.py::test_one"])
    with pytest.raises(SystemExit, match="'popxl.ops.log' is not in scripts/popxl_names.txt"):
        public_names.read_marks(tmp_path, names[:1], source=public_names.POPXL)


def test_a_table_that_cannot_be_read_is_an_error(tmp_path):
    write(tmp_path, '@pytest.mark.shows(*(f"popxl.{name}" for name in dir()))\ndef test_one():\n    pass\n')
    with pytest.raises(SystemExit, match="for name in dir"):
        public_names.read_marks(tmp_path, ["load"])


def test_marks_of_both_packages_are_told_apart(tmp_path):
    text = '@pytest.mark.shows("load", "popxl.Ir", "popart.DataFlow")\n@pytest.mark.edge("22.1", "29.1")\ndef test_one():\n    pass\n'
    write(tmp_path, text)
    there = ["test_a.py::test_one"]
    assert public_names.read_marks(tmp_path, ["load"]) == {"load": there}
    popxl = ["popxl.Ir", "popart.DataFlow"]
    assert public_names.read_marks(tmp_path, popxl, source=public_names.POPXL) == dict.fromkeys(popxl, there)
    assert public_names.read_marks(tmp_path, ["22.1"], "edge", public_names.EDGES) == {"22.1": there}
    assert public_names.read_marks(tmp_path, ["29.1"], "edge", public_names.POPXL_EDGES) == {"29.1": there}


def test_names_of_popart_may_be_in_two_lists(tmp_path):
    write(tmp_path, '@pytest.mark.shows("popxl.Ir", "popart.DataFlow", "popart.Builder")\ndef test_one():\n    pass\n')
    both = ["popart.DataFlow", "popart.Builder"]
    there = ["test_a.py::test_one"]
    assert public_names.read_marks(tmp_path, both, source=public_names.POPART) == dict.fromkeys(both, there)
    popxl = ["popxl.Ir", "popart.DataFlow"]
    assert public_names.read_marks(tmp_path, popxl, source=public_names.POPXL) == dict.fromkeys(popxl, there)
    with pytest.raises(SystemExit, match="'popart.Builder' is not in scripts/popart_names.txt"):
        public_names.read_marks(tmp_path, both[:1], source=public_names.POPART)


def test_states_of_names_of_popart():
    rows = compatibility.popart_rows(lambda name: name == "shown", ["shown", "later"], {}, {"shown": ["t"]})
    assert list(rows) == [("shown", "works", "`t`"), ("later", "not yet", "")]
    with pytest.raises(SystemExit, match="'later' is not there, but t says it is"):
        list(compatibility.popart_rows(lambda name: False, ["later"], {}, {"later": ["t"]}))


def test_names_that_instances_alone_have_are_found():
    assert compatibility.exists_in_popxl("popart.Builder.addInputTensor") and not compatibility.exists_in_popxl("popart.Builder.addInput")


def test_names_of_popxl_have_prefixes_and_notes(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("# comment\npopxl: Ir Graph\npopxl.Ir: id\nabsent: popxl.Graph | why\n")
    assert public_names.read_popxl_names(path) == (["popxl.Ir", "popxl.Graph", "popxl.Ir.id"], {"popxl.Graph": ("absent", "why")})
    path.write_text("popxl: Ir\ndiffers: popxl.Graph | how\n")
    with pytest.raises(SystemExit, match="'popxl.Graph' is said to differ"):
        public_names.read_popxl_names(path)


def test_states_of_names_of_popxl():
    notes = {"differs": ("differs", "how"), "absent": ("absent", "why")}
    rows = compatibility.popxl_rows(lambda name: name != "absent", ["shown", "differs", "absent", "bare"], notes, {"shown": ["t"]})
    assert list(rows) == [
        ("shown", "works", "`t`"),
        ("differs", "differs", "how"),
        ("absent", "absent", "why"),
        ("bare", "there, not shown by a test", ""),
    ]
    for there, name in ((True, "absent"), (False, "bare")):
        with pytest.raises(SystemExit, match=f"'{name}' is"):
            list(compatibility.popxl_rows(lambda _, there=there: there, [name], notes, {}))


@pytest.mark.parametrize("state, marks", [("kept", {}), ("not shown", {"29.1": ["t"]})])
def test_an_edge_of_popxl_and_its_tests_must_agree(state, marks):
    with pytest.raises(SystemExit, match=f"row 29.1 of scripts/popxl_sharp_edges.txt is '{state}'"):
        compatibility.popxl_edges({"29.1": (state, "a", "")}, marks)


def test_names_of_popxl_are_found_in_modules_and_classes():
    for name in ("popxl.Ir", "popxl.ops.scatter_reduce.grouped_scatter_reduce", "popart.CommGroup.type"):
        assert compatibility.exists_in_popxl(name), name
    for name in ("popxl.Irr", "popxl.ops.matmul_", "popxyl.Ir", "popxl.Ir.ids"):
        assert not compatibility.exists_in_popxl(name), name
