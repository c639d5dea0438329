"""createOp_<Class> and createConnectedOp_<Class>: what they take, and which native attribute each argument is.

The arguments of a class are a row of the native table (csrc/frontends/popxl/published.h). An argument is `name`,
`name=default`, `name>attribute:conversion`; `opid` and `settings` stand for themselves, and `name:conversion` of an attribute
that is called as the argument.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from collections.abc import Callable
from typing import Any

from ipu_core import _native

from popart._impl.facade.ids import OperatorIdentifier
from popart._impl.facade.kinds import KINDS
from popart._impl.facade.values import BranchInfo, value_of
from popart._impl.groups import CommGroup, ReplicaGrouping
from popart._impl.tensor_info import native_number

TABLE: dict[str, str] = {
    **{k.class_name: "opid settings" if k.is_copying else "settings" for k in KINDS.values() if k.elementwise},
    **{name: arguments for classes, arguments in _native.creators() for name in classes.split()},
}
# Native type of a class that no row of the native table has, and attributes that its name says.
_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "AccumulateBaseOp": ("Accumulate", {}),
    "AccumulatorZeroOp": ("AccumulatorScale", {"factor": 0.0}),
    "VarUpdateOp": ("CopyVarUpdate", {}),
    "VarUpdateWithUpdaterOp": ("CopyVarUpdate", {}),
}
_ALIASES = {"grouping": "group", "calleeGraph": "callee"}
_COLLECTIVES = {"LogicalAnd": "and", "LogicalOr": "or", "SquareAdd": "square_add"}


def _snake(value: Any) -> str:
    name = value if isinstance(value, str) else value.name
    if name.isupper():
        return {"NOTSET": "not_set"}.get(name, name.lower())
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _group(group: Any, replicas: int) -> dict[str, int]:
    grouping = group.toReplicaGrouping(replicas) if isinstance(group, CommGroup) else group
    assert isinstance(grouping, ReplicaGrouping)
    return {"group_size": grouping.getGroupSize(), "group_stride": grouping.getStride()}


def _window(window: Any) -> dict[str, Any]:
    lists = {name: list(getattr(window, name)) for name in ("pads", "strides", "dilations", "inDilations")}
    found = {name: value for name, value in lists.items() if value}
    return {**found, "padType": _snake(window.auto_pad), "ceilMode": int(window.ceil_mode)}


def _info(info: Any) -> dict[str, Any]:
    values = {"dtype": native_number(info.dataType()), "shape": info.shape()}
    return {**values, "meta_shape": info.metaShape()} if info.metaShape() else values


def _format(fmt: Any) -> dict[str, Any]:
    return {
        name: value.name.lower().rstrip("_") if name == "floatFormat" else value for name, value in vars(fmt).items()
    }


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "bool": bool,
    "real": float,
    "text": str,
    "ints": lambda values: [int(value) for value in values],
    "reals": lambda values: [float(value) for value in values],
    "number": native_number,
    "name": lambda value: value.name,
    "snake": _snake,
    "reduction": lambda value: "none" if value.name == "NoReduction" else value.name.lower(),
    "collective": lambda value: _COLLECTIVES.get(value.name, value.name.lower()),
    "partials": lambda value: value.name.lower(),
    "optimizer": lambda value: float(value.val()),
    # Those below give several attributes at once.
    "ignored": lambda value: {},
    "info": _info,
    "gathered": lambda info: {"output_shape": info.shape()},
    "window": _window,
    "conv_options": lambda options: options.plain(),
    "format": _format,
}


@dataclasses.dataclass(frozen=True)
class Argument:
    name: str
    attribute: str
    conversion: str
    is_required: bool
    default: Any


_DEFAULTS = {"None": None, "False": False, "()": (), "-1": -1, "0": 0}


@functools.cache
def arguments(name: str) -> tuple[Argument, ...]:
    """Those of a class, in published order."""
    found = []
    for text in TABLE[name].split():
        head, _, conversion = text.partition(":")
        head, _, attribute = head.partition(">")
        published, equals, default = head.partition("=")
        found.append(Argument(published, attribute or published, conversion, not equals, _DEFAULTS.get(default)))
    return tuple(found)


def is_known(name: str) -> bool:
    return name in TABLE


class Creator:
    """graph.createOp_X or graph.createConnectedOp_X: call it with the arguments of the table, in order or by name."""

    def __init__(self, graph: Any, name: str, connected: bool) -> None:
        self._graph, self._class, self._connected = graph, name, connected
        self._ir = graph.getIr()

    def _bind(self, values: list[Any], named: dict[str, Any]) -> dict[str, Any]:
        """Argument → value. Raises TypeError listing the published arguments."""
        table = arguments(self._class)
        given = {_ALIASES.get(key, key): value for key, value in named.items()}
        order = [argument.name for argument in table]
        # The optional list of CallOp and flags of AllReduceOp stand before the settings.
        missing = len(table) - len(values) - len(given)
        skipped: set[str] = set()
        for argument in table:
            is_optional = not argument.is_required and argument.name not in given and "settings" not in given
            if missing > 0 and is_optional and order.index(argument.name) < order.index("settings"):
                skipped.add(argument.name)
                missing -= 1
        free = [name for name in order if name not in given and name not in skipped]
        unknown = given.keys() - set(order)
        if unknown or len(values) > len(free):
            raise TypeError(f"incompatible arguments: createOp_{self._class} takes ({', '.join(order)})")
        bound = {**dict(zip(free, values)), **given}
        for argument in table:
            if argument.name not in bound:
                if argument.is_required:
                    raise TypeError(
                        f"incompatible arguments: createOp_{self._class} takes ({', '.join(order)}); '{argument.name}' is missing"
                    )
                bound[argument.name] = argument.default
        return bound

    def _attributes(self, bound: dict[str, Any]) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for argument in arguments(self._class):
            value = value_of(bound[argument.name])
            if argument.attribute in ("opid", "settings", "@") or value is None:
                continue
            if argument.conversion == "group":
                attributes |= _group(value, self._ir.checked.replicas)
            elif argument.attribute == "*":
                attributes |= _CONVERSIONS[argument.conversion](value)
            else:
                attributes[argument.attribute] = _CONVERSIONS[argument.conversion](value)
        return attributes

    def __call__(self, *values: Any, **named: Any) -> Any:
        rest = list(values)
        inputs, outputs = (
            [named.pop(key) if key in named else rest.pop(0) for key in ("in_", "out")] if self._connected else [{}, {}]
        )
        sources = rest.pop(1) if self._connected and self._class == "IpuCopyOp" and len(rest) == 4 else None
        sources = named.pop("sourceIpu", sources)
        op = self._create(self._bind(rest, named))
        if not self._connected:
            self._ir.op_created(op)
            return op
        try:
            self._connect(op, inputs, outputs, sources)
        except Exception:
            self._discard(op)
            raise
        self._ir.op_created(op)
        return op

    def _create(self, bound: dict[str, Any]) -> Any:
        ir, core = self._ir, self._ir.checked
        kind, fixed = _TYPES.get(self._class, (None, {}))
        kind = kind or ir.type_of_class(self._class)
        settings, opid = bound["settings"], bound.get("opid")
        identifier = opid.key() if isinstance(opid, OperatorIdentifier) else None
        attributes = {**self._attributes(bound), **fixed}
        number = core.create_bare_op(self._graph.number, kind, attributes, settings.plain(), identifier)
        op = ir.classes.by_name[self._class].of_id(ir, number)
        ir.keep_op(op)
        for name, value in settings.later().items():
            core.set_op_setting(number, name, value)
        self._connect_callees(op, bound)
        return op

    def _connect_callees(self, op: Any, bound: dict[str, Any]) -> None:
        core, branches = self._ir.checked, []
        for argument in arguments(self._class):
            value = bound[argument.name]
            if argument.conversion == "callee":
                graph = value if hasattr(value, "number") else self._ir.getGraph(value)
                core.set_callees(op.id, [graph.number])
                if self._class == "LoopOp":
                    op.setTripCountValue(op.attribute("trip", 0))
            elif argument.conversion == "modified":
                for index in value:
                    core.set_modified(op.id, index)
            elif argument.conversion == "branch":
                assert isinstance(value, BranchInfo)
                branches.append(value)
        if branches:
            core.set_callees(op.id, [self._ir.getGraph(branch.graphId).number for branch in branches])
            inputs = [branch.inputIndicesMap for branch in branches]
            core.set_callee_maps(op.id, inputs, [branch.outputIndicesMap for branch in branches])

    @staticmethod
    def _connect(op: Any, inputs: dict[int, str], outputs: dict[int, str], sources: Any) -> None:
        for index, id in inputs.items():
            if sources is None:
                op.connectInTensor(index, id)
            else:
                op.connectInTensor(index, id, sources)
        for index, id in outputs.items():
            if id in op.getGraph():
                op.connectOutTensor(index, id)
            else:
                op.createAndConnectOutTensor(index, id)
        op.setup()

    def _discard(self, op: Any) -> None:
        """Nothing is left of an op that does not fit, but for its number."""
        made = [tensor for tensor in op.getOutputTensors() if not self._was_there(tensor)]
        op.disconnectAllInputs()
        op.disconnectAllOutputs()
        self._graph.eraseOp(op.id)
        for tensor in made:
            self._ir.checked.erase_tensor(tensor.number)

    @staticmethod
    def _was_there(tensor: Any) -> bool:
        return bool(tensor.consumers.getOps()) or tensor.isGraphOutput() or tensor.isGraphInput()

    def __repr__(self) -> str:
        names = ", ".join(argument.name for argument in arguments(self._class))
        return f"create{'Connected' if self._connected else ''}Op_{self._class}({names})"


def run_hooks(op: Any) -> None:
    """The hooks that popxl has for the op's graph. Without popxl there are none."""
    context = sys.modules.get("popxl.context")
    if context is not None:
        context.get_current_context()._run_hooks(op)
