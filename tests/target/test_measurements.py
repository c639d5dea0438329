"""Measurements of machines stand in files of data, not in sources."""

import csv
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_sources_name_no_row_of_measurements():
    with open(ROOT / "benchmarks" / "device_model" / "calibration.csv", newline="") as file:
        kinds = {row["id"].rsplit("-", 1)[0] for row in csv.DictReader(file)}
    ids = re.compile(rf"\b({'|'.join(kinds)})-\d{{4}}\b|calibration\.csv")
    sources = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".cc", ".h")]
    assert [str(path) for path in sources if ids.search(path.read_text())] == []
