"""The table of ai.graphcore's operators and what the compiler imports are one list."""

import pathlib
import re

import ipu_core
import pytest
from popart._impl.operators.graphcore import OPERATORS
from popart._impl.operators.rows import row_of

HERE = pathlib.Path(__file__).parent


def test_every_operator_a_builder_makes_is_imported_and_nothing_else():
    methods = {operator.type for operator in OPERATORS if not operator.internal}
    imported = {kind for kind, first, last in ipu_core.importers("ai.graphcore") if (first, last) == (1, 1)}
    internal = {operator.type for operator in OPERATORS if operator.internal}
    assert methods - imported == set()
    assert imported - methods <= internal


def test_every_operator_a_builder_makes_has_a_test_of_its_own():
    text = "".join(path.read_text() for path in HERE.glob("test_*.py") if path != pathlib.Path(__file__))
    missing = [o.type for o in OPERATORS if not o.internal and not re.search(rf'"{o.type}"', text)]
    assert missing == []


def test_rows_say_what_they_must():
    assert len({operator.type for operator in OPERATORS}) == len(OPERATORS)
    for operator in OPERATORS:
        assert operator.domain == "ai.graphcore" and operator.versions == (1,)
        assert operator.gradient in ("yes", "zero", "none", "error")
        assert all(dtypes for _, dtypes, _ in operator.inputs) and all(dtypes for _, dtypes in operator.outputs)
        for pattern in operator.attributes.values():
            re.compile(pattern)


@pytest.mark.parametrize(
    "operands, parameters", [("x", ""), ("x+:F", ""), ("x*:F", ""), ("x:F", "axis"), ("x:F", "axis=0")]
)
def test_a_row_that_cannot_be_read_is_refused(operands, parameters):
    with pytest.raises(AssertionError, match="the native table of operators has"):
        row_of("Abs", "abs", operands, "y:F", "yes", parameters)
