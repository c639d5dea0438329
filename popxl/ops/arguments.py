"""Words and checks that arguments of several functions share."""

from typing import Any, Literal, get_args

from popxl.dtypes import float8_143, float8_152, int32
from popxl.tensor import Tensor

PadType = Literal["not_set", "same_upper", "same_lower", "valid"]
PAD_TYPES = {kind: kind for kind in get_args(PadType)}
InterpolateType = Literal["nearest", "linear", "cubic"]
NearestType = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
CoordinateTransformationType = Literal[
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"
]
FLOAT_FORMATS = {kind: kind for kind in ("auto", "fixed", "scientific", "none")}
REDUCTIONS = Literal["mean", "sum", "none"]


def word(name: str, value: str, words: Any) -> str:
    """`value`. Raises ValueError where it is none of the literal's words."""
    if value not in get_args(words):
        raise ValueError(f"{name} is {value!r}: it is one of {', '.join(map(repr, get_args(words)))}.")
    return value


def character(name: str, text: str) -> str:
    """`text`. Raises ValueError where it is not one character."""
    if len(text) != 1:
        raise ValueError(f"{name} is {text!r}: it is one character.")
    return text


def partials_of(kind: Any) -> str:
    """ "half" or "float" of a word or a dtype. Raises ValueError for another."""
    found = {"float16": "half", "float32": "float", "half": "half", "float": "float"}.get(
        str(getattr(kind, "name", kind)).lower()
    )
    if found is None:
        raise ValueError(f'A partials type is {kind!r}: it is "half" or "float".')
    return found


def check_float8(log2_scale: Tensor, **operands: Tensor) -> None:
    """What products of float8 check.

    Raises:
        TypeError: an operand is not float8, or `log2_scale` not int32.
        ValueError: `log2_scale` has axes.
    """
    for name, tensor in operands.items():
        if tensor.dtype not in (float8_143, float8_152):
            raise TypeError(f"{name}, {tensor!r}, must be float8_143 or float8_152.")
    if log2_scale.rank > 0:
        raise ValueError(f"log2_scale, {log2_scale!r}, must have the shape ().")
    if log2_scale.dtype is not int32:
        raise TypeError(f"log2_scale, {log2_scale!r}, must be int32.")
