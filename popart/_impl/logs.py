"""Loggers per module. The variables POPART_LOG_* are read when the first message is logged."""

from __future__ import annotations

import datetime
import json
import os
import sys
import threading
from typing import TextIO

LEVELS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3, "ERR": 4, "CRITICAL": 5, "OFF": 6}
MODULES = (
    "popart",
    "session",
    "ir",
    "devicex",
    "transform",
    "pattern",
    "builder",
    "op",
    "opx",
    "ces",
    "python",
    "popxl",
    "none",
)
_LETTERS = "TDIWEC"


def _level(text: str) -> int:
    """The level of a name in any case; ERROR is ERR, and what is no name is OFF."""
    return LEVELS.get({"ERROR": "ERR"}.get(text.upper(), text.upper()), LEVELS["OFF"])


class _Settings:
    """Levels and destination of all modules; from the environment, as soon as they are needed."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.set_by_program: dict[str, int] = {}
        self.common = LEVELS["WARN"]
        self.destination = "stderr"
        self.format = ""
        self.file: TextIO | None = None
        self.read = False
        self.lock = threading.Lock()

    def read_environment(self) -> None:
        if self.read:
            return
        self.read = True
        text = os.environ.get("POPART_LOG_LEVEL")
        self.common = LEVELS["WARN"] if text is None else _level(text)
        self.destination = os.environ.get("POPART_LOG_DEST", "stderr") or "stderr"
        self.format = os.environ.get("POPART_LOG_FORMAT", "")
        if path := os.environ.get("POPART_LOG_CONFIG"):
            with open(path) as file:
                for module, level in json.load(file).items():
                    self.levels[module.removeprefix("popart:")] = _level(level)
        if self.destination not in ("stderr", "stdout"):
            self.file = open(self.destination, "w")

    def level(self, module: str) -> int:
        self.read_environment()
        return self.set_by_program.get(module, self.levels.get(module, self.common))

    def stream(self) -> TextIO:
        return self.file or (sys.stdout if self.destination == "stdout" else sys.stderr)


_settings = _Settings()


def _line(module: str, level: int, message: str) -> str:
    time = datetime.datetime.now().astimezone().isoformat(timespec="microseconds")
    if not _settings.format:
        return f"{time} {module} {os.getpid()}.{threading.get_native_id()} {_LETTERS[level]}: {message}"
    names = {
        "%v": message,
        "%n": module,
        "%L": _LETTERS[level],
        "%l": list(LEVELS)[level].lower(),
        "%P": str(os.getpid()),
    }
    names |= {"%t": str(threading.get_native_id()), "%^": "", "%$": "", "%%": "%"}
    text, rest = "", _settings.format
    while rest:
        if rest[:2] in names:
            text, rest = text + names[rest[:2]], rest[2:]
        else:
            is_time = rest[0] == "%" and len(rest) > 1
            text += datetime.datetime.now().strftime(rest[:2]) if is_time else rest[0]
            rest = rest[2:] if is_time else rest[1:]
    return text


class Logger:
    """Writes lines of one module: `getLogger("session").info("compiled")`."""

    def __init__(self, module: str) -> None:
        self._level_of = module
        self._module = "python" if module in ("all", "") else module

    def setLevel(self, level: str) -> None:
        """TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF; of all modules where the logger is "all"."""
        _settings.read_environment()
        for module in MODULES if self._level_of in ("all", "") else (self._level_of,):
            _settings.set_by_program[module] = _level(level)

    def is_enabled(self, level: str) -> bool:
        return LEVELS[level] >= _settings.level(self._module)

    def log(self, level: str, message: str) -> None:
        if not self.is_enabled(level):
            return
        with _settings.lock:
            print(_line(self._module, LEVELS[level], str(message)), file=_settings.stream(), flush=True)

    def trace(self, message: str) -> None:
        self.log("TRACE", message)

    def debug(self, message: str) -> None:
        self.log("DEBUG", message)

    def info(self, message: str) -> None:
        self.log("INFO", message)

    def warn(self, message: str) -> None:
        self.log("WARN", message)

    warning = warn

    def error(self, message: str) -> None:
        self.log("ERR", message)

    err = error

    def critical(self, message: str) -> None:
        self.log("CRITICAL", message)


def getLogger(name: str = "all") -> Logger:
    """The logger of a module: "session", "devicex", "transform", ...; "all": every module."""
    return Logger(name)
