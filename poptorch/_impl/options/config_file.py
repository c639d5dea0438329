"""Reads an options file: one call per line, `deviceIterations(4)` or `Training.gradientAccumulation(8)`.

The file is parsed, never executed: a line is what may stand after `options.`, a dotted name that is called (calls chain)
or an assignment; arguments are literals, lists, tuples, dicts, keyword arguments, arithmetic on numbers, members of
poptorch's enumerations, strategies and tensor locations.
"""

from __future__ import annotations

import ast
import collections.abc
import operator
import os
import typing

from ipu_common import regular_files
from poptorch import enums
from poptorch._impl.options import names as option_names

_open_files: list[str] = []  # real paths: a file that loads itself would not end

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def load(path, options, error_class):
    """Applies a file to `options`, top to bottom.

    Raises:
        FileNotFoundError: no such file.
        `error_class`: no regular file, one that loads itself, or a line that is no legal call; then nothing is applied.
            The line number counts lines that are neither empty nor comments.
        AttributeError, AssertionError, ValueError: what an option says; earlier lines stay applied.
    """
    place = os.path.realpath(path)
    if place in _open_files:
        raise error_class(f"{os.fspath(path)} loads itself")
    try:
        data = regular_files.read(path)
    except ValueError as error:
        raise error_class(str(error)) from None
    _open_files.append(place)
    try:
        for action in _actions(data, os.path.basename(path), error_class):
            action(options)
    finally:
        _open_files.pop()


def _actions(data, name, error_class):
    """What the lines of a file do, as functions of the options."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise error_class(f"SyntaxError in {name}: it is not a text in UTF-8 ({error.reason} at byte {error.start})")
    lines = [line.strip() for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith("#")]
    return [_parse(line, number, name, error_class) for number, line in enumerate(kept, 1)]


def _parse(line, number, name, error_class):
    """What one line does, as a function of the options."""

    def refuse(detail):
        return error_class(f"SyntaxError at line {number} of {name}: {detail}\n> options.{line}")

    try:
        statements = ast.parse(f"options.{line}").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise refuse(getattr(error, "msg", None) or str(error)) from error
    try:
        if len(statements) == 1 and isinstance(statements[0], ast.Expr):
            return _calls(statements[0].value)
        if len(statements) == 1 and isinstance(statements[0], ast.Assign) and len(statements[0].targets) == 1:
            return _assignment(statements[0])
        raise ValueError("expected a call such as deviceIterations(4)")
    except ValueError as error:
        raise refuse(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise refuse("nested too deeply") from error


def _calls(node):
    """`options.name.name(arguments).name(arguments)...` as a function of the options; ValueError says what is wrong."""
    if not isinstance(node, ast.Call):
        raise ValueError("expected a call such as deviceIterations(4)")
    names: list[str] = []
    inner = node.func
    while isinstance(inner, ast.Attribute):
        names.insert(0, _option_name(inner.attr))
        inner = inner.value
    args, kwargs = _arguments(node)
    if names and isinstance(inner, ast.Name) and inner.id == "options":
        return lambda options: option_names.setter(options, names)(*args, **kwargs)
    if names and isinstance(inner, ast.Call):
        before = _calls(inner)
        return lambda options: option_names.setter(before(options), names)(*args, **kwargs)
    raise ValueError("expected a dotted option name before the arguments")


def _assignment(node):
    """`options.name.name = value` as a function of the options."""
    names, value = _dotted(node.targets[0]), _value(node.value)
    if names is None or len(names) < 2 or names[0] != "options":
        raise ValueError("expected a dotted option name before the =")
    names = [_option_name(name) for name in names[1:]]
    return lambda options: option_names.assign(options, names, value)


def _option_name(name):
    if name.startswith("_") and name != "_Popart":
        raise ValueError("expected a dotted option name before the arguments")
    return name


def _arguments(node):
    kwargs = {keyword.arg: _value(keyword.value) for keyword in node.keywords}
    if None in kwargs:
        raise ValueError("** is not allowed here")
    return [_value(argument) for argument in node.args], kwargs


def _dotted(node):
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _value(node):
    """A literal or a poptorch name; ValueError says what is not allowed."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        container = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return container(_value(member) for member in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values)}
    name = _dotted(node) if isinstance(node, ast.Attribute) else None
    if name is not None and name[0] == "poptorch" and len(name) == 3:
        members = getattr(getattr(enums, name[1], None), "__members__", {})
        if name[2] in members:
            return members[name[2]]
        raise ValueError(f"{'.'.join(name)} is not a member of a poptorch enumeration")
    if isinstance(node, ast.Call):
        return _object(node)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _number(node)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise ValueError(
            f"'{ast.unparse(node)}' is not allowed: arguments are literals, lists, dicts and poptorch enumerations"
        )


def _number(node):
    left, right = _value(node.left), _value(node.right)
    if not all(isinstance(side, (int, float)) for side in (left, right)):
        raise ValueError(f"'{ast.unparse(node)}' is not allowed: arithmetic is on numbers")
    try:
        return _ARITHMETIC[type(node.op)](left, right)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"'{ast.unparse(node)}': {error}")


def _object(node):
    """poptorch.PipelinedExecution(...), ShardedExecution(...), Stage(...) and TensorLocationSettings() with calls of their
    methods: the only calls in arguments."""
    from poptorch._impl.options import locations, strategies

    kinds = {
        "PipelinedExecution": strategies.PipelinedExecution,
        "ShardedExecution": strategies.ShardedExecution,
        "Stage": strategies.Stage,
        "TensorLocationSettings": locations.TensorLocationSettings,
    }
    name = _dotted(node.func)
    make: collections.abc.Callable[..., typing.Any] | None
    if name is not None and len(name) == 2 and name[0] == "poptorch" and name[1] in kinds:
        make = kinds[name[1]]
    elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        made, method = _object(node.func.value), _option_name(node.func.attr)
        make = getattr(made, method) if method in option_names.published(type(made)) else None
    else:
        make = None
    if make is None:
        raise ValueError(f"the call '{ast.unparse(node)}' is not allowed")
    args, kwargs = _arguments(node)
    return make(*args, **kwargs)
