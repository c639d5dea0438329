"""Graphs, ops and tensors of a program, as programs look at them and edit them: `import popart._internal.ir as _ir`.

>>> ir = Ir()
>>> graph = ir.createGraph("f")
>>> graph.addInput("f/x", TensorInfo("FLOAT", [2]))
>>> settings = Settings(graph, "double")
>>> op = graph.createConnectedOp_AddOp({0: "f/x", 1: "f/x"}, {0: "f/y"}, OperatorIdentifier("ai.onnx", "Add", 6), settings)
>>> op.outInfo(0)
FLOAT(2)
"""

from popart._impl.debug_info import DebugContext, DebugInfo, ProfileValue, SourceLocation
from popart._impl.enums import (
    AccumulationType,
    AdamMode,
    CodeLocation,
    CollectiveOperator,
    CommGroupType,
    DataType,
    ExecutionContext,
    ExpectedConnectionType,
    FloatFormat,
    GradOpInType,
    InitType,
    ReductionType,
    ReplicatedStreamMode,
    ReplicatedTensorSharding,
    TensorStorage,
    TensorType,
    TileSet,
    VariableRetrievalMode,
    VariableUpdateType,
)
from popart._impl.exceptions import popart_exception, popart_internal_exception
from popart._impl.facade.float8 import FUNCTIONS as _FLOAT8
from popart._impl.facade.gradients import GradInOutMapper
from popart._impl.facade.graph import Graph, TopoCons
from popart._impl.facade.ids import GraphId, NumInputs, OperatorIdentifier, Scope, addScope, removeScope
from popart._impl.facade.ir import Ir
from popart._impl.facade.op import Op
from popart._impl.facade.settings import Settings
from popart._impl.facade.tensor import Tensor
from popart._impl.facade.tensors import Tensors
from popart._impl.facade.values import (
    OPTIONALS as _OPTIONALS,
    BwdGraphInfo,
    ExpectedConnection,
    OptimizerValue,
    PrintTensorFmt,
    RemoteBufferInfo,
    TensorData,
)
from popart._impl.groups import CommGroup, ReplicaGrouping, VariableSettings
from popart._impl.locations import TensorLocation
from popart._impl.session_options import SessionOptions
from popart._impl.data_flow import DataFlow
from popart._impl.tensor_info import TensorInfo
from popart._internal.ir import op, patterns, transforms, view

globals().update({**_OPTIONALS, **_FLOAT8})
