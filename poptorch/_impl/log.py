"""The `poptorch::python` logger: level from POPTORCH_LOG_LEVEL, format of the published documentation."""

from __future__ import annotations

import logging
import os
import sys

logger = logging.getLogger("poptorch::python")

# Levels of the native log, for `poptorch_core.log`.
TRACE, DEBUG, INFO, WARN = 0, 1, 2, 3

# name → (level of the native side, level of Python's logging)
LEVELS = {
    "TRACE_ALL": (0, logging.DEBUG),
    "TRACE": (0, logging.DEBUG),
    "DEBUG_IR": (1, logging.DEBUG),
    "DEBUG": (1, logging.DEBUG),
    "INFO": (2, logging.INFO),
    "WARN": (3, logging.WARNING),
    "ERR": (4, logging.ERROR),
    "OFF": (6, logging.CRITICAL),
}
_LEVEL_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "critical",
}
_COLOURS = {
    logging.DEBUG: "\033[36m",
    logging.INFO: "\033[32m",
    logging.WARNING: "\033[33m",
    logging.ERROR: "\033[31m",
    logging.CRITICAL: "\033[1;31m",
}


class _Formatter(logging.Formatter):
    def format(self, record):
        level = _LEVEL_NAMES.get(record.levelno, record.levelname.lower())
        if sys.stdout.isatty() and sys.stderr.isatty():
            level = f"{_COLOURS.get(record.levelno, '')}{level}\033[0m"
        time = f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03d}"
        return f"[{time}] [poptorch::python] [{level}] {record.getMessage()}"


class _StandardError(logging.StreamHandler):
    """Writes to what `sys.stderr` is when a record comes, so that a redirection after the import is followed."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr

    def emit(self, record):
        if self.stream is not None:
            super().emit(record)


class _RepeatFilter(logging.Filter):
    """Drops identical consecutive lines beyond a number, and says afterwards how many."""

    def __init__(self):
        super().__init__()
        self.limit: int | None = None
        self._last: tuple[int, str] | None = None
        self._count = 0

    def begin(self, limit: int | None) -> None:
        """Another limit begins another count."""
        if limit != self.limit:
            self._say_what_was_left_out()
            self.limit, self._last, self._count = limit, None, 0

    def filter(self, record):
        line = (record.levelno, record.getMessage())
        if line == self._last:
            self._count += 1
            return self.limit is None or self._count <= self.limit
        self._say_what_was_left_out()
        self._last, self._count = line, 1
        return True

    def _say_what_was_left_out(self) -> None:
        left_out = self._count - self.limit if self.limit is not None else 0
        if self._last is not None and left_out > 0:
            level, self._last, self._count = self._last[0], None, 0
            logger.log(level, "(the line above was repeated %d more times)", left_out)


_repeats = _RepeatFilter()


def set_max_repeat_logs(count: int | None) -> None:
    """Writes only `count` (at least 1; None: all) of identical consecutive lines, Python and native."""
    from poptorch import poptorch_core

    _repeats.begin(None if count is None else max(count, 1))
    poptorch_core.setMaxRepeatLogs(2**64 - 1 if count is None else count)


def install() -> None:
    """Attaches the handler once; applies POPTORCH_LOG_LEVEL (default WARN) and POPTORCH_LOG_DEST (native lines)."""
    from poptorch import poptorch_core

    poptorch_core.setLogDestination(os.environ.get("POPTORCH_LOG_DEST", "stderr"))
    if not logger.handlers:
        logger.addFilter(_repeats)
        handler = _StandardError()
        handler.setFormatter(_Formatter())
        logger.addHandler(handler)
    set_level(os.environ.get("POPTORCH_LOG_LEVEL", "WARN"))
    backend = os.environ.get("POPART_LOG_LEVEL") or os.environ.get("POPLAR_LOG_LEVEL")
    if backend:
        setPopartLogLevel(backend)


def set_level(level: str | int) -> None:
    """Sets the level of Python and native logs.

    Args:
        level: a name of `LEVELS`, or the number of one.

    Raises:
        ValueError: unknown name or number.
    """
    from poptorch import poptorch_core

    if isinstance(level, int):
        names = [name for name, (number, _) in LEVELS.items() if number == level]
        if not names:
            raise ValueError(f"Invalid log level integer {level}: expected one of 0, 1, 2, 3, 4, 6.")
        level = names[-1]
    if level not in LEVELS:
        raise ValueError(f"Unknown log level {level!r}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN.")
    native, python = LEVELS[level]
    poptorch_core.setLogLevel(native)
    logger.setLevel(python)


def setPopartLogLevel(level: str) -> None:
    """Sets the level of the back end's log: a name of `LEVELS`; ValueError otherwise."""
    from poptorch import poptorch_core

    if not isinstance(level, str) or level not in LEVELS:
        raise ValueError(f"Unknown log level {level!r}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN.")
    poptorch_core.setPopartLogLevel(LEVELS[level][0])


_warned: set[object] = set()


def warn_once(key: object, message: str) -> None:
    """Logs a warning the first time `key` is seen in this process."""
    if key not in _warned:
        _warned.add(key)
        logger.warning(message)
