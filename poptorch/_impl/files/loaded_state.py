"""The last step of reading a pickle of an executable file: instances get their state, by our code alone.

Opcodes only make containers, and instances without state. When all of them have run, the whole result is walked once: every
object must be of a kind on the list here, and nesting and the size as text are bounded, so that nothing that is done with it
later (`repr`, `==`, `copy`) recurses or goes on for ever. Then each instance gets the attributes of its state, checked by
its class; no `__setstate__`, no setter and no property runs.
"""

import collections
import enum
import types
import typing
import weakref

import numpy
import torch

from poptorch._impl.files.attribute_rule import Refused, check_attribute, name_of
from poptorch._impl.files.trusted_names import is_layer_class, is_named_tuple

MAX_DEPTH = 200  # containers in containers; a module in a module counts two
_LEAF_COST = 8
_CONTAINER_COST = 16
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_SEQUENCES = (list, tuple, set, frozenset)
_NUMBERS = (type(None), bool, int, float, complex, range, slice, torch.Size)
_TORCH_VALUES = (torch.dtype, torch.device, torch.layout)
_FACTORIES = (dict, list, set, frozenset, tuple, int, float, bool, str, object)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)  # those that trusted_names.find gives out


class Damaged(Exception):
    """Something that no writer of ours makes."""


def _require(condition, detail):
    if not condition:
        raise Damaged(detail)


# --- the walk
class _Walk:
    """Depth and size (characters of its text, roughly; shared parts counted each time) of everything below a value."""

    def __init__(self, states, limit, check_time):
        self._states = states
        self._limit = limit
        self._check_time = check_time
        self._known = {}  # id → (depth, size)

    def run(self, root):
        stack: list[tuple[object, list | None]] = [(root, None)]
        path = set()
        while stack:
            self._check_time()
            value, children = stack[-1]
            if children is None and (id(value) in self._known or id(value) in path):
                stack.pop()
                continue
            if children is None:
                children = self.children(value)
                stack[-1] = (value, children)
                path.add(id(value))
                _require(len(path) <= MAX_DEPTH, f"nested more than {MAX_DEPTH} deep")
                fresh = [c for c in children if not self.is_leaf(c) and id(c) not in self._known and id(c) not in path]
                stack += [(child, None) for child in fresh]
                continue
            stack.pop()
            path.discard(id(value))
            depth, size = self._known[id(value)] = self._measure(children)
            _require(depth <= MAX_DEPTH, f"nested more than {MAX_DEPTH} deep")
            _require(size <= self._limit, "shared parts that would make endless text")

    def _measure(self, children):
        depth, size = 0, _CONTAINER_COST
        for child in children:
            if self.is_leaf(child):
                size += _LEAF_COST + _length(child)
                continue
            below, more = self._known.get(id(child), (0, _CONTAINER_COST))  # absent: a cycle
            depth, size = max(depth, below), size + more
        return depth + 1, min(size, self._limit + 1)

    def is_leaf(self, value):
        kind = type(value)
        return kind in _NUMBERS or kind in (str, bytes, bytearray) or kind in _TORCH_VALUES

    def children(self, value):
        """What is directly in a value; `Refused` for one of an unknown kind."""
        kind = type(value)
        if kind in _DICTS:
            return [*value.keys(), *value.values()]
        if kind in _SEQUENCES or (isinstance(value, tuple) and is_named_tuple(kind)):
            return list(value)
        if id(value) in self._states:
            state = self._states[id(value)][1]
            return [*state.keys(), *state.values()]
        if kind in (torch.Tensor, torch.nn.Parameter):
            return list(object.__getattribute__(value, "__dict__").values())
        if self.is_leaf(value) or isinstance(value, (enum.Enum, numpy.ndarray, numpy.generic, numpy.dtype)):
            return []
        if isinstance(value, type) and (value in _FACTORIES or is_layer_class(value)):
            return []
        if isinstance(value, _FUNCTIONS):
            return []
        raise Refused(f"{getattr(value, 'full_name', None) or name_of(kind)} as a value")


def _length(leaf):
    if type(leaf) is int:
        return leaf.bit_length() >> 2
    return len(leaf) if type(leaf) in (str, bytes, bytearray, torch.Size) else 0


def _check_tensors(root, walk, limit):
    """Tensors may repeat their values (`expand`), and whatever uses them may write them out. Example inputs may be as large
    as a call: of them only the shapes are used (`model_part`)."""
    total, seen = 0, set()
    stack = [value for key, value in root.items() if key != "inputs"] if type(root) is dict else [root]
    while stack:
        value = stack.pop()
        if walk.is_leaf(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            total += value.numel() * value.element_size()
            _require(total <= limit, "tensors of many more elements than it has values")
        stack += walk.children(value)


def finish(root, states, limit, tensor_limit, check_time):
    """Checks everything that can be reached from `root`, then gives instances their state.

    Args:
        states: dict from id to (instance, dict of its attributes).
        limit: of the size of the result as text.
        tensor_limit: bytes of all tensors as their shapes say.
        check_time: function that raises when the time is over.

    Raises:
        Refused: a name or an attribute that is not allowed.
        Damaged: a structure that no writer makes.
    """
    walk = _Walk(states, limit, check_time)
    walk.run(root)
    _check_tensors(root, walk, tensor_limit)
    for instance, state in states.values():
        check_time()
        for name in state:
            check_attribute(type(instance), name)
        _install(instance, state)


# --- state by class
def _install(instance, state):
    kind = type(instance)
    setter = next((base for base in kind.__mro__ if "__setstate__" in vars(base)), None)
    if isinstance(instance, torch.nn.Module):
        check, homes = _check_module, ("torch.nn.modules",)
    elif isinstance(instance, torch.optim.Optimizer):
        check, homes = _check_optimizer, ("torch.optim",)
    else:
        check, homes = _check_ours, ("poptorch",)
    if setter is not None and not any(f"{setter.__module__}.".startswith(home + ".") for home in homes):
        raise Refused(f"{name_of(setter)}.__setstate__, code that would run while loading")
    object.__getattribute__(instance, "__dict__").update(check(instance, state))


def _is_dict(value, keys, values):
    """Is it a dict whose keys and values are of these types?"""
    return type(value) in _DICTS and all(isinstance(k, keys) and isinstance(v, values) for k, v in value.items())


def _is_list(value, members, kinds=(list,)):
    return type(value) in kinds and all(isinstance(member, members) for member in value)


_TABLES = {
    "_parameters": (torch.Tensor, type(None)),
    "_buffers": (torch.Tensor, type(None)),
    "_modules": (torch.nn.Module, type(None)),
}
_FLAGS_OF_HOOKS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")


def _check_module(module, state):
    from poptorch.ops import _BeginBlockHook

    kind = name_of(type(module))
    template = torch.nn.Module().__dict__
    _require(state.get("_compiled_call_impl") is None, f"a {kind} with a call of its own")
    for name in template:
        value = state.get(name, template[name])
        if name in _TABLES:
            _require(_is_dict(value, str, _TABLES[name]), f"a {kind} with odd {name}")
        elif name in _FLAGS_OF_HOOKS:
            _require(_is_dict(value, int, bool), f"a {kind} with odd {name}")
        elif name == "_forward_pre_hooks":
            _require(_is_dict(value, int, _BeginBlockHook), f"a {kind} with hooks that are not poptorch's")
        elif name.endswith("_hooks"):
            _require(_is_dict(value, int, ()), f"a {kind} with hooks")
        elif name == "_non_persistent_buffers_set":
            _require(type(value) is set and all(type(member) is str for member in value), f"a {kind} with odd {name}")
        else:
            _require(value is None or type(value) is bool, f"a {kind} with odd {name}")
    attributes = {**template, **state}
    if isinstance(module, torch.nn.RNNBase):
        attributes["_flat_weight_refs"] = _check_recurrent(kind, attributes)
    return attributes


def _check_recurrent(kind, state):
    """References to the weights of a recurrent layer, whose lists of names and weights fit its number of layers."""
    names, flat = state.get("_flat_weights_names"), state.get("_flat_weights")
    layers, both = state.get("num_layers"), state.get("bidirectional")
    groups = state.get("_all_weights")
    _require(type(layers) is int and type(both) is bool and layers > 0, f"a {kind} without a number of layers")
    _require(
        type(groups) is list and all(_is_list(group, str) for group in groups) and _is_list(names, str),
        f"a {kind} with odd names of weights",
    )
    _require(
        len(groups) == layers * (1 + both) and len(names) == sum(map(len, groups)),
        f"a {kind} of {layers} layers with the weights of {len(groups)}",
    )
    _require(
        _is_list(flat, (torch.Tensor, type(None))) and len(flat) == len(names),
        f"a {kind} with other weights than names",
    )
    return [None if weight is None else weakref.ref(weight) for weight in flat]


_NUMERIC = (bool, int, float, str, torch.Tensor, type(None))
# What torch adds to groups of optimizers that older versions of it wrote.
_GROUP_DEFAULTS = {"maximize": False, "foreach": None, "differentiable": False}
_GROUP_DEFAULTS_OF: dict[str, dict[str, typing.Any]] = {
    "SGD": {"nesterov": False, "fused": None},
    "Adam": {"amsgrad": False, "capturable": False, "decoupled_weight_decay": False, "fused": None},
    "AdamW": {"decoupled_weight_decay": True},
    "RMSprop": {"momentum": 0, "centered": False, "capturable": False},
}


def _check_optimizer(optimizer, state):
    from poptorch import optim

    kind = name_of(type(optimizer))
    defaults, groups, values = state.get("defaults"), state.get("param_groups"), state.get("state")
    numbers = (*_NUMERIC, tuple)
    _require(_is_dict(defaults, str, numbers), f"a {kind} with odd defaults")
    _require(type(groups) is list and groups, f"a {kind} without groups of parameters")
    for group in groups:
        _require(_is_dict(group, str, (*numbers, list)), f"a {kind} with an odd group of parameters")
        _require(_is_list(group.get("params"), torch.Tensor), f"a {kind} with an odd list of parameters")
    _require(_is_dict(values, torch.Tensor, _DICTS), f"a {kind} with odd state")
    _require(all(_is_dict(entry, str, _NUMERIC) for entry in values.values()), f"a {kind} with odd state")
    for name, value in state.items():
        _require(not name.endswith("_hooks") or _is_dict(value, int, ()), f"a {kind} with hooks")
        _require(not isinstance(value, (*_FUNCTIONS, type)), f"a {kind} with the function {name}")
    if isinstance(optimizer, optim.Optimizer):
        _require(type(state.get("variable_attrs")) is optim.VariableAttributes, f"a {kind} without variable_attrs")
        _require(type(state.get("_device_state")) is _device_state(), f"a {kind} without the state of a device")
    defaults.setdefault("differentiable", False)
    for base in type(optimizer).__mro__:
        if base.__module__.startswith("torch.optim.") and base.__name__ in _GROUP_DEFAULTS_OF:
            for group in groups:
                for name, value in {**_GROUP_DEFAULTS, **_GROUP_DEFAULTS_OF[base.__name__]}.items():
                    group.setdefault(name, value)
    hooks: dict[str, typing.Any] = {
        name: collections.OrderedDict() for name in torch.optim.Optimizer.__annotations__ if name.endswith("_hooks")
    }
    torch.optim.Optimizer._patch_step_function(optimizer)
    return {**state, **hooks, "state": collections.defaultdict(dict, values)}


def _device_state():
    from poptorch._impl.optimizer.state import DeviceState

    return DeviceState


def _is_texts(value, kinds):
    return type(value) in kinds and all(type(member) is str for member in value)


def _check_ours(instance, state):
    """Attributes of poptorch's own classes: those of a new object, each of the same type."""
    from poptorch import enums, ops, optim
    from poptorch._impl.options import phased, strategies

    kind = type(instance)
    fields: tuple[str, ...]
    if kind is ops._BeginBlockHook:
        kinds = {"user_id": (int, str, type(None)), "ipu_id": (int, type(None))}
        fields = tuple(kinds)
        fits = all(type(state.get(name)) in kinds[name] for name in fields)
    elif kind is optim.VariableAttributes:
        fields = ("_variable", "_allowed")
        fits = all(_is_texts(state.get(name), (set,)) for name in fields)
    elif kind is _device_state():
        fields = ("state", "param")
        tensors = [_is_dict(state.get(name), str, torch.Tensor) for name in fields]
        fits = all(tensors) or all(state.get(name) is None for name in fields)
        if fits and set(state) == set(fields):
            kind.__init__(instance, state["state"], state["param"], state["state"] is not None)
    elif kind is strategies.Stage:
        fields = ("_blocks", "_ipu", "_stage_id")
        fits = _is_texts(state.get("_blocks"), (tuple,)) and all(
            type(state.get(name)) in (int, type(None)) for name in fields[1:]
        )
    elif issubclass(kind, strategies.PipelinedExecution):
        fields = ("_auto", "_stages")
        auto = (type(None), enums.AutoStage)
        fits = type(state.get("_auto")) in auto and _is_list(state.get("_stages"), strategies.Stage)
    elif kind is phased.Phase:
        fields = ("_stages",)
        stages = state.get("_stages")
        fits = type(stages) is tuple and all(type(stage) is strategies.Stage for stage in stages)
    elif issubclass(kind, phased.PhasedExecution):
        fields = ("_phases", "_separate", "_liveness")
        fits = (
            _is_list(state.get("_phases"), phased.Phase)
            and type(state.get("_separate")) is bool
            and type(state.get("_liveness")) is enums.Liveness
        )
    else:
        return _check_options(kind, state)
    _require(fits and set(state) == set(fields), f"a {name_of(kind)} with odd attributes")
    return state


def _check_options(kind, state):
    from poptorch import options
    from poptorch._impl.options.locations import TensorLocationSettings

    fresh = options.Options._plain()
    known = {type(part): part for part in (fresh, *fresh._parts().values(), TensorLocationSettings())}
    _require(kind in known, f"an instance of {name_of(kind)}")
    template = object.__getattribute__(known[kind], "__dict__")
    _require(set(state) == set(template), f"a {name_of(kind)} with other attributes than this version has")
    for name, value in template.items():
        kinds = (type(value), int) if name == "patterns_level" else (type(value),)
        _require(isinstance(state[name], kinds), f"a {name_of(kind)} with odd {name}")
    texts = [state[name] for name in ("_values", "options", "patterns") if name in state]
    _require(all(_is_texts(list(table), (list,)) for table in texts), f"a {name_of(kind)} with odd names")
    return state
