"""Where ops are made: the current graph and what surrounds it (IPU, tile set, name scopes, order).

Each thread has a context of its own: threads may build several programs at a time. Every context manager here restores what
was before, also after an exception.
"""

import contextlib
import functools
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional

from popxl._impl import facade

_NORMAL, _COMPUTE, _IO = 0, 0, 1  # numbers of ExecutionContext and TileSet


class Context:
    """What ops get that are made now by the calling thread. `get_current_context()` gives that thread's. Hooks belong to their
    graphs and are those of all threads."""

    __slots__ = (
        "_graphs",
        "_scopes",
        "_prefix",
        "_ipu",
        "_tile_set",
        "_execution_context",
        "_mode",
        "_previous",
        "_skip",
        "_record",
        "__weakref__",
    )

    _hooks: dict[tuple[int, int], dict[int, Callable[[Any], Any]]] = {}
    _hook_graphs: dict[int, tuple[int, int]] = {}
    _hook_handles = itertools.count(1)

    def __init__(self) -> None:
        self._graphs: list[Any] = []
        self._scopes: list[str] = []
        self._prefix = ""
        self._ipu: Optional[int] = 0
        self._tile_set = _COMPUTE
        self._execution_context = _NORMAL
        self._mode: Any = None
        # By (program, graph, execution context): ops the next one of a True block follows, and the last of a True block.
        self._previous: dict[tuple[int, int, int], tuple[list[int], Optional[int]]] = {}
        self._skip = 0
        self._record: Any = None

    # --- graphs
    @property
    def graph(self) -> Any:
        """The current graph. Raises RuntimeError when there is none."""
        if not self._graphs:
            raise RuntimeError("There is no current graph: make ops and tensors inside `with graph:`.")
        return self._graphs[-1]

    @property
    def main_graph(self) -> Any:
        """Main graph of the current Ir. Raises RuntimeError when there is no current graph."""
        return self.graph.ir.main_graph

    @property
    def ir(self) -> Any:
        """The current Ir. Raises RuntimeError when there is no current graph."""
        return self.graph.ir

    def push_graph(self, graph: Any) -> None:
        """Makes a graph the current one. Raises RuntimeError when a graph of another Ir is current."""
        if self._graphs and self._graphs[-1].ir is not graph.ir:
            raise RuntimeError(
                f"{graph!r} of {graph.ir!r} cannot become current inside {self._graphs[-1]!r} of "
                f"{self._graphs[-1].ir!r}: leave that graph first."
            )
        self._graphs.append(graph)

    def pop_graph(self) -> None:
        """Makes the graph before the current one current again."""
        self._graphs.pop()

    # --- names
    @property
    def name_scopes(self) -> list[str]:
        """Names of the scopes around, outermost first."""
        return self._scopes

    def push_name_scope(self, name: str) -> None:
        """Adds a scope inside the others."""
        self._scopes.append(name)
        self._prefix = "/".join(self._scopes) + "/"

    def pop_name_scope(self) -> None:
        """Removes the innermost scope."""
        self._scopes.pop()
        self._prefix = "/".join(self._scopes) + "/" if self._scopes else ""

    # --- places
    @property
    def ipu_id(self) -> Optional[int]:
        """IPU of new ops; None: they have none."""
        return self._ipu

    @property
    def io_tile_set(self) -> str:
        """`"io"` inside `io_tiles()`, else `"compute"`."""
        return "io" if self._tile_set == _IO else "compute"

    # --- order
    @property
    def in_sequence(self) -> Any:
        """Mode of the innermost `popxl.in_sequence`; None outside."""
        return self._mode

    @in_sequence.setter
    def in_sequence(self, mode: Any) -> None:
        self._mode = mode
        if mode is None:
            self._previous.clear()

    def _sequence(self, program: Any, graph: int, op: int, execution_context: int) -> None:
        """Ordering edges of a new op, as the mode says."""
        mode = self._mode
        if mode is None or mode == "pass":
            return
        key = (program.id, graph, execution_context)
        previous, last = self._previous.get(key, ([], None))
        if mode:
            for before in previous:
                program.add_edge(before, op)
            self._previous[key] = ([op], op)
        else:
            if last is not None:
                program.add_edge(last, op)
            previous.append(op)
            self._previous[key] = (previous, last)

    def _replaced(self, program: Any, graph: int, gone: set[int], made: list[int]) -> None:
        """What follows ops that are gone follows those that took their place."""
        for key, (previous, last) in list(self._previous.items()):
            if key[:2] == (program.id, graph) and (gone & {*previous, last}):
                kept = [op for op in previous if op not in gone]
                self._previous[key] = (
                    kept + (made if len(kept) < len(previous) else []),
                    made[-1] if last in gone else last,
                )

    def _created(self, ir: Any, graph: int, op: int) -> None:
        """What every creation of an op ends with: order, then hooks. Nothing of it happens outside of both."""
        program = ir._program
        if self._mode is not None:
            self._sequence(program, graph, op, self._execution_context)
        if self._hooks:
            hooks = self._hooks.get((program.id, graph))
            if hooks:
                handle = facade.op(ir._pb_ir, op)
                for hook in list(hooks.values()):
                    hook(handle)

    # --- what custom ops call
    def _get_op_settings(self, name: str) -> Any:
        """Settings of popart._internal.ir for an op of that name made now."""
        core = facade.core()
        settings = core.Settings(self.graph._pb_graph, self._prefix + name)
        if self._ipu is not None:
            settings.vgraphId = core.OptionalVGraphId(self._ipu)
        settings.executionContext = facade.execution_context(self._execution_context)
        settings.tileSet = facade.tile_set(self._tile_set)
        return settings

    def _add_in_sequence_topocons(self, op: Any) -> None:
        """The sequencing step alone, for an op of popart._internal.ir."""
        pb_graph = op.getGraph()
        context = int(op.getSettings().executionContext.value)
        self._sequence(facade.program(pb_graph._ir), pb_graph._number, op.id, context)

    def _op_created(self, op: Any) -> None:
        """Sequencing and hooks, for an op of popart._internal.ir that a custom op made."""
        self._add_in_sequence_topocons(op)
        self._run_hooks(op)

    def _run_hooks(self, op: Any) -> None:
        if self._hooks:
            pb_graph = op.getGraph()
            hooks = self._hooks.get((facade.program(pb_graph._ir).id, pb_graph._number))
            for hook in list(hooks.values()) if hooks else ():
                hook(op)

    # --- hooks
    def register_op_created_hook(self, graph: Any, fn: Callable[[Any], Any]) -> int:
        """Calls `fn(op)` after each op that is made in `graph`; returns a handle that removes it."""
        handle = next(self._hook_handles)
        key = (graph.ir._program.id, graph._number)
        self._hooks.setdefault(key, {})[handle] = fn
        self._hook_graphs[handle] = key
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends what the handle was given for. Raises ValueError when it is of no hook."""
        key = self._hook_graphs.pop(handle, None)
        if key is None:
            raise ValueError(f"No hook has the handle {handle}; there are {sorted(self._hook_graphs)}.")
        hooks = self._hooks[key]
        del hooks[handle]
        if not hooks:
            del self._hooks[key]


class _Contexts(threading.local):
    """`here`: the context of the calling thread. One access gets it; those of the thread-local object itself are dear."""

    def __init__(self) -> None:
        self.here = Context()


_contexts = _Contexts()


def get_current_context() -> Context:
    """The context of the calling thread."""
    return _contexts.here


def get_current_graph() -> Any:
    """The innermost graph that is current. Raises RuntimeError when there is none.

    Example:
        >>> with ir.main_graph:
        ...     assert popxl.gcg() is ir.main_graph
    """
    return _contexts.here.graph


def get_main_graph() -> Any:
    """Main graph of the current Ir. Raises RuntimeError when no graph is current."""
    return _contexts.here.main_graph


def get_ir() -> Any:
    """The current Ir. Raises RuntimeError when no graph is current."""
    return _contexts.here.ir


gcg, gmg, gir = get_current_graph, get_main_graph, get_ir


@contextlib.contextmanager
def name_scope(name: str) -> Iterator[list[str]]:
    """Puts `name/` before the names of tensors and ops made inside; scopes nest.

    Yields:
        The scopes, outermost first.

    Example:
        >>> with popxl.name_scope("head"):
        ...     y = x + 1  # y.name is "head/add_out"
    """
    here = _contexts.here
    here.push_name_scope(name)
    try:
        yield here.name_scopes
    finally:
        here.pop_name_scope()


@contextlib.contextmanager
def ipu(ipu: Optional[int]) -> Iterator[Optional[int]]:
    """Places ops made inside on an IPU of the replica; 0 outside. None: they carry no IPU.

    Yields:
        The number.
    """
    here = _contexts.here
    before, here._ipu = here._ipu, ipu
    try:
        yield ipu
    finally:
        here._ipu = before


@contextlib.contextmanager
def io_tiles() -> Iterator[None]:
    """Places ops made inside on the IO tiles of their IPU, which session option `numIOTiles` reserves."""
    here = _contexts.here
    before, here._tile_set = here._tile_set, _IO
    try:
        yield
    finally:
        here._tile_set = before


@contextlib.contextmanager
def _tile_set(number: int) -> Iterator[None]:
    here = _contexts.here
    before, here._tile_set = here._tile_set, number
    try:
        yield
    finally:
        here._tile_set = before


@contextlib.contextmanager
def _in_sequence(mode: Any) -> Iterator[None]:
    here = _contexts.here
    before = here._mode
    here.in_sequence = mode
    try:
        yield
    finally:
        here.in_sequence = before


def in_sequence(mode: Any = True) -> Any:
    """Orders the ops made inside, in each graph and execution context for itself. A context manager and a decorator.

    Args:
        mode: True: each op runs after the one before. False: the ops have no order among each other, and together they
            are one step of an enclosing `in_sequence(True)`. "pass": nothing is said about them.

    Raises:
        TypeError: the mode is None.

    Example:
        >>> with popxl.in_sequence():
        ...     ops.add_(x, 1)
        ...     ops.host_store(out, x)  # sees the sum
    """
    if mode is None:
        raise TypeError(
            'in_sequence takes True, False or "pass", not None: leave it out where nothing is to be ordered.'
        )
    return _in_sequence(mode)


@contextlib.contextmanager
def _execution_context(context: Any) -> Iterator[None]:
    """Ops made inside belong to that part of the program: a `popxl.ExecutionContext`."""
    here = _contexts.here
    before, here._execution_context = here._execution_context, int(getattr(context, "value", context))
    try:
        yield
    finally:
        here._execution_context = before


def op_debug_context(name: Any = None) -> Any:
    """Decorator of functions that make ops: `@op_debug_context`, or with the name that records of debug information
    carry instead of the function's. An inner decorated call replaces the name as long as it lasts."""
    if callable(name):
        return op_debug_context(None)(name)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        api = name or function.__name__

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            here = _contexts.here
            before, here._record = here._record, api
            try:
                return function(*args, **kwargs)
            finally:
                here._record = before

        return recorded

    return decorate


@contextlib.contextmanager
def debug_context_frame_offset(i: int) -> Iterator[None]:
    """Ops made inside carry the line of the caller `i` + 1 frames further up. A context manager and a decorator."""
    here = _contexts.here
    here._skip += i + 1
    try:
        yield
    finally:
        here._skip -= i + 1


def get_source_location(offset: int) -> Any:
    """Function, file and line of the caller `offset` frames up. Raises IndexError when there are not so many."""
    try:
        frame = sys._getframe(offset + 1)
    except ValueError:
        raise IndexError(f"There are fewer than {offset + 1} frames above this call.") from None
    return facade.core().SourceLocation(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)
