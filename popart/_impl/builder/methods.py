"""Methods that make nodes, from rows that say what they take: a Python function each, with a signature that can be asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from popart._impl.builder import protos
from popart._impl.builder.arguments import (
    Refused,
    Signature,
    array,
    boolean,
    debug_name,
    integer,
    number,
    published,
    refusal,
    sequence,
    text,
)
from popart._impl.builder.operation import Operation
from popart._impl.exceptions import popart_exception
from popart._impl.enums import CollectiveOperator, DataType, InitType, ReductionType, ScatterReduction, TensorRemapType
from popart._impl.groups import CommGroup
from popart._impl.operators.rows import ATTRIBUTES

if TYPE_CHECKING:
    from popart._impl.builder.core import _BuilderCore

REQUIRED = inspect.Parameter.empty
_KINDS = protos.Attribute


def _graph(value: Any) -> Any:
    core = getattr(value, "_impl", value)
    if not hasattr(core, "graph"):
        raise Refused
    return core


def _enum(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        try:
            return kind(integer(value))
        except ValueError:
            raise Refused from None

    return convert


def _group(value: Any) -> list[int]:
    if not isinstance(value, CommGroup):
        raise Refused
    return [value.type.value, value.replicaGroupSize]


def element_number(value: str) -> int:
    """The ONNX number of a type name. Raises popart_exception for a name that is none."""
    if value not in DataType.__members__:
        raise popart_exception(f"no element type is called '{value}'; there are {', '.join(DataType.__members__)}")
    return protos.NUMBER[DataType[value]]


_REDUCTIONS = {ReductionType["Sum"]: "Sum", ReductionType["Mean"]: "Mean", ReductionType["NoReduction"]: "None"}
_SCATTER = {kind: "none" if kind.name == "NoReduction" else kind.name.lower() for kind in ScatterReduction}


def _flat(values: list[list[int]]) -> list[int]:
    return [item for items in values for item in items]


@dataclass(frozen=True)
class Kind:
    """One kind of parameter: what it converts, the attribute it becomes and how, and the type that a refusal shows."""

    convert: Callable[[Any], Any]
    attribute: protos.Attribute.AttributeType | None
    shown: str
    written: Callable[[Any], Any] = lambda value: value


KINDS = {
    "ids": Kind(sequence(text), None, "List[str]"),
    "id": Kind(text, None, "str"),
    "id lists": Kind(sequence(sequence(text)), None, "List[List[str]]"),
    "count": Kind(integer, None, "int"),
    "int": Kind(integer, _KINDS.INT, "int"),
    "flag": Kind(integer, _KINDS.INT, "int"),
    "bool": Kind(lambda value: integer(value) != 0, _KINDS.INT, "bool", int),
    "float": Kind(number, _KINDS.FLOAT, "float"),
    "string": Kind(text, _KINDS.STRING, "str"),
    "ints": Kind(sequence(integer), _KINDS.INTS, "List[int]"),
    "int lists": Kind(sequence(sequence(integer)), _KINDS.INTS, "List[List[int]]", _flat),
    "floats": Kind(sequence(number), _KINDS.FLOATS, "List[float]"),
    "strings": Kind(sequence(text), _KINDS.STRINGS, "List[str]"),
    "array": Kind(array, _KINDS.TENSOR, "numpy.ndarray", protos.to_tensor),
    "graph": Kind(_graph, _KINDS.GRAPH, "Builder"),
    "type name": Kind(text, _KINDS.INT, "str", element_number),
    "sparse": Kind(boolean, None, "bool"),
    "reduction": Kind(_enum(ReductionType), _KINDS.STRING, "ReductionType", _REDUCTIONS.__getitem__),
    "scatter reduction": Kind(_enum(ScatterReduction), _KINDS.STRING, "ScatterReduction", _SCATTER.__getitem__),
    "data type": Kind(_enum(DataType), _KINDS.INT, "DataType", int),
    "init type": Kind(_enum(InitType), _KINDS.INT, "InitType", lambda value: value.value),
    "remap type": Kind(
        _enum(TensorRemapType), _KINDS.INT, "TensorRemapType", lambda value: getattr(value, "value", value)
    ),
    "operator": Kind(_enum(CollectiveOperator), _KINDS.INT, "CollectiveOperator", lambda value: value.value),
    "comm group": Kind(_group, _KINDS.INTS, "CommGroup"),
    "debug": Kind(debug_name, None, "DebugContext"),
}


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Method:
    """A method that makes one node.

    Attributes:
        returns: "one" output, a "list" of them, or "none".
        outputs: how many the node has at least and at most; without a parameter num_outputs it has the most.
    """

    name: str
    domain: str  # "" is ai.onnx
    type: str
    parameters: tuple[Parameter, ...]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    returns: str
    doc: str

    def signature(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter("self", kind)]
        for parameter in self.parameters:
            made = inspect.Parameter("x", kind, default=parameter.default, annotation=KINDS[parameter.kind].shown)
            made._name = parameter.name  # type: ignore[attr-defined]  # `lambda` is a published name, and no identifier
            parameters.append(made)
        result = {"one": "str", "list": "List[str]", "none": "None"}[self.returns]
        return inspect.Signature(parameters, return_annotation=result, __validate_parameters__=False)

    def attributes(self, core: _BuilderCore, given: dict[str, Any]) -> list[Any]:
        made = []
        for parameter in self.parameters:
            kind, value = KINDS[parameter.kind], given[parameter.name]
            if kind.attribute is None or value is None or self._is_left_out(parameter, value):
                continue
            if parameter.kind == "graph":
                value = body_of(core, value, self.type)
            name = ATTRIBUTES.get(parameter.kind, parameter.name)
            made.append(protos.attribute(name, kind.attribute, kind.written(value)))
        return made

    @staticmethod
    def _is_left_out(parameter: Parameter, value: Any) -> bool:
        if isinstance(parameter.default, list) or parameter.default == "":
            return not value
        return isinstance(parameter.default, (float, str)) and value == parameter.default


def body_of(core: _BuilderCore, child: Any, op_type: str) -> Any:
    """The graph of a child as it is now. A callee has the tensors that it takes from outside among its inputs."""
    if child.model is not core.model:
        raise popart_exception(
            f"{op_type}: the graph '{child.graph.name}' is of another model; make it with createSubgraphBuilder"
        )
    if op_type != "Call" or len(child.argument_order) == len(child.graph.input):
        return child.graph
    graph = type(child.graph)()
    graph.CopyFrom(child.graph)
    declared = {value.name: value for value in child.graph.input}
    del graph.input[:]
    for id in child.argument_order:
        value = graph.input.add()
        if id in declared:
            value.CopyFrom(declared[id])
            continue
        value.name = id
        if (type_ := child.type_of(id)) is not None:
            value.type.CopyFrom(type_)
    for id, value in declared.items():
        if id in child.initialisers:
            graph.input.add().CopyFrom(value)
    return graph


def _operation(method: Method, version: int) -> Any:
    return Operation(method.domain, method.type, version, method.inputs, method.outputs)


def function_of(method: Method, special: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The Python function of a method. `special(core, operation, given)` makes the node where it is not a plain one."""
    signature = method.signature()
    ways = [published(signature)]
    rows = [
        (p.name, KINDS[p.kind].convert) if p.default is REQUIRED else (p.name, KINDS[p.kind].convert, p.default)
        for p in method.parameters
    ]
    bound_as = Signature(*rows)
    debug = method.parameters[-1].name
    batch = next((index for index, p in enumerate(method.parameters) if p.name == "batch_axis"), None)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        for older in ("debugPrefix", "debugContext", "name"):  # names that this argument had at one time or another
            if older in kwargs and debug not in kwargs and older not in bound_as.names:
                kwargs = {**{k: v for k, v in kwargs.items() if k != older}, debug: kwargs[older]}
        if batch is not None and len(args) == batch + 1 and not isinstance(args[batch], int):
            args, kwargs = args[:batch], {**kwargs, debug: args[batch]}  # the shorter form: a name instead of an axis
        try:
            given = bound_as.bind(args, kwargs)
        except Refused:
            raise refusal(method.name, ways, args, kwargs) from None
        operation = _operation(method, self._version)
        if special is not None:
            return special(self._core, operation, given, method)
        return make_node(self._core, operation, given, method)

    call.__name__, call.__qualname__ = method.name, f"{method.domain or 'ai.onnx'}.{method.name}"
    call.__doc__, call.__signature__ = method.doc, signature  # type: ignore[attr-defined]
    return call


def make_node(core: _BuilderCore, operation: Any, given: dict[str, Any], method: Method) -> Any:
    inputs = given.get("args", [])
    inputs = [inputs] if isinstance(inputs, str) else inputs
    count = given.get("num_outputs", method.outputs[1])
    outputs = core.add_node(operation, inputs, count, method.attributes(core, given), given[method.parameters[-1].name])
    return {"one": outputs[0] if outputs else "", "list": outputs, "none": None}[method.returns]


def add_methods(owner: type, methods: Iterable[Method], special: dict[str, Callable[..., Any]]) -> None:
    for method in methods:
        function = function_of(method, special.get(method.name))
        function.__module__ = "popart"
        setattr(owner, method.name, function)
