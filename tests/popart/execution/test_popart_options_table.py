"""The list of what fields of SessionOptions do."""

import copy
import enum
import pathlib

import popart
import pytest

TABLE = pathlib.Path(__file__).parents[3] / "scripts" / "popart_options.txt"


def rows():
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            state, _, rest = line.partition(": ")
            field, _, text = rest.partition(" | ")
            yield state, field, text


def test_the_table_says_each_field_once_and_how_it_differs():
    fields = [field for _, field, _ in rows()]
    assert len(fields) == len(set(fields))
    assert all(text and state in ("differs", "no effect") for state, _, text in rows())


def another(value):
    """A value of the same type that is not equal."""
    if isinstance(value, enum.Enum):
        return next(member for member in type(value) if member is not value)
    if isinstance(value, (bool, int, float)):
        return not value if isinstance(value, bool) else value + 1
    if isinstance(value, (str, list)):
        return value + ("x" if isinstance(value, str) else ["x"])
    made = copy.deepcopy(value)  # settings: one field is another
    name, first = next(iter(vars(made).items()))
    setattr(made, name, another(first))
    return made


MAPS = {"bufferingDepthMap": {"x": 2}, "tensorLocationSettingsOverride": {"x": popart.TensorLocation()}}


@pytest.mark.parametrize("field", [field for _, field, _ in rows()])
def test_a_field_of_the_table_takes_another_value(field):
    options = popart.SessionOptions()
    before = getattr(options, field)
    value = MAPS.get(field, {"x": "y"}) if isinstance(before, dict) else another(before)
    assert value != before
    setattr(options, field, value)
    assert getattr(options, field) == value and getattr(popart.SessionOptions(), field) != value
