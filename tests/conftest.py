"""What holds for every test."""

import os
import sys

import pytest

VARIABLES = pytest.StashKey()  # what is set before any test file is read


def product_variables():
    return {name: value for name, value in os.environ.items() if name.startswith(("POPTORCH_", "POPART_", "IPU_", "POPDIST_"))}


def pytest_configure(config):
    config.stash[VARIABLES] = product_variables()


def pytest_collection_finish(session):
    """A file that sets a variable when it is read changes the tests of other files, in an order nobody chose."""
    before, after = session.config.stash[VARIABLES], product_variables()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        raise pytest.UsageError(f"a test file changes the environment when it is imported: {', '.join(changed)}")


@pytest.fixture(autouse=True)
def a_test_leaves_the_variables_of_the_environment_as_they_were():
    before = product_variables()
    yield
    assert product_variables() == before, "the test changes the environment of the tests after it; use monkeypatch.setenv"


@pytest.fixture(autouse=True)
def lines_of_one_test_do_not_count_as_repeats_in_the_next():
    yield
    log = sys.modules.get("poptorch._impl.log")
    if log is not None and "poptorch.poptorch_core" in sys.modules:
        log.set_max_repeat_logs(None)
