"""The `poptorch::python` logger: level from POPTORCH_LOG_LEVEL, format of the published documentation."""

import logging
import os
import sys

logger = logging.getLogger("poptorch::python")

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


def install():
    """Attaches the handler once and applies POPTORCH_LOG_LEVEL (default WARN)."""
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter())
        logger.addHandler(handler)
        logger.propagate = False
    set_level(os.environ.get("POPTORCH_LOG_LEVEL", "WARN"))


def set_level(level):
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


_warned = set()


def warn_once(key, message):
    """Logs a warning the first time `key` is seen in this process."""
    if key not in _warned:
        _warned.add(key)
        logger.warning(message)
