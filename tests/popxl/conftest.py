"""Fixtures of the tests of popxl."""

import pytest

import popxl


@pytest.fixture
def ir():
    """An empty program."""
    return popxl.Ir()
