"""Modules that answer for others which need not be loaded.

A stand-in takes the place of a module that is not loaded yet, for the time of a context. What it knows it answers, and
only to callers inside torch; everything else (other callers, other names, modules inside the package) ends the play: all
stand-ins leave and the real module is loaded and asked. Nothing of them is left after the context, and whoever kept
one as a variable is passed on to the real module.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types


# What programs ask of a module. The import system and those who look through all modules ask for other special names.
_ASKED_OF_MODULES = ("__all__", "__version__")


class StandIn(types.ModuleType):
    """Answers for the module `name`: `answers` maps attribute names to values."""

    def __init__(self, name, answers):
        super().__init__(name)
        self.__path__ = []  # so that modules inside the package are looked for
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        self._stand_in_answers = answers

    def __getattr__(self, name):
        if name.startswith("__") and name not in _ASKED_OF_MODULES:
            raise AttributeError(name)
        if name in self._stand_in_answers and _torch_asks() and sys.modules.get(self.__name__) is self:
            return self._stand_in_answers[name]
        return getattr(load_real(self.__name__), name)


def _torch_asks():
    """Whether the code that reads an attribute of a stand-in, or imports from it, is torch's."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "importlib._bootstrap":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "torch"


def load_real(name):
    """The real module; all stand-ins leave first, since loading it may ask for the modules they stand for."""
    for module in [module for module in list(sys.modules.values()) if isinstance(module, StandIn)]:
        _remove(module)
    return importlib.import_module(name)


def _remove(stand_in):
    name = stand_in.__name__
    if sys.modules.get(name) is stand_in:
        sys.modules.pop(name, None)
    parent, _, child = name.rpartition(".")
    if parent in sys.modules and vars(sys.modules[parent]).get(child) is stand_in:
        delattr(sys.modules[parent], child)


class _Inside(importlib.abc.MetaPathFinder):
    """Finds modules inside a package that has a stand-in by loading the real package first."""

    def find_spec(self, fullname, path=None, target=None):
        package = fullname.rpartition(".")[0]
        while package and not isinstance(sys.modules.get(package), StandIn):
            package = package.rpartition(".")[0]
        if not package:
            return None
        load_real(package)
        return _AlreadyLoaded(importlib.import_module(fullname)).spec


class _AlreadyLoaded(importlib.abc.Loader):
    """Hands out a module as it is. Importing takes the spec that the module has now, so it gets ours until then."""

    def __init__(self, module):
        self._module, self._own_spec = module, module.__spec__
        self.spec = module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, self)

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        module.__spec__ = self._own_spec


def stand_in(stand_ins, changes):
    """The stand-ins for as long as `changes` lasts; modules that are loaded already need none."""
    placed = [module for module in stand_ins if module.__name__ not in sys.modules]
    inside = _Inside()

    def leave():
        if inside in sys.meta_path:
            sys.meta_path.remove(inside)
        for module in placed:
            _remove(module)

    changes.at_end(leave)
    sys.meta_path.insert(0, inside)
    for module in placed:
        sys.modules[module.__name__] = module
        parent, _, child = module.__name__.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)
