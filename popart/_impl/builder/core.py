"""One graph of a model that is being built: its tensors and nodes, and the names they get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx

from popart._impl.builder import model_files, protos
from popart._impl.builder.annotations import Annotations
from popart._impl.builder.arguments import Signature, array, bind_one, debug_name, integer, sequence, text
from popart._impl.builder.inference import types_of_outputs
from popart._impl.builder.metadata import put_input_settings, put_variable_settings
from popart._impl.builder.model import Model, new_graph_name, unnamed_graph_name
from popart._impl.builder.operation import Operation
from popart._impl.builder.tuning import Tuning
from popart._impl.builder.windows import check_window
from popart._impl.data_flow import InputSettings
from popart._impl.debug_info import DebugContext, builder_id
from popart._impl.exceptions import popart_exception
from popart._impl.groups import VariableSettings
from popart._impl.logs import getLogger
from popart._impl.tensor_info import TensorInfo

_SMALL = 1024  # elements; shape inference reads no larger constants


def _of(kind: type) -> Any:
    from popart._impl.builder.arguments import Refused

    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Refused
        return value

    return convert


_DEBUG = ("debugContext", debug_name, "")
_SETTINGS = ("settings", _of(InputSettings))
_INFO, _NAME, _SHAPE = ("tensorInfo", _of(TensorInfo)), ("dataType", text), ("shape", sequence(integer))
_INPUTS = {
    "(tensorInfo: TensorInfo, debugContext: DebugContext = '') -> str": Signature(_INFO, _DEBUG),
    "(dataType: str, shape: List[int], debugContext: DebugContext = '') -> str": Signature(_NAME, _SHAPE, _DEBUG),
    "(tensorInfo: TensorInfo, settings: InputSettings, debugContext: DebugContext = '') -> str": Signature(
        _INFO, _SETTINGS, _DEBUG
    ),
    "(dataType: str, shape: List[int], settings: InputSettings, debugContext: DebugContext = '') -> str": Signature(
        _NAME, _SHAPE, _SETTINGS, _DEBUG
    ),
}
_DATA = ("initVal", array)
_INITIALISED = {
    "(initVal: numpy.ndarray, debugContext: DebugContext = '') -> str": Signature(_DATA, _DEBUG),
    "(initVal: numpy.ndarray, variableSettings: VariableSettings, debugContext: DebugContext = '') -> str": Signature(
        _DATA, ("variableSettings", _of(VariableSettings)), _DEBUG
    ),
}


class _BuilderCore(Tuning, Annotations):
    """A graph with its names, types and settings; the main graph of a model or one inside."""

    def __init__(self, modelProtoOrFilename: Any = None, parent: _BuilderCore | None = None) -> None:
        self.parent, self.children = parent, []  # type: ignore[var-annotated]
        self.model: Model = parent.model if parent else Model(modelProtoOrFilename)
        self.graph: onnx.GraphProto = onnx.GraphProto() if parent else self.model.proto.graph
        if parent or modelProtoOrFilename is None:
            self.graph.name = new_graph_name()
        self.scopes: list[str] = []
        self.common: dict[str, Any] = {}  # attributes of the contexts that are open
        self.known: dict[str, onnx.TypeProto | None] = {}  # every tensor of this graph
        self.constants: dict[str, onnx.TensorProto] = {}
        self.initialisers: dict[str, onnx.TensorProto] = {}
        self.nodes: dict[str, onnx.NodeProto] = {}  # by each output
        self.values: list[str] = []
        self.argument_order: list[str] = []  # inputs and tensors of enclosing graphs, as they were declared
        self._not_inferred = 0  # nodes of a loaded graph whose outputs have no types yet
        if not parent and modelProtoOrFilename is not None:
            self._adopt()

    # --- what is there
    def _adopt(self) -> None:
        graph = self.graph
        for tensor in graph.initializer:
            self.initialisers[tensor.name] = tensor
            self.known[tensor.name] = protos.tensor_type(tensor.data_type, tensor.dims)
            self._remember_constant(tensor.name, tensor)
        for value in graph.input:
            self.known[value.name] = value.type
        declared = {value.name: protos.known_type(value) for value in (*graph.output, *graph.value_info)}
        for node in graph.node:
            for id in node.output:
                if id:
                    self.nodes[id] = node
                    self.known[id] = declared.get(id)
            self._remember_constant_of(node)
        self.model.taken.update(_ids_of(graph))
        self._not_inferred = len(graph.node)

    def _infer_adopted(self) -> None:
        """Types of the nodes of a loaded model, when somebody asks for the first time. The model stays as it was."""
        nodes, self._not_inferred = self.graph.node[: self._not_inferred], 0
        for node in nodes:
            for id, type_ in types_of_outputs(self, node, None).items():
                if self.known.get(id) is None:
                    self.known[id] = type_
        self.values[:0] = [id for node in nodes for id in node.output if id]

    def _remember_constant(self, id: str, tensor: onnx.TensorProto) -> None:
        if protos.element_count(tensor) <= _SMALL and not protos.is_external(tensor):
            self.constants[id] = tensor

    def _remember_constant_of(self, node: onnx.NodeProto) -> None:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._remember_constant(node.output[0], attribute.t)

    def find(self, id: str) -> _BuilderCore | None:
        """The graph that has a tensor: this one or one around it."""
        core: _BuilderCore | None = self
        while core is not None and id not in core.known:
            core = core.parent
        return core

    def type_of(self, id: str) -> onnx.TypeProto | None:
        core = self.find(id)
        if core is None:
            return None
        if core._not_inferred and core.known[id] is None:
            core._infer_adopted()
        return core.known[id]

    def constant(self, id: str) -> onnx.TensorProto | None:
        core = self.find(id)
        return core.constants.get(id) if core else None

    def tensors_text(self) -> str:
        known: list[str] = []
        core: _BuilderCore | None = self
        while core is not None:
            known, core = known + list(core.known), core.parent
        shown = ", ".join(f"'{id}'" for id in known[:100])
        return f"there are {shown}{' and more' if len(known) > 100 else ''}" if known else "there are no tensors"

    # --- names
    def getNameScope(self, name: str = "") -> str:
        return "".join(f"{scope}/" for scope in self.scopes) + name

    def _new_id(self, name: str) -> str:
        return self.model.unique(self.getNameScope(name))

    def setGraphName(self, name: str) -> None:
        """The name of this graph in the model; "" makes a new one."""
        self.model.changed()
        self.graph.name = name or unnamed_graph_name()

    # --- tensors
    def addInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """Adds an input of the graph.

        Args: (tensorInfo[, settings][, debugContext]) or (dataType, shape[, settings][, debugContext]).
        Returns: the id of the tensor: the name of `debugContext`, or "input".
        Raises: TypeError for other arguments, popart_exception for an element type that there is not.
        """
        _, given = bind_one("addInputTensor", _INPUTS, args, kwargs)
        info = given["tensorInfo"] if "tensorInfo" in given else TensorInfo(given["dataType"], given["shape"])
        number = protos.NUMBER[info.dataType()]
        id = self._add_input(protos.tensor_type(number, info.shape()), given["debugContext"])
        if "settings" in given:
            put_input_settings(self.model, id, given["settings"])
        return id

    def addUntypedInputTensor(self, debugContext: Any = "") -> str:
        """Adds an input without a type to the graph of a loop, call or branch. Raises popart_exception in the main graph."""
        _, given = bind_one(
            "addUntypedInputTensor", {"(debugContext: DebugContext = '') -> str": Signature(_DEBUG)}, [debugContext], {}
        )
        if self.parent is None:
            raise popart_exception("an input of the main graph needs a type and a shape: call addInputTensor")
        return self._add_input(None, given["debugContext"])

    def _add_input(self, type_: onnx.TypeProto | None, debug: DebugContext | str) -> str:
        self.model.changed()
        name = debug if isinstance(debug, str) else debug.name
        id = self._new_id(name or "input")
        value = self.graph.input.add()
        value.name = id
        if type_ is not None:
            value.type.CopyFrom(type_)
        self.known[id] = type_
        self.argument_order.append(id)
        self.model.put_metadata(f"__debug_id/input/{id}", builder_id(debug, {"tensorId": id}))
        return id

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        """Says that this graph reads a tensor of a graph around it. Raises popart_exception when none has it."""
        bind_one(
            "addInputTensorFromParentGraph", {"(tensorId: str) -> None": Signature(("tensorId", text))}, [tensorId], {}
        )
        if self.parent is None or self.parent.find(tensorId) is None:
            around = f"; {self.parent.tensors_text()}" if self.parent else ": this is the main graph"
            raise popart_exception(f"no graph around '{self.graph.name}' has the tensor '{tensorId}'{around}")
        self.known[tensorId] = self.parent.type_of(tensorId)
        if (value := self.parent.constant(tensorId)) is not None:
            self.constants[tensorId] = value
        self.argument_order.append(tensorId)

    def addInitializedInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """Adds a variable with its first value, a NumPy array that is copied.

        Args: (initVal[, variableSettings][, debugContext]). With settings of more than one group the first dimension counts groups.
        Returns: the id of the tensor: the name of `debugContext`, or "init_input".
        Raises: TypeError for other arguments, popart_exception for an element type that no variable has.
        """
        _, given = bind_one("addInitializedInputTensor", _INITIALISED, args, kwargs)
        made = protos.to_tensor(given["initVal"])
        self.model.changed()
        debug = given["debugContext"]
        id = self._new_id((debug if isinstance(debug, str) else debug.name) or "init_input")
        tensor = self.graph.initializer.add()
        tensor.CopyFrom(made)
        tensor.name = id
        value = self.graph.input.add()
        value.name = id
        value.type.CopyFrom(protos.tensor_type(tensor.data_type, tensor.dims))
        self.known[id] = value.type
        self.initialisers[id] = tensor
        self._remember_constant(id, tensor)
        self.model.put_metadata(f"__debug_id/input/{id}", builder_id(debug, {"tensorId": id}))
        if "variableSettings" in given:
            put_variable_settings(self.model, id, given["variableSettings"])
        return id

    def addOutputTensor(self, outputName: str) -> None:
        """Makes a tensor of this graph an output of it. Raises popart_exception for a tensor that is not there."""
        bind_one("addOutputTensor", {"(outputName: str) -> None": Signature(("outputName", text))}, [outputName], {})
        if self.find(outputName) is None:
            raise popart_exception(f"'{outputName}' cannot be an output: {self.tensors_text()}")
        self.model.changed()
        value = self.graph.output.add()
        value.name = outputName
        if (type_ := self.type_of(outputName)) is not None:
            value.type.CopyFrom(type_)
        elif outputName in self.nodes:
            value.type.CopyFrom(protos.unknown_type())

    def createSubgraphBuilder(self) -> _BuilderCore:
        child = _BuilderCore(parent=self)
        self.children.append(child)
        return child

    # --- nodes
    def add_node(
        self,
        operation: Operation,
        inputs: Sequence[str],
        outputs: int,
        attributes: Sequence[onnx.AttributeProto],
        debug: DebugContext | str,
    ) -> list[str]:
        """Adds a node and returns the ids of its outputs.

        Raises popart_exception for unknown inputs, wrong numbers of inputs or outputs, a window that does not fit, and a second
        version of a domain.
        """
        self._check_counts(operation, inputs, outputs)
        node = onnx.NodeProto(op_type=operation.type, domain=operation.domain)
        node.input.extend(inputs)
        node.attribute.extend(attributes)
        check_window(self, node)
        self.model.use(operation.domain, operation.version, operation.type)
        self.model.changed()
        node.output.extend(self._new_id(f"{operation.type}:{index}") for index in range(outputs))
        name = debug if isinstance(debug, str) else debug.name
        if name or self.scopes:
            node.name = self.getNameScope(name or operation.type)
        self._annotate(node)
        id = builder_id(debug, {"opType": operation.qualified, "inputs": list(inputs), "outputs": list(node.output)})
        node.attribute.append(protos.attribute("__debug_info_id", protos.Attribute.INT, id))
        node = self._append(node)
        logger = getLogger("builder")
        if logger.is_enabled("TRACE"):
            logger.trace(f"added {operation.qualified} {' '.join(node.output)}")
        return list(node.output)

    def _append(self, made: onnx.NodeProto) -> onnx.NodeProto:
        types = types_of_outputs(self, made, self.model.versions.get(""))
        for id, type_ in types.items():
            sizes = protos.shape_of(type_) or ()
            if any(size is not None and size < 0 for size in sizes):
                raise popart_exception(
                    f"{made.op_type}: the output '{id}' would have shape {list(sizes)}: its parameters are invalid"
                )
        node = self.graph.node.add()
        node.CopyFrom(made)
        for id in node.output:
            self.nodes[id] = node
            self.known[id] = types.get(id)
            value = self.graph.value_info.add()
            value.name = id
            value.type.CopyFrom(types.get(id) or protos.unknown_type())
            self.values.append(id)
        self._remember_constant_of(node)
        return node

    def _check_counts(self, operation: Operation, inputs: Sequence[str], outputs: int) -> None:
        least, most = operation.inputs
        if not least <= len(inputs) <= most:
            allowed = str(least) if least == most else f"{least} to {most}" if most < 2**31 - 1 else f"{least} or more"
            raise popart_exception(
                f"{operation.type} has {len(inputs)} inputs, but {operation.qualified} takes {allowed}"
            )
        for id in inputs:
            if id and self.find(id) is None:
                raise popart_exception(f"{operation.type}: its input '{id}' is no tensor; {self.tensors_text()}")
        if outputs < operation.outputs[0]:
            raise popart_exception(
                f"{operation.type} is to have {outputs} outputs, but {operation.qualified} has at least {operation.outputs[0]}"
            )
        if outputs > operation.outputs[1]:
            raise popart_exception(
                f"{operation.type} is to have {outputs} outputs, but {operation.qualified} has at most {operation.outputs[1]}"
            )

    # --- queries
    def getInputTensorIds(self) -> list[str]:
        """Inputs of the graph, variables among them."""
        return [value.name for value in self.graph.input]

    def getOutputTensorIds(self) -> list[str]:
        return [value.name for value in self.graph.output]

    def getValueTensorIds(self) -> list[str]:
        """Outputs of nodes, in the order of the nodes."""
        if self._not_inferred:
            self._infer_adopted()
        return list(self.values)

    def getTrainableTensorIds(self) -> list[str]:
        return [tensor.name for tensor in self.graph.initializer]

    def isInitializer(self, id: str) -> bool:
        return id in self.initialisers

    def _type_or_unknown(self, id: str) -> onnx.TypeProto:
        if not isinstance(id, str) or self.find(id) is None:
            groups = [
                ("inputs", self.getInputTensorIds()),
                ("outputs", self.getOutputTensorIds()),
                ("values", self.getValueTensorIds()),
            ]
            listed = "; ".join(f"{what}: {', '.join(ids[:100]) or 'none'}" for what, ids in groups)
            raise popart_exception(f"'{id}' is no tensor of the model. {listed}")
        return self.type_of(id) or protos.unknown_type()

    def getTensorShape(self, id: str) -> list[int]:
        """Sizes of the dimensions; [] too where they are not known before a session is made.

        Raises popart_exception for an id that is no tensor of the model.
        """
        sizes = protos.shape_of(self._type_or_unknown(id)) or []
        return [] if None in sizes else [size for size in sizes if size is not None]

    def getTensorDtypeString(self, id: str) -> str:
        """The element type in small letters: "float32"; "undefined" where it is not known before a session is made.

        Raises popart_exception for an id that is no tensor of the model.
        """
        return protos.lower_case(self._type_or_unknown(id).tensor_type.elem_type)

    # --- the model
    def getModelProto(self) -> bytes:
        """The serialised model; of a model that was loaded, its own bytes as long as nothing was added."""
        return self.model.serialized()

    def saveModelProto(self, filename: str) -> None:
        """Writes the model to a file. Raises RuntimeError when the ONNX checker refuses it."""
        model_files.save(self.model.proto, self.model.serialized, filename)

    def saveInitializersExternally(self, ids: Sequence[str], filename: str) -> None:
        """Moves the data of these variables to a file; the model keeps where they are.

        Raises popart_exception when the folder is not there, an id is no variable, or its data are external or empty.
        """
        ways = {"(ids: List[str], filename: str) -> None": Signature(("ids", sequence(text)), ("filename", text))}
        bind_one("saveInitializersExternally", ways, [ids, filename], {})
        model_files.externalise(self.graph, ids, filename)
        self.model.changed()
        for id in ids:
            self.constants.pop(id, None)

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Writes the number of replicas for which grouped variables have data, in the metadata."""
        ways = {"(replicationFactor: int) -> None": Signature(("replicationFactor", integer))}
        _, given = bind_one("embedReplicationFactor", ways, [replicationFactor], {})
        self.model.changed()
        self.model.put_metadata("__replicationFactor", given["replicationFactor"])

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: Sequence[str],
        attributes: dict[str, Any],
        numOutputs: int = 1,
        name: Any = "",
    ) -> list[str]:
        """Adds a node of any operator; its domain is imported with version 1.

        Raises popart_exception for a value of an attribute that is no number, text or list of numbers, and for unknown inputs.
        """
        ways = {
            "(opName: str, opVersion: int, domain: str, inputs: List[str], attributes: dict, numOutputs: int = 1, name: DebugContext = '')"
            " -> List[str]": Signature(
                ("opName", text), ("opVersion", integer), ("domain", text), ("inputs", sequence(text)), ("attributes", _of(dict)),
                ("numOutputs", integer), ("name", debug_name),
            )
        }  # fmt: skip
        _, given = bind_one("customOp", ways, [opName, opVersion, domain, inputs, attributes, numOutputs, name], {})
        made = [self.make_attribute(key, value) for key, value in given["attributes"].items()]
        space = model_files.domain_name(given["domain"])
        version = self.model.versions.get("", model_files.DEFAULT_OPSET) if space == "" else 1
        count = len(given["inputs"])
        operation = Operation(space, given["opName"], version, (count, count), (0, given["numOutputs"]))
        return self.add_node(operation, given["inputs"], given["numOutputs"], made, given["name"])

    def new_constant(self, value: numpy.ndarray, debug: DebugContext | str, version: int) -> str:
        attribute = protos.attribute("value", protos.Attribute.TENSOR, protos.to_tensor(value))
        return self.add_node(Operation("", "Constant", version, (0, 0), (1, 1)), [], 1, [attribute], debug)[0]


def _ids_of(graph: onnx.GraphProto) -> set[str]:
    """Names of all tensors of a graph and of those inside it."""
    ids = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        ids.update(node.output)
        for attribute in node.attribute:
            if attribute.type == protos.Attribute.GRAPH:
                ids |= _ids_of(attribute.g)
    return ids - {""}
