"""The operators of ai.graphcore: those a builder has methods for, and those that programs or transforms make."""

from __future__ import annotations

from popart._impl.operators.operator import Operator

DOMAIN = "ai.graphcore"

_INTEGER, _REAL, _TEXT, _LIST = "-?[0-9]+", "-?[0-9.e+-]+", ".*", r"\[.*\]"
_FLAG, _LOSS = "0|1", "Sum|Mean|None"
_NAMES = {
    "F": "FLOAT, FLOAT16",
    "N": "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT",
    "NB": "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, BOOL",
    "A": "UINT32, UINT64, INT32, INT64, FLOAT16, FLOAT",
    "X": "FLOAT, FLOAT16, INT32, UINT32",
    "F8": "FLOAT8_143, FLOAT8_152",
    "I": "INT32, UINT32",
    "INDEX": "INT32, INT64",
    "WHOLE": "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64",
    "SHORT": "UINT8, UINT16, UINT32, INT8, INT16, INT32, FLOAT16, FLOAT",
    "CALL": "UINT8, UINT16, UINT32, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, BOOL",
}


def _dtypes(text: str) -> str:
    return ", ".join(_NAMES.get(part, part) for part in text.split("+"))


def _tensors(text: str) -> list[tuple[str, str]]:
    """"x:F scale:F" as names and element types; "" is none."""
    pairs = [part.split(":") for part in text.split()]
    return [(name, _dtypes(dtypes)) for name, dtypes in pairs]


def _row(
    kind: str, inputs: str, outputs: str, gradient: str, attributes: dict[str, str] | None = None, *, internal: bool = False
) -> Operator:
    return Operator(
        domain=DOMAIN,
        type=kind,
        versions=(1,),
        how="rewritten" if kind == "Remainder" else "ir",
        inputs=tuple((name, dtypes, False) for name, dtypes in _tensors(inputs)),
        outputs=tuple(_tensors(outputs)),
        attributes=attributes or {},
        gradient=gradient,
        internal=internal,
    )


_BLOCK = {"axes": _LIST, "sizes": _LIST}
_COLLECTIVE = {"__collectiveOperator": "[0-8]", "__collectiveCommGroup": _LIST}
_SCATTER = {
    "axis_size": _INTEGER,
    "axis": _INTEGER,
    "reduction": "(?i)sum|max|min|mul|none",
    "group_size": _INTEGER,
    "enable_index_broadcast": _FLAG,
}
_CONVOLUTIONS = {
    "dilations": _LIST,
    "inDilations": _LIST,
    "pads": _LIST,
    "outPads": _LIST,
    "strides": _LIST,
    "availableMemoryProportions": _LIST,
    "partialsTypes": _LIST,
    "planType": "parallel|serial",
    "perConvReservedTiles": _INTEGER,
    "cycleBackOff": _REAL,
    "enableConvDithering": _LIST,
}
_PRINT = {
    "print_gradient": _FLAG,
    "title": _TEXT,
    "summariseThreshold": _INTEGER,
    "edgeItems": _INTEGER,
    "maxLineWidth": _INTEGER,
    "digits": _INTEGER,
    "floatFormat": "[0-3]",
    "separator": ".",
    "openBracket": ".",
    "closeBracket": ".",
}
_INIT = {"shape": _LIST, "data_type": _INTEGER, "init_type": _FLAG, "batch_axis": _INTEGER}

# What a builder has methods for. Element types are those that PopART declares; others work where the device has them.
_METHODS = (
    _row("Abort", "x:NB", "", "none"),
    _row("Atan2", "y:F x:F", "out:F", "yes"),
    _row(
        "BatchNormalization",
        "x:F scale:F bias:F mean:F var:F",
        "y:F mean:F var:F saved_mean:F saved_var:F",
        "yes",
        {"epsilon": _REAL, "momentum": _REAL},
    ),
    *(_row(f"Bitwise{name}", "a:I b:I", "out:I", "error") for name in ("And", "Or", "Xor", "Xnor")),
    _row("BitwiseNot", "x:I", "out:I", "error"),
    _row("Bucketize", "x:I+F boundaries:I+F", "out:INT32", "none", {"right": _FLAG}),
    _row("Call", "inputs:CALL", "outputs:CALL", "yes", {"callee": _TEXT}),
    _row("CopyVarUpdate", "variable:I+F value:I+F", "out:I+F", "none"),
    _row(
        "CtcBeamSearchDecoder",
        "logProbs:F lengths:UINT32",
        "probabilities:F labelLengths:UINT32 labels:UINT32",
        "none",
        {"blank": _INTEGER, "beam_width": _INTEGER, "top_paths": _INTEGER},
    ),
    _row(
        "Ctc",
        "logProbs:F targets:I inputLengths:I targetLengths:I",
        "loss:F gradient:F",
        "yes",
        {"reduction": _LOSS, "blank": _INTEGER, "outDataType": "FLOAT|FLOAT16|UNDEFINED", "zeroInfinity": _FLAG},
    ),
    _row("DepthToSpace", "x:NB", "y:NB", "yes", {"blocksize": _INTEGER, "mode": "DCR|CRD"}),
    _row("Detach", "x:NB", "y:NB", "none"),
    _row("DynamicAdd", "x:X offset:WHOLE slice:X", "y:X", "yes", _BLOCK),
    _row("DynamicSlice", "x:X+F8 offset:WHOLE into:X+F8", "y:X+F8", "yes", _BLOCK | {"noOverlap": _FLAG}),
    _row("DynamicUpdate", "x:X offset:WHOLE slice:X", "y:X", "yes", _BLOCK | {"noOverlap": _FLAG}),
    _row("DynamicZero", "x:X offset:WHOLE", "y:X", "yes", _BLOCK),
    _row("Expm1", "x:F", "y:F", "yes"),
    _row("Log1p", "x:F", "y:F", "yes"),
    _row("Fmod", "a:SHORT b:SHORT", "out:SHORT", "yes"),
    _row("Gelu", "x:F", "y:F", "yes"),
    _row("GeluErf", "x:F", "y:F", "yes"),
    _row("GroupedGather", "data:NB+F8 indices:INDEX", "out:NB+F8", "yes", {"axis": _INTEGER, "group_size": _INTEGER}),
    _row(
        "GroupNormalization",
        "x:F scale:F bias:F",
        "y:F mean:F inverseDeviation:F",
        "yes",
        {"num_groups": _INTEGER, "epsilon": _REAL},
    ),
    _row("IdentityLoss", "x:NB", "loss:NB", "yes", {"reduction": _LOSS}),
    _row("IncrementMod", "x:I+F", "y:I+F", "none", {"increment": _REAL, "modulus": _REAL}),
    _row("Init", "", "y:X", "yes", _INIT),
    _row("L1", "x:F+I", "loss:F+I", "yes", {"lambda": _REAL, "reduction": _LOSS}),
    _row(
        "LSTM",
        "x:F weights:F bias:F initialState:F seqLengths:INT32",
        "y:F cell:F",
        "yes",
        {"outputFullSequence": _FLAG},
    ),
    _row("MultiConv", "inputs:F", "outputs:F", "yes", _CONVOLUTIONS),
    _row("NearbyInt", "x:F", "y:F", "zero"),
    _row("Round", "x:F", "y:F", "zero"),
    _row(
        "Nll",
        "probabilities:F labels:I",
        "loss:F",
        "yes",
        {"reduction": _LOSS, "ignoreIndex": _INTEGER, "inputIsLogProbability": _FLAG},
    ),
    _row("Nop", "x:NB", "y:NB", "yes"),
    _row("NormalizeImage", "image:UINT8+F offsets:F scales:F", "y:F", "none", {"scale": _REAL}),
    _row(
        "PackedDataBlock",
        "inputs:X",
        "y:X",
        "none",
        {"maxSequenceLengths": _LIST, "resultSize": _INTEGER, "callbackBatchSize": _INTEGER, "callback": _TEXT},
    ),
    _row("PrintTensor", "x:NB", "y:NB", "yes", _PRINT),
    _row("ReduceMedian", "x:A", "values:A indices:INT32", "yes", {"axes": _LIST, "keepdims": _FLAG}),
    _row("Remainder", "a:SHORT b:SHORT", "out:SHORT", "yes"),
    _row("ReplicatedAllReduce", "x:X", "y:X", "yes", _COLLECTIVE),
    _row("ReplicatedReduceScatter", "x:X", "y:X", "yes", _COLLECTIVE),
    _row("Reshape", "x:NB+F8", "y:NB+F8", "yes", {"shape": _LIST}),
    _row("Reverse", "x:NB", "y:NB", "yes", {"dimensions": _LIST}),
    _row("Scale", "x:FLOAT", "y:FLOAT", "yes", {"scale": _REAL}),
    _row("ScaledAdd", "a:F b:F scale0:F scale1:F", "y:F", "yes", {"scale0": _REAL, "scale1": _REAL}),
    _row("ScatterReduce", "src:F+WHOLE index:WHOLE initial:F+WHOLE", "y:F+WHOLE", "yes", _SCATTER),
    _row(
        "SequenceSlice",
        "source:X destination:X n:UINT32 sourceOffset:UINT32 destOffset:UINT32",
        "y:X",
        "none",
        {"zeroUnused": _FLAG},
    ),
    _row("ShapedDropout", "x:F", "y:F", "yes", {"shape": _LIST, "ratio": _REAL}),
    _row("Slice", "x:NB+F8", "y:NB+F8", "yes", {"starts": _LIST, "ends": _LIST, "axes": _LIST}),
    _row("Sort", "x:N", "values:N indices:INT32", "none", {"axis": _INTEGER, "descending": _FLAG, "stable": _FLAG}),
    _row("SplineBasis", "pseudo:F kernelSize:INT32 isOpenSpline:UINT8", "basis:F index:INT32", "none", {"degree": "[1-3]"}),
    _row("SplineWeighting", "input:F weight:F basis:F index:INT32", "y:F", "none"),
    _row("Subsample", "x:F+F8", "y:F+F8", "yes", {"strides": _LIST}),
    _row("Swish", "x:F", "y:F", "yes"),
    _row("TensorRemap", "x:X reference:X", "y:X", "yes", {"remap_type": "[0-2]"}),
)

# Made by models or by transforms, without a method of a builder.
_INTERNAL = (
    _row("ReplicatedAllGather", "x:X", "y:X", "yes", {"__collectiveCommGroup": _LIST}, internal=True),
    _row("Pow2ScaleThenCast", "x:FLOAT16 log2Scale:INT8", "y:F8", "none", {"to": _TEXT}, internal=True),
    _row("CastThenPow2Scale", "x:F8 log2Scale:INT8", "y:F", "none", {"to": _TEXT}, internal=True),
    *(
        _row(kind, inputs, outputs, gradient, internal=True)
        for kind, inputs, outputs, gradient in (
            ("AllReduce", "inputs:X", "outputs:X", "yes"),
            ("Square", "x:F", "y:F", "error"),
            ("ZerosLike", "x:X", "y:X", "none"),
            ("Zeros", "", "y:X", "none"),
            ("AddBias", "x:F bias:F", "y:F", "yes"),
            ("ConvFlipWeights", "weights:F", "y:F", "yes"),
            ("Histogram", "x:F", "y:UINT32", "none"),
            ("BinaryConstScalar", "x:F", "y:F", "yes"),
            ("HostLoad", "x:X", "y:X", "none"),
            ("HostStore", "x:X", "", "none"),
            ("RemoteLoad", "x:X offset:INT32", "y:X", "none"),
            ("RemoteStore", "x:X offset:INT32", "", "none"),
            ("LossScaleUpdate", "factor:F statistics:UINT32", "y:F", "none"),
            ("AutoLossScaleProxy", "x:F", "y:F", "yes"),
            ("PopartTiedGather", "data:NB indices:INDEX", "y:NB", "yes"),
            ("PopartSparseAccumulate", "accumulator:F gradient:F indices:INDEX", "y:F", "none"),
        )
    ),
)

OPERATORS: tuple[Operator, ...] = _METHODS + _INTERNAL
