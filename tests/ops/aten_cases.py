"""Calls of ATen operators that tests compare with torch: one row per call, arguments in the order of the schema.

T(...) stands for a tensor of random values; everything else is passed as it is.
"""

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class T:
    shape: tuple
    low: float = -3.0
    high: float = 3.0
    dtype: torch.dtype = torch.float32
    values: tuple = field(default=())  # instead of random ones
    constant: bool = False  # known when the model is captured, not an input

    def tensor(self, generator):
        """The CPU tensor it stands for."""
        if self.values:
            return torch.tensor(self.values, dtype=self.dtype).reshape(self.shape)
        if self.dtype.is_floating_point:
            return torch.rand(self.shape, generator=generator) * (self.high - self.low) + self.low
        if self.dtype == torch.bool:
            return torch.randint(0, 2, self.shape, generator=generator).bool()
        return torch.randint(int(self.low), int(self.high) + 1, self.shape, generator=generator).to(self.dtype)


def ints(*shape, low=-9, high=9):
    return T(shape, low, high, torch.int32)


def bools(*shape):
    return T(shape, 0, 1, torch.bool)


def exact(*values, dtype=torch.float32):
    return T((len(values),), dtype=dtype, values=values)


def f(*shape, low=-3.0, high=3.0):
    return T(shape, low, high)


def positive(*shape):
    return T(shape, 0.25, 3.0)


# name -> list of (arguments, keyword arguments)
ELEMENTWISE = {
    "add.Tensor": [
        ((f(2, 3), f(3)), {}),
        ((f(2, 3), f(2, 1)), {"alpha": 2.5}),
        ((ints(4), f(4)), {}),
        ((bools(5), bools(5)), {}),
        ((f(3), ints(3)), {}),
        ((ints(5), ints(5)), {"alpha": 3}),
    ],
    "add.Scalar": [((f(2, 3), 2.5), {}), ((ints(4), 3), {}), ((ints(4), 1.5), {})],
    "sub.Tensor": [((f(2, 3), f(3)), {}), ((f(2, 3), f(2, 1)), {"alpha": -1.5}), ((ints(4), ints(4)), {})],
    "sub.Scalar": [((f(2, 3), 2.5), {}), ((ints(4), 3), {})],
    "rsub.Tensor": [((f(2, 3), f(3)), {"alpha": 2})],
    "rsub.Scalar": [((f(2, 3), 2.5), {}), ((ints(4), 3, 2), {})],
    "mul.Tensor": [
        ((f(2, 3), f(3)), {}),
        ((bools(5), bools(5)), {}),
        ((ints(4), f(4)), {}),
        ((exact(2147483647, -7, dtype=torch.int32), exact(2147483647, 3, dtype=torch.int32)), {}),
    ],
    "mul.Scalar": [((f(2, 3), 2.5), {})],
    "square": [((f(2, 3),), {}), ((ints(4),), {})],
    "addcmul": [((f(2, 3), f(3), f(2, 1)), {"value": 0.5}), ((f(3), f(3), f(3)), {})],
    "addcdiv": [((f(2, 3), f(3), positive(2, 1)), {"value": 0.5}), ((f(3), f(3), positive(3)), {})],
    "lerp.Tensor": [((f(2, 3), f(2, 3), f(2, 3)), {})],
    "lerp.Scalar": [((f(2, 3), f(2, 3), 0.25), {}), ((f(2, 3), f(2, 3), 0.75), {})],
    "div.Tensor": [((f(2, 3), positive(3)), {}), ((ints(4), ints(4, low=1)), {})],
    "div.Scalar": [((f(2, 3), 2.5), {}), ((ints(4), 2), {})],
    "true_divide.Tensor": [((f(2, 3), positive(3)), {})],
    "true_divide.Scalar": [((f(2, 3), 4), {})],
    "div.Tensor_mode": [((f(9), positive(9)), {"rounding_mode": mode}) for mode in (None, "floor", "trunc")]
    + [((ints(9), ints(9, low=1)), {"rounding_mode": mode}) for mode in (None, "floor", "trunc")]
    + [
        (
            (exact(5.0, -5.0, 5.0, -5.0), exact(float("inf"), float("inf"), float("-inf"), float("-inf"))),
            {"rounding_mode": "floor"},
        )
    ],
    "div.Scalar_mode": [((f(9), -1.5), {"rounding_mode": mode}) for mode in ("floor", "trunc")],
    "floor_divide": [((f(9), positive(9)), {}), ((ints(9), ints(9, low=1)), {}), ((ints(9), ints(9, high=-1)), {})],
    "floor_divide.Scalar": [((f(9), -0.7), {}), ((ints(9), -4), {})],
    "remainder.Tensor": [((f(9), positive(9)), {}), ((f(9), f(9, high=-0.5)), {}), ((ints(9), ints(9, high=-1)), {})],
    "remainder.Scalar": [((f(9), -0.7), {}), ((ints(9), 4), {})],
    "remainder.Scalar_Tensor": [((2.5, positive(9)), {})],
    "fmod.Tensor": [((f(9), positive(9)), {}), ((ints(9), ints(9, high=-1)), {})],
    "fmod.Scalar": [((f(9), -0.7), {}), ((ints(9), 4), {})],
    "pow.Tensor_Tensor": [
        ((positive(2, 3), f(3)), {}),
        ((exact(0.0, 0.0, 2.0), exact(0.0, 2.0, 0.0)), {}),
        ((ints(9), ints(9, low=0, high=5)), {}),
    ],
    "pow.Tensor_Scalar": [((positive(9), e), {}) for e in (0, 0.5, 1, 2, 3, -0.5, -1, -2, 1.7, -2.5)]
    + [((f(9), e), {}) for e in (0, 1, 2, 3, 4, -1, -2)]
    + [((ints(9), e), {}) for e in (0, 1, 2, 3, 5)]
    + [((exact(0.0, 1.0), e), {}) for e in (0.0, 1.0, 2.0, 3.0, 1.5)],
    "pow.Scalar": [((2.5, f(9)), {}), ((2, ints(9, low=0, high=5)), {})],
    "maximum": [
        ((f(2, 3), f(3)), {}),
        ((exact(1.0, 2.0, 3.0), exact(1.0, 3.0, 2.0)), {}),
        ((ints(9), ints(9)), {}),
        ((bools(9), bools(9)), {}),
    ],
    "minimum": [
        ((f(2, 3), f(3)), {}),
        ((exact(1.0, 2.0, 3.0), exact(1.0, 3.0, 2.0)), {}),
        ((ints(9), ints(9)), {}),
        ((bools(9), bools(9)), {}),
    ],
    "clamp": [
        ((f(9), -1.0, 1.0), {}),
        ((f(9), None, 1.0), {}),
        ((f(9), 0.5), {}),
        ((ints(9), -2, 3), {}),
        ((f(9), 1.0, -1.0), {}),
        ((exact(-1.0, 0.0, 1.0), -1.0, 1.0), {}),
        ((ints(9), -2.5, 3), {}),
    ],
    "clamp.Tensor": [
        ((f(9), f(9, high=0.0), f(9, low=0.0)), {}),
        ((f(9), f(9), f(9)), {}),
        ((f(9), f(9)), {}),
        ((f(9), None, f(9)), {}),
        ((exact(-1.0, 0.0, 1.0), exact(-1.0, -1.0, -1.0), exact(1.0, 1.0, 1.0)), {}),
    ],
    "clamp_min": [((f(9), 0.5), {})],
    "clamp_max": [((f(9), 0.5), {})],
    "clamp_min.Tensor": [((f(9), f(9)), {})],
    "clamp_max.Tensor": [((f(9), f(9)), {})],
    "neg": [((f(9),), {}), ((ints(9),), {})],
    "abs": [((f(9),), {}), ((ints(9),), {}), ((exact(0.0, -1.0),), {})],
    "sign": [((f(9),), {}), ((ints(9),), {}), ((exact(0.0, -1.0),), {})],
    "sgn": [((f(9),), {})],
    "floor": [((f(9),), {})],
    "ceil": [((f(9),), {})],
    "round": [((f(9),), {}), ((exact(0.5, 1.5, 2.5, -0.5),), {})],
    "round.decimals": [((f(9),), {"decimals": d}) for d in (0, 2, -1)],
    "trunc": [((f(9),), {})],
    "frac": [((f(9),), {})],
    "relu": [((f(9),), {}), ((exact(0.0, -1.0, 1.0),), {}), ((ints(9),), {})],
    "relu6": [((f(9, high=9.0),), {}), ((exact(0.0, 6.0, 1.0),), {})],
    "leaky_relu": [((f(9),), {}), ((f(9), 0.3), {}), ((exact(0.0, -1.0, 1.0), 0.5), {})],
    "threshold": [((f(9), 0.5, -2.0), {}), ((exact(0.5, 1.0), 0.5, 9.0), {})],
    "hardtanh": [((f(9),), {}), ((f(9), -0.5, 2.0), {}), ((exact(-1.0, 1.0, 0.0),), {})],
    "_prelu_kernel": [((f(2, 3), f(1, 3)), {}), ((exact(0.0, -1.0), exact(0.5, 0.5)), {})],
    "gelu": [((f(9),), {}), ((f(9),), {"approximate": "tanh"}), ((exact(0.0, 6.0, -6.0),), {})],
    "silu": [((f(9),), {})],
    "mish": [((f(9),), {}), ((exact(-30.0, 30.0),), {})],
    "hardswish": [((f(16, low=-5.0, high=5.0),), {}), ((exact(-3.0, 3.0, 0.0),), {})],
    "hardsigmoid": [((f(16, low=-5.0, high=5.0),), {}), ((exact(-3.0, 3.0, 0.0),), {})],
    "elu": [((f(9),), {}), ((f(9), 0.5, 1.5, 2.0), {}), ((exact(0.0, -1.0),), {})],
    "celu": [((f(9),), {}), ((f(9), 0.5), {})],
    "selu": [((f(9),), {})],
    "softplus": [((f(9),), {}), ((f(9), 2.0, 3.0), {})],
    "log_sigmoid": [((f(9),), {}), ((exact(-50.0, 50.0, 0.0),), {})],
    "eq.Tensor": [
        ((ints(9, low=-2, high=2), ints(9, low=-2, high=2)), {}),
        ((f(9), ints(9)), {}),
        ((bools(9), bools(9)), {}),
    ],
    "ne.Tensor": [((ints(9, low=-2, high=2), ints(9, low=-2, high=2)), {})],
    "lt.Tensor": [((f(2, 3), f(3)), {}), ((ints(9), f(9)), {})],
    "le.Tensor": [((ints(9, low=-2, high=2), ints(9, low=-2, high=2)), {})],
    "gt.Tensor": [((f(2, 3), f(3)), {})],
    "ge.Tensor": [((ints(9, low=-2, high=2), ints(9, low=-2, high=2)), {})],
    **{
        f"{name}.Scalar": [((f(9), 0.5), {}), ((ints(9), 1.5), {}), ((ints(9), 2), {}), ((bools(9), True), {})]
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    "isnan": [((f(3),), {}), ((ints(3),), {}), ((exact(float("nan"), 1.0),), {})],
    "logical_and": [((bools(9), bools(9)), {}), ((f(9), ints(9, low=-1, high=1)), {})],
    "logical_or": [((bools(9), bools(9)), {}), ((f(9), ints(9, low=-1, high=1)), {})],
    "logical_xor": [((bools(9), bools(9)), {}), ((ints(9, low=-1, high=1), ints(9, low=-1, high=1)), {})],
    "logical_not": [((bools(9),), {}), ((ints(9, low=-1, high=1),), {}), ((f(9),), {})],
    **{
        f"bitwise_{name}.Tensor": [((ints(9), ints(9)), {}), ((bools(9), bools(9)), {})]
        for name in ("and", "or", "xor")
    },
    **{f"bitwise_{name}.Scalar": [((ints(9), 5), {})] for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Scalar_Tensor": [((5, ints(9)), {})] for name in ("and", "or", "xor")},
    "bitwise_not": [((ints(9),), {}), ((bools(9),), {})],
    "where.self": [((bools(2, 3), f(2, 3), f(3)), {}), ((bools(9), ints(9), f(9)), {})],
    "where.ScalarOther": [((bools(9), f(9), 2), {}), ((bools(9), ints(9), 2.5), {})],
    "where.ScalarSelf": [((bools(9), 2.5, f(9)), {})],
    "where.Scalar": [((bools(9), 2.5, 1.5), {})],
    "masked_fill.Scalar": [((f(2, 3), bools(3), -1.5), {}), ((ints(9), bools(9), 4), {})],
    "masked_fill.Tensor": [((f(2, 3), bools(3), T((), -1, 1)), {})],
    "_to_copy": [
        ((f(9),), {"dtype": torch.int32}),
        ((ints(9),), {"dtype": torch.float32}),
        ((f(9),), {"dtype": torch.bool}),
        ((ints(9, low=-300, high=300),), {"dtype": torch.int8}),
        ((bools(9),), {"dtype": torch.float32}),
    ],
    "exp": [((f(9),), {}), ((ints(4),), {})],
    "expm1": [((f(9),), {})],
    "log": [((positive(9),), {})],
    "log1p": [((f(9, low=-0.9),), {})],
    "log2": [((positive(9),), {})],
    "log10": [((positive(9),), {})],
    "sqrt": [((positive(9),), {}), ((exact(0.0, 1.0),), {})],
    "rsqrt": [((positive(9),), {})],
    "reciprocal": [((positive(9),), {}), ((ints(4, low=1),), {})],
    "sin": [((f(9),), {})],
    "cos": [((f(9),), {})],
    "tan": [((f(9, low=-1.2, high=1.2),), {})],
    "asin": [((f(9, low=-0.9, high=0.9),), {})],
    "acos": [((f(9, low=-0.9, high=0.9),), {})],
    "atan": [((f(9),), {})],
    "atan2": [((f(2, 3), f(3)), {})],
    "sinh": [((f(9),), {})],
    "cosh": [((f(9),), {})],
    "tanh": [((f(9),), {})],
    "asinh": [((f(9),), {})],
    "acosh": [((f(9, low=1.1, high=4.0),), {})],
    "atanh": [((f(9, low=-0.9, high=0.9),), {})],
    "erf": [((f(9),), {})],
    "erfc": [((f(9),), {})],
    "lgamma": [((positive(9),), {}), ((T((9,), -4.75, -0.25),), {}), ((exact(4, 9, dtype=torch.int32),), {})],
    "digamma": [((positive(9),), {}), ((exact(-3.75, -1.25, -0.5, 20.0, 1e6),), {})],
    "polygamma": [((n, positive(9)), {}) for n in range(4)] + [((1, exact(-3.75, -1.25, 30.0)), {})],
    "renorm": [((f(4, 3, 2), p, dim, 2.0), {}) for p, dim in ((2, 0), (1, 1), (0.5, -1), (3, 0))],
    "sigmoid": [((f(9),), {})],
}


INFINITY = float("inf")
SPECIAL = exact(float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1.5, -2.5)
FORMULAS = {
    **{name: [((f(9),), {}), ((ints(5),), {})] for name in ("deg2rad", "rad2deg", "exp2")},
    **{
        name: [((SPECIAL,), {}), ((ints(5),), {}), ((bools(4),), {})]
        for name in ("isinf", "isposinf", "isneginf", "signbit")
    },
    **{
        name: [
            ((f(2, 3), f(3)), {}),
            ((SPECIAL, exact(0.0, 1.0, 2.0, -0.0, float("nan"), 1.5, float("inf"))), {}),
            ((ints(5), ints(5)), {}),
            ((bools(5), bools(5)), {}),
        ]
        for name in ("fmax", "fmin")
    },
    "hypot": [((f(2, 3), f(3)), {}), ((exact(1e30, 0.0, 3.0), exact(1e30, 2.0, float("inf"))), {})],
    **{
        name: [
            ((f(2, 3), f(3)), {}),
            ((exact(float("-inf"), 500.0, 1.0), exact(1.0, 500.0, 90.0)), {}),
        ]
        for name in ("logaddexp", "logaddexp2")
    },
    "xlogy.Tensor": [
        ((f(2, 3), positive(3)), {}),
        ((exact(0.0, 2.0), exact(-1.0, 0.5)), {}),
        ((ints(5), ints(5, low=1)), {}),
    ],
    "xlogy.Scalar_Self": [((2.5, positive(4)), {}), ((0, positive(4)), {})],
    "xlogy.Scalar_Other": [((f(4), 2.5), {})],
    "special_xlog1py": [((f(2, 3), positive(3)), {}), ((exact(0.0, 2.0), exact(-2.0, 0.5)), {})],
    "special_xlog1py.self_scalar": [((2.5, positive(4)), {})],
    "special_xlog1py.other_scalar": [((f(4), 2.5), {})],
    "copysign.Tensor": [((f(2, 3), f(3)), {}), ((f(4), exact(0.0, -0.0, 1.0, -1.0)), {}), ((ints(4), f(4)), {})],
    "copysign.Scalar": [((f(4), -2.0), {}), ((f(4), 1), {})],
    "heaviside": [((exact(-1.0, 0.0, 2.0), f(3)), {}), ((ints(5, low=-1, high=1), ints(5)), {})],
    "nan_to_num": [((SPECIAL, 1.0, 2.0, -3.0), {}), ((ints(4),), {})],
    "sinc": [((f(9),), {}), ((exact(0.0, 1.0, 0.5),), {})],
    "logit": [((f(9, low=0.1, high=0.9),), {}), ((f(9), 0.2), {})],
}


def index(*shape, below, low=0):
    return T(shape, low, below - 1, torch.int64)


SIGNS = exact(1.0, -1.0, 1.0, -1.0)
LOSSES = {
    "hinge_embedding_loss": [((f(3, 4), SIGNS, 0.7, r), {}) for r in (0, 1, 2)],
    "margin_ranking_loss": [((f(3, 4), f(3, 4), SIGNS, 0.2, r), {}) for r in (0, 1, 2)],
    "cosine_embedding_loss": [((f(4, 3), f(4, 3), SIGNS, 0.1, r), {}) for r in (0, 1, 2)],
    "triplet_margin_loss": [
        ((f(4, 3), f(4, 3), f(4, 3), 1.0, p, 1e-6, swap, 1), {}) for p in (1.0, 2.0, 3.0) for swap in (False, True)
    ],
    "poisson_nll_loss": [((f(3, 4), positive(3, 4), True, full, 1e-8, 1), {}) for full in (False, True)]
    + [((positive(3, 4), f(3, 4, low=0.0, high=4.0), False, full, 1e-4, 2), {}) for full in (False, True)],
    "cross_entropy_loss": [
        ((f(4, 3), positive(4, 3), None, r, -100, smoothing), {}) for r in (0, 1, 2) for smoothing in (0.0, 0.3)
    ]
    + [((f(2, 3, 2), positive(2, 3, 2)), {}), ((f(3), positive(3)), {})],
    "ctc_loss.IntList": [
        ((f(5, 2, 4), index(2, 2, below=4, low=1), [5, 4], [2, 1], 0, r, False), {}) for r in (0, 1, 2)
    ]
    + [
        ((f(4, 2, 3), T((2, 3), dtype=torch.int64, values=(1, 1, 1, 2, 1, 2)), [4, 4], [3, 3], 0, r, True), {})
        for r in (1, 2)  # the first target does not fit: two blanks are needed between equal labels
    ]
    + [((f(4, 1, 3), index(1, 2, below=2), [4], [0], 2, 2, False), {})],
    "ctc_loss.Tensor": [
        (
            (
                f(5, 2, 4),
                index(2, 2, below=4, low=1),
                T((2,), dtype=torch.int64, values=(5, 3)),
                T((2,), dtype=torch.int64, values=(2, 2)),
            ),
            {},
        )
    ],
    "_weight_norm_interface": [((f(4, 3), positive(4, 1)), {}), ((f(2, 3, 4), positive(1, 1, 4), 2), {})],
}


DISTINCT = T((3, 4), dtype=torch.int64, values=(0, 1, 2, 4, 3, 2, 1, 0, 4, 0, 2, 3))  # no two equal in a row
WITH_ZEROS = T((3, 4), values=(0.5, 0.0, -1.5, 2.0, 0.0, 1.25, 0.0, 3.0, -2.0, 0.5, 1.5, 0.75))
INDEXING = {
    "scatter.src": [
        ((f(3, 5), 1, DISTINCT, f(3, 4)), {}),
        ((ints(3, 5), -1, DISTINCT, ints(3, 4)), {}),
    ],
    "scatter.value": [((f(3, 5), 1, index(3, 2, below=5), 2.5), {}), ((ints(3, 5), 1, index(3, 2, below=5), 7), {})],
    **{
        f"scatter.{kind}": [
            ((ints(3, 4), 0, index(5, 4, below=3), value), {"reduce": reduce}) for reduce in ("add", "multiply")
        ]
        for kind, value in (("reduce", ints(5, 4)), ("value_reduce", 3))
    },
    "scatter_reduce.two": [
        ((f(3, 4), 0, index(5, 4, below=3), f(5, 4), reduce), {"include_self": include})
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    ]
    + [
        ((bools(3, 4), 0, index(5, 4, below=3), bools(5, 4), reduce), {"include_self": include})
        for reduce in ("sum", "prod", "amax", "amin")
        for include in (True, False)
    ]
    + [((WITH_ZEROS, 1, index(3, 5, below=4), f(3, 5), "prod"), {})]
    + [((f(3, 2), 1, index(3, 4, below=2), WITH_ZEROS, "prod"), {"include_self": i}) for i in (True, False)]
    + [((T((4,), values=(1.0, 2.0, 3.0, 2.0)), 0, index(6, below=4), T((6,), values=(2.0,) * 6), "amax"), {})],
    "index_reduce": [
        ((f(4, 3), 0, index(5, below=4), f(5, 3), reduce), {"include_self": include})
        for reduce in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    ]
    + [((f(), 0, index(1, below=1), f(), "prod"), {})],
    "take": [((f(3, 4), index(2, 5, below=12, low=-12)), {}), ((f(), index(2, below=1)), {})],
    "index_add": [((f(), 0, index(1, below=1), f()), {"alpha": 2})],
    "index_copy": [((f(), 0, index(1, below=1), f(1)), {})]
    + [((f(4, 3), 1, T((2,), dtype=torch.int64, values=(2, 0)), f(4, 2)), {})],
    "index_fill.int_Scalar": [((f(4, 3), 0, index(2, below=4), 1.5), {}), ((ints(3), 0, index(1, below=3), 4), {})],
    "index_fill.int_Tensor": [((f(4, 3), 1, index(2, below=3), T((), -1, 1)), {})],
    "index_put": [
        ((f(4, 3), [T((2,), dtype=torch.int64, values=(3, -4))], f(2, 3)), {}),
        ((f(4, 3), [T((2,), dtype=torch.int64, values=(3, 0))], f(3)), {}),
        ((f(4, 3), [T((2,), dtype=torch.int64, values=(3, 0)), T((2,), dtype=torch.int64, values=(1, 1))], f(2)), {}),
        ((f(2, 4, 3), [None, T((2,), dtype=torch.int64, values=(3, 0))], f(2, 2, 3)), {}),
        (
            (
                f(2, 4, 3),
                [T((2,), dtype=torch.int64, values=(1, 0)), None, T((2,), dtype=torch.int64, values=(2, 1))],
                f(2, 4),
            ),
            {},
        ),
        ((f(4, 3), [index(5, below=4)], f(5, 3)), {"accumulate": True}),
        ((f(3, 4), [bools(3, 4)], T((), -1, 1)), {}),
        ((f(3, 4), [bools(3)], f(4)), {}),
        ((f(3, 4), [bools(3)], f(1, 4)), {"accumulate": True}),
        ((bools(6), [index(4, below=6)], bools(4)), {"accumulate": True}),
    ],
    "unfold": [((f(3, 7), 1, 3, 2), {}), ((f(5, 2, 3), 0, 2, 1), {})],
    "im2col": [
        ((f(2, 3, 6, 7), [2, 3], [1, 2], [1, 0], [2, 1]), {}),
        ((f(3, 5, 5), [3, 3], [1, 1], [1, 1], [1, 1]), {}),
    ],
    "col2im": [
        ((f(2, 12, 20), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1]), {}),
        ((f(4, 9), [4, 4], [2, 2], [1, 1], [1, 1], [2, 2]), {}),
    ],
    "bincount": [((ints(9, low=0, high=5), None, 6), {})],
    "bucketize.Tensor": [((f(3, 4), exact(-1.0, 0.0, 2.0)), {"right": right}) for right in (False, True)]
    + [
        ((ints(9, low=-2, high=3), T((3,), dtype=torch.int32, values=(-1, 0, 2))), {"right": right})
        for right in (False, True)
    ],
}

SORTING = {
    "sort": [((f(3, 4), 1, False), {}), ((f(3, 4), 0, True), {})],
    "sort.stable": [((ints(9, low=-2, high=2),), {"stable": True, "dim": 0, "descending": d}) for d in (False, True)]
    + [
        ((exact(1.0, float("nan"), -1.0, float("inf")),), {"stable": True, "dim": 0, "descending": d})
        for d in (False, True)
    ],
    "argsort.stable": [
        ((ints(3, 5, low=-2, high=2),), {"stable": True, "dim": 1, "descending": d}) for d in (False, True)
    ],
    "topk": [((f(3, 6), 2), {}), ((f(5, 3), 3, 0, False), {}), ((exact(1.0, float("nan"), 3.0), 2), {})],
    "kthvalue": [((f(3, 6), 2), {}), ((ints(5, 3), 3, 0, True), {}), ((T((), -1, 1), 1), {})],
    "median": [((f(9),), {}), ((f(3, 4),), {}), ((exact(1.0, 2.0, 2.0, 3.0, 2.0),), {}), ((ints(6),), {})],
    "median.dim": [((f(3, 4), 1), {}), ((f(5, 3), 0, True), {})],
    "nanmedian": [((f(9),), {}), ((exact(1.0, float("nan"), 2.0, 3.0, 2.0),), {}), ((ints(6),), {})],
    "nanmedian.dim": [((f(3, 4), 1), {}), ((f(5, 3), 0, True), {}), ((exact(float("nan"), 4.0, 3.0), 0), {})],
    "cumsum": [((f(3, 4), 1), {}), ((f(2, 4, 3), -2), {}), ((ints(5), 0), {}), ((bools(5), 0), {})],
    "cumprod": [((f(3, 4), 1), {}), ((WITH_ZEROS, 1), {}), ((WITH_ZEROS, 0), {}), ((ints(4, low=-3, high=3), 0), {})],
    "nansum": [((f(3, 4), [1]), {}), ((exact(1.0, float("nan"), 3.0),), {}), ((ints(4),), {})],
}

LAYERS = {
    "hardshrink": [((f(9), 0.7), {}), ((exact(0.5, -0.5, 0.25, float("nan")),), {})],
    "softshrink": [((f(9), 0.7), {}), ((exact(0.5, -0.5, 0.25, float("nan")),), {})],
    "linalg_cross": [((f(4, 3), f(4, 3)), {}), ((f(3, 2), f(3, 1)), {"dim": 0}), ((ints(2, 3), ints(2, 3)), {})],
    "cdist": [((f(2, 4, 3), f(2, 5, 3), p), {}) for p in (0.0, 1.0, 2.0, 3.0)] + [((f(4, 3), f(5, 3)), {})],
    **{
        f"upsample_nearest{len(s)}d": [((f(1, 2, *s), [2 * n for n in s]), {}), ((f(1, 2, *s), [n + 2 for n in s]), {})]
        for s in ((5,), (5, 4), (3, 4, 2))
    },
    **{
        f"_upsample_nearest_exact{len(s)}d": [
            ((f(1, 2, *s), [2 * n for n in s]), {}),
            ((f(1, 2, *s), [n - 1 for n in s]), {}),
        ]
        for s in ((5,), (5, 4), (3, 4, 2))
    },
    **{
        name: [((f(1, 2, *s), [2 * n for n in s], corners), {}) for corners in (False, True)]
        + [((f(1, 2, *s), [n + 2 for n in s], corners), {}) for corners in (False, True)]
        + [((f(1, 2, *s), [int(n * 1.5) for n in s], False, *[1.5 for _ in s]), {})]
        for name, s in (
            ("upsample_linear1d", (6,)),
            ("upsample_bilinear2d", (6, 4)),
            ("upsample_trilinear3d", (4, 2, 6)),
            ("upsample_bicubic2d", (6, 4)),
        )
    },
    "conv3d": [
        ((f(2, 4, 5, 6, 7), f(6, 2, 2, 3, 3), f(6), [2, 1, 1], [1, 0, 2], [2, 1, 1], 2), {}),
        ((f(1, 3, 4, 4, 4), f(2, 3, 3, 3, 3), None), {}),
        ((f(3, 4, 4, 4), f(2, 3, 1, 2, 2), f(2)), {}),
    ],
    "conv3d.padding": [((f(1, 2, 4, 4, 4), f(3, 2, 3, 2, 3), f(3), [1, 1, 1], "same"), {})],
    "conv_transpose3d.input": [
        ((f(2, 4, 3, 3, 2), f(4, 3, 3, 2, 2), f(6), [2, 1, 2], [1, 0, 0], [1, 0, 1], 2), {}),
        ((f(1, 2, 3, 3, 3), f(2, 3, 2, 2, 2), None), {}),
    ],
    "max_pool3d": [((f(2, 3, 5, 6, 7), [2, 3, 2], [2, 2, 1], [1, 1, 0], 1, c), {}) for c in (False, True)],
    "avg_pool3d": [
        ((f(2, 3, 5, 6, 7), [2, 3, 2], [2, 2, 3], [1, 1, 0], ceil, pad, divisor), {})
        for ceil in (False, True)
        for pad in (False, True)
        for divisor in (None, 5)
    ],
    "_adaptive_avg_pool3d": [((f(2, 3, 4, 6, 2), [2, 3, 1]), {}), ((f(3, 4, 6, 2), [1, 1, 1]), {})],
}

ALIASES = {name: [((f(2, 3),), {}), ((ints(4),), {})] for name in ("alias", "lift", "lift_fresh", "contiguous", "ravel")}
VIEWS = {
    "pixel_unshuffle": [((f(2, 3, 4, 6), 2), {}), ((f(1, 6, 9), 3), {})],
    **{name: [((f(2, 6, 3, 2), 3), {}), ((ints(1, 4, 5), 2), {})] for name in ("channel_shuffle", "native_channel_shuffle")},
    "trace": [((f(3, 4),), {}), ((f(4, 2),), {}), ((ints(3, 3),), {})],
    **ALIASES,
    **{name: [((f(2, 3),), {}), ((ints(4),), {})] for name in ("detach", "detach_copy", "lift_fresh_copy")},
    **{name: [((f(2, 3),), {}), ((ints(2, 3, 4),), {})] for name in ("mT", "mH", "adjoint")},
    "matrix_H": [((f(2, 3),), {})],
    "_reshape_alias": [((f(2, 3), [3, 2], [2, 1]), {})],
    "view_as": [((f(2, 6), f(3, 4)), {})],
    "reshape_as": [((f(2, 6), ints(3, 4)), {})],
    "type_as": [((f(3), ints(2)), {}), ((ints(4), f(2)), {}), ((bools(4), f(1)), {})],
    "to.other": [((f(3), ints(2)), {}), ((ints(4), f(2)), {})],
    "to.dtype": [((f(3, low=-3.5), torch.int32), {}), ((ints(4), torch.float32), {}), ((f(3), torch.bool), {})],
    "to.dtype_layout": [((f(3),), {"dtype": torch.int32}), ((ints(4),), {"dtype": torch.float32}), ((f(2),), {})],
    "to.device": [((ints(3), torch.device("cpu"), torch.float32), {}), ((f(3), torch.device("cpu"), torch.int32), {})],
    "broadcast_to": [((f(3, 1), [2, 3, 4]), {}), ((ints(4), [3, 4]), {})],
    **{name: [(([f(2, 3), f(1, 3)],), {}), (([f(2, 1), f(2, 3)], -1), {})] for name in ("concat", "concatenate")},
    "swapdims": [((f(2, 3, 4), 0, -1), {})],
    "moveaxis.int": [((f(2, 3, 4), 0, -1), {})],
    "moveaxis.intlist": [((f(2, 3, 4), [0, 1], [2, 0]), {})],
    "split.sizes": [((f(5, 2), [2, 3]), {}), ((ints(2, 6), [1, 5], -1), {})],
    "tensor_split.sections": [((f(7, 2), 3), {}), ((f(2, 4), 2, -1), {})],
    "unsafe_chunk": [((f(5, 2), 3), {})],
    "unsafe_split.Tensor": [((f(5, 2), 2), {})],
    "unsafe_split_with_sizes": [((f(2, 5), [1, 4], -1), {})],
    **{
        f"{kind}_pad{n}d": [((f(2, 3, *[5, 4, 6][:n]), [1, 2, 2, 1, 0, 3][: 2 * n]), {})]
        for kind in ("reflection", "replication")
        for n in (1, 2, 3)
    },
}

CREATION = {
    "fill.Scalar": [((f(2, 3), 2.5), {}), ((ints(4), 7), {}), ((bools(3), 1), {})],
    "fill.Tensor": [((f(2, 3), T((), -1, 1)), {}), ((f(4), T((), dtype=torch.int64, values=(3,))), {})],
    "zeros_like": [((f(2, 3),), {}), ((ints(4),), {}), ((f(3),), {"dtype": torch.int32})],
    "full_like": [((f(2, 3), 2.5), {}), ((ints(4), 7), {}), ((ints(3), 2.5), {"dtype": torch.float32})],
    "new_zeros": [((f(2), [3, 2]), {}), ((ints(4), [2]), {})],
    "new_ones": [((f(2), [3, 2]), {}), ((ints(4), [2]), {"dtype": torch.float32})],
    "new_full": [((f(2), [3, 2], 1.5), {}), ((ints(4), [2], -7), {})],
    "ones": [(([2, 3],), {"dtype": torch.float32}), (([4],), {"dtype": torch.int32})],
    "eye": [((3,), {"dtype": torch.float32})],
    "arange.start": [((2, 7), {}), ((1.5, 4), {"dtype": torch.float32})],
}
# Their contents are undefined.
UNDEFINED = {
    "empty.memory_format": [(([2, 3],), {"dtype": torch.float32}), (([0],), {"dtype": torch.int32})],
    "empty_like": [((f(2, 3),), {}), ((ints(4),), {})],
    "empty_strided": [(([2, 3], [3, 1]), {"dtype": torch.float32})],
    "new_empty": [((f(2), [3, 2]), {})],
    "new_empty_strided": [((f(2), [3, 2], [2, 1]), {})],
}

REDUCTIONS = {
    "dist": [((f(2, 3), f(3), p), {}) for p in (2, 1.0, 3.0)],
    "aminmax": [((f(3, 4),), {"dim": 1, "keepdim": True}), ((ints(3, 4),), {}), ((bools(3, 4),), {"dim": 0})],
    **{name: [((bools(3, 4), [1]), {}), ((bools(5),), {})] for name in ("amax", "amin")},
    **{f"{name}.dim": [((bools(3, 4), 1), {})] for name in ("max", "min")},
    "std": [((f(2, 4),), {}), ((f(5), False), {})],
    "std_mean": [((f(2, 4),), {}), ((f(5), False), {})],
    "var_mean": [((f(2, 4),), {}), ((f(5), False), {})],
    "std_mean.dim": [((f(2, 4), [1]), {}), ((f(2, 4), [0, 1], False, True), {})],
    "var_mean.dim": [((f(2, 4), [1]), {}), ((f(2, 4), [0, 1], False, True), {})],
    "count_nonzero.dim_IntList": [((ints(3, 4, low=-1, high=1), [1]), {}), ((f(3, 4), [0, -1]), {})],
    "norm.ScalarOpt_dtype": [((f(2, 3), 2), {"dtype": torch.float32})],
    "norm.ScalarOpt_dim_dtype": [((f(2, 3), 1, [1], True), {"dtype": torch.float32})],
    "argsort": [((exact(3.0, -1.0, 2.0, 0.5), 0), {}), ((exact(3.0, -1.0, 2.0, 0.5), -1, True), {})],
}

PRODUCTS = {
    "einsum": [
        (("...ij,...jk->...ik", [f(2, 4, 2, 3), f(4, 3, 5)]), {}),
        (("...ik,...j->ij", [f(2, 3, 4), f(2, 5)]), {}),
        (("i...->...", [f(3, 4)]), {}),
        (("...i,i...", [f(4, 3), f(3, 4)]), {}),
        (("ii", [f(3, 3)]), {}),
        (("iji->j", [f(3, 4, 3)]), {}),
        (("bii,bi->b", [f(2, 3, 3), f(2, 3)]), {}),
        (("ij,ij->i", [f(3, 1), f(3, 4)]), {}),
    ],
    "addbmm": [((f(3, 5), f(2, 3, 4), f(2, 4, 5)), {}), ((f(5), f(2, 3, 4), f(2, 4, 5)), {"beta": 0.5, "alpha": 2})],
    "addr": [((f(3, 4), f(3), f(4)), {}), ((f(4), f(3), f(4)), {"beta": 2, "alpha": 0.5})],
    "ger": [((f(3), f(4)), {})],
    "vdot": [((f(4), f(4)), {})],
}

MORE_LAYERS = {
    **{
        f"max_pool{len(s)}d_with_indices": [
            ((f(2, 3, *s), [2, 3, 2][: len(s)], [2, 1, 1][: len(s)], [1, 1, 0][: len(s)], 1, ceil), {})
            for ceil in (False, True)
        ]
        + [((f(3, *s), [2] * len(s), [], [0], 2), {}), ((ints(1, 2, *s), [2] * len(s)), {})]
        for s in ((5, 6), (5, 6, 4))
    },
    "max_pool2d": [((ints(1, 2, 4, 6), [2, 2], [1, 2], [1, 1]), {})],
    "avg_pool2d": [((f(1, 2, 4, 6), [2, 2], [1, 2], [0, 0], False, True, -3), {})],
    "nll_loss_nd": [((f(4), T((), dtype=torch.int64, values=(2,)), None, r), {}) for r in (0, 1, 2)],
    "_adaptive_avg_pool2d": [((f(2, 3, 4, 6), [2, 3]), {}), ((f(3, 4, 6), [1, 1]), {})],
    "adaptive_avg_pool3d": [((f(2, 3, 4, 6, 2), [2, 3, 1]), {})],
    "_convolution": [
        ((f(1, 2, 5), f(2, 2, 3), f(2), [1], [1], [1], False, [0], 1, False, False, True, True), {}),
        (
            (f(1, 2, 3, 3), f(2, 3, 2, 2), f(3), [2, 2], [0, 1], [1, 1], True, [1, 0], 1, False, False, True, True),
            {},
        ),
    ],
    "_log_softmax": [((f(2, 3), 1, False), {}), ((f(2, 3, 4), 0, False), {})],
    "log_sigmoid_forward": [((f(9),), {})],
    "rrelu": [((f(9), 0.1, 0.5, False), {}), ((f(9),), {})],
    **{name: [((f(3, 4), 0.5, False), {})] for name in ("alpha_dropout", "feature_alpha_dropout", "feature_dropout")},
    "native_dropout": [((f(3, 4), 0.5, False), {})],
    "soft_margin_loss": [
        ((f(4), T((4,), values=(1.0, -1.0, 1.0, -1.0), constant=True), r), {}) for r in (0, 1, 2)
    ],
    "nll_loss": [((f(4, 3), index(4, below=3), None, r), {}) for r in (0, 1, 2)],
    "nll_loss2d": [((f(2, 3, 2, 2), index(2, 2, 2, below=3), None, r), {}) for r in (0, 1, 2)],
    "embedding_renorm": [((f(5, 3), index(6, below=5), 1.5, p), {}) for p in (2.0, 1.0)],
    "_index_put_impl": [((f(4, 3), [T((2,), dtype=torch.int64, values=(3, 0))], f(2, 3)), {"accumulate": True})],
    "poptorch::identity_loss": [((f(2, 3), r), {}) for r in ("none", "mean", "sum")],
}



def layers(gates, inputs, hidden, projection=0, count=1, directions=1, biases=True, batch_first=False):
    """Arguments of a recurrent layer of torch from `params` on, no dropout, evaluated."""
    outputs = projection or hidden
    params = []
    for layer in range(count):
        for _ in range(directions):
            params.append(f(gates * hidden, inputs if layer == 0 else outputs * directions, low=-1, high=1))
            params.append(f(gates * hidden, outputs, low=-1, high=1))
            params += [f(gates * hidden, low=-1, high=1)] * 2 if biases else []
            params += [f(projection, hidden, low=-1, high=1)] if projection else []
    return (params, biases, count, 0.0, False, directions == 2, batch_first)


def cell(gates, inputs, hidden, biases=True):
    weights = [f(gates * hidden, inputs, low=-1, high=1), f(gates * hidden, hidden, low=-1, high=1)]
    return tuple(weights + ([f(gates * hidden, low=-1, high=1)] * 2 if biases else []))


def recurrent_rows(gates):
    """Returns cases of recurrent layers with one state."""
    return [
        ((f(4, 2, 3), f(1, 2, 5), *layers(gates, 3, 5)), {}),
        ((f(2, 4, 3), f(4, 2, 5), *layers(gates, 3, 5, count=2, directions=2, batch_first=True)), {}),
        ((f(1, 1, 3), f(2, 1, 1), *layers(gates, 3, 1, count=2, biases=False)), {}),
    ]


RECURRENT = {
    "lstm.input": [
        ((f(4, 2, 3), [f(1, 2, 5), f(1, 2, 5)], *layers(4, 3, 5)), {}),
        ((f(2, 4, 3), [f(4, 2, 5), f(4, 2, 5)], *layers(4, 3, 5, count=2, directions=2, batch_first=True)), {}),
        ((f(4, 2, 3), [f(4, 2, 2), f(4, 2, 5)], *layers(4, 3, 5, projection=2, count=2, directions=2)), {}),
        ((f(1, 1, 3), [f(2, 1, 1), f(2, 1, 1)], *layers(4, 3, 1, count=2, biases=False)), {}),
    ],
    "gru.input": recurrent_rows(3),
    "rnn_tanh.input": recurrent_rows(1),
    "rnn_relu.input": recurrent_rows(1),
    "lstm_cell": [
        ((f(2, 3), [f(2, 5), f(2, 5)], *cell(4, 3, 5)), {}),
        ((f(2, 3), [f(2, 5), f(2, 5)], *cell(4, 3, 5, biases=False)), {}),
    ],
    **{
        name: [((f(2, 3), f(2, 5), *cell(gates, 3, 5)), {}), ((f(2, 3), f(2, 5), *cell(gates, 3, 5, biases=False)), {})]
        for name, gates in (("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1))
    },
}

# Only of use on the device: importers of the capture itself, and operators that need a constant.
DEVICE = {
    "nan_to_num": [((SPECIAL,), {})],
    **{name: [((SPECIAL, exact(*[float("inf")] * 7)), {})] for name in ("logaddexp", "logaddexp2", "hypot")},
    "xlogy.Tensor": [((exact(0.0, 0.0, 1.0, 0.0), exact(0.0, float("inf"), 0.0, float("nan"))), {})],
    "special_xlog1py": [((exact(0.0, 0.0), exact(-1.0, float("inf"))), {})],
    "dist": [((f(2, 3), f(3), p), {}) for p in (0, INFINITY)],
    "poptorch::nop": [((f(2, 3),), {}), ((ints(4),), {})],
    "poptorch::recomputation_checkpoint": [((f(2, 3),), {})],
    "poptorch::print_tensor": [((f(2), "", True, 1000, 3, 80, 4, "auto", ",", "(", ")"), {})],
    "as_strided": [((f(2, 6), [2, 3], [6, 1], 1), {}), ((f(4, 4), [4, 2], [1, 8]), {}), ((ints(6), [3], [2]), {})]
    + [((f(5), [3, 3], [1, 1]), {}), ((f(9), [2, 3], [3, 2], 1), {}), ((f(3), [4], [0], 2), {})],
    "_embedding_bag": [
        ((f(5, 3), index(6, below=5), T((2,), dtype=torch.int64, values=(0, 4), constant=True)), {"mode": mode})
        for mode in (0, 1, 2)
    ],
    "_embedding_bag_forward_only": [
        ((f(5, 3), index(6, below=5), T((2,), dtype=torch.int64, values=(0, 4), constant=True)), {"mode": mode})
        for mode in (0, 1)
    ],
}

# Samples: (arguments, keywords), the bounds they lie in. Their distributions are compared in test_random.py.
RANDOM = {
    "bernoulli": [((f(64, low=0.2, high=0.8),), {}, 0, 1)],
    "bernoulli.Tensor": [((f(64), f(64, low=0.2, high=0.8)), {}, 0, 1)],
    "bernoulli.p": [((f(64), 0.4), {}, 0, 1)],
    "cauchy": [((f(64),), {}, -INFINITY, INFINITY)],
    "exponential": [((f(64), 2.0), {}, 0, INFINITY)],
    "geometric": [((f(64), 0.3), {}, 1, INFINITY)],
    "log_normal": [((f(64),), {}, 0, INFINITY)],
    "uniform": [((f(64), -2.0, 3.0), {}, -2, 3)],
    "random": [((ints(64),), {}, 0, 2**31)],
    "random.from": [((ints(64), -3, 5), {}, -3, 4)],
    "random.to": [((ints(64), 5), {}, 0, 4)],
    "normal_functional": [((f(64), 0.0, 1.0), {}, -9, 9)],
    "normal.Tensor_float": [((f(64), 1.0), {}, -12, 12)],
    "normal.float_Tensor": [((0.0, positive(64)), {}, -30, 30)],
    "normal.Tensor_Tensor": [((f(64), positive(64)), {}, -30, 30)],
    "normal.float_float": [((0.0, 1.0, [64]), {}, -9, 9)],
    "rand": [(([64],), {}, 0, 1)],
    "rand.generator": [(([64],), {"generator": None}, 0, 1)],
    "rand_like": [((f(64),), {}, 0, 1)],
    "rand_like.generator": [((f(64),), {"generator": None}, 0, 1)],
    "randn": [(([64],), {}, -9, 9)],
    "randn.generator": [(([64],), {"generator": None}, -9, 9)],
    "randn_like": [((f(64),), {}, -9, 9)],
    "randn_like.generator": [((f(64),), {"generator": None}, -9, 9)],
    "randint": [((7, [64]), {}, 0, 6)],
    "randint.generator": [((7, [64]), {"generator": None}, 0, 6)],
    "randint.low": [((-3, 7, [64]), {}, -3, 6)],
    "randint.low_generator": [((-3, 7, [64]), {"generator": None}, -3, 6)],
    "randint_like": [((ints(64), 7), {}, 0, 6)],
    "randint_like.generator": [((ints(64), 7), {"generator": None}, 0, 6)],
    "randint_like.low_dtype": [((f(64), -3, 7), {}, -3, 6)],
    "randint_like.low_generator_dtype": [((f(64), -3, 7), {"generator": None}, -3, 6)],
    "randperm": [((64,), {}, 0, 63)],
    "randperm.generator": [((64,), {"generator": None}, 0, 63)],
}

# Importers that only say why the device cannot do it: a call, and words of the error.
REFUSED = {
    "randint_like.Tensor": [
        ((ints(4), T((), dtype=torch.int64, values=(7,), constant=True)), {}, "bounds that are tensors; use numbers")
    ],
}

# Results that torch keeps for its own backward pass.
KEPT = {
    "log_sigmoid_forward": {1},
    "_embedding_bag": {1, 2, 3},
    "_embedding_bag_forward_only": {1, 2, 3},
    "_weight_norm_interface": {1},
    "native_layer_norm": {1, 2},
}

# Every table whose rows are interpreted in f64 and compared with torch in double precision.
TABLES = {
    **ELEMENTWISE,
    **FORMULAS,
    **LOSSES,
    **INDEXING,
    **SORTING,
    **LAYERS,
    **VIEWS,
    **CREATION,
    **REDUCTIONS,
    **PRODUCTS,
    **MORE_LAYERS,
    **RECURRENT,
}
