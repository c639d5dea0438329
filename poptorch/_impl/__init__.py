"""Private code of the poptorch package. Nothing here is public; the public modules re-export what is.

Two functions that published programs call or replace stand here all the same.
"""

import typing

_Object = typing.TypeVar("_Object")


def isDispatchTracing() -> bool:
    """Is `forward` being captured in this thread? As `poptorch.isRunningOnIpu()`."""
    from poptorch._impl.capture import state

    return state.active() is not None


def _restoreWrapperIfNecessary(obj: _Object) -> _Object:
    """Gives the copy of a model that is wrapped for training the class of a wrapped model, and returns it.

    Copying calls whatever stands here under this name. Pickles hold ordinary classes, so loading one calls nothing.
    """
    from poptorch._impl.session import weight_hooks

    weight_hooks.restore_wrapper(obj)
    return obj
