"""Reads an options file: one call per line, `deviceIterations(4)` or `Training.gradientAccumulation(8)`.

The file is parsed, never executed: accessors are dotted names, arguments are literals, lists, tuples, dicts, keyword
arguments and members of poptorch's enumerations.
"""

import ast
import os

from poptorch import enums


def load(path, options, error_class):
    """Applies a file to `options`, top to bottom.

    Raises:
        FileNotFoundError: no such file.
        `error_class`: a line that is no legal call; then nothing is applied. The line number counts lines that are
            neither empty nor comments.
        AttributeError, AssertionError, ValueError: what an option says; earlier lines stay applied.
    """
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    kept = [line for line in lines if line and not line.startswith("#")]
    calls = [_parse(line, number, path, error_class) for number, line in enumerate(kept, 1)]
    for accessor, args, kwargs in calls:
        target = options
        for name in accessor:
            target = getattr(target, name)
        target(*args, **kwargs)


def _parse(line, number, path, error_class):
    """(accessor names, positional arguments, keyword arguments) of one line."""

    def refuse(detail):
        return error_class(f"SyntaxError at line {number} of {os.path.basename(path)}: {detail}\n> options.{line}")

    try:
        tree = ast.parse(f"options.{line}", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise refuse(getattr(error, "msg", None) or str(error)) from error
    if not isinstance(tree, ast.Call):
        raise refuse("expected a call such as deviceIterations(4)")
    accessor = _dotted(tree.func)
    if (
        accessor is None
        or accessor[0] != "options"
        or len(accessor) < 2
        or any(name.startswith("_") and name != "_Popart" for name in accessor)
    ):
        raise refuse("expected a dotted option name before the arguments")
    try:
        args = [_value(node) for node in tree.args]
        kwargs = {keyword.arg: _value(keyword.value) for keyword in tree.keywords}
    except ValueError as error:
        raise refuse(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise refuse("nested too deeply") from error
    if None in kwargs:
        raise refuse("** is not allowed here")
    return accessor[1:], args, kwargs


def _dotted(node):
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _value(node):
    """A literal or a poptorch name; ValueError says what is not allowed."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(_value(member) for member in node.elts)
    if isinstance(node, ast.Dict):
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values)}
    name = _dotted(node) if isinstance(node, ast.Attribute) else None
    if name is not None and name[0] == "poptorch" and len(name) == 3:
        kind = getattr(enums, name[1], None)
        if isinstance(kind, type) and name[2] in getattr(kind, "__members__", {}):
            return kind[name[2]]
        raise ValueError(f"{'.'.join(name)} is not a member of a poptorch enumeration")
    if isinstance(node, ast.Call):
        return _strategy(node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(
            f"'{ast.unparse(node)}' is not allowed: arguments are literals, lists, dicts and poptorch enumerations"
        )


def _strategy(node):
    """poptorch.PipelinedExecution(...), ShardedExecution(...) and Stage(...), the only calls in arguments."""
    from poptorch._impl import strategies

    name = _dotted(node.func)
    kinds = {
        "PipelinedExecution": strategies.PipelinedExecution,
        "ShardedExecution": strategies.ShardedExecution,
        "Stage": strategies.Stage,
    }
    if name is None or len(name) != 2 or name[0] != "poptorch" or name[1] not in kinds or node.keywords:
        raise ValueError(f"the call '{ast.unparse(node)}' is not allowed")
    return kinds[name[1]](*(_value(argument) for argument in node.args))
