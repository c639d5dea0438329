"""Chapters 1, 17.1 and 30: where programs find the API, and what importing it does."""

import importlib
import importlib.metadata
import pathlib
import sys
import types

import programs
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import tensorflow_names
import tensorflow_overlay

TABLE = tensorflow_overlay.read_table()
PRESENT = [name for name, module in TABLE.items() if not module.why_absent and name != "*"]


def imported(name):
    """The module of a row of the table, by importing it."""
    path, folder = tensorflow_overlay.module_path(name)
    return importlib.import_module(".".join([*folder.parts, path]))


def test_each_module_of_the_map_is_an_attribute_after_the_plain_import():
    from tensorflow.python import ipu

    for name in PRESENT:
        if not name.startswith(("plugin.", "horovod")):
            found = ipu
            for part in name.split("."):
                found = getattr(found, part)
            assert isinstance(found, types.ModuleType) and found is imported(name)


def test_each_name_of_the_map_is_there_or_says_that_it_comes():
    for name in PRESENT:
        module = imported(name)
        for public, (giver, _) in TABLE[name].names.items():
            found = getattr(module, public)
            assert public in dir(module) and public in module.__all__
            if giver == "later":
                with pytest.raises(
                    NotImplementedError, match=f"{public} is not in this version .* comes with a later one"
                ):
                    found()


def test_modules_of_the_same_names_give_the_same_objects():
    from tensorflow.python import ipu
    from tensorflow.python.ipu.ops.pipelining_ops import pipeline
    from tensorflow.python.summary import summary

    assert pipeline is ipu.ops.pipelining_ops.pipeline
    assert ipu.summary_ops.tensor_summary is ipu.ops.summary_ops.tensor_summary is summary.tensor_summary


def test_a_name_that_comes_later_says_so_however_it_is_used():
    from tensorflow.python.ipu.ipu_estimator import IPUEstimator

    with pytest.raises(NotImplementedError, match="ipu.ipu_estimator.IPUEstimator is not in this version"):

        class Mine(IPUEstimator):
            pass

    with pytest.raises(NotImplementedError, match="'RESOURCE' was read from it"):
        IPUEstimator.RESOURCE  # noqa: B018
    assert not isinstance(3, IPUEstimator) and "is not in this version" in repr(IPUEstimator)


def test_what_is_outside_of_the_api_is_refused():
    from tensorflow.python import ipu

    with pytest.raises(NotImplementedError, match="popfloat_cast_to_gfloat is not supported"):
        ipu.ops.experimental.popfloat_cast_to_gfloat(3)
    for name in ("embedded_runtime", "serving", "within_replica_ops", "distributed", "control_flow_ops"):
        with pytest.raises(ImportError, match=f"ipu.{name} is of a later generation of the API"):
            importlib.import_module(f"tensorflow.python.ipu.{name}")
    with pytest.raises(AttributeError, match="module 'tensorflow.python.ipu' has no attribute 'utlis'"):
        ipu.utlis  # noqa: B018


def test_the_api_is_not_reached_from_the_module_tensorflow():
    import tensorflow as tf
    from tensorflow.python import ipu  # noqa: F401

    with pytest.raises(AttributeError, match="module 'tensorflow' has no attribute 'python'"):
        tf.python.ipu  # noqa: B018


IMPORT = """
import sys, tensorflow as tf
before = set(sys.modules)
from tensorflow.python import ipu
print(" ".join(sorted(set(sys.modules) - before)))
tf.compat.v1.disable_eager_execution()
print(tf.compat.v1.layers.dense(tf.zeros([2, 3]), 4).shape)
from tensorflow.compat.v1.keras.layers import LSTM
from tensorflow.keras.layers import Dense
import tensorflow.compat.v1
print(tf.keras.layers.Dense.__module__, Dense.__module__, LSTM.__module__, tensorflow.compat.v1.nn.rnn_cell.LSTMCell.__module__)
"""


def test_an_import_loads_little_and_switches_to_the_keras_of_version_1():
    modules, shape, kinds = programs.output_of(IMPORT).splitlines()
    ours = ("ipu_tensorflow", "tensorflow.python.ipu")  # nothing but a few modules of our own
    assert len(modules.split()) < 20 and all(module.startswith(ours) for module in modules.split())
    assert not {module.split(".")[0] for module in modules.split()} & {
        "keras",
        "tf_keras",
        "torch",
        "poptorch",
        "popart",
        "popxl",
    }
    assert shape == "(2, 4)" and {name.split(".")[0] for name in kinds.split()} == {"tf_keras"}


REFUSED = """
try:
    tf.compat.v1.layers.dense
except AttributeError as error:
    print(error)
"""


@pytest.mark.skipif(
    importlib.metadata.version("tensorflow-cpu").startswith("2.15"), reason="its Keras is that of version 2"
)
@pytest.mark.parametrize(
    "before, variables",
    [
        pytest.param("tf.keras.layers.Dense", {}, id="name"),
        pytest.param("from tensorflow.keras import layers", {}, id="import", marks=pytest.mark.slow),
        pytest.param("", {"TF_USE_LEGACY_KERAS": "0"}, id="variable", marks=pytest.mark.slow),
    ],
)
def test_where_keras_3_is_in_use_a_layer_of_version_1_says_what_to_do(before, variables):
    program = f"import tensorflow as tf\n{before}\nfrom tensorflow.python import ipu{REFUSED}"
    assert "import ipu first, or set TF_USE_LEGACY_KERAS=1" in programs.output_of(program, **variables)


@pytest.mark.slow
def test_without_tf_keras_the_error_says_how_to_install_it():
    hide = "import sys; sys.modules['tf_keras'] = None\nimport importlib.util\n"
    hide += "find = importlib.util.find_spec\nimportlib.util.find_spec = lambda name: None if name == 'tf_keras' else find(name)\n"
    said = programs.output_of(f"{hide}import tensorflow as tf\nfrom tensorflow.python import ipu{REFUSED}")
    assert "import ipu first" in said and "pip install --no-deps tf-keras==2.21.*" in said


def test_the_files_of_the_overlay_are_those_of_the_table():
    overlay = ROOT / tensorflow_overlay.OVERLAY
    there = {str(path.relative_to(overlay)): path.read_text() for path in overlay.rglob("*.py")}
    assert there == {str(path): text for path, text in tensorflow_overlay.files().items()}


def test_a_name_that_does_not_come_later_is_there():
    """What the page of names says, which is written without importing anything."""
    from ipu_tensorflow.forwarding import Refusal
    from tensorflow.python import ipu

    names, notes = tensorflow_names.read()
    for name, giver in names.items():
        if giver is None or notes.get(name, ("",))[0] == "comes" or not tensorflow_names.defines(ROOT, *giver):
            continue
        module, _, last = name.rpartition(".")
        assert not isinstance(getattr(imported(module.removeprefix("ipu.")), last), Refusal), name
    config = "ipu.config.IPUConfig."
    attributes = [
        name.removeprefix(config)
        for name in names
        if name.startswith(config) and not name.endswith(("_ipu_system", "_metadata"))
    ]
    assert sorted(attributes) == sorted(name for name, _ in ipu.config.IPUConfig().values())
