"""The list of what fields of SessionOptions do."""

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


@pytest.mark.parametrize("field", [field for _, field, _ in rows()])
def test_a_field_of_the_table_can_be_read_and_set(field):
    options = popart.SessionOptions()
    setattr(options, field, getattr(options, field))
