"""Names of ops in the IR that programs read: what an operator of a model becomes, and what its gradient is called."""

from __future__ import annotations

# Operators that appear under another type.
FORWARD = {
    "Flatten": "Reshape",
    "Squeeze": "Reshape",
    "Unsqueeze": "Reshape",
    "RandomNormalLike": "RandomNormal",
    "RandomUniformLike": "RandomUniform",
    "Upsample": "Resize",
    "Scan": "Loop",
    "Remainder": "Fmod",
    "Mod": "Fmod",
}
# Operators that become several, in order; the last gives the result.
COMPOSED = {
    "Gemm": ("MatMul", "Add"),
    "DepthToSpace": ("Reshape", "Transpose", "Reshape"),
    "SpaceToDepth": ("Reshape", "Transpose", "Reshape"),
    "Tan": ("Sin", "Cos", "Div"),
    "Acos": ("Asin", "Sub"),
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
    "MatMulLhsGrad": ("MatMulLhsGradOp", ("Transpose", "MatMul")),
    "MatMulRhsGrad": ("MatMulRhsGradOp", ("Transpose", "MatMul")),
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
# Ops whose result may overwrite their first operand; the last ones have a variant for each operand.
VIEWS = {"Reshape", "Transpose", "Slice", "Identity", "Concat", "Expand"}
IN_PLACE = VIEWS | {
    "Abs", "Asin", "Atan", "Ceil", "Clip", "Elu", "Erf", "Exp", "Expm1", "Floor", "Gelu", "GeluErf", "HardSigmoid", "IncrementMod",
    "LeakyRelu", "Log", "Log1p", "LogSoftmax", "NearbyInt", "Relu", "Round", "Scale", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
}  # fmt: skip
IN_PLACE_LEFT = {"Add", "Mul", "Pow", "ScaledAdd"}
# Gradients of these read their result, not their operand, so that the operand may be overwritten in training.
GRADIENT_READS_RESULT = VIEWS | {"Relu", "Tanh", "Sigmoid", "Exp", "Sqrt", "Softmax", "Add", "Sub", "Scale", "Dropout", "Nop", "Detach"}
