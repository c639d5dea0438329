"""What holds for every test."""

import sys

import pytest


@pytest.fixture(autouse=True)
def lines_of_one_test_do_not_count_as_repeats_in_the_next():
    yield
    log = sys.modules.get("poptorch._impl.log")
    if log is not None and "poptorch.poptorch_core" in sys.modules:
        log.set_max_repeat_logs(None)
