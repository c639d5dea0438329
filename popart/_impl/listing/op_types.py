"""Names of ops in the IR that programs read: what an operator of a model becomes, and what its gradient is called."""

from __future__ import annotations

# Operators that appear under another type.
FORWARD = {
    "Flatten": "Reshape",
    "Squeeze": "Reshape",
    "Unsqueeze": "Reshape",
    "Upsample": "Resize",
    "Remainder": "Fmod",
    "Mod": "Fmod",
}
# Operators that become several, in order; the last gives the result.
COMPOSED = {
    "DepthToSpace": ("Reshape", "Transpose", "Reshape"),
    "SpaceToDepth": ("Reshape", "Transpose", "Reshape"),
    "Tan": ("Sin", "Cos", "Div"),
    "Acos": ("Asin", "Sub"),
    "Acosh": ("Square", "Sub", "Sqrt", "Add", "Log"),
    "Asinh": ("Square", "Add", "Sqrt", "Add", "Log"),
    "Atanh": ("Add", "Div", "Log", "Scale"),
    "Cosh": ("Exp", "Neg", "Exp", "Add", "Scale"),
}
# Gradients with one op for each operand.
_TWO = ("Arg0Grad", "Arg1Grad")
BY_OPERAND = {
    **{type: tuple(f"{type}{suffix}" for suffix in _TWO) for type in ("Add", "Atan2", "Div", "Mul", "Pow", "Sub")},
    "Fmod": ("FmodArg0Grad",),
    "Where": ("", "WhereXGrad", "WhereYGrad"),
    "Scatter": ("ScatterDataGrad", "", "ScatterUpdateGrad"),
    "ScatterElements": ("ScatterDataGrad", "", "ScatterUpdateGrad"),
    "MatMul": ("MatMulLhsGrad", "MatMulRhsGrad"),
    "Conv": ("ConvDataGrad", "ConvWeightsGrad"),
}
# Gradients with the same op for each operand.
EACH_OPERAND = {"Max": "MaxArgGrad", "Min": "MinArgGrad", "Mean": "MeanArgGrad", "Sum": "SumArgGrad"}
# Gradients that a pattern writes as other ops: pattern, and the ops in order.
SUBSTITUTED = {
    "SubArg1Grad": ("SubtractArg1GradOp", ("Neg",)),
    "MulArg0Grad": ("MulArgGradOp", ("Mul",)),
    "MulArg1Grad": ("MulArgGradOp", ("Mul",)),
    "DivArg0Grad": ("DivArg0GradOp", ("Div",)),
    "DivArg1Grad": ("DivArg1GradOp", ("Square", "Div", "Mul", "Neg")),
    "PowArg0Grad": ("PowArg0GradOp", ("Sub", "Pow", "Mul", "Mul")),
    "PowArg1Grad": ("PowArg1GradOp", ("Log", "Mul", "Mul")),
    "Atan2Arg0Grad": ("Atan2Arg0GradOp", ("Square", "Square", "Add", "Div", "Mul")),
    "Atan2Arg1Grad": ("Atan2Arg1GradOp", ("Square", "Square", "Add", "Div", "Mul", "Neg")),
    "FmodArg0Grad": ("FmodArg0GradOp", ("Identity",)),
    "ConvDataGrad": ("ConvDataGrad", ("ConvFlipWeights", "Conv")),
    "AbsGrad": ("AbsGradOp", ("Sign", "Mul")),
    "SinGrad": ("SinGradOp", ("Cos", "Mul")),
    "CosGrad": ("CosGradOp", ("Sin", "Mul", "Neg")),
    "ExpGrad": ("ExpGradOp", ("Mul",)),
    "Expm1Grad": ("Expm1GradOp", ("Add", "Mul")),
    "LogGrad": ("LogGradOp", ("Div",)),
    "Log1pGrad": ("Log1pGradOp", ("Add", "Div")),
    "SqrtGrad": ("SqrtGradOp", ("Scale", "Div")),
    "ReciprocalGrad": ("ReciprocalGradOp", ("Square", "Reciprocal", "Neg", "Mul")),
    "SplitGrad": ("SplitGradOpToConcat", ("Concat",)),
}
# Ops that a mandatory pattern has to write as others, beside gradients.
NEEDED = {
    "Cosh": "CoshOp",
    "ConvTranspose": "ConvTranspose",
    "ConvFlipWeightsGrad": "ConvFlipWeightsGradOp",
    "MatMulLhsGrad": "MatMulLhsGradOp",
    "MatMulRhsGrad": "MatMulRhsGradOp",
    "RandomNormalLike": "RandomNormalLikeOpPattern",
    "RandomUniformLike": "RandomUniformLikeOpPattern",
    "ZerosLike": "ZerosLikeOpPattern",
    "Scan": "ScanToLoop",
}
# Gradients of these read neither operands nor results, also inside of operators that become several ops.
LINEAR = {"Add", "AddBias", "Concat", "Neg", "Scale", "Slice", "Sub", "Transpose"}
# Functions of each element of one tensor.
FUNCTIONS = {
    "Abs", "Asin", "Atan", "Ceil", "Clip", "Cos", "Elu", "Erf", "Exp", "Expm1", "Floor", "Gelu", "HardSigmoid", "LeakyRelu", "Log",
    "Log1p", "Neg", "Relu", "Round", "Scale", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh",
}  # fmt: skip
# Ops whose result is their operand seen in another way, and ops whose result may overwrite their operand.
VIEWS = {
    "Concat",
    "Detach",
    "Expand",
    "Identity",
    "Reshape",
    "ReshapeGrad",
    "Reverse",
    "Slice",
    "Split",
    "Transpose",
    "TransposeGrad",
}
IN_PLACE = FUNCTIONS | {
    "AddBias", "GeluErf", "HostLoad", "IncrementMod", "LogSoftmax", "NearbyInt", "Shrink", "Sinh", "Softmax", "ThresholdedRelu",
}  # fmt: skip
VIEWS_IN_PLACE = VIEWS - {"ReshapeGrad", "TransposeGrad", "Split"}
BOTH_SIDES = {"Add", "Mul", "ScaledAdd"}  # may overwrite either operand
LEFT_SIDE = {"Pow"}
