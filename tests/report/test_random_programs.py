"""The properties of reports over 1,000 random programs each; in the default tier tests/report/report_test.cc has 20 to 200."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROPERTIES = [
    "takes_no_less_than_the_longest_operation_and_no_more_than_all",
    "parts_add_up_to_totals_to_the_cycle",
    "is_the_same_bytes_in_every_run_and_thread",
    "of_machines_that_differ_in_their_clock_has_the_same_cycles_of_tiles",
    "is_never_faster_than_the_rates_of_the_machine",
    "of_twice_the_batch_takes_no_less",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_holds_of_a_thousand_programs(name):
    built = sorted(ROOT.glob("build/*/ipu_tests"), key=lambda path: path.stat().st_mtime)
    tests = pathlib.Path(os.environ["IPU_OPT"]).with_name("ipu_tests") if "IPU_OPT" in os.environ else built[-1]
    environment = {**os.environ, "IPU_REPORT_PROGRAMS": "1000"}
    command = [tests, "--gtest_brief=1", f"--gtest_filter=Report.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and "1 test from 1 test suite ran" in done.stdout, done.stdout[-4000:]
