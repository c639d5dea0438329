"""The folder of reports: what `autoReport.all` writes about a compiled program (docs/compatibility.md)."""

from __future__ import annotations

import contextlib
import json
import os

from ipu_common import regular_files
from poptorch import poptorch_core
from poptorch._impl.log import logger

_TABLES = (
    "CREATE TABLE operations (number INTEGER, name TEXT, type TEXT, ipu INTEGER, stage INTEGER, scope TEXT)",
    "CREATE TABLE memory (ipu INTEGER, arena_bytes INTEGER, peak_bytes INTEGER, host_bytes INTEGER)",
    "CREATE TABLE statistics (name TEXT, value INTEGER)",
)


def write(executor: poptorch_core.Executor, directory: str, name: str, debug_info: bool) -> None:
    """Writes the reports of a program into `<directory>/<name>`, with `debug_info` also `<directory>/debug.cbor`."""
    folder = os.path.join(directory, name)
    regular_files.make_folder(folder, "autoReport.directory", logger.warning)
    texts = {
        "ir.txt": executor.machine_text(),
        "host_ir.txt": executor.ir_text(),
        "program.txt": executor.program_text(),
        "memory.json": json.dumps({"ipus": executor.memory(), "statistics": dict(executor.statistics())}, indent=1),
    }
    if executor.is_dry:
        del texts["host_ir.txt"], texts["program.txt"]
    for file_name, text in texts.items():
        regular_files.write(os.path.join(folder, file_name), text, poptorch_core.check_target)
    _write_profile(executor, os.path.join(folder, "profile.pop"))
    if debug_info:
        regular_files.write(os.path.join(directory, "debug.cbor"), executor.debug_info(), poptorch_core.check_target)


def _write_profile(executor: poptorch_core.Executor, path: str) -> None:
    """What is known of a program as an SQLite database: listed operations, memory of each IPU, statistics."""
    import sqlite3  # only programs that write reports load it

    poptorch_core.check_target(os.fsencode(path))
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    operations = [
        (number, op["name"], op["type"], int(at["__ipu_number"]), int(at.get("__pipeline_stage", 0)), at["scope"])
        for number, op in enumerate(json.loads(executor.back_end_ir()).get("maingraph", []))
        for at in [op["attributes"]]
    ]
    memory = [
        (ipu, of_ipu["arena_bytes"], of_ipu["peak_bytes"], of_ipu["host_bytes"])
        for ipu, of_ipu in enumerate(executor.memory())
    ]
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for table in _TABLES:
            database.execute(table)
        database.executemany("INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?)", operations)
        database.executemany("INSERT INTO memory VALUES (?, ?, ?, ?)", memory)
        database.executemany("INSERT INTO statistics VALUES (?, ?)", dict(executor.statistics()).items())
