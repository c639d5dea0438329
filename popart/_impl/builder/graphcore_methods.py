"""Rows of the methods of ai.graphcore. A row: method, node type, numbers of inputs and outputs, what is returned, parameters.

Parameters are "name:kind" or "name:kind=default", as in KINDS of methods.py; "args" and the debug name are added where they are not
written.
"""

from __future__ import annotations

import ast
from typing import Any

from popart._impl.builder.methods import REQUIRED, Method, Parameter
from popart._impl.builder.multiconv import multiconv
from popart._impl.enums import ReductionType, ScatterReduction

_REDUCTION, _SCATTER = "reduction:reduction=Mean", "reduction:scatter reduction=Sum"
_COLLECTIVE = "collectiveOperator:operator=None, commGroup:comm group=None"
_SIZES = "axes:ints, sizes:ints"
_ROWS: tuple[tuple[str, str, tuple[int, int], tuple[int, int], str, str, str], ...] = (
    ("abort", "Abort", (0, 1), (0, 0), "none", "args:ids=[]", "Ends the run with an error; with an input, when one of its elements is not zero."),
    ("atan2", "Atan2", (2, 2), (1, 1), "one", "", "The angle of the points (x, y) of [y, x], in (-pi, pi]; broadcast."),
    ("batchnormalization", "BatchNormalization", (5, 5), (1, 5), "list", "num_outputs:count, epsilon:float=1e-5, momentum:float=0.9",
     "BatchNormalization whose running variance takes the unbiased variance of the batch."),
    *((f"bitwise{name}", f"Bitwise{name.capitalize()}", (2, 2), (1, 1), "one", "args:ids=[]", f"Bitwise {name} of two integers; broadcast.")
      for name in ("and", "or", "xor", "xnor")),
    ("bitwisenot", "BitwiseNot", (1, 1), (1, 1), "one", "args:ids=[]", "Every bit turned over."),
    ("bucketize", "Bucketize", (2, 2), (1, 1), "one", "right:int=0", "INT32 places of the elements of x between ascending boundaries."),
    ("call", "Call", (0, 2**31 - 1), (0, 2**31 - 1), "list", "num_outputs:count, callee:graph, debugName:debug=''",
     "Runs the graph of a child builder once; args are all its inputs in the order of their declaration."),
    ("copyvarupdate", "CopyVarUpdate", (2, 2), (1, 1), "one", "", "Assigns a value to a variable, and returns the variable as it is then."),
    ("ctcbeamsearchdecoder", "CtcBeamSearchDecoder", (2, 2), (3, 3), "list",
     "blank:int=0, beam_width:int=100, top_paths:int=1, debug_context:debug=''",
     "Probabilities [N, P], lengths [N, P] and labels [N, P, T] of the likeliest paths."),
    ("ctcloss", "Ctc", (4, 4), (2, 2), "one", f"{_REDUCTION}, blank:int=0, outDataType:string='UNDEFINED', zeroInfinity:bool=False",
     "Loss of connectionist temporal classification of [T, N, C] log probabilities."),
    ("depthtospace", "DepthToSpace", (1, 1), (1, 1), "one", "blocksize:int, mode:string", "Channels [N, C, H, W] into blocks of pixels."),
    ("detach", "Detach", (1, 1), (1, 1), "one", "", "The input; no gradient passes."),
    ("dynamicadd", "DynamicAdd", (3, 3), (1, 1), "one", _SIZES, "[x, offset, s]: x with s added at the offset."),
    ("dynamicslice", "DynamicSlice", (2, 3), (1, 1), "one", f"{_SIZES}, noOverlap:int=0", "[x, offset]: the part of x at the offset."),
    ("dynamicupdate", "DynamicUpdate", (3, 3), (1, 1), "one", f"{_SIZES}, noOverlap:int=0", "[x, offset, s]: x with s at the offset."),
    ("dynamiczero", "DynamicZero", (2, 2), (1, 1), "one", _SIZES, "[x, offset]: x with zeros at the offset."),
    ("expm1", "Expm1", (1, 1), (1, 1), "one", "", "exp(x) - 1."),
    ("log1p", "Log1p", (1, 1), (1, 1), "one", "", "log(1 + x)."),
    ("fmod", "Fmod", (2, 2), (1, 1), "one", "", "The remainder with the sign of the dividend; broadcast."),
    ("gelu", "Gelu", (1, 1), (1, 1), "one", "", "The tanh form of GELU."),
    ("geluerf", "GeluErf", (1, 1), (1, 1), "one", "", "The exact form of GELU."),
    ("groupedgather", "GroupedGather", (2, 2), (1, 1), "one", "axis:int=0, group_size:int=1",
     "[data, indices]: Gather in each group of the first dimension."),
    ("groupedscatterreduce", "ScatterReduce", (2, 3), (1, 1), "one",
     f"axis_size:int, axis:int=-1, {_SCATTER}, group_size:int=1, enable_index_broadcast:int=1",
     "[source, index] and initial values: scatters in each group of the first dimension."),
    ("groupnormalization", "GroupNormalization", (3, 3), (3, 3), "list", "num_groups:int, epsilon:float=1e-5",
     "[x, scale, bias]: y like x, and mean and inverse standard deviation [N * groups]."),
    ("identityloss", "IdentityLoss", (1, 1), (1, 1), "one", _REDUCTION, "The sum or mean of all elements, or the input itself."),
    ("incrementmod", "IncrementMod", (1, 1), (1, 1), "one", "increment:float, modulus:float", "(x + increment) mod modulus."),
    ("init", "Init", (0, 0), (1, 1), "one", "shape:ints, data_type:data type, init_type:init type, batch_axis:int=-1",
     "A new tensor of zeros, or whose values nobody has set."),
    ("l1loss", "L1", (1, 1), (1, 1), "one", f"lambda:float, {_REDUCTION}", "lambda * |x|, summed or averaged."),
    ("lstm", "LSTM", (2, 5), (2, 2), "list", "outputFullSequence:int=1",
     "[x, weights, bias, state, lengths]: outputs [T, B, H] (or the last) and the cell state [B, H]."),
    ("multiconv", "MultiConv", (2, 2**31 - 1), (1, 2**31 - 1), "list",
     "args:id lists, dilations:int lists=[], inDilations:int lists=[], pads:int lists=[], outPads:int lists=[], strides:int lists=[], "
     "availableMemoryProportions:floats=[], partialsTypes:strings=[], planType:string=None, perConvReservedTiles:int=None, "
     "cycleBackOff:float=None, enableConvDithering:ints=[]",
     "Several convolutions in one node; each list is empty or has one entry for each."),
    ("nearbyint", "NearbyInt", (1, 1), (1, 1), "one", "", "The nearest whole number, halves to even."),
    ("round", "Round", (1, 1), (1, 1), "one", "", "The nearest whole number, halves away from zero."),
    ("nllloss", "Nll", (2, 2), (1, 1), "one", f"{_REDUCTION}, ignoreIndex:int=None, inputIsLogProbability:bool=False",
     "[probabilities, labels]: -log of the probability of each label."),
    ("nop", "Nop", (1, 1), (1, 1), "one", "", "The input; nothing is optimised across it."),
    ("normalize_image", "NormalizeImage", (3, 3), (1, 1), "one", "scale:float=1.0",
     "[image, offsets, scales]: channels-last images normalised, with a fourth channel of zeros."),
    ("packedDataBlock", "PackedDataBlock", (3, 2**31 - 1), (1, 1), "one",
     "maxSequenceLengths:ints, resultSize:int, callbackBatchSize:int, callback:graph, debugName:debug=''",
     "Runs the graph of a child builder on sequences that are stored back to back."),
    ("printtensor", "PrintTensor", (1, 1), (1, 1), "one",
     "print_gradient:int=1, debugContext:debug='', title:string='', summariseThreshold:int=1000, edgeItems:int=3, maxLineWidth:int=75, "
     "digits:int=8, floatFormat:int=0, separator:string=' ', openBracket:string='[', closeBracket:string=']'",
     "The input, which is printed on stderr each time."),
    ("reducemedian", "ReduceMedian", (1, 1), (2, 2), "list", "axes:ints=None, keepdims:int=1", "Medians and where they were."),
    ("remainder", "Remainder", (2, 2), (1, 1), "one", "", "The remainder with the sign of the divisor; broadcast."),
    ("replicatedallreduce", "ReplicatedAllReduce", (1, 1), (1, 1), "one", _COLLECTIVE, "The reduction over all replicas of a group, on each."),
    ("replicatedreducescatter", "ReplicatedReduceScatter", (1, 1), (1, 1), "one", _COLLECTIVE,
     "This replica's shard of the reduction over a group."),
    ("reshape", "Reshape", (1, 1), (1, 1), "one", "args:id, shape:ints", "The same elements in another shape; -1 once, 0 copies."),
    ("reverse", "Reverse", (1, 1), (1, 1), "one", "dimensions:ints", "The elements in reverse order along these dimensions."),
    ("scale", "Scale", (1, 1), (1, 1), "one", "scale:float", "scale * x."),
    ("scaledadd", "ScaledAdd", (2, 4), (1, 1), "one", "scale0:float=1.0, scale1:float=1.0", "scale0 * T0 + scale1 * T1."),
    ("scatterreduce", "ScatterReduce", (2, 3), (1, 1), "one", f"axis_size:int, axis:int=-1, {_SCATTER}, enable_index_broadcast:int=1",
     "[source, index] and initial values: out[index[i]] op= source[i] along an axis."),
    ("sequenceslice", "SequenceSlice", (5, 5), (1, 1), "one", "zeroUnused:int=0",
     "[source, destination, lengths, source offsets, destination offsets]: copies rows."),
    ("shapeddropout", "ShapedDropout", (1, 1), (1, 1), "one", "shape:ints, ratio:float=0.5", "Dropout with a mask that is broadcast."),
    ("slice", "Slice", (1, 1), (1, 1), "one", "ends:ints, starts:ints, axes:ints", "A part of x."),
    ("sort", "Sort", (1, 1), (2, 2), "list", "axis:int=-1, descending:int=0, stable:int=0", "Values in order and where they were."),
    ("splinebasis", "SplineBasis", (3, 3), (2, 2), "list", "degree:int", "[pseudo, kernel sizes, open]: basis values and indices [E, S]."),
    ("splineweighting", "SplineWeighting", (4, 4), (1, 1), "one", "", "[input, weight, basis, indices]: features weighted by bases."),
    ("subsample", "Subsample", (1, 1), (1, 1), "one", "strides:ints", "Every stride-th element of each dimension."),
    ("swish", "Swish", (1, 1), (1, 1), "one", "", "x * sigmoid(x)."),
    ("tensorremap", "TensorRemap", (1, 2), (1, 1), "one", "remap_type:remap type=0, debugPrefix:debug=''",
     "The input on tiles of its own, or on those of a second tensor."),
)  # fmt: skip
_MEMBERS = {"Mean": ReductionType["Mean"], "Sum": ScatterReduction["Sum"]}


def _default(kind: str, text: str) -> Any:
    if kind in ("reduction", "scatter reduction"):
        return _MEMBERS[text]
    return ast.literal_eval(text)


def _parameter(text: str) -> Parameter:
    head, has_default, default = text.partition("=")
    name, _, kind = head.partition(":")
    return Parameter(name, kind, _default(kind, default) if has_default else REQUIRED)


def _method(row: tuple[Any, ...]) -> Method:
    name, op_type, inputs, outputs, returns, written, doc = row
    parameters = [_parameter(part) for part in written.split(", ") if part] if written else []
    if inputs[1] and not any(p.name == "args" for p in parameters):
        parameters.insert(0, Parameter("args", "ids"))
    if not any(p.kind == "debug" for p in parameters):
        parameters.append(Parameter("debugContext", "debug", ""))
    whole = f"{doc}\n\nAdds a node {op_type} of ai.graphcore, version 1. Raises TypeError and popart_exception as all these methods do."
    return Method(name, "ai.graphcore", op_type, tuple(parameters), inputs, outputs, returns, whole)


METHODS = tuple(_method(row) for row in _ROWS)
SPECIAL = {"multiconv": multiconv}
