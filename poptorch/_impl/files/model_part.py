"""The model part of an executable file, checked: what comes out of here has the types that the rest of the package expects.

Its pickle is read by `unpickler`; here is what each key of its dict must hold.
"""

import collections
import enum
import os

import numpy
import torch

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.files import trusted_names, unpickler
from poptorch._impl.files import stored_options
from poptorch._impl.files.loaded_state import MAX_DEPTH, Damaged
from poptorch._impl.log import logger
from poptorch._impl.optimizer.state import DeviceState
from poptorch._impl.structures import parser_of, rebuild, tensors_of

_MAX_VALUES = 100_000  # in the example inputs
_WORDS = 2**64
_MAX_REPLICAS = 4096
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, range, slice, torch.Size, bytearray)
_TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout)
_NUMPY_CONSTANTS = (numpy.ndarray, numpy.generic, numpy.dtype)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def _require(condition, detail):
    if not condition:
        raise Damaged(detail)


class ModelPart:
    """`training`, `options`, `inputs` (names, values, keywords), `groupings`, `rng_state`, `model`, `optimizer`,
    `optimizer_state`; the last four may be None.

    Args:
        file: `poptorch_core.ExecutableFile`.
        path: for messages.
        trusted: run what the pickle names.

    Raises:
        poptorch.Error: damaged, or naming something that is not allowed.
    """

    def __init__(self, file, path, trusted):
        contents = unpickler.read(file.model(), file.storages(), path, trusted)
        try:
            _require(type(contents) is dict, "it is no dict")
            self.training = contents.get("training")
            _require(type(self.training) is bool, "it does not say whether it is for training")
            self.options, dropped = stored_options.options_from_file(contents.get("options"))
            self.inputs = _inputs(contents.get("inputs"), trusted)
            self.groupings = _groupings(contents.get("groupings"))
            self.rng_state = _rng_state(contents.get("rng_state"))
            self.model = _model(contents.get("model"), self.training, trusted)
            self.optimizer = contents.get("optimizer")
            self.optimizer_state = _optimizer_state(contents.get("optimizer_state"))
            kind = torch.optim.Optimizer if self.training and self.model is not None else type(None)
            _require(isinstance(self.optimizer, kind), "it has an odd optimizer")
        except Damaged as damage:
            raise errors.create_error(
                f"Invalid file {path}: the model part is damaged ({errors.foreign(damage)})."
            ) from None
        if dropped:
            logger.warning(
                "%s sets %s, which no file may decide: ignored. Set them yourself, for example with "
                "poptorch.load(file, lambda options: options.logDir(...)).",
                path,
                errors.foreign(", ".join(dropped), 500),
            )


def _check_values(value, trusted):
    """Example inputs: tensors, constants, and containers of them. Bounded in number, depth and bytes."""
    count = total = 0
    stack = [(value, 0)]
    while stack:
        held, depth = stack.pop()
        count += 1
        _require(count <= _MAX_VALUES and depth <= MAX_DEPTH, "its example inputs have too many parts")
        kind = type(held)
        if kind in (torch.Tensor, torch.nn.Parameter):
            _require(held.device.type == "cpu" and held.layout == torch.strided, "an example input is no dense tensor")
            total += held.numel() * held.element_size()
        elif kind in (list, tuple, set, frozenset) or trusted_names.is_named_tuple(kind):
            stack += [(member, depth + 1) for member in held]
        elif kind in _DICTS:
            stack += [(member, depth + 1) for pair in held.items() for member in pair]
        elif not (kind in _CONSTANTS or kind in _TORCH_CONSTANTS or isinstance(held, (*_NUMPY_CONSTANTS, enum.Enum))):
            _require(trusted or parser_of(held) is not None, f"an example input is a {kind.__name__}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _require(total <= memory, f"its example inputs have {total} bytes, this machine has {memory}")


def _blank(tensor):
    """Zeros of the shape and type of an example. Only shapes matter: memory nobody writes to is not even taken."""
    count = tensor.numel() * tensor.element_size()
    try:
        flat = torch.from_numpy(numpy.zeros(max(count, 1), numpy.uint8))[:count]
    except MemoryError:
        raise Damaged(f"its example inputs have {count} bytes, which cannot be had") from None
    return flat.view(tensor.dtype).view(tensor.shape)


def _inputs(inputs, trusted):
    _require(type(inputs) is tuple and len(inputs) == 3, "it has no example inputs")
    names, values, keywords = inputs
    _require(all(type(part) is list for part in inputs), "odd example inputs")
    _require(len(names) == len(values) == len(keywords), "example inputs without names")
    _require(all(type(name) is str for name in names), "example inputs without names")
    _require(all(type(key) in (str, type(None)) for key in keywords), "example inputs with odd keywords")
    _check_values(values, trusted)
    made = {}

    def blank(tensor):  # what was one tensor stays one
        if id(tensor) not in made:
            made[id(tensor)] = _blank(tensor)
        return made[id(tensor)]

    return names, [rebuild(value, map(blank, tensors_of(value))) for value in values], keywords


def _groupings(groupings):
    _require(groupings is None or type(groupings) is dict, "odd groupings of replicas")
    for name, grouping in (groupings or {}).items():
        fits = type(name) is str and type(grouping) is tuple and len(grouping) == 2 and type(grouping[1]) is bool
        sizes = grouping[0] if fits else ()
        fits = fits and type(sizes) is tuple and len(sizes) == 2
        _require(fits and all(type(n) is int and 0 <= n <= _MAX_REPLICAS for n in sizes), "odd groupings of replicas")
    return dict(groupings or {})


def _rng_state(state):
    fits = state is None or (type(state) is list and len(state) in (1, 2))
    _require(fits and all(type(word) is int and -_WORDS < word < _WORDS for word in state or ()), "an odd rng_state")
    _require(state is None or len(state) == 1 or state[1] >= 0, "an odd rng_state")
    return state


def _check_modules(module, path, done):
    """No module is within itself, and torch's own layers have the attributes that they show."""
    if id(module) in done:
        return
    _require(id(module) not in path and len(path) < MAX_DEPTH, "a module within itself")
    path.add(id(module))
    for child in object.__getattribute__(module, "__dict__").get("_modules", {}).values():
        if child is not None:
            _check_modules(child, path, done)
    path.discard(id(module))
    done.add(id(module))
    if trusted_names.is_layer_class(type(module)):
        try:
            module.extra_repr()
        except Exception as error:
            raise Damaged(f"a {type(module).__name__} that lacks attributes: {error}") from None


def _model(model, training, trusted):
    if model is None or isinstance(model, torch.nn.Module):
        if model is not None and not trusted:
            _check_modules(model, set(), set())
        return model
    _require(not training and callable(model) and (trusted or not isinstance(model, type)), "the model is no module")
    return model


def _optimizer_state(state):
    _require(state is None or type(state) is DeviceState, "an odd optimizer_state")
    if state is not None:
        for table in (state.state, state.param):
            fits = type(table) in _DICTS and all(
                type(name) is str and isinstance(value, torch.Tensor) for name, value in table.items()
            )
            _require(fits or (state.state is None and state.param is None), "an odd optimizer_state")
    return state


def blaming(path, *passing):
    """A context in which what goes wrong is the fault of the file: errors from inside become a `poptorch.Error` that names it.

    `passing`: types of exceptions that pass as they are, beside poptorch's own.
    """
    return _Blaming(path, passing)


class _Blaming:
    def __init__(self, path, passing):
        self._path = path
        self._passing = (poptorch_core.Error, MemoryError, *passing)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is None or not isinstance(error, Exception) or isinstance(error, self._passing):
            return
        raise errors.create_error(
            f"{self._path}: its model cannot be captured again with its example inputs ({kind.__name__}: "
            f"{errors.foreign(error, 300)}). Check that the program that loads it has the classes it was saved with, or "
            "compile and save it again."
        ) from error
