"""What a session refuses in a model before the program is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from popart._impl import reserved_names
from popart._impl.exceptions import popart_exception

if TYPE_CHECKING:
    import onnx

_OF_ALL_WEIGHTS = ("lossScaling_", "PreviousLossScaling_", reserved_names.LOSS_SCALE_UPDATE_FACTOR)
_OF_A_WEIGHT = (*reserved_names.SUMS, *reserved_names.STATES)


def _weight_of(state: str, prefix: str) -> str:
    """The weight that a state of an optimizer belongs to; the accumulator of Nesterov's gradient ends in its own way."""
    return state[len(prefix) :].removesuffix("_nesterovGrad")


def check_names(graph: onnx.GraphProto) -> None:
    """Checks names of the main graph.

    Raises:
        popart_exception: two inputs go by one name; a tensor begins as those do that a session makes. State of an optimizer
            that a saved model brings along with its weight may.
    """
    seen: set[str] = set()
    for value in graph.input:
        if value.name in seen:
            raise popart_exception(f"repeated input id: two inputs of the model are called '{value.name}'; rename one")
        seen.add(value.name)
    weights = {tensor.name for tensor in graph.initializer}
    names = [*seen, *(name for node in graph.node for name in node.output), *weights]
    for name in names:
        prefix = reserved_names.clash(name)
        if prefix is None:
            continue
        is_state = prefix in _OF_ALL_WEIGHTS or prefix in _OF_A_WEIGHT and _weight_of(name, prefix) in weights
        if is_state and name in weights:
            continue
        raise popart_exception(
            f"clash with reserved prefix: the tensor '{name}' of the model begins with '{prefix}', as tensors do that a session "
            "makes; rename it"
        )
