"""The names by which texts (options files, JSON) may reach options: the published setters, and nothing else.

A name is looked up in these tables, never on the object alone: what Python finds on any object (`__func__`, `_values`,
`clone`) is no option.
"""

from poptorch._impl.options.locations import TensorLocationOptions, TensorLocationSettings
from poptorch._impl.options.container import OptionContainer
from poptorch._impl.options.popart_options import PopartOptions
from poptorch._impl.options.strategies import PipelinedExecution, Stage

# Class → its setters; the classes of poptorch.options add theirs with `publish`.
_SETTERS = {
    PopartOptions: frozenset({"set", "setPatterns", "setEngineOptions"}),
    TensorLocationOptions: frozenset(
        {
            "numIOTiles",
            "setActivationLocation",
            "setWeightLocation",
            "setOptimizerLocation",
            "setAccumulatorLocation",
        }
    ),
    TensorLocationSettings: frozenset(
        {
            "minElementsForOffChip",
            "minElementsForReplicatedTensorSharding",
            "useOnChipStorage",
            "useReplicatedTensorSharding",
            "useIOTilesToLoad",
            "useIOTilesToStore",
        }
    ),
    PipelinedExecution: frozenset({"stage"}),
    Stage: frozenset({"ipu"}),
}


def publish(kind, *names):
    """Adds the setters of a class (names of its methods)."""
    _SETTERS[kind] = frozenset(names)


def published(kind):
    """Setters of a class and its bases (set of str)."""
    return frozenset().union(*(_SETTERS.get(base, ()) for base in kind.__mro__))


def _part(owner, name):
    """A part of an options object: `Training`, `_Popart`, ...; AttributeError otherwise."""
    parts = owner._parts() if isinstance(owner, OptionContainer) else {}
    if name not in parts:
        raise _unknown(owner, name)
    return parts[name]


def _unknown(owner, name):
    text = f"{type(owner).__name__} has no option '{name}'."
    if isinstance(owner, OptionContainer):
        text += f" Options are: {', '.join(sorted(owner._values))}"
    return AttributeError(text)


def setter(owner, names):
    """The method that `names` (list of str) lead to from an options object; AttributeError for a name that is not published."""
    for name in names[:-1]:
        owner = _part(owner, name)
    if names[-1] not in published(type(owner)):
        raise _unknown(owner, names[-1])
    return getattr(owner, names[-1])


def assign(owner, names, value):
    """`owner.<names> = value` for an option that is registered by its name; raises what the option says of the value."""
    for name in names[:-1]:
        owner = _part(owner, name)
    if not isinstance(owner, OptionContainer) or names[-1] not in owner._values:
        raise _unknown(owner, names[-1])
    owner._set(names[-1], value)
