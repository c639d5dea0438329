"""What appears on an optimizer after it was read first and is not read: it is named in the log, once."""

from __future__ import annotations

import collections.abc

import torch

from poptorch._impl.log import logger

_OF_EVERY_OPTIMIZER = {"defaults", "state", "param_groups", "variable_attrs", "_opt_called"}


class AttributeWatch:
    """Watches the attributes of an optimizer for one wrapper. The first look records them; later ones name new ones."""

    def __init__(self, relax: bool) -> None:
        """`relax`: lines of level DEBUG rather than WARN."""
        self._log = logger.debug if relax else logger.warning
        self._attributes: set[str] | None = None
        self._keys: set[str] = set()  # of groups and defaults
        self._said: set[str] = set()

    def look(
        self,
        optimizer: torch.optim.Optimizer,
        kind: str,
        attributes_read: collections.abc.Collection[str],
        keys_read: collections.abc.Collection[str],
    ) -> None:
        """`kind`: the back end's name of the optimizer. Names that are read, new or not: its own, and those of groups."""
        attributes = set(vars(optimizer)) - _OF_EVERY_OPTIMIZER
        groups = [set(group) - {"params"} for group in optimizer.param_groups]
        if self._attributes is None:
            self._attributes = attributes
            self._keys = set(optimizer.defaults).union(*groups)
        self._name("optimizer attribute", kind, attributes - self._attributes, attributes_read)
        for index, keys in enumerate(groups):
            self._name(f"group {index} attribute", kind, keys - self._keys, keys_read)
        self._name("default group variable", kind, set(optimizer.defaults) - self._keys, keys_read)

    def _name(self, what: str, kind: str, new: set[str], read: collections.abc.Collection[str]) -> None:
        names = sorted(new.difference(read))
        line = f"Ignoring unexpected {what} in {kind} optimizer: {names}"
        if names and line not in self._said:
            self._said.add(line)
            self._log(line)
