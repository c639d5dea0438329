"""The operators of ai.onnx, opsets 6 to 11, as PopART has them: which versions run, element types, gradients."""

from __future__ import annotations

from popart._impl.operators.operator import Operator

F = "FLOAT, FLOAT16"
A = "UINT32, UINT64, INT32, INT64, FLOAT, FLOAT16"
N = "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT, FLOAT16"
NB = N + ", BOOL"
F8 = "FLOAT8_143, FLOAT8_152"
BOOL, INDEX, COUNT = "BOOL", "INT32, INT64", "INT64"
ANY = NB + ", " + F8
CASTS = "FLOAT16, FLOAT, UINT8, UINT16, UINT32, INT8, INT16, INT32, BOOL"

# type; versions; how it runs; inputs "name types", "!" in front: the model must state it; outputs; attributes; gradient.
_HOW = {"": "ir", "rw": "rewritten", "cf": "folded", "-": "none"}


def _row(
    type_: str,
    versions: tuple[int, ...],
    inputs: str,
    outputs: str,
    attributes: str = "",
    gradient: str = "yes",
    how: str = "",
) -> Operator:
    sets = {"F": F, "A": A, "N": N, "NB": NB, "ANY": ANY, "INDEX": INDEX, "COUNT": COUNT, "CASTS": CASTS}

    def types(word: str) -> str:
        return sets.get(word, word)

    def records(text: str) -> list[list[str]]:
        return [part.split() for part in text.split(";") if part.strip()]

    return Operator(
        "ai.onnx",
        type_,
        versions,
        _HOW[how],
        tuple((name.lstrip("!"), types(word), name.startswith("!")) for name, word in records(inputs)),
        tuple((name, types(word)) for name, word in records(outputs)),
        {pair.split("=")[0]: pair.split("=")[1] if "=" in pair else "*" for pair in attributes.split()},
        gradient,
    )


def _unary(type_: str, versions: tuple[int, ...], types: str = "F", attributes: str = "", **more: str) -> Operator:
    return _row(type_, versions, f"X {types}", f"Y {types}", attributes, **more)


def _binary(type_: str, versions: tuple[int, ...], types: str, to: str = "", **more: str) -> Operator:
    attributes = "axis broadcast" if versions[0] < 7 else ""
    return _row(type_, versions, f"A {types}; B {types}", f"C {to or types}", attributes, **more)


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_WINDOW = "dilations kernel_shape pads strides auto_pad=NOTSET|SAME_UPPER|SAME_LOWER|VALID"
_STATE = "activation_alpha activation_beta activations clip direction=forward hidden_size output_sequence"

_ELEMENTWISE = (
    _unary("Abs", (6,), "A"),
    _unary("Acos", (7,), how="rw"),
    _unary("Acosh", (9,), how="rw"),
    _unary("Asin", (7,)),
    _unary("Asinh", (9,), how="rw"),
    _unary("Atan", (7,)),
    _unary("Atanh", (9,), how="rw"),
    _unary("Ceil", (1, 6), gradient="zero"),
    _row("Clip", (6, 11), "input F; !min F; !max F", "output F", "max min"),
    _unary("Cos", (7,)),
    _unary("Cosh", (9,)),
    _unary("Elu", (1, 6), "N", "alpha"),
    _unary("Erf", (9,)),
    _unary("Exp", (6,)),
    _unary("Floor", (1, 6), gradient="zero"),
    _unary("HardSigmoid", (1, 6), "N", "alpha beta"),
    _unary("Identity", (1,), "NB"),
    _row("IsInf", (10,), "X FLOAT", "Y BOOL", "detect_negative detect_positive", "none"),
    _row("IsNaN", (9,), "X F", "Y BOOL", "", "none"),
    _unary("LeakyRelu", (1, 6), "F", "alpha"),
    _unary("Log", (6,)),
    _unary("Not", (1,), "BOOL", gradient="error"),
    _unary("Neg", (6,), "INT8,INT16,INT32,INT64,FLOAT,FLOAT16"),
    _unary("Reciprocal", (6,)),
    _unary("Relu", (6,)),
    _unary("Round", (11,), gradient="zero"),
    _unary("Selu", (1, 6), "N", "alpha gamma"),
    _unary("Shrink", (9,), "N", "bias lambd"),
    _unary("Sigmoid", (6,)),
    _unary("Sign", (9,), "N", gradient="zero"),
    _unary("Sin", (7,)),
    _unary("Sinh", (9,)),
    _unary("Softplus", (1,), "N"),
    _unary("Softsign", (1,), "N"),
    _unary("Sqrt", (6,)),
    _unary("Tan", (7,), how="rw"),
    _unary("Tanh", (6,)),
    _unary("ThresholdedRelu", (10,), "N", "alpha"),
    *(_binary(type_, (6, 7), "A") for type_ in ("Add", "Sub", "Mul", "Div")),
    _binary("Pow", (1, 7), "FLOAT,FLOAT16,INT32"),
    _binary("Equal", (1, 7, 11), "NB", "BOOL", gradient="error"),
    _binary("Greater", (1, 7, 9), "N", "BOOL", gradient="error"),
    _binary("Less", (7, 9), "N", "BOOL", gradient="error"),
    _binary("And", (1, 7), "BOOL", gradient="error"),
    _binary("Or", (1, 7), "BOOL", gradient="error"),
    _row("Mod", (10,), "A A; B A", "C A", "fmod", how="rw"),
    *(_row(type_, (6, 8), "data_0 F", "out F") for type_ in ("Max", "Min", "Mean", "Sum")),
    _row("PRelu", (9,), "X N; slope N", "Y N"),
    _row("Where", (9,), "condition BOOL; X NB; Y NB", "output NB"),
)

_SELECTION = (
    *(_row("Reduce" + word, (1, 11), "data A", "reduced A", "axes keepdims") for word in _REDUCTIONS),
    *(_row(type_, (1, 11), "data N", "reduced INDEX", "axis keepdims", "none") for type_ in ("ArgMax", "ArgMin")),
    _row("TopK", (1, 10, 11), "X N; !K COUNT", "Values N; Indices INDEX", "axis k largest sorted"),
    _row("CumSum", (11,), "x A; !axis INDEX", "y A", "exclusive reverse"),
)

_MOVES = (
    _row("Reshape", (5,), "data ANY; !shape COUNT", "reshaped ANY"),
    _row("Flatten", (1, 9, 11), "input ANY", "output ANY", "axis"),
    _row("Squeeze", (1, 11), "data ANY", "squeezed ANY", "axes"),
    _row("Unsqueeze", (1, 11), "data ANY", "expanded ANY", "axes"),
    _row("Transpose", (1,), "data NB", "transposed NB", "perm"),
    _row("Concat", (1, 4, 11), "inputs NB", "concat_result NB", "axis"),
    _row("Split", (2, 11), "input NB", "outputs NB", "axis split"),
    _row(
        "Slice",
        (1, 10, 11),
        "data ANY; !starts INDEX; !ends INDEX; !axes INDEX; !steps INDEX",
        "output ANY",
        "axes ends starts",
    ),
    _row("Pad", (2, 11), "data N; !pads COUNT; !constant_value N", "output N", "mode=constant|edge|reflect pads value"),
    _row("Tile", (1, 6), "input NB; !repeats COUNT", "output NB"),
    _row("Expand", (8,), "input NB; !shape COUNT", "output NB"),
    _row("Gather", (1, 11), "data ANY; indices INDEX", "output ANY", "axis"),
    _row("Scatter", (9, 11), "data NB; indices INDEX; updates NB", "output NB", "axis"),
    _row("ScatterElements", (11,), "data NB; indices INDEX; updates NB", "output NB", "axis"),
    _row("OneHot", (9, 11), "indices N; !depth N; values NB", "output NB", "axis"),
    _row("DepthToSpace", (1, 11), "input NB", "output NB", "blocksize mode=DCR|CRD", how="rw"),
    _row("SpaceToDepth", (1,), "input NB", "output NB", "blocksize", how="rw"),
    _row("Upsample", (9,), "X N; !scales FLOAT", "Y N", "mode=nearest|linear"),
    _row(
        "Resize",
        (10, 11),
        "X N; roi F; !scales F; !sizes INDEX",
        "Y N",
        "coordinate_transformation_mode=half_pixel|pytorch_half_pixel|asymmetric|align_corners cubic_coeff_a"
        " exclude_outside=0 extrapolation_value mode=nearest|linear|cubic"
        " nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil|pytorch",
    ),
    _row("Shape", (1,), "data ANY", "shape COUNT", "", "none", "cf"),
    _row("Constant", (1, 9, 11), "", "output NB", "value", "none", "cf"),
    _row("ConstantOfShape", (9,), "!input COUNT", "output NB", "value", "none", "cf"),
    _row("Cast", (6, 9), "input CASTS", "output CASTS", "to"),
)

_NETWORKS = (
    _row("MatMul", (1, 9), "A ANY; B ANY", "Y ANY"),
    _row("Gemm", (6, 7, 9, 11), "A F; B F; C F", "Y F", "alpha beta broadcast transA transB", how="rw"),
    _row("Conv", (1, 11), "X ANY; W ANY; B F", "Y ANY", _WINDOW + " group"),
    _row("ConvTranspose", (1, 11), "X F; W F; B F", "Y F", _WINDOW + " group output_padding output_shape"),
    _row("AveragePool", (1, 7, 10, 11), "X F", "Y F", _WINDOW + " ceil_mode count_include_pad=0"),
    _row("MaxPool", (1, 8, 10, 11), "X F", "Y F", _WINDOW + " ceil_mode storage_order=0"),
    _row("GlobalAveragePool", (1,), "X F", "Y F"),
    _row("GlobalMaxPool", (1,), "X F", "Y F"),
    _row(
        "RoiAlign",
        (10,),
        "X F; rois F; batch_indices INDEX",
        "Y F",
        "mode=avg output_height output_width sampling_ratio spatial_scale",
    ),
    _row(
        "BatchNormalization",
        (6, 7, 9),
        "X F; scale F; B F; mean F; var F",
        "Y F; mean F; var F; saved_mean F; saved_var F",
        "epsilon is_test momentum spatial",
    ),
    _row("InstanceNormalization", (6,), "input F; scale F; B F", "output F", "epsilon"),
    _row("LRN", (1,), "X F", "Y F", "alpha beta bias size"),
    _row("Softmax", (1, 11), "input F", "output F", "axis"),
    _row("LogSoftmax", (1, 11), "input F", "output F", "axis"),
    _row("Dropout", (6, 7, 10), "data F", "output F; mask BOOL", "is_test ratio"),
    _row("RandomNormal", (1,), "", "output F", "shape dtype mean scale", "none"),
    _row("RandomUniform", (1,), "", "output F", "shape dtype high low", "none"),
    _row("RandomNormalLike", (1,), "input NB", "output F", "dtype mean scale", "none"),
    _row("RandomUniformLike", (1,), "input NB", "output F", "dtype high low", "none"),
    _row(
        "LSTM",
        (1, 7),
        "X F; W F; R F; B F; sequence_lens INT32; initial_h F; initial_c F",
        "Y F; Y_h F; Y_c F",
        _STATE + " input_forget=0",
    ),
    _row(
        "GRU",
        (3, 7),
        "X F; W F; R F; B F; sequence_lens INT32; initial_h F",
        "Y F; Y_h F",
        _STATE + " linear_before_reset",
    ),
    _row("RNN", (7,), "X F; W F; R F; B F; sequence_lens INT32; initial_h F", "Y F; Y_h F", _STATE),
    _row("If", (1, 11), "cond BOOL", "outputs NB", "else_branch then_branch"),
    _row("Loop", (1, 11), "!M INDEX; cond BOOL; v_initial NB", "v_final_and_scan_outputs NB", "body", "none"),
    _row(
        "Scan",
        (9, 11),
        "initial_state_and_scan_inputs NB",
        "final_state_and_scan_outputs NB",
        "body num_scan_inputs",
        "none",
    ),
)

# Methods of the builder whose nodes no session runs.
_NODES_ONLY = tuple(
    Operator("ai.onnx", type_, (), "none")
    for type_ in (
        "Xor BitShift NonMaxSuppression NonZero Compress Unique Hardmax Multinomial GatherElements GatherND ScatterND"
        " ReverseSequence Size EyeLike Range SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert"
        " SequenceLength SplitToSequence ConcatFromSequence StringNormalizer TfIdfVectorizer Det ConvInteger"
        " MatMulInteger QLinearConv QLinearMatMul QuantizeLinear DequantizeLinear DynamicQuantizeLinear GlobalLpPool"
        " LpPool MaxRoiPool MaxUnpool LpNormalization MeanVarianceNormalization"
    ).split()
)

OPERATORS: tuple[Operator, ...] = (*_ELEMENTWISE, *_SELECTION, *_MOVES, *_NETWORKS, *_NODES_ONLY)
