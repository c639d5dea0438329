"""What a pickle in an executable file may name, and what happens when it does.

Three kinds: callables of a fixed list, each behind a wrapper that checks its arguments; values (types, dtypes, functions and
layers of torch that modules keep as attributes), which are never called; classes the program has imported already, of
which instances are made without running any of their code. Callables and such classes are no values: they stand on the stack
of the unpickler as a `Name`, which nothing that is loaded may hold (`loaded_state`). Everything else is refused by name.
"""

import collections
import enum
import re
import sys
import types

import numpy
import torch
from torch._weights_only_unpickler import _get_allowed_globals

from poptorch._impl.files.attribute_rule import Refused, check_attribute

_FUNCTION_MODULES = ("torch.nn.functional", "torch._C._nn", "torch")
_NOT_NUMERIC = {"from_file", "frombuffer", "_import_symbols"}  # builtins of torch that touch files or raw memory
_TORCH_BUILTINS = torch._C._VariableFunctions
_BUILTIN_VALUES = {kind.__name__: kind for kind in (dict, list, set, frozenset, tuple, int, float, bool, str, object)}
_BUILTIN_OWNERS = ("torch._C._VariableFunctions", "torch._C._VariableFunctionsClass")
_CODE_CARRIERS = ("torch.fx", "torch.jit", "torch.package", "torch._dynamo", "torch._inductor", "torch.export")


class NumpyArray:
    """An array between its two steps in a pickle: made, then filled."""

    full_name = "half a numpy array"

    def __init__(self):
        self.memo_keys = []


def _require(condition, detail):
    if not condition:
        raise Refused(detail)


# Arguments are looked at by their type first: comparing, formatting, and asking for truth run methods of their classes.
def _is_nothing(value):
    """None or an empty container."""
    return value is None or (type(value) in (list, tuple, dict, set, collections.OrderedDict) and len(value) == 0)


def _is_sizes(value):
    return type(value) in (tuple, list, torch.Size) and all(type(n) is int and n >= 0 for n in value)


def _rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    _require(isinstance(storage, torch.storage.TypedStorage), "a tensor without a storage")
    _require(type(offset) is int and offset >= 0 and _is_sizes(size) and _is_sizes(stride), "a tensor of odd shape")
    _require(len(size) == len(stride), "a tensor of odd shape")
    _require(_is_nothing(hooks) and _is_nothing(metadata), "a tensor with hooks or metadata")
    _require(type(requires_grad) is bool, "a tensor of odd requires_grad")
    reach = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride))
    # torch would grow the storage to fit.
    _require(offset + reach <= storage._size(), "a tensor larger than its storage")
    return torch._utils._rebuild_tensor_v2(storage, offset, tuple(size), tuple(stride), requires_grad, {})


def _rebuild_parameter(data, requires_grad, hooks):
    _require(type(data) is torch.Tensor and type(requires_grad) is bool and _is_nothing(hooks), "an odd parameter")
    return torch._utils._rebuild_parameter(data, requires_grad, collections.OrderedDict())


def _rebuild_parameter_with_state(data, requires_grad, hooks, state):
    parameter = _rebuild_parameter(data, requires_grad, hooks)
    _require(type(state) is dict, "a parameter with slots")
    for name, value in state.items():
        check_attribute(torch.nn.Parameter, name)
        parameter.__dict__[name] = value
    return parameter


def _empty(kind):
    """Containers are made empty; opcodes put members into them."""

    def make(*members):
        _require(all(map(_is_nothing, members)), f"a {kind.__name__} made of something else than opcodes")
        return kind()

    return make


def _default_dict(factory=None):
    if isinstance(factory, Callable) and factory.full_name == "builtins.set":
        factory = set
    is_plain = any(factory is kind for kind in (None, dict, list, int, float, set))
    _require(is_plain, "a defaultdict with a factory of its own")
    return collections.defaultdict(factory)


def _bytearray(content=b""):
    _require(type(content) is bytes, "a bytearray of something else than bytes")
    return bytearray(content)


def _numpy_array(kind, shape, code):
    _require(kind is NUMPY_ARRAY and _is_sizes(shape) and tuple(shape) == (0,), "an odd array")
    return NumpyArray()


def fill_numpy(state):
    """The array of the second step (numpy's own `__setstate__` trusts its argument)."""
    _require(type(state) is tuple and len(state) == 5, "an odd array")
    _, shape, dtype, is_fortran, content = state
    _require(isinstance(dtype, numpy.dtype) and _is_sizes(shape) and type(content) is bytes, "an odd array")
    _require(type(is_fortran) is bool, "an odd array")
    count = 1
    for extent in shape:
        count *= extent
    _require(count * dtype.itemsize == len(content), "an array of another size than its bytes")
    return numpy.frombuffer(content, dtype).reshape(shape, order="F" if is_fortran else "C").copy()


def _numpy_dtype(name, align=False, copy=True):
    _require(type(name) is str and re.fullmatch(r"[<|=]?[biufc][0-9]{1,2}|[<|=]?b1|\?", name), "an odd numpy type")
    return numpy.dtype(name)


def _numpy_scalar(dtype, content):
    _require(isinstance(dtype, numpy.dtype) and type(content) is bytes, "an odd numpy number")
    _require(len(content) == dtype.itemsize, "an odd numpy number")
    return numpy.frombuffer(content, dtype)[0]


def _checked(function, *kinds):
    def call(*args):
        fits = len(args) <= len(kinds) and all(type(arg) in kind for arg, kind in zip(args, kinds))
        _require(fits, f"odd arguments of {function.__name__}")
        return function(*args)

    return call


def _size(members):
    _require(_is_sizes(members), "an odd torch.Size")
    return torch.Size(members)


def _getattr(owner, name):
    """How pickles name torch's builtins (`torch.relu`); nothing else."""
    fits = owner is TORCH_BUILTINS and type(name) is str and _is_function_of_torch(vars(torch).get(name), "torch", name)
    _require(fits, "builtins.getattr")
    return vars(torch)[name]


def _none_type(*values):
    """How pickles name the class of None, which stands where a parameter held something of its wrapper."""
    _require(len(values) == 1 and values[0] is None, "builtins.type")
    return NONE_TYPE


# Name → what is called in its place. None of them runs code of anybody else.
CALLABLES = {
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
    "torch.serialization._get_layout": _checked(torch.serialization._get_layout, (str,)),
    "torch.Size": _size,
    "builtins.getattr": _getattr,
    "builtins.type": _none_type,
    "torch.device": _checked(torch.device, (str,), (int,)),
    "collections.OrderedDict": _empty(collections.OrderedDict),
    "collections.defaultdict": _default_dict,
    "builtins.set": _empty(set),
    "builtins.frozenset": _empty(frozenset),
    "builtins.complex": _checked(complex, (float, int), (float, int)),
    "builtins.slice": _checked(slice, *[(int, type(None))] * 3),
    "builtins.range": _checked(range, *[(int,)] * 3),
    "builtins.bytearray": _bytearray,
    "numpy.core.multiarray._reconstruct": _numpy_array,
    "numpy._core.multiarray._reconstruct": _numpy_array,
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy.dtype": _numpy_dtype,
}


class Name:
    """A name as it lies on the stack of the unpickler, good for what an opcode does with it; no value."""

    def __init__(self, full_name):
        self.full_name = full_name


class Callable(Name):
    """A name of the fixed list."""

    def call(self, args):
        return CALLABLES[self.full_name](*args)


class ClassName(Name):
    """A class of which instances are made, or an enumeration whose members are looked up."""

    def __init__(self, full_name, kind):
        super().__init__(full_name)
        self.kind = kind


RECONSTRUCTOR = Name("copyreg._reconstructor")  # an instance without state, as the pickles of wrapped models have it
NUMPY_ARRAY = Name("numpy.ndarray")
NONE_TYPE = Name("builtins.NoneType")
TORCH_BUILTINS = Name("torch._C._VariableFunctions")


def _our_classes():
    from poptorch import ops, optim, options
    from poptorch._impl.optimizer import state as optimizer_state
    from poptorch._impl.options import locations, phased, strategies

    return (
        options.Options,
        options._DistributedOptions,
        options._JitOptions,
        options._PopartOptions,
        options._PrecisionOptions,
        options._TrainingOptions,
        locations.TensorLocationOptions,
        locations.TensorLocationSettings,
        strategies.PipelinedExecution,
        strategies.ShardedExecution,
        strategies.Stage,
        phased.Phase,
        phased.SerialPhasedExecution,
        phased.ParallelPhasedExecution,
        optim.VariableAttributes,
        optimizer_state.DeviceState,
        ops._BeginBlockHook,
    )


def _lookup(module, name):
    """A module-level or nested name of an imported module, without running descriptors or module hooks; or None."""
    found = sys.modules.get(module)
    if not isinstance(found, types.ModuleType):
        return None
    value = None
    for i, part in enumerate(name.split(".")):
        table = vars(found) if i == 0 else (vars(value) if isinstance(value, type) else {})
        if part not in table or (i > 0 and part.startswith("__")):
            return None
        value = table[part]
    return value


def is_instance_class(kind):
    """May instances of this class be made?"""
    if not isinstance(kind, type) or type(kind) not in (type, *_PLAIN_METACLASSES):
        return False
    if any(kind.__module__ == name or kind.__module__.startswith(name + ".") for name in _CODE_CARRIERS):
        return False
    if issubclass(kind, (torch.nn.Module, torch.optim.Optimizer)):
        return True
    return kind in _our_classes() or is_named_tuple(kind)


def is_named_tuple(kind):
    """A class that collections.namedtuple made, or one that adds methods to it but no `__new__` of its own."""
    if not (isinstance(kind, type) and issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)):
        return False
    make = kind.__new__
    # namedtuple evaluates its `__new__` in a namespace of this name.
    made_by_it = isinstance(make, types.FunctionType) and make.__module__.startswith("namedtuple_")
    return made_by_it and kind.__init__ is object.__init__ and kind.__getattribute__ is tuple.__getattribute__


def is_layer_class(kind):
    """A layer of torch itself, which models keep to make more of it (`norm_layer=torch.nn.BatchNorm2d`)."""
    return (
        isinstance(kind, type)
        and issubclass(kind, torch.nn.Module)
        and kind.__module__.startswith("torch.nn.modules.")
        and vars(torch.nn).get(kind.__name__) is kind
    )


_PLAIN_METACLASSES = (type(collections.abc.Mapping),)  # ABCMeta


def find(module, name):
    """What a pickle gets for `module.name`: a `Callable`, a value, or a class. `Refused` for anything else."""
    full = f"{module}.{name}"
    if full == RECONSTRUCTOR.full_name:
        return RECONSTRUCTOR
    if full in CALLABLES:
        return Callable(full)
    if module == "builtins" and name in _BUILTIN_VALUES:
        return _BUILTIN_VALUES[name]
    if full == NUMPY_ARRAY.full_name:
        return NUMPY_ARRAY
    if full in _BUILTIN_OWNERS:
        return TORCH_BUILTINS
    known = _get_allowed_globals().get(full)
    if isinstance(known, torch.dtype):
        return known
    value = _lookup(module, name)
    if isinstance(value, type):
        if is_layer_class(value):
            return value
        if is_instance_class(value) or issubclass(value, enum.Enum):
            return ClassName(full, value)
    elif module in _FUNCTION_MODULES and _is_function_of_torch(value, module, name):
        return value
    raise Refused(full)


def _is_function_of_torch(value, module, name):
    if name in _NOT_NUMERIC or name.startswith("__"):
        return False
    if isinstance(value, types.BuiltinFunctionType):
        return module != "torch" or value == getattr(_TORCH_BUILTINS, name, None)
    return isinstance(value, types.FunctionType) and module == "torch.nn.functional" and value.__module__ == module


def enum_member(kind, value):
    """The member of an enumeration with this value, looked up and never made."""
    _require(type(value) in (int, str), f"an odd member of {kind.__qualname__}")
    member = vars(kind).get("_value2member_map_", {}).get(value)
    _require(member is not None, f"{value!r} is no member of {kind.__qualname__}")
    return member


_HASHES: tuple[object, ...] = (enum.Enum.__hash__, int.__hash__, str.__hash__)


def check_key(key, depth=2):
    """Keys whose hash is cheap and runs nobody's code. Returns how many values were looked at: tuples may share theirs."""
    kind = type(key)
    if kind in (str, int, float, bool, bytes, type(None), torch.dtype, torch.device):
        return 1
    if isinstance(key, enum.Enum):
        _require(kind.__hash__ in _HASHES, f"a key of type {kind.__name__}")
        return 1
    _require(kind is tuple and depth > 0, f"a key of type {kind.__name__}")
    return 1 + sum(check_key(member, depth - 1) for member in key)
