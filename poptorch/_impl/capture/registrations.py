"""Which parameters and buffers a model has, and what `forward` made of them when it has been captured.

A program has the states that the model has before its first call. One that `forward` registers, removes or replaces is an
error; the model is as it was afterwards.
"""

from __future__ import annotations

import typing

import torch
from torch.nn.modules import module as torch_module
from torch.nn.parameter import is_lazy

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

_BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
_TABLES = {"_parameters": "parameter", "_buffers": "buffer"}
_HOOKS = {"_global_parameter_registration_hooks", "_global_buffer_registration_hooks"}


def _entries(module, table):
    """The dict `_parameters`, `_buffers` or `_modules` of a module; empty for a scripted one, which forward cannot change."""
    entries = module.__dict__.get(table)
    return entries if isinstance(entries, dict) else {}


def _states_of(model):
    """(module, table, name, tensor, path) of each parameter and buffer that is there."""
    return [
        (module, table, name, tensor, f"{prefix}.{name}" if prefix else name)
        for prefix, module in model.named_modules()
        for table in _TABLES
        for name, tensor in _entries(module, table).items()
        if tensor is not None
    ]


class Registrations:
    """What the modules of a model hold now."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._states = _states_of(model)
        # Each module with its attributes and children.
        self._modules = [(m, dict(m.__dict__), dict(_entries(m, "_modules"))) for m in model.modules()]
        # (path, tensor) of those without a shape.
        self.lazy: list[tuple[str, typing.Any]] = [
            (path, tensor) for _, _, _, tensor, path in self._states if is_lazy(tensor)
        ]
        self._lines: dict[tuple[int, str], str] = {}  # where a module got an entry

    def watch(self, capture: typing.Any, changes: poptorch_core.Changes) -> None:
        """Notes where the thread that captures registers something, for as long as `changes` lasts."""

        def note(module, name, tensor):
            if capture_state.active() is capture:
                self._lines[id(module), name] = poptorch_core.user_line()

        for table in _HOOKS:
            changes.replace(torch_module, table, {**getattr(torch_module, table), id(self): note})

    def _error(self, module, name, text):
        line = self._lines.get((id(module), name))
        return errors.create_error(text + (f"\n  from:     {line}" if line else ""))

    def settle(self) -> None:
        """Replaced running statistics of a batch norm are written to those of the model. poptorch.Error for whatever else
        became of a parameter or buffer."""
        for module, table, name, tensor, path in self._states:
            current = _entries(module, table).get(name)
            if current is tensor:
                continue
            if current is None:
                raise self._error(
                    module,
                    name,
                    f"The {_TABLES[table]} '{path}' was removed in forward. Keep it, or delete it before wrapping.",
                )
            if table == "_buffers" and isinstance(module, _BATCH_NORMS):
                tensor.data = current.detach()
                _entries(module, table)[name] = tensor
                continue
            raise self._error(
                module,
                name,
                f"The {_TABLES[table]} '{path}' was re-bound in forward (self.{name} = ...), which the device cannot "
                f"follow. Update it in place: self.{name}.copy_(...).",
            )
        known = {(id(module), table, name) for module, table, name, _, _ in self._states}
        for module, table, name, _, path in _states_of(self._model):
            if (id(module), table, name) not in known:
                raise self._error(
                    module,
                    name,
                    f"The {_TABLES[table]} '{path}' was registered in forward, and a program has what the model has "
                    "before its first call. Register it in __init__, or call the model once on the CPU before wrapping.",
                )

    def undo(self) -> None:
        """Puts back what forward replaced, and takes away what it registered: that means nothing after the capture."""
        for module, table, name, tensor, _ in self._states:
            entries = module.__dict__.get(table)
            if isinstance(entries, dict) and entries.get(name) is not tensor:
                entries[name] = tensor
        known = {(id(module), table, name) for module, table, name, _, _ in self._states}
        known_modules = {id(module) for module, _, _ in self._modules}
        made: set[int] = set()
        for module, table, name, _, _ in _states_of(self._model):
            if (id(module), table, name) not in known:
                del _entries(module, table)[name]
                self._give_back(module, name)
                if id(module) not in known_modules:
                    made.add(id(module))
        if not made:
            return
        for module, _, children in self._modules:
            entries = _entries(module, "_modules")
            for name, child in list(entries.items()):
                if child is children.get(name) or child is None or not any(id(m) in made for m in child.modules()):
                    continue
                del entries[name]
                if name in children:
                    entries[name] = children[name]
                self._give_back(module, name)

    def _give_back(self, module, name):
        """The plain attribute that setattr took away to make room for an entry of a table."""
        attributes = next((attributes for other, attributes, _ in self._modules if other is module), {})
        if name in attributes:
            module.__dict__.setdefault(name, attributes[name])
