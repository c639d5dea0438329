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


def shapes(op: Any) -> list[tuple[int, Sequence[int]]]:
    """Types of the outputs; see graphcore_shapes.View."""
    found: list[tuple[int, Sequence[int]]] = []
    start = 0
    for index in range(len(op) // 3):
        data, weights = op.sizes(3 * index), op.sizes(3 * index + 1)
        rank = len(data) - 2
        part = slice(start, start + rank)
        pads, out_pads = (op.get(name) or [] for name in _TWICE)
        ends = [list[2 * start : 2 * (start + rank)] or [0] * 2 * rank for list in (pads, out_pads)]
        each = [(op.get(name) or [])[part] or [1] * rank for name in ("strides", "dilations", "inDilations")]
        sizes = []
        for axis in range(rank):
            stride, dilation, inner = (values[axis] for values in each)
            size = (data[axis + 2] - 1) * inner + 1 + ends[0][axis] + ends[0][axis + rank]
            window = (weights[axis + 2] - 1) * dilation + 1
            sizes.append((size - window) // stride + 1 + ends[1][axis] + ends[1][axis + rank])
        found.append((op.element(3 * index), [data[0], weights[0], *sizes]))
        start += rank
    return found
