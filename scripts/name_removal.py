"""Makes a public name do nothing in this process, so that a test that shows it must fail. scripts/prove_marks.py uses it.

A function returns its first argument, a context manager changes nothing, a class has empty methods, a field of settings keeps its
default. Enumerations of PopART and PopXL are replaced where users find them: whatever member is asked for, it is the first one.
Exceptions, modules and values, which cannot do nothing, are deleted.
"""

import contextlib
import copy
import enum
import importlib
import inspect
import os
import sys
import types
import typing

PACKAGES = ("popart", "popxl", "popdist")  # names of poptorch have no prefix


def package_of(name):
    first = name.split(".")[0]
    return first if first in PACKAGES else "poptorch"


def _first(*args, **kwargs):
    return args[0] if args else next(iter(kwargs.values()), None)


def _none(*args, **kwargs):
    return None


def _no_context(*args, **kwargs):
    return contextlib.nullcontext()


def _plain(base):
    """A class of torch in place of its subclass: arguments it does not know are dropped."""
    known = inspect.signature(base.__init__).parameters
    return lambda *args, **kwargs: base(*args, **{key: kwargs[key] for key in kwargs if key in known})


# --- finding
def find(name):
    """(owner, last part, value): the owner is a module or the class that defines the value. Parts of the options of poptorch are
    found by their class."""
    if package_of(name) == "poptorch":
        return _find_in_poptorch(name)
    owner, parts = None, name.split(".")
    for length in range(1, len(parts)):
        following = parts[length]
        found = getattr(owner, parts[length - 1], None)
        if found is None or not isinstance(found, type) and not hasattr(found, following):
            found = importlib.import_module(".".join(parts[:length]))
        owner = found
    if isinstance(owner, type):
        return _in_class(owner, parts[-1])
    if not hasattr(owner, parts[-1]):
        importlib.import_module(name)
    return owner, parts[-1], getattr(owner, parts[-1])


def _in_class(kind, last):
    owner = next((base for base in kind.__mro__ if last in vars(base)), None)
    if owner is not None:
        return owner, last, inspect.getattr_static(owner, last)
    value = None
    with contextlib.suppress(Exception):
        value = getattr(kind(), last)
    if isinstance(value, types.MethodType):  # handed on to another object
        return _in_class(type(value.__self__), last)
    return kind, last, None  # what instances alone have


def _find_in_poptorch(name):
    import poptorch

    *parts, last = name.split(".")
    owner = poptorch
    for part in parts:
        value = getattr(owner, part)
        owner = type(getattr(owner(), part)) if isinstance(value, property) else value
    if isinstance(owner, type):
        return next(base for base in owner.__mro__ if last in vars(base)), last, inspect.getattr_static(owner, last)
    return owner, last, getattr(owner, last)


# --- deleting and replacing
def _is_enumeration(value):
    return isinstance(value, type) and issubclass(value, enum.Enum)


def _is_deleted(value):
    stays = isinstance(value, type) and (issubclass(value, BaseException) or value.__module__ == "builtins")
    is_empty = isinstance(value, type) and value.__module__.split(".")[0] in PACKAGES and not _parts(value)
    return stays or is_empty or hasattr(value, "__members__") or not callable(value) or typing.get_origin(value) is not None


def remove_early(name):
    """Does what must be done before the tests are imported. False: nothing, and `remove` is to be called after it."""
    owner, last, value = find(name)
    if isinstance(owner, type) or not _is_deleted(value):
        return False
    if isinstance(value, types.ModuleType):
        sys.modules[value.__name__] = None  # importing it is an error
    if _is_enumeration(value) and package_of(name) != "poptorch" and len(value) > 1:
        setattr(owner, last, _Collapsed(value))
    elif last in vars(owner):
        delattr(owner, last)
    else:  # made by __getattr__ of the module
        setattr(owner, last, None)
    return True


def remove(name):
    """Replaces what `remove_early` left, wherever somebody holds it."""
    owner, last, value = find(name)
    if isinstance(owner, type):
        return setattr(owner, last, _attribute(name, owner, last, value))
    stub = _nothing(name, value)
    if stub is _first and inspect.isfunction(value) and not value.__closure__:
        value.__code__, value.__defaults__, value.__kwdefaults__ = _first.__code__, None, None
        return None
    for module in [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType) and stub]:
        for key in [key for key, item in vars(module).items() if item is value]:
            setattr(module, key, stub)
    return None


class _Collapsed:
    """Stands for an enumeration: its members can be listed, and each that is asked for by name or number is the first one."""

    def __init__(self, kind):
        self._kind, self._first = kind, next(iter(kind))

    def __getattr__(self, name):
        return self._first if name in self._kind.__members__ else getattr(self._kind, name)

    def __getitem__(self, name):
        self._kind[name]  # a KeyError
        return self._first

    def __call__(self, value):
        self._kind(value)  # a ValueError
        return self._first

    def __iter__(self):
        return iter(self._kind)

    def __len__(self):
        return len(self._kind)


def _attribute(name, owner, last, value):
    """What takes the place of an attribute of a class."""
    if value is None:
        return _of_instances(owner, last)
    if isinstance(value, (staticmethod, classmethod)):
        return staticmethod(_none)
    if last == "__exit__":
        return _none
    if inspect.isfunction(value):
        if _is_context(value):
            return _no_context
        gives_itself = name.startswith(("Options.", "popxl.")) or last == "__enter__"
        return _first if gives_itself else lambda *args, **kwargs: None
    return property(lambda self: None, lambda self, value: None)


def _of_instances(owner, last):
    """In place of what instances alone have: it stays as it is in a new one, or None where there is none without arguments."""
    first = None
    with contextlib.suppress(Exception):
        first = getattr(owner(), last)
    set_ = owner.__setattr__

    def check_and_forget(self, name, value):
        """Settings refuse what they must refuse, and are as before."""
        values = vars(self).get("_values", vars(self))
        kept = dict(values)
        set_(self, name, value)
        if name == last:
            values.clear()
            values.update(kept)

    if set_ is not object.__setattr__:
        owner.__setattr__ = check_and_forget
    return property(lambda self: copy.deepcopy(first), lambda self, value: None)


def _is_context(function):
    returned = str(getattr(function, "__annotations__", {}).get("return", ""))
    is_made = inspect.isgeneratorfunction(getattr(function, "__wrapped__", None))
    return is_made or "ContextManager" in returned


def _nothing(name, value):
    """What takes the place of a function or class of a module. None: it was changed in place."""
    special = _special(name) if package_of(name) == "poptorch" else None
    if special is not None:
        return special
    if isinstance(value, type):
        return _gut(value)
    return _no_context if _is_context(value) else _first


def _special(name):
    import poptorch
    import torch

    if name in ("optim.SGD", "optim.Adam", "optim.AdamW", "optim.RMSprop"):
        return _plain(getattr(torch.optim, name.removeprefix("optim.")))
    return {
        "optim.LAMB": _plain(torch.optim.Adam),
        "DataLoader": lambda options, *args, **kwargs: _plain(torch.utils.data.DataLoader)(*args, **kwargs),
        "AsynchronousDataAccessor": _first,
        "ShardedExecution": poptorch.PipelinedExecution,
        "PipelinedExecution": poptorch.ShardedExecution,
        "ICustomArgParser": object,
        "BlockFunction": lambda *args, **kwargs: lambda function: function,
    }.get(name)


# What Python calls, in a class that does nothing. Others stay: without them there would be no objects.
_EMPTY = {
    "__init__": _none,
    "__enter__": _first,
    "__exit__": _none,
    "__call__": _first,
    "__iter__": lambda self: iter(()),
    "__len__": lambda self: 0,
    "__int__": lambda self: 0,
    "__contains__": lambda self, item: False,
    "__getitem__": _none,
    "__setitem__": _none,
    "__str__": lambda self: "",
    "__repr__": lambda self: "",
    "__eq__": object.__eq__,
    "__setattr__": _none,  # settings, which keep their defaults
}


def _parts(kind):
    """(name, value) of what the body of a class holds; in classes of PopART and PopXL of those of its bases, too."""
    package = kind.__module__.split(".")[0]
    bases = [base for base in kind.__mro__ if base.__module__.split(".")[0] == package] if package in PACKAGES else [kind]
    standard = {"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__annotations__", "__slots__"}
    return [(name, value) for base in reversed(bases) for name, value in vars(base).items() if name not in standard]


def _gut(kind):
    """Methods of a class return the object and change nothing; properties are None. In classes of PopART and PopXL this holds for
    what they inherit and for the constructor, too."""
    is_ours = kind.__module__.split(".")[0] in PACKAGES
    for name, value in _parts(kind):
        if isinstance(value, property):
            setattr(kind, name, property(lambda self: None, lambda self, value: None))
        elif isinstance(value, (staticmethod, classmethod)) or not is_ours and name in ("__exit__", "__iter__"):
            setattr(kind, name, staticmethod(_none))
        elif not inspect.isfunction(value):
            continue
        elif not name.startswith("__") or not is_ours and name in ("__enter__", "__call__"):
            setattr(kind, name, _first)
        elif is_ours and name in _EMPTY:
            setattr(kind, name, _EMPTY[name])


def remove_in_program():
    """Called by sitecustomize.py of the Python programs that a test starts."""
    name = os.environ["PROVE_NAME"]
    if name and not remove_early(name):
        remove(name)
