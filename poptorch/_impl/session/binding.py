"""Binds the arguments of a call to the parameters of `forward`, in the order of its signature."""

from __future__ import annotations

import inspect
import typing

from poptorch._impl import errors
from poptorch._impl import structures

_EMPTY = inspect.Parameter.empty


class ArgumentBinder:
    """Knows the signature of one callable.

    Args:
        model: a module (its `forward` counts) or another callable.

    Raises:
        TypeError: neither module nor callable.
    """

    def __init__(self, model):
        function = getattr(model, "forward", model)
        if not callable(function):
            raise TypeError(f"expected a torch.nn.Module or a callable, got {type(model).__name__}")
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
        kinds = inspect.Parameter
        self._ordinary = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
        self._keyword_only = [p for p in parameters if p.kind == kinds.KEYWORD_ONLY]
        self._var_positional = next((p for p in parameters if p.kind == kinds.VAR_POSITIONAL), None)
        self._var_keyword = next((p for p in parameters if p.kind == kinds.VAR_KEYWORD), None)

    @property
    def defaults(self):
        """Default values by name of the parameters that have one (dict)."""
        return {p.name: p.default for p in self._ordinary + self._keyword_only if p.default is not _EMPTY}

    def bind(self, args, kwargs):
        """Names and values of all parameters in canonical order; those left out have their default value.

        Returns:
            (names, values, keywords): `keywords[i]` is the keyword under which value i is passed on, or None.

        Raises:
            AssertionError: too many arguments, an unknown keyword, or a parameter given twice.
            poptorch.Error: a parameter without default is missing.
        """
        kwargs = dict(kwargs)
        accepted = ", ".join(p.name for p in self._ordinary + self._keyword_only)
        assert len(args) <= len(self._ordinary) or self._var_positional is not None, (
            f"Too many arguments: {len(args)} given, forward takes {len(self._ordinary)} ({accepted})"
        )
        values = dict(zip((p.name for p in self._ordinary), args))
        for parameter in self._ordinary + self._keyword_only:
            if parameter.name in kwargs:
                assert parameter.name not in values, f"Parameter '{parameter.name}' is given twice"
                values[parameter.name] = kwargs.pop(parameter.name)
        assert not kwargs or self._var_keyword is not None, (
            f"Unexpected keyword argument(s) {sorted(kwargs)}: forward takes ({accepted})"
        )
        bound: list[tuple[str, typing.Any, str | None]] = []
        bound += [(p.name, _given_or_default(p, values), None) for p in self._ordinary]
        if self._var_positional is not None:
            rest = args[len(self._ordinary) :]
            bound += [(f"*{self._var_positional.name}[{i}]", value, None) for i, value in enumerate(rest)]
        bound += [(p.name, _given_or_default(p, values), p.name) for p in self._keyword_only]
        if self._var_keyword is not None:
            bound += [(f"**{self._var_keyword.name}[{name!r}]", value, name) for name, value in kwargs.items()]
        names, found, keywords = (list(column) for column in zip(*bound)) if bound else ([], [], [])
        return names, found, keywords

    def complete(self, names, values, keywords):
        """The arguments of a file in canonical order, with the defaults that it leaves out: what `bind` returns.

        Raises:
            TypeError: one argument stands there twice.
        """
        given = {name: (value, keyword) for name, value, keyword in zip(names, values, keywords)}
        if len(given) != len(names):
            raise TypeError("forward() got multiple values for one argument")
        rows: dict[str, tuple[typing.Any, str | None]] = {}
        rows |= {p.name: (p.default, None) for p in self._ordinary if p.name in given or p.default is not _EMPTY}
        rows |= {name: row for name, row in given.items() if name.startswith("*") and not name.startswith("**")}
        rows |= {p.name: (p.default, p.name) for p in self._keyword_only if p.name in given or p.default is not _EMPTY}
        rows |= given  # known names keep their place
        return list(rows), [value for value, _ in rows.values()], [keyword for _, keyword in rows.values()]

    def align(self, names, values, wanted):
        """The values of a later call in the order of `wanted`, the names of the first call: `**kwargs` may come in any
        order. Other differences are left for the comparison with the first call to report.

        Raises:
            poptorch.Error: the keys of `**kwargs` differ from those of the first call.
        """
        if self._var_keyword is not None:
            of_all = f"**{self._var_keyword.name}"
            keys, first_keys = ({n for n in some if n.startswith(f"{of_all}[")} for some in (names, wanted))
            if keys != first_keys:
                missing, unexpected = (
                    sorted(n[len(of_all) + 2 : -2] for n in some) for some in (first_keys - keys, keys - first_keys)
                )
                raise structures.mismatch("Keys", of_all, f"unexpected {unexpected}, missing {missing}.")
        if set(names) != set(wanted):
            return values
        given = dict(zip(names, values))
        return [given[name] for name in wanted]


def _given_or_default(parameter, values):
    value = values.get(parameter.name, parameter.default)
    if value is _EMPTY:
        raise errors.create_error(f"Mandatory parameter missing: forward needs '{parameter.name}'.")
    return value
