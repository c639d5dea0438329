"""The container all option objects share: registered names, typed writes, freezing, cloning, repr.

"Registered" means that the name is in the value table of the object. Writes to other public names are refused, so a
misspelt option never passes silently.
"""

import copy

_FROZEN = "Can't modify frozen Options"


class OptionContainer:
    """Values by internal name. Subclasses pass their defaults to the constructor and add setter methods."""

    def __init__(self, **defaults):
        object.__setattr__(self, "_values", dict(defaults))
        object.__setattr__(self, "_frozen", False)

    # --- reading ---
    def __getattr__(self, name):
        if name.startswith("__") or name == "_values":
            raise AttributeError(name)
        values = self._values
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__} has no option '{name}'. Options are: {', '.join(sorted(values))}")

    def __call__(self, name):
        return getattr(self, name)

    def exists(self, name):
        return name in self._values

    # --- writing ---
    def __setattr__(self, name, value):
        if name.startswith("_"):
            if name not in self.__dict__:
                raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
            self._check_writable()
            object.__setattr__(self, name, value)
            return
        self._set(name, value)

    def _check_writable(self):
        if self._frozen:
            raise AttributeError(_FROZEN)

    def _set(self, name, value):
        """Stores a registered option; AssertionError for an unknown name or a value of another type."""
        self._check_writable()
        assert name in self._values, f"Unknown option '{name}'. Valid options are: {', '.join(sorted(self._values))}"
        current = self._values[name]
        assert isinstance(value, type(current)), (
            f"Unexpected type for option '{name}': expected {type(current).__name__}, "
            f"got {type(value).__name__} ({value!r})"
        )
        self._values[name] = value
        return self

    def _register(self, name, value):
        """Stores an option that exists only once it was set."""
        if name in self._values:
            return self._set(name, value)
        self._check_writable()
        self._values[name] = value
        return self

    def deleteIfExists(self, name):
        """Removes a registered name; freezing does not prevent it."""
        self._values.pop(name, None)

    # --- life cycle ---
    def _parts(self):
        """Sub-option objects by name."""
        return {}

    def _freeze(self):
        object.__setattr__(self, "_frozen", True)
        for part in self._parts().values():
            part._freeze()

    def _thaw(self):
        object.__setattr__(self, "_frozen", False)
        for part in self._parts().values():
            part._thaw()

    def __deepcopy__(self, memory):
        twin = object.__new__(type(self))
        memory[id(self)] = twin
        for name, value in self.__dict__.items():
            object.__setattr__(twin, name, copy.deepcopy(value, memory))
        object.__setattr__(twin, "_frozen", False)
        return twin

    def __getstate__(self):
        return dict(self.__dict__)

    def __setstate__(self, state):
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self._values == other._values and self._parts() == other._parts()

    def __hash__(self):
        return hash(type(self))  # equal objects have equal hashes; contents may change, so they take no part

    def __repr__(self):
        fields = [f"{name}={value!r}" for name, value in self._values.items()]
        fields += [f"{name}={part!r}" for name, part in self._parts().items()]
        return f"{type(self).__name__.lstrip('_')}({', '.join(fields)})"
