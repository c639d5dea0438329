"""The program of a session as programs read it: graphs of ops with PopART's types, tensor ids and attributes, all texts.

It is made of the model, of which tensors are left and have gradients, and of the options: the op that an operator becomes,
the ops of its gradient, copies between virtual graphs, streams, updates.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy

from popart._impl.enums import RecomputationType, RecomputeType, VirtualGraphMode
from popart._impl.sessions import ir_types
from popart._impl.sessions.settings import accumulation_of
from popart._impl.sessions.update_types import update_types

if TYPE_CHECKING:
    import onnx

    from popart._impl.sessions.model_session import ModelSession

_GRADIENT = "Gradient___"
_NUMPY_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}


def listed(session: ModelSession) -> dict[str, list[dict[str, Any]]]:
    """Graph name -> ops in the order in which they run."""
    return _Listing(session).make()


def serialised(session: ModelSession) -> str:
    return json.dumps(listed(session))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") and not isinstance(value, str):
        return "[" + " ".join(_text(item) for item in value) + "]"
    return str(value)


class _Listing:
    def __init__(self, session: ModelSession) -> None:
        self.session, self.graph = session, session._model.graph
        self.tensors, self.options, self.patterns = session._tensors, session._options, session._patterns
        self.ops: list[dict[str, Any]] = []
        self.is_training = bool(session._loss)
        self.anchored = set(session.dataFlow.anchors())
        self.readers: dict[str, int] = defaultdict(int)
        self.counter = 0
        self.home: dict[str, str] = {}  # virtual graph of each tensor
        self.copied: set[tuple[str, str]] = set()
        for node in self.graph.node:
            for id in node.input:
                self.readers[id] += 1

    def make(self) -> dict[str, list[dict[str, Any]]]:
        live = [node for node in self.graph.node if self._is_left(node)]
        self._loads()
        for node in live:
            self._forward(node)
        if self.is_training:
            self._backward(live)
            self._updates(live)
        self._stores()
        graphs = {self._main_name(): self.ops}
        for node in live:
            self._bodies(node, graphs)
        return graphs

    def _main_name(self) -> str:
        name = self.graph.name
        return "maingraph" if not name or "BuilderGraph_" in name else name

    def _is_left(self, node: onnx.NodeProto) -> bool:
        """Whether the program has the operator: its results are neither unused nor constants."""
        kinds = [self.tensors[id][2] for id in node.output if id in self.tensors]
        return any(kind == "result" for kind in kinds) or (not node.output and node.op_type in ("Abort",))

    # --- parts of an op
    def _tensor(self, id: str, index: int) -> dict[str, str]:
        dtype, shape = self._type_of(id)
        return {"name": id, "shape": "[" + " ".join(map(str, shape)) + "]", "type": dtype, "index": str(index)}

    def _type_of(self, id: str) -> tuple[str, tuple[int, ...]]:
        for name in (id, id.removeprefix(_GRADIENT), id.rsplit("_c", 1)[0], id.rsplit("__t", 1)[0]):
            if name in self.tensors:
                dtype, shape, _ = self.tensors[name]
                text = numpy.dtype(dtype).name
                return _NUMPY_NAMES.get(text, text.upper()), tuple(shape)
        return "FLOAT", ()

    def _add(
        self,
        type: str,
        name: str,
        inputs: list[str],
        outputs: list[str],
        of: onnx.NodeProto | None = None,
        context: str = "Normal",
        extra: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        attributes = self._common(of, context)
        op = {
            "type": type,
            "name": name,
            "inputs": [self._tensor(id, i) for i, id in enumerate(inputs) if id],
            "outputs": [{"name": id, "index": str(i)} for i, id in enumerate(outputs) if id],
            "attributes": attributes | (extra or {}),
        }
        self.ops.append(op)
        return op

    def _annotation(self, node: onnx.NodeProto | None, name: str) -> Any:
        import onnx.helper

        for attribute in node.attribute if node is not None else ():
            if attribute.name == name:
                return onnx.helper.get_attribute_value(attribute)
        return None

    def _place(self, node: onnx.NodeProto | None, name: str, counts: bool) -> str:
        value = self._annotation(node, name) if counts else None
        return "none" if value is None else str(value)

    def _virtual_graph(self, node: onnx.NodeProto | None) -> str:
        return self._place(node, "__ipu_number", self.options.virtualGraphMode is not VirtualGraphMode["Off"])

    def _common(self, node: onnx.NodeProto | None, context: str) -> dict[str, str]:
        recompute = self._recompute(node) if context == "Normal" else RecomputeType["Undefined"]
        common = {
            "recompute": "YES" if recompute is RecomputeType["Recompute"] else "NO",
            "recomputetype": recompute.name,
            "__ipu_number": self._virtual_graph(node),
            "__pipeline_stage": self._place(node, "__pipeline_stage", self.options.enablePipelining),
            "__execution_phase": self._place(node, "__execution_phase", self.options.executionPhaseSettings.phases >= 2),
            "__execution_context": context,
            "tileSet": "0",
            "scope": "",
            "schedulePriority": f"{float(self._annotation(node, '__schedule_priority') or 0.0):.6f}",
        }
        outline = self._annotation(node, "__outline") or []
        flat = [text.decode() for text in outline]
        common.update({key: f"{key}:{value}" for key, value in zip(flat[::2], flat[1::2])})
        return common

    def _recompute(self, node: onnx.NodeProto | None) -> RecomputeType:
        given = self._annotation(node, "__recompute_output_in_backward_pass")
        if given:
            return RecomputeType(given)
        if node is None or not self.is_training:
            return RecomputeType["Undefined"]
        mode = self.options.autoRecomputation
        if mode is RecomputationType["RecomputeAll"] or mode is RecomputationType["Pipeline"]:
            return RecomputeType["Recompute"]
        if mode is RecomputationType["NormOnly"]:
            return RecomputeType["Recompute" if "Normalization" in node.op_type else "Checkpoint"]
        return RecomputeType["Checkpoint"]

    def _own_attributes(self, node: onnx.NodeProto) -> dict[str, str]:
        import onnx.helper

        made = {}
        for attribute in node.attribute:
            if attribute.name.startswith("__") or attribute.HasField("t"):
                continue
            if attribute.HasField("g"):
                made["callee"] = attribute.g.name
                continue
            made[attribute.name] = _text(onnx.helper.get_attribute_value(attribute))
        if node.op_type == "MatMul":
            joint = self.is_training and self.options.enableFullyConnectedPass
            made["fully_connected_pass"] = "0" if joint else "-1"
        return made

    # --- the forward pass
    def _loads(self) -> None:
        if not self.options.useHostCopyOps:
            return
        for id in self.session._program.inputs:
            self._add("Init", f"Init_{id}", [], [f"Init___{id}"])
            self._add("HostLoad", f"HostLoad_{id}", [f"Init___{id}"], [id])

    def _stores(self) -> None:
        if self.options.useHostCopyOps:
            for id in self.session.dataFlow.anchors():
                self._add("HostStore", f"HostStore_{id}", [id], [])

    def _copy(self, id: str, node: onnx.NodeProto) -> str:
        """The id under which an op on this virtual graph reads a tensor; copies it there if it is elsewhere."""
        here, there = self._virtual_graph(node), self.home.get(id)
        if here == "none" or there is None or there == here:
            return id
        copy = f"{id}_c{here}"
        if (id, here) not in self.copied:
            self.copied.add((id, here))
            op = self._add("IpuCopy", "", [id], [copy])
            op["attributes"]["__ipu_number"] = there
        return copy

    def _name(self, node: onnx.NodeProto) -> str:
        return str(node.name)

    def _forward(self, node: onnx.NodeProto) -> None:
        import onnx

        inputs = [self._copy(id, node) if id else "" for id in node.input]
        outputs, type = list(node.output), ir_types.FORWARD.get(node.op_type, node.op_type)
        if type == "Dropout" and not self.is_training:
            type = "Identity"
        if type == "Identity" and self._disappears(node):
            return
        extra = self._own_attributes(node)
        for id in outputs:
            self.home[id] = self._virtual_graph(node)
        bodies = [attribute for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]
        if bodies:
            extra["callee"] = bodies[0].g.name
        if type in ir_types.COMPOSED:
            self._chain(ir_types.COMPOSED[type], node, inputs, outputs, extra)
            return
        if type in ("Conv", "ConvTranspose") and len(inputs) > 2 and inputs[2]:
            between = f"{outputs[0]}__t{self._next()}"
            self._add(type, self._name(node), inputs[:2], [between], node, extra=extra)
            self._add("AddBias", self._name(node), [between, inputs[2]], outputs, node)
            return
        self._add(self._in_place(type, node), self._name(node), inputs, outputs, node, extra=extra)

    def _chain(
        self, types: tuple[str, ...], node: onnx.NodeProto, inputs: list[str], outputs: list[str], extra: dict[str, str]
    ) -> None:
        """Ops one after another; operands that the first does not read are read by the last."""
        value = inputs[0]
        for i, type in enumerate(types):
            is_last = i == len(types) - 1
            result = outputs[0] if is_last else f"{outputs[0]}__t{self._next()}"
            operands = [value] + (inputs[1:2] if i == 0 and type == "MatMul" else []) + (inputs[2:] if is_last else [])
            self._add(type, self._name(node), operands, [result], node, extra=extra if i == 0 else None)
            value = result

    def _next(self) -> int:
        self.counter += 1
        return self.counter

    def _enabled(self, pattern: str) -> bool:
        return pattern == "InPlace" and self.patterns.InPlace or pattern != "InPlace" and self.patterns.isPatternEnabled(pattern)

    def _disappears(self, node: onnx.NodeProto) -> bool:
        excluded = [text.decode() for text in self._annotation(node, "__exclude_patterns") or []]
        return self._enabled("PostNRepl") and "PostNRepl" not in excluded and not self.anchored & {*node.input, *node.output}

    def _in_place(self, type: str, node: onnx.NodeProto) -> str:
        excluded = [text.decode() for text in self._annotation(node, "__exclude_patterns") or []]
        if not self._enabled("InPlace") or "InPlace" in excluded or not node.input:
            return type
        operand = node.input[0]
        if self.readers[operand] != 1 or operand in self.anchored or self.tensors.get(operand, ("", (), ""))[2] != "result":
            return type
        if self.is_training and type not in ir_types.GRADIENT_READS_RESULT:
            return type
        if type in ir_types.IN_PLACE_LEFT and self._type_of(operand) == self._type_of(node.output[0]):
            return type + "LhsInplace"
        return type + "Inplace" if type in ir_types.IN_PLACE else type

    # --- the backward pass
    def _backward(self, live: list[onnx.NodeProto]) -> None:
        parts: dict[str, list[str]] = defaultdict(list)  # of each tensor: gradients along the edges that are made
        wanted: dict[str, int] = defaultdict(int)
        for node in live:
            if any(_GRADIENT + id in self.tensors for id in node.output):
                for id in node.input:
                    wanted[id] += _GRADIENT + id in self.tensors
        for node in reversed(live):
            results = [id for id in node.output if _GRADIENT + id in self.tensors]
            operands = [(i, id) for i, id in enumerate(node.input) if wanted[id] and _GRADIENT + id in self.tensors]
            if not results or not operands:
                continue
            for id in results:
                self._sum(id, parts)
            for type, indices in self._gradient_ops(node, operands):
                made = [self._edge(node.input[i], i, wanted, parts) for i in indices]
                read = [_GRADIENT + id for id in results] + [id for id in node.input if id and type not in ("AddArg0Grad",)]
                self._substituted(type, node, read, made)
        for id in list(parts):
            self._sum(id, parts)

    def _edge(self, id: str, index: int, wanted: dict[str, int], parts: dict[str, list[str]]) -> str:
        if wanted[id] == 1:
            return _GRADIENT + id
        edge = f"{_GRADIENT}{len(self.ops)}_{index}"
        parts[id].append(edge)
        return edge

    def _sum(self, id: str, parts: dict[str, list[str]]) -> None:
        edges = parts.pop(id, [])
        if edges:
            chained = self.options.decomposeGradSum
            self._add("Add" if chained and len(edges) == 2 else "Sum", f"GradSum_{id}", edges, [_GRADIENT + id])

    def _gradient_ops(self, node: onnx.NodeProto, operands: list[tuple[int, str]]) -> list[tuple[str, list[int]]]:
        type = ir_types.FORWARD.get(node.op_type, node.op_type)
        indices = [i for i, _ in operands]
        if type == "Gemm":
            names = ("MatMulLhsGrad", "MatMulRhsGrad", "AddArg1Grad")
            return [(names[i], [i]) for i in indices]
        if type in ir_types.BY_OPERAND:
            names = ir_types.BY_OPERAND[type]
            return [(names[i] if i < len(names) and names[i] else f"{type}Grad", [i]) for i in indices if i < 3]
        if type in ir_types.EACH_OPERAND:
            return [(ir_types.EACH_OPERAND[type], [i]) for i in indices]
        return [(f"{type}Grad", indices)]

    def _substituted(self, type: str, node: onnx.NodeProto, read: list[str], made: list[str]) -> None:
        pattern, types = ir_types.SUBSTITUTED.get(type, ("", (type,)))
        if pattern and not self._enabled(pattern):
            types = (type,)
        value = read
        for i, each in enumerate(types):
            is_last = i == len(types) - 1
            results = made if is_last else [f"{made[0]}__t{self._next()}"]
            self._add(each, self._name(node), value, results, node)
            value = [*results, *read[1:]] if not is_last else value

    # --- updates
    def _updates(self, live: list[onnx.NodeProto]) -> None:
        user = {id: node for node in reversed(live) for id in node.input}
        accumulates = accumulation_of(self.options) > 1
        replicated = self.options.getGlobalReplicationFactor() > 1
        for name in self.session._initialisers.values:
            if name not in self.session._initialisers.trained or _GRADIENT + name not in self.tensors:
                continue
            for type, context in update_types(self.session._optimizer, name, accumulates, replicated):
                is_last = type.endswith("VarUpdate")
                outputs = [f"UpdatedVar___{name}" if is_last else f"{type}___{name}"]
                self._add(type, "", [name, _GRADIENT + name], outputs, user.get(name), context)

    # --- subgraphs
    def _bodies(self, node: onnx.NodeProto, graphs: dict[str, list[dict[str, Any]]]) -> None:
        import onnx

        for attribute in node.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH:
                continue
            body = attribute.g
            name = body.name or f"{node.op_type.lower()}_subgraph({self._next()})"
            if name in graphs:
                continue
            before, self.ops = self.ops, []
            for inner in body.node:
                if inner.op_type != "Constant":
                    type = ir_types.FORWARD.get(inner.op_type, inner.op_type)
                    inputs, outputs = ([f"{name}/{id}" if id else "" for id in ids] for ids in (inner.input, inner.output))
                    op = self._add(type, inner.name, inputs, outputs, inner, "Subgraph", self._own_attributes(inner))
                    op["attributes"]["scope"] = name
            graphs[name], self.ops = self.ops, before
            for inner in body.node:
                self._bodies(inner, graphs)
