"""Keeps shape rules of torch that are written in Python from loading torch's compiler and a symbolic algebra package.

Those rules ask whether a condition on sizes holds, whether a number is an expression, and that the compiler should not
look inside them. The answers are trivial for shapes that are plain numbers, as all are here, but the modules that know
more than that take seconds and 150 MiB to load. While a capture runs, stand-ins answer.
"""

import torch

from poptorch._impl.capture.stand_ins import StandIn, load_real, stand_in

_SHAPES = "torch.fx.experimental.symbolic_shapes"
_COMPILER = "torch._dynamo"
_SYMBOLIC = (torch.SymBool, torch.SymFloat, torch.SymInt)
_MARK = "__dynamo_disable"  # where torch's wrapper keeps what it got


def _is_symbolic(value):
    if isinstance(value, (list, tuple)):
        return any(_is_symbolic(member) for member in value)
    return isinstance(value, _SYMBOLIC)


def _equal(x, y):
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        return len(x) == len(y) and all(_equal(a, b) for a, b in zip(x, y))
    return x == y


_CONDITIONS = {
    "expect_true": lambda condition, skip=0: condition,
    "guard_or_false": bool,
    "guard_or_true": bool,
    "guard_size_oblivious": bool,
    "statically_known_true": bool,
    "sym_and": lambda *conditions: all(conditions),
    "sym_or": lambda *conditions: any(conditions),
    "sym_eq": _equal,
    "guard_int": int,
    "guarding_hint_or_throw": lambda value: value,
    "has_guarding_hint": lambda value: True,
    "is_nested_int": lambda size: False,
    "free_unbacked_symbols": lambda values: set(),
}


def _for_plain_numbers(name, answer):
    def ask(*args, **kwargs):
        if any(_is_symbolic(value) for value in args):
            return getattr(load_real(_SHAPES), name)(*args, **kwargs)
        return answer(*args, **kwargs)

    return ask


class _Expression:
    """Stands for the base class of symbolic expressions: nothing is one."""


def install(changes):
    """Stand-ins for as long as `changes` lasts, for those of the modules that are not loaded already."""
    left_open = []

    def disable(function=None, *arguments, **options):
        if function is None or options != {"wrapping": False}:
            return load_real(_COMPILER).disable(function, *arguments, **options)
        left_open.append(function)
        return function

    def ask_again():  # the compiler itself shall be asked the next time
        for function in left_open:
            vars(function).pop(_MARK, None)

    conditions = {name: _for_plain_numbers(name, answer) for name, answer in _CONDITIONS.items()}
    changes.at_end(ask_again)
    stand_in(
        [
            StandIn(_SHAPES, conditions),
            StandIn(_COMPILER, {"disable": disable}),
            StandIn("sympy", {"Basic": _Expression}),
        ],
        changes,
    )
