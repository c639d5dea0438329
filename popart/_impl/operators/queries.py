"""What runs: lists of operators for programs, and the check of a model before it is compiled."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from popart._impl.exceptions import popart_exception
from popart._impl.facade.ids import OperatorIdentifier
from popart._impl.operators.operator import Operator

if TYPE_CHECKING:
    import onnx

_MIN_OPSET, _MAX_OPSET = 6, 11


class Input(NamedTuple):
    """An input of an operator: the element types it is declared for, and whether the model must state it."""

    name: str
    supportedTensors: list[str]
    constant: bool


class Output(NamedTuple):
    """An output of an operator and the element types it is declared for."""

    name: str
    supportedTensors: list[str]


class Attribute(NamedTuple):
    """The values of an attribute, as a regular expression."""

    supportedValuesRegex: str


class OpDefinition(NamedTuple):
    """What one version of an operator takes and gives."""

    inputs: list[Input]
    outputs: list[Output]
    attributes: dict[str, Attribute]


@functools.cache
def operators() -> dict[tuple[str, str], Operator]:
    """All rows of the tables, by domain and type."""
    from popart._impl.operators import graphcore, onnx

    return {(row.domain, row.type): row for row in (*onnx.OPERATORS, *graphcore.OPERATORS)}


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Every version of every operator that sessions run, sorted; with the private ones if asked.

    >>> OperatorIdentifier("ai.onnx", "Add", 7) in getSupportedOperations(False)
    True
    """
    public = [
        OperatorIdentifier(row.domain, row.type, version)
        for row in operators().values()
        for version in row.versions
        if includeInternal or not row.internal
    ]
    return sorted(public + (_internal() if includeInternal else []))


def _internal() -> list[OperatorIdentifier]:
    """What the compiler makes itself: the ops that a gradient or an update consists of."""
    names = ("AddBias", "AddLhsInplace", "Init", "IpuCopy", "HostLoad", "HostStore", "RemoteLoad", "RemoteStore")
    return [OperatorIdentifier("ai.graphcore", name, 1) for name in names]


def getUnsupportedOperations(opset: int) -> list[OperatorIdentifier]:
    """Operators of ONNX in version `opset` of ai.onnx that no session runs, each with the version it has there.

    Raises:
        popart_exception: there is no such version here.
    """
    if not _MIN_OPSET <= opset <= _MAX_OPSET:
        raise popart_exception(f"Unsupported opset: {opset} of ai.onnx; {_MIN_OPSET} to {_MAX_OPSET} are there.")
    found = []
    for (name, since), _ in sorted(_schemas_of(opset).items()):
        row = operators().get(("ai.onnx", name))
        if row is None or not _usable(row, opset):
            found.append(OperatorIdentifier("ai.onnx", name, since))
    return found


def getSupportedOperationsDefinition(includeInternal: bool) -> dict[OperatorIdentifier, OpDefinition]:
    """What each version of each operator that sessions run takes and gives: element types and attributes."""
    definitions = {}
    for identifier in getSupportedOperations(includeInternal):
        row = operators().get(
            (identifier.domain, identifier.type), Operator(identifier.domain, identifier.type, (), "ir")
        )
        definitions[identifier] = OpDefinition(
            [Input(name, _types(types), constant) for name, types, constant in row.inputs],
            [Output(name, _types(types)) for name, types in row.outputs],
            {name: Attribute(".*" if regex == "*" else regex) for name, regex in row.attributes.items()},
        )
    return definitions


def _types(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@functools.cache
def _schemas_of(opset: int) -> dict[tuple[str, int], Any]:
    """The schemas of ai.onnx that hold in a version, by name and the version they began with; not deprecated ones."""
    import onnx.defs

    newest: dict[str, Any] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain or schema.since_version > opset or schema.deprecated:
            continue
        known = newest.get(schema.name)
        if known is None or known.since_version < schema.since_version:
            newest[schema.name] = schema
    return {(name, schema.since_version): schema for name, schema in newest.items()}


@functools.cache
def _stipulated(opset: int) -> dict[str, int]:
    return dict(_schemas_of(opset).keys())


def _usable(row: Operator, opset: int) -> int:
    """The newest version of an operator that is not newer than `opset`; 0: none."""
    return max((version for version in row.versions if version <= opset), default=0)


def check_model(model: onnx.ModelProto, strict_op_versions: bool = True) -> None:
    """Every node of the model has an operator here, of the version that ONNX stipulates if `strict_op_versions`.

    Domains without a table are left to whom they belong.

    Raises:
        popart_exception: an operator is not there, or only an older version of it.
    """
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    opset = versions.get("ai.onnx", _MAX_OPSET)
    if not _MIN_OPSET <= opset <= _MAX_OPSET:
        raise popart_exception(
            f"Unsupported opset: the model uses version {opset} of ai.onnx; the minimum is {_MIN_OPSET}, the maximum "
            f"{_MAX_OPSET}, the default 10. Convert it with onnx.version_converter."
        )
    tables = {domain for domain, _ in operators()}
    _check_graph(model.graph, versions, tables, strict_op_versions)


def _check_graph(graph: Any, versions: dict[str, int], tables: set[str], strict: bool) -> None:
    for node in graph.node:
        domain = node.domain or "ai.onnx"
        if domain in tables:
            _check_node(node, domain, versions.get(domain, 1 if domain != "ai.onnx" else _MAX_OPSET), strict)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _check_graph(attribute.g, versions, tables, strict)


def _check_node(node: Any, domain: str, opset: int, strict: bool) -> None:
    row = operators().get((domain, node.op_type))
    where = f"node '{node.name}'" if node.name else f"the node that gives '{next(iter(node.output), '')}'"
    version = 0 if row is None else _usable(row, opset)
    if version == 0:
        raise popart_exception(
            f"no class for {domain}.{node.op_type}:{opset}, which {where} needs. "
            "popart.getSupportedOperations(False) lists the operators that run."
        )
    assert row is not None
    wanted = _stipulated(opset).get(node.op_type, version) if domain == "ai.onnx" else version
    if strict and row.how == "ir" and version < wanted:
        raise popart_exception(
            f"For an opset {opset} model, the ONNX spec stipulates that a {node.op_type} op must be version {wanted}. "
            f"The highest version that has been implemented less than or equal to {opset} is {version}, and {where} "
            "would use it. Set SessionOptions.strictOpVersions to False to allow that."
        )
