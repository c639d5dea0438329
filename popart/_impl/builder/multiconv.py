"""ai.graphcore's MultiConv: three inputs (data, weights, bias or "") for each convolution, and lists one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popart._impl.exceptions import popart_exception

_LISTS = (
    "dilations inDilations pads outPads strides availableMemoryProportions partialsTypes enableConvDithering".split()
)
_TWICE = ("pads", "outPads")


def multiconv(core: Any, operation: Any, given: dict[str, Any], method: Any) -> list[str]:
    """Raises popart_exception where a list has neither no entry nor one for each convolution."""
    convolutions = given["args"]
    if not convolutions:
        raise popart_exception("MultiConv has 0 convolutions; it needs at least one")
    for index, ids in enumerate(convolutions):
        if len(ids) not in (2, 3):
            raise popart_exception(
                f"MultiConv: convolution {index} has {len(ids)} inputs; it takes [data, weights] or [data, weights, bias]"
            )
    for name in _LISTS:
        if given[name] and len(given[name]) != len(convolutions):
            raise popart_exception(
                f"MultiConv: {name} has {len(given[name])} entries for {len(convolutions)} convolutions"
            )
    if given["planType"] not in (None, "parallel", "serial"):
        raise popart_exception(f"MultiConv: planType is '{given['planType']}'; there are parallel and serial")
    if given["cycleBackOff"] is not None and not 0 <= given["cycleBackOff"] <= 1:
        raise popart_exception(f"MultiConv: cycleBackOff is {given['cycleBackOff']}, which is not in [0, 1]")
    _check_ranks(core, convolutions, given)
    inputs = [id for ids in convolutions for id in (*ids, "")[:3]]
    return core.add_node(operation, inputs, len(convolutions), method.attributes(core, given), given["debugContext"])


def _check_ranks(core: Any, convolutions: Sequence[Sequence[str]], given: dict[str, Any]) -> None:
    from popart._impl.builder.protos import shape_of

    for index, ids in enumerate(convolutions):
        type_ = core.type_of(ids[0])
        sizes = None if type_ is None else shape_of(type_)
        for name in ("dilations", "inDilations", "pads", "outPads", "strides"):
            needed = None if sizes is None else (len(sizes) - 2) * (2 if name in _TWICE else 1)
            if needed is not None and given[name] and len(given[name][index]) != needed:
                raise popart_exception(
                    f"MultiConv: {name} of convolution {index} has {len(given[name][index])} numbers; it needs {needed}"
                )
