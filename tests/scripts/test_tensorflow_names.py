"""The overlay of TensorFlow and the page of its names, from small tables."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import public_names
import tensorflow_names
import tensorflow_overlay

TABLE = """# comment
scopes <- scopes: ipu_scope
scopes <- later: outside
keras.layers <- layers: LSTM=PopnnLSTM
layers = keras.layers
utils = scopes
utils <- seeds: reset
serving absent: ipu.serving is not here
plugin.ops.gen <- events: trace
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tensorflow_ipu").mkdir()
    (tmp_path / "tensorflow_ipu" / "modules.txt").write_text(TABLE)
    (tmp_path / "scripts").mkdir()
    sources = tmp_path / "tensorflow_ipu" / "src" / "ipu_tensorflow"
    sources.mkdir(parents=True)
    (sources / "scopes.py").write_text("def ipu_scope(): pass\n")
    (sources / "seeds.py").write_text("from x import reset\n")
    (sources / "layers").mkdir()
    (sources / "layers" / "__init__.py").write_text("class PopnnLSTM: pass\nvalue: int = 3\n")
    return tmp_path


def test_each_module_of_the_table_has_a_file_that_forwards_its_names(tree):
    texts = {str(path): text for path, text in tensorflow_overlay.files(tree).items()}
    api = "tensorflow/python/ipu"
    assert sorted(texts) == sorted(
        [
            f"{api}/{name}.py"
            for name in ("__init__", "scopes", "keras/__init__", "keras/layers", "layers", "utils", "serving")
        ]
        + [
            f"tensorflow/compiler/plugin/{name}.py"
            for name in ("__init__", "poplar/__init__", "poplar/ops/__init__", "poplar/ops/gen")
        ]
    )
    assert (
        '"LSTM=PopnnLSTM",' in texts[f"{api}/layers.py"]
        and '"later": [\n            "outside",' in texts[f"{api}/utils.py"]
    )
    assert '"keras", "layers", "scopes", "utils",' in texts[f"{api}/__init__.py"]
    assert texts[f"{api}/serving.py"].endswith('\nraise ImportError("ipu.serving is not here")\n')
    for text in texts.values():
        compile(text, "overlay", "exec")


def test_a_line_that_is_none_of_the_table_is_an_error(tree):
    (tree / "tensorflow_ipu" / "modules.txt").write_text("layers = keras.layers\n")
    with pytest.raises(SystemExit, match="modules.txt:1: not a line of the table"):
        tensorflow_overlay.read_table(tree)


def test_names_that_modules_repeat_are_counted_once(tree):
    names = tensorflow_names.of_modules(tensorflow_overlay.read_table(tree))
    assert list(names) == [
        "ipu.scopes.ipu_scope",
        "ipu.scopes.outside",
        "ipu.keras.layers.LSTM",
        "ipu.utils.reset",
        "plugin.ops.gen.trace",
    ]


def test_the_state_of_a_name_follows_from_its_giver_its_note_and_its_test(tree):
    (tree / "scripts" / "tensorflow_names.txt").write_text(
        "ipu.keras.layers.LSTM: call\ndiffers: ipu.utils.reset | how\n"
    )
    tests = tree / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text(
        '@pytest.mark.shows("ipu.scopes.ipu_scope", "load", "popxl.Ir")\ndef test_one():\n    pass\n'
    )
    lines = tensorflow_names.table(tests, tree).splitlines()
    assert lines[0] == "6 names: 1 works, 1 differs, 0 no effect, 2 there, not shown by a test, 2 comes."
    assert (
        "| `ipu.scopes.ipu_scope` | works | `test_a.py::test_one` |" in lines
        and "| `ipu.utils.reset` | differs | how |" in lines
    )
    assert "| `ipu.scopes.outside` | comes |  |" in lines
    assert "| `tensorflow.compiler.plugin.poplar.ops.gen.trace` | comes |  |" in lines  # there is no events.py
    assert public_names.read_marks(tests, ["load"]) == {"load": ["test_a.py::test_one"]}


@pytest.mark.parametrize(
    "listing, mark, said",
    [
        ("differs: ipu.utils.rest | how\n", "", "something is said of 'ipu.utils.rest', which is no public name"),
        (
            "",
            "ipu.scopes.outside",
            "'ipu.scopes.outside' comes later or has no effect, and `test_a.py::test_one` says otherwise",
        ),
        ("no effect: ipu.utils.reset | why\n", "ipu.utils.reset", "'ipu.utils.reset' comes later or has no effect"),
        (
            "differs: ipu.scopes.outside | how\n",
            "",
            "'ipu.scopes.outside' comes later or has no effect, and tensorflow_names.txt",
        ),
        ("", "ipu.utils.rest", "'ipu.utils.rest' is not in scripts/tensorflow_names.txt"),
    ],
)
def test_what_contradicts_itself_ends_the_program(tree, listing, mark, said):
    (tree / "scripts" / "tensorflow_names.txt").write_text(listing)
    (tree / "test_a.py").write_text(f'@pytest.mark.shows("{mark}")\ndef test_one():\n    pass\n' if mark else "")
    with pytest.raises(SystemExit, match=said):
        tensorflow_names.table(tree, tree)
