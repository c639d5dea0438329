"""Functions of popxl.ops that are written from rows of the native table."""

import importlib.util
import inspect
import pathlib

import pytest

import popxl
from popxl import ops

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("popxl_functions", ROOT / "scripts/popxl_functions.py")
writer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(writer)


def test_the_files_are_those_that_the_rows_say():
    for file, text in writer.files().items():
        assert file.read_text() == text, f"{file} is not up to date: run scripts/popxl_functions.py"


def test_a_row_says_inputs_names_and_attributes():
    row = "some(t, u?@3, axes:ints, f:factor>by@2=1.0) -> {t.name}_y, z; mode='a'"
    _, name, text = writer.function("Some", row, "Doc.", "")
    assert name == "some"
    assert (
        text
        == """def some(t: Tensor, u: Optional[Tensor] = None, axes: Iterable[int], f: Union[float, Tensor] = 1.0) -> tuple[Tensor, Tensor]:
    \"\"\"Doc.\"\"\"
    check_operands(_contexts.here.graph, {"t": t}, u=u, f=f)
    attributes: dict[str, Any] = {"axes": [operator.index(i) for i in axes], "mode": 'a'}
    inputs: dict[int, Tensor] = {0: t}
    if u is not None:
        inputs[3] = u
    place_factor(f, 2, "by", inputs, attributes)
    y0, y1 = create("Some", inputs, (f"{t.name}_y", "z"), attributes)
    return y0, y1
"""
    )


def test_wrong_words_are_refused_before_tensors_of_other_graphs():
    ir = popxl.Ir()
    with ir.main_graph:
        other = popxl.constant([1.0])
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="pad_type is 'some': it is one of 'not_set', "):
        ops.conv(other, other, pad_type="some")


def test_documentation_ends_with_the_example():
    assert inspect.getdoc(ops.sin) == "Sine of radians.\n\nExample:\n    >>> y = ops.sin(popxl.constant([0.0]))  # 0"
