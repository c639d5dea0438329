"""Makes a module wrapped for training show current weights: reading a parameter or buffer first fetches newer values.

The module's class becomes `Poptorch<Name>`, parameters and buffers get subclasses whose attribute access synchronises.
All of it is undone by `unwrap`. Pickles hold the original classes, so they load without poptorch; copies in the process
keep the model's class and its link to the wrapper, around ordinary parameters.
"""

from __future__ import annotations

import copy
import copyreg
import typing
import weakref

import torch
from torch.nn.parameter import is_lazy

from poptorch import _impl, poptorch_core
from poptorch._impl import errors

_OWNER = "_poptorch_owner"  # of a model: its training wrapper
_OWNERS = "_poptorch_owners"  # of a parameter or buffer: weak references to the training wrappers that hold it
_WAITING = "_poptorch_waiting"  # of a copy that is being made: the class and the owner it is to have


def _synchronise(tensor):
    for owner in object.__getattribute__(tensor, "__dict__").get(_OWNERS, ()):
        executor = owner()
        if executor is not None:
            executor.copyWeightsToHostIfNeeded()


class _Synchronised:
    """Mix-in of hooked parameters and buffers."""

    def __getattribute__(self, name):
        if name not in ("__class__", "__dict__"):
            _synchronise(self)
        # Not super(): a capture in another thread may make the tensor one of another class meanwhile.
        return object.__getattribute__(self, name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        for argument in args:
            if isinstance(argument, _Synchronised):
                _synchronise(argument)
        return poptorch_core.without_torch_function(func, args, kwargs or {})

    def __reduce_ex__(self, protocol):
        return plain_copy(self).__reduce_ex__(protocol)

    def __deepcopy__(self, memory):
        return copy.deepcopy(plain_copy(self), memory)


class PoptorchParameter(_Synchronised, torch.nn.Parameter):
    """A parameter whose newest values may be on the device."""

    _poptorch_plain_class = torch.nn.Parameter


class PoptorchBuffer(_Synchronised, torch.Tensor):
    """A buffer whose newest values may be on the device."""

    _poptorch_plain_class = torch.Tensor


def plain_copy(tensor):
    """An object of the ordinary class that shares the storage; other tensors are returned as they are."""
    if isinstance(tensor, PoptorchParameter):
        return torch.nn.Parameter(tensor.data.as_subclass(torch.Tensor), tensor.requires_grad)
    if isinstance(tensor, PoptorchBuffer):
        return tensor.data.as_subclass(torch.Tensor)
    return tensor


def _place_of(tensor):
    """Equal for tensors that are the same elements in the same way; None for those that may be no others'."""
    if is_lazy(tensor) or poptorch_core.objection_to(tensor) or not tensor.numel():
        return None
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride()


def _hook(tensor, owner, name, is_parameter):
    if is_lazy(tensor):
        return  # it has no values before its module is called
    plain = (torch.nn.Parameter, PoptorchParameter, torch.Tensor, PoptorchBuffer)
    if type(tensor) not in plain and (objection := poptorch_core.objection_to(tensor)):  # which its class says
        raise errors.create_error(f"The {'parameter' if is_parameter else 'buffer'} '{name}' {objection}")
    if is_parameter:
        tensor.__class__ = PoptorchParameter
    elif type(tensor) in (torch.Tensor, PoptorchBuffer):
        tensor.__class__ = PoptorchBuffer
    else:
        raise errors.create_error(
            f"The buffer '{name}' is a {type(tensor).__name__}: all buffers must be plain torch.Tensor."
        )
    attributes = object.__getattribute__(tensor, "__dict__")
    attributes[_OWNERS] = (*_other_owners(attributes, owner()), owner)


def _unhook(tensor, executor):
    kind = object.__getattribute__(tensor, "__class__")
    if issubclass(kind, _Synchronised):
        attributes = object.__getattribute__(tensor, "__dict__")
        left = _other_owners(attributes, executor)
        if left:
            attributes[_OWNERS] = left
        else:
            attributes.pop(_OWNERS, None)
            tensor.__class__ = kind._poptorch_plain_class


def _other_owners(attributes, executor):
    return tuple(owner for owner in attributes.get(_OWNERS, ()) if owner() not in (None, executor))


def _wrapped_class(original: typing.Any, lock: poptorch_core.WaitLock) -> type:
    """The subclass of `original` that a wrapped model gets; `lock` is that of its executor."""

    class Wrapped(original):
        _poptorch_original_class = original

        def __getattribute__(self, name):
            if name in ("_parameters", "_buffers", "forward"):
                executor = find_trainer(object.__getattribute__(self, "__dict__"))
                if executor is not None:
                    executor.copyWeightsToHostIfNeeded()
            return super().__getattribute__(name)

        def copyWeightsToHostIfNeeded(self):
            """Fetches newer device weights; returns whether it copied."""
            executor = find_trainer(self.__dict__)
            return executor.copyWeightsToHostIfNeeded() if executor is not None else False

        def destroy(self):
            """Destroys the executor this model is wrapped by."""
            executor = find_trainer(self.__dict__)
            if executor is not None:
                executor.destroy()
            if is_wrapped(self) and (executor is None or executor.model is not self):  # gone, or this is a copy
                unwrap_tensors(self, executor)
                unwrap_class(self)

        def state_dict(self, *args, **kwargs):
            executor = find_trainer(self.__dict__)
            if executor is None:
                return self._plain_state_dict(*args, **kwargs)
            return lock.hold(self._plain_state_dict, *args, **kwargs)

        def _plain_state_dict(self, *args, **kwargs):
            state = super().state_dict(*args, **kwargs)
            plain: dict[typing.Any, torch.Tensor] = {}  # one object for each distinct tensor
            for key, tensor in state.items():
                if isinstance(tensor, torch.Tensor):
                    tensor = plain_copy(tensor)
                    state[key] = plain.setdefault(_place_of(tensor) or key, tensor)
            return state

        def _as_original(self, make):
            """`make(self)` while this is an object of the original class; the result is wrapped like this one."""
            kind, owner = type(self), self.__dict__.pop(_OWNER, None)
            self.__class__ = original
            try:
                made = make(self)
            finally:
                self.__class__ = kind
                if owner is not None:
                    self.__dict__[_OWNER] = owner
            made.__dict__[_WAITING] = (kind, owner)
            return _impl._restoreWrapperIfNecessary(made)

        def __copy__(self):
            return self._as_original(copy.copy)

        def __deepcopy__(self, memory):
            return self._as_original(lambda model: copy.deepcopy(model, memory))

        def __reduce_ex__(self, protocol):
            # An ordinary object of the original class: loading it needs no poptorch.
            state = {key: value for key, value in self.__dict__.items() if key != _OWNER}
            reconstruct = copyreg._reconstructor  # type: ignore[attr-defined] # private, and in every pickle
            return reconstruct, (original, object, None), state

    Wrapped.__name__ = f"Poptorch{original.__name__}"
    Wrapped.__qualname__ = Wrapped.__name__
    Wrapped.__module__ = original.__module__
    return Wrapped


def restore_wrapper(copied):
    """Makes the copy of a wrapped model one of its wrapped class; other objects stay as they are."""
    kind, owner = getattr(copied, "__dict__", {}).pop(_WAITING, (None, None))
    if kind is not None:
        copied.__class__ = kind
        if owner is not None:
            copied.__dict__[_OWNER] = owner


def plain_model(model):
    """A shallow copy of the original class, which shares parameters, buffers and submodules."""
    kind: typing.Any = type(model)._poptorch_original_class if is_wrapped(model) else type(model)
    if hasattr(kind, "__copy__"):
        made = copy.copy(model)
        unwrap_class(made)
        return made
    made = kind.__new__(kind)  # not copy.copy: modules with parametrisations refuse to be pickled
    made.__dict__.update(model.__dict__)
    made.__dict__.pop(_OWNER, None)
    return made


def is_wrapped(model):
    """Is this module wrapped for training now?"""
    return hasattr(type(model), "_poptorch_original_class")


def find_trainer(attributes):
    """The training executor of the module with these attributes (its `__dict__`), or None."""
    owner = attributes.get(_OWNER)
    return owner() if owner is not None else None


def wrap_tensors(model, owner):
    """Hooks parameters and buffers for the training wrapper that `owner` refers to. poptorch.Error for a buffer of another class; then nothing is hooked."""
    try:
        for name, tensor in list(model.named_parameters()):
            _hook(tensor, owner, name, True)
        for name, tensor in list(model.named_buffers()):
            _hook(tensor, owner, name, False)
    except BaseException:
        unwrap_tensors(model, owner())
        raise


def wrap_class(model, executor, lock):
    """Gives the module its `Poptorch<Name>` class. `lock`: held while the executor changes what the model has."""
    model.__dict__[_OWNER] = weakref.ref(executor)
    model.__class__ = _wrapped_class(type(model), lock)


def unwrap_tensors(model, executor):
    """Ends what `wrap_tensors` did; other training wrappers that hold some of the tensors keep their hooks."""
    for _, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        _unhook(tensor, executor)


def unwrap_class(model):
    """Gives the module its own class back."""
    if is_wrapped(model):
        model.__class__ = type(model)._poptorch_original_class
    model.__dict__.pop(_OWNER, None)
