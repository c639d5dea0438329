"""What programs read of the IR of a session: the JSON, the graphs behind it, files of both."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ipu_common.debug_contexts import is_recording
from popart._impl import files
from popart._impl.enums import IrSerializationFormat, RecomputationType
from popart._impl.exceptions import popart_exception
from popart._impl.listing.op_types import SUBSTITUTED
from popart._impl.listing.source import Source
from popart._impl.logs import getLogger

if TYPE_CHECKING:
    from popart._impl.listing.program import Program

_DUMP = "POPART_IR_DUMP"
_RESTORED = "Restored___"


class IrReading:
    """The part of a session that lists its program. The listing is made when somebody reads it."""

    _model: Any
    _options: Any
    dataFlow: Any
    _patterns: Any
    _loss: str
    _tensors: dict[str, Any]
    _program: Any
    _initialisers: Any
    _optimizer: Any
    _scalars: dict[str, Any]
    _program_listing: Program | None = None

    def _listing(self) -> Program:
        if self._program_listing is None:
            from popart._impl.listing.program import Program

            parts = (self._model, self._options, self._patterns, self.dataFlow, self._loss, self._tensors)
            native = (self._program, self._initialisers, self._optimizer, self._scalars)
            self._program_listing = Program(Source(*parts, *native))
        return self._program_listing

    def _read_ir(self) -> None:
        """At the end of construction: checks the patterns, and writes the files that are asked for.

        Raises:
            popart_exception: a mandatory pattern is off and asserts are on; excludePatterns names one that there is not; the
                parts of a serialised product do not fit; an anchor is restored in place, or named as restored and is not.
        """
        self._patterns.check()
        for node in self._model.graph.node:
            for name in _texts(node, "__exclude_patterns"):
                self._patterns.check_name(name, f"excludePatterns of {node.op_type} '{node.output[0]}'")
        options, dump = self._options, os.environ.get(_DUMP)
        is_split = any(
            attribute.name == "__serialize_matmul_mode"
            for node in self._model.graph.node
            for attribute in node.attribute
        )
        is_written = dump or options.dotChecks or os.environ.get("POPART_DOT_CHECKS")
        recomputes = (
            options.enablePipelining
            and options.autoRecomputation is not RecomputationType["NoRecompute"]
            and any(self._tensors[id][2] in ("input", "result") for id in self.dataFlow.anchors() if id != self._loss)
        )
        if is_written or options.serializedPoprithmsShiftGraphsDir or is_split or recomputes:
            self._listing()
        self._check_restored()
        if is_recording():
            from popart._impl.listing.contexts import record_program

            record_program(self._listing())
        if dump:
            files.write(dump, self._serializeIr(IrSerializationFormat["JSON"]))

    def _check_restored(self) -> None:
        """Raises popart_exception for an anchor that asks for what the pipeline restores of a tensor that it does not restore."""
        for id in self.dataFlow.anchors():
            if id.startswith(_RESTORED) and not any(each.split("/")[-1] == id for each in self._listing().tensors()):
                raise popart_exception(
                    f"the anchor '{id}' is no tensor of the program: its pipeline does not restore "
                    f"'{id.removeprefix(_RESTORED)}'. Anchor that one"
                )

    def _check_lowered(self) -> None:
        """Raises popart_exception for an op that the device cannot run since the pattern that rewrites it is off."""
        from popart._impl.listing.op_types import NEEDED

        names = {*NEEDED.values(), *(pattern for pattern, _ in SUBSTITUTED.values())}
        if all(self._patterns.isPatternEnabled(name) for name in names if self._patterns.isMandatory(name)):
            return
        program = self._listing()
        for op in program.unlowered():
            raise popart_exception(
                f"the op {op.type} '{op.outputs[0] if op.outputs else op.name}' cannot be compiled: the pattern "
                f"'{program.pattern_missed(op)}', which writes it as others, is off; enable it"
            )

    def _serializeIr(self, format: Any = IrSerializationFormat["JSON"]) -> str:
        """The program as JSON: graph name -> ops in the order in which they run.

        Each op has `type`, `name`, `inputs` (name, shape, type, index), `outputs` (name, index) and `attributes`; all values
        are texts. "" with a warning for a program that loadExecutable took from a file.

        >>> ops = json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))["maingraph"]  # doctest: +SKIP
        >>> [op["type"] for op in ops]  # doctest: +SKIP
        ['MatMul', 'ReluInplace']
        """
        if not isinstance(format, IrSerializationFormat):
            raise TypeError(f"_serializeIr takes popart.IrSerializationFormat.JSON, not {format!r}")
        if getattr(self, "_file", None) is not None:
            getLogger("session").warn(
                "the program was loaded from a file, which holds no ops: _serializeIr returns nothing"
            )
            return ""
        program = self._listing()
        return json.dumps({name: program.listing.exported(ops) for name, ops in program.graphs.items()})

    def getIr(self) -> SessionIr:
        """The program for reading: graphs, ops, tensors. It is a listing: changing it changes no program."""
        return SessionIr(self)


def _texts(node: Any, name: str) -> list[str]:
    return [text.decode() for attribute in node.attribute if attribute.name == name for text in attribute.strings]


class SessionIr:
    """The graphs of a session's program.

    >>> session.getIr().getMainGraphOps()[0].opType()  # doctest: +SKIP
    'MatMul'
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def getSessionOptions(self) -> Any:
        return self._session._options

    def getPatterns(self) -> Any:
        return self._session._patterns

    def getDataFlow(self) -> Any:
        return self._session.dataFlow

    def isTraining(self) -> bool:
        return bool(self._session._loss)

    def getAllGraphIds(self) -> list[str]:
        """Names of graphs as in the JSON; the main graph is the first."""
        return list(self._session._listing().graphs)

    def getGraphOps(self, graph: str) -> list[SessionOp]:
        """Ops of a graph in the order in which they run. Raises popart_exception for a graph that there is not."""
        program = self._session._listing()
        if graph not in program.graphs:
            raise popart_exception(f"no graph is called '{graph}'; there are {', '.join(program.graphs)}")
        return [SessionOp(record) for record in program.listing.exported(program.graphs[graph])]

    def getMainGraphOps(self) -> list[SessionOp]:
        return self.getGraphOps(self.getAllGraphIds()[0])

    def getAllTensorIds(self) -> set[str]:
        return set(self._session._tensor_ids())

    def containsTensor(self, id: str) -> bool:
        return id in self._session._tensor_ids()


class SessionOp:
    """One op of a session's program, for reading."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def opType(self) -> str:
        return str(self._record["type"])

    def name(self) -> str:
        return str(self._record["name"])

    def inIds(self) -> dict[int, str]:
        return {int(each["index"]): each["name"] for each in self._record["inputs"]}

    def outIds(self) -> dict[int, str]:
        return {int(each["index"]): each["name"] for each in self._record["outputs"]}

    def attributes(self) -> dict[str, str]:
        return dict(self._record["attributes"])
