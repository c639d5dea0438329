"""Which attributes the state in a file may set."""

_ABSENT = object()


class Refused(Exception):
    """A name, call or state that the file is not allowed to use."""


def name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def check_attribute(kind, name):
    """An attribute that state may set: no `__dunder__`, none of poptorch's marks, and none that hides a method."""
    if type(name) is not str:
        raise Refused("state with a name that is no text")
    if (name.startswith("__") and name.endswith("__")) or name.startswith("_poptorch"):
        raise Refused(f"state that sets {name}")
    for base in kind.__mro__:
        held = vars(base).get(name, _ABSENT)
        if held is not _ABSENT and (callable(held) or hasattr(type(held), "__get__")):
            raise Refused(f"state that hides {name_of(base)}.{name}")
