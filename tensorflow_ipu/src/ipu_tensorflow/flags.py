"""The environment variable TF_POPLAR_FLAGS: switches between white space, `--name` or `--name=value`, also with one dash.

It is read when the API is imported, where a flag that is not known is an error, and again whenever it has changed.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

VARIABLE = "TF_POPLAR_FLAGS"
LOG_VARIABLE = "TF_POPLAR_VLOG_LEVEL"


class SyntheticDataCategory(enum.Enum):
    """Data that the device makes up instead of taking it from the host."""

    Seed = 0
    Infeed = 1
    Outfeed = 2
    HostEmbedding = 3
    Parameters = 4


_CATEGORIES = {category.name.lower(): category for category in SyntheticDataCategory}


def _flag(default: Any, description: str) -> Any:
    return dataclasses.field(default=default, metadata={"description": description})


@dataclasses.dataclass(frozen=True)
class Flags:
    use_ipu_model: bool = _flag(False, "run on the software model of an IPU")
    use_synthetic_data: bool = _flag(False, "the device makes up all data")
    synthetic_data_categories: tuple[SyntheticDataCategory, ...] = _flag((), f"only these: {', '.join(_CATEGORIES)}")
    synthetic_data_initializer: str = _flag("", "what made up data is: a number, or random")
    executable_cache_path: str = _flag("", "folder of compiled programs")
    max_compilation_threads: int = _flag(-1, "threads that compile; -1: as many as there are processors")
    max_infeed_threads: int = _flag(-1, "threads of datasets; -1: as many as there are processors")
    null_data_feed: bool = _flag(False, "no effect")
    while_loop_brute_force_max_trip_count: int = _flag(128, "no effect: bounds of loops are not found by trying")
    log_cycle_count: int = _flag(-1, "log the cycles of each run, as counted on this tile")
    show_progress_bar: str = _flag("auto", "while compiling: true, false, or auto: on a terminal")
    on_demand_device_poll_time: int = _flag(1000, "milliseconds between two attempts to attach; at least 100")
    on_demand_device_timeout: int = _flag(3_600_000, "milliseconds after which attaching on demand fails")
    sync_replica_start: bool = _flag(False, "no effect: replicas start together")
    dump_schedule_as_dot: bool = _flag(False, "no effect")
    fallback_scheduler: bool = _flag(False, "no effect")
    save_interval_report: str = _flag("", "no effect")
    save_vertex_graph: str = _flag("", "no effect")
    tensor_map_file_path: str = _flag("", "no effect")
    help: bool = _flag(False, "print this list")

    def is_synthetic(self, category: SyntheticDataCategory) -> bool:
        return self.use_synthetic_data or category in self.synthetic_data_categories


FIELDS = {field.name: field for field in dataclasses.fields(Flags)}


def help_text() -> str:
    return "\n".join(f"  --{name}: {field.metadata['description']}" for name, field in FIELDS.items())


def parse(text: str) -> Flags:
    """Raises ValueError for what is no flag, with the list of those there are, and for a value that a flag does not take."""
    values = dict(_parsed(text))
    categories = values.get("synthetic_data_categories")
    if categories is not None:
        unknown = [word for word in categories.lower().split(",") if word not in _CATEGORIES]
        if unknown:
            raise ValueError(f"{VARIABLE}: unknown category '{unknown[0]}'. There are: {', '.join(_CATEGORIES)}")
        values["synthetic_data_categories"] = tuple(_CATEGORIES[word] for word in categories.lower().split(","))
    found = Flags(**values)
    if found.on_demand_device_poll_time < 100:
        raise ValueError(f"{VARIABLE}: --on_demand_device_poll_time={found.on_demand_device_poll_time} is below 100")
    if found.show_progress_bar not in ("true", "false", "auto"):
        raise ValueError(f"{VARIABLE}: --show_progress_bar={found.show_progress_bar} is none of true, false, auto")
    return found


def _parsed(text: str) -> Iterator[tuple[str, Any]]:
    for word in text.split():
        name, has_value, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in FIELDS or not word.startswith("-"):
            close = difflib.get_close_matches(name, FIELDS, 1)
            hint = f" Did you mean '--{close[0]}'?" if close else ""
            raise ValueError(f"{VARIABLE}: unknown flag '{word}'.{hint} Known are:\n{help_text()}")
        yield name, _value(name, value if has_value else None)


def _value(name: str, text: str | None) -> Any:
    default = FIELDS[name].default
    if isinstance(default, bool):
        if text in (None, "true", "1", "false", "0"):
            return text in (None, "true", "1")
        raise ValueError(f"{VARIABLE}: --{name}={text} is neither true nor false")
    if not text:
        raise ValueError(f"{VARIABLE}: --{name} takes a value: --{name}=...")
    if not isinstance(default, int):
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{VARIABLE}: --{name}={text} is no whole number") from None


_parse_once = functools.lru_cache(maxsize=8)(parse)


def current() -> Flags:
    return _parse_once(os.environ.get(VARIABLE, ""))


def log_level() -> int:
    """How much is logged: 0 is nothing."""
    text = os.environ.get(LOG_VARIABLE, "0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{LOG_VARIABLE}={text} is no whole number") from None


def check() -> None:
    """When the API is imported."""
    if current().help:
        print(f"{VARIABLE}:\n{help_text()}", file=sys.stderr)
    log_level()


def running_on_ipu_model() -> bool:
    """Whether programs run on the software model of an IPU."""
    return current().use_ipu_model


def use_synthetic_data_for(synthetic_data_category: SyntheticDataCategory) -> bool:
    """Whether the device makes up data of that category."""
    if not isinstance(synthetic_data_category, SyntheticDataCategory):
        raise TypeError(
            f"synthetic_data_category must be a SyntheticDataCategory, and {synthetic_data_category!r} is none"
        )
    return current().is_synthetic(synthetic_data_category)
