"""Keeps shape rules of torch that are written in Python from loading a symbolic algebra package.

Those rules ask `torch.fx.experimental.symbolic_shapes` whether a condition holds. The answer is trivial for shapes that
are plain numbers, as all are here, but importing that module loads sympy: a second and 70 MiB at the first capture of a
program. While a capture runs a stand-in answers for plain numbers; the first question it cannot answer (symbolic
numbers, any other name) loads the real module and passes on to it.
"""

import contextlib
import importlib
import sys
import types

import torch

_NAME = "torch.fx.experimental.symbolic_shapes"
_SYMBOLIC = (torch.SymBool, torch.SymFloat, torch.SymInt)


def _is_symbolic(value):
    if isinstance(value, (list, tuple)):
        return any(_is_symbolic(member) for member in value)
    return isinstance(value, _SYMBOLIC)


def _equal(x, y):
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        return len(x) == len(y) and all(_equal(a, b) for a, b in zip(x, y))
    return x == y


_ANSWERS = {
    "expect_true": lambda condition, skip=0: condition,
    "guard_or_false": bool,
    "guard_or_true": bool,
    "guard_size_oblivious": bool,
    "statically_known_true": bool,
    "sym_and": lambda *conditions: all(conditions),
    "sym_or": lambda *conditions: any(conditions),
    "sym_eq": _equal,
    "guard_int": int,
    "is_nested_int": lambda size: False,
    "free_unbacked_symbols": lambda values: set(),
}


def _load_real():
    if isinstance(sys.modules.get(_NAME), _StandIn):
        del sys.modules[_NAME]
    return importlib.import_module(_NAME)


class _StandIn(types.ModuleType):
    def __init__(self):
        super().__init__(_NAME)
        for name, answer in _ANSWERS.items():
            setattr(self, name, self._answering(name, answer))

    @staticmethod
    def _answering(name, answer):
        def ask(*args, **kwargs):
            if any(_is_symbolic(value) for value in args):
                return getattr(_load_real(), name)(*args, **kwargs)
            return answer(*args, **kwargs)

        return ask

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_load_real(), name)


@contextlib.contextmanager
def plain_shapes():
    """The stand-in for the time of the context, unless the real module is loaded already."""
    if _NAME in sys.modules:
        yield
        return
    stand_in = _StandIn()
    sys.modules[_NAME] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(_NAME) is stand_in:
            del sys.modules[_NAME]
