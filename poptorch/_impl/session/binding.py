"""Binds the arguments of a call to the parameters of `forward`, in the order of its signature."""

import inspect

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

    def bind(self, args, kwargs):
        """Names and values in canonical order, trailing defaults left out.

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
        ordinary = self._with_defaults(self._ordinary, values)
        rest = args[len(self._ordinary) :]
        names = [name for name, _ in ordinary]
        found = [value for _, value in ordinary]
        keywords = [None] * len(found)
        if self._var_positional is not None:
            names += [f"*{self._var_positional.name}[{i}]" for i in range(len(rest))]
            found += rest
            keywords += [None] * len(rest)
        for name, value in self._with_defaults(self._keyword_only, values):
            names.append(name)
            found.append(value)
            keywords.append(name)
        if self._var_keyword is not None:
            for name, value in kwargs.items():
                names.append(f"**{self._var_keyword.name}[{name!r}]")
                found.append(value)
                keywords.append(name)
        return names, found, keywords

    def align(self, names, values, wanted, was_given):
        """Names and values of a later call in the order of `wanted`, the names of the first call.

        A default may be given in one call and left out in another, `**kwargs` may come in any order. Other differences
        are left for the comparison with the first call to report. `was_given(name, value)`: is this constant what the
        first call had?

        Raises:
            poptorch.Error: the keys of `**kwargs` differ from those of the first call.
        """
        given = dict(zip(names, values))
        if self._var_keyword is not None:
            of_all = f"**{self._var_keyword.name}"
            keys, first_keys = ({n for n in some if n.startswith(f"{of_all}[")} for some in (names, wanted))
            if keys != first_keys:
                missing, unexpected = (
                    sorted(n[len(of_all) + 2 : -2] for n in some) for some in (first_keys - keys, keys - first_keys)
                )
                raise structures.mismatch("Keys", of_all, f"unexpected {unexpected}, missing {missing}.")
        defaults = {p.name: p.default for p in self._ordinary + self._keyword_only if p.default is not _EMPTY}
        surplus = [name for name in names if name not in set(wanted)]
        if any(name not in defaults or structures.differ(given[name], defaults[name]) for name in surplus):
            return names, values
        left_out = [name for name in wanted if name not in given]
        if any(name not in defaults or not was_given(name, defaults[name]) for name in left_out):
            return names, values
        return wanted, [given[name] if name in given else defaults[name] for name in wanted]

    @staticmethod
    def _with_defaults(parameters, values):
        """Values of the parameters up to the last given one (or all mandatory ones)."""
        last = max((i for i, p in enumerate(parameters) if p.name in values or p.default is _EMPTY), default=-1)
        result = []
        for parameter in parameters[: last + 1]:
            if parameter.name in values:
                result.append((parameter.name, values[parameter.name]))
            elif parameter.default is not _EMPTY:
                result.append((parameter.name, parameter.default))
            else:
                raise errors.create_error(f"Mandatory parameter missing: forward needs '{parameter.name}'.")
        return result
