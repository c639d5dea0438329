"""The objects of `popart._internal.ir` that stand behind those of popxl. They are made when somebody asks for one:
building a program needs none. All that popxl knows about how popart keeps them is in this file: an Ir has `core`, its
native program, and `wrap_graph`, `wrap_tensor`, `wrap_op` by number; graphs and tensors have `_number` and `_ir`.
"""

from typing import Any


def core() -> Any:
    """The module `popart._internal.ir`."""
    import popart._internal.ir as module

    return module


def graph(pb_ir: Any, number: int) -> Any:
    return pb_ir.wrap_graph(number)


def tensor(pb_ir: Any, number: int) -> Any:
    return pb_ir.wrap_tensor(number)


def op(pb_ir: Any, op_id: int) -> Any:
    return pb_ir.wrap_op(op_id)


def program(pb_ir: Any) -> Any:
    """The native program."""
    return pb_ir.core


def execution_context(number: int) -> Any:
    return core().ExecutionContext(number)


def tile_set(number: int) -> Any:
    return core().TileSet(number)


def retrieval_mode(mode: str) -> Any:
    import popart

    modes = popart.VariableRetrievalMode
    return modes.AllReplicas if mode == "all_replicas" else modes.OnePerGroup
