"""Resizing."""

from typing import Literal, get_args

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor

InterpolateType = Literal["nearest", "linear", "cubic"]
NearestType = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
CoordinateTransformationType = Literal[
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"
]
_WORDS = {
    "mode": get_args(InterpolateType),
    "nearest_mode": get_args(NearestType),
    "coordinate_transformation_mode": get_args(CoordinateTransformationType),
}


def interpolate(
    t: Tensor,
    scale_factor: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0),
    mode: InterpolateType = "nearest",
    nearest_mode: NearestType = "round_prefer_floor",
    coordinate_transformation_mode: CoordinateTransformationType = "half_pixel",
) -> Tensor:
    """Resizes every axis to floor(size * factor); an axis with factor 1 stays as it is.

    Args:
        t: any shape, floating.
        scale_factor: one number for each axis; positions are those of torch with `recompute_scale_factor=False`.
        mode: "nearest", "linear" (two neighbours along each axis) or "cubic" (four, A = -0.75); neighbours outside take
            the value of the edge.
        nearest_mode: which neighbour is nearest: "round_prefer_floor", "round_prefer_ceil", "floor" or "ceil".
        coordinate_transformation_mode: where element x of the result lies, by the factor and not the ratio of the sizes:
            "half_pixel" (x + 0.5) / factor - 0.5; "pytorch_half_pixel" the same, 0 where size * factor is at most 1;
            "align_corners" x * (size - 1) / (size * factor - 1); "asymmetric" x / factor; "tf_crop_and_resize" needs a
            region, which there is no way to give.

    Returns:
        The result, in the dtype of `t`.

    Raises:
        ValueError: another word.
        popart.popart_exception: not one factor for each axis, or "tf_crop_and_resize".

    Example:
        >>> y = ops.interpolate(x, (1.0, 1.0, 2.0, 2.0), "linear")
    """
    given = {
        "mode": mode,
        "nearest_mode": nearest_mode,
        "coordinate_transformation_mode": coordinate_transformation_mode,
    }
    for name, word in given.items():
        if word not in _WORDS[name]:
            raise ValueError(f"{name} is {word!r}: it is one of {', '.join(map(repr, _WORDS[name]))}.")
    check_in_graph(_contexts.here.graph, t=t)
    attributes = {
        "mode": mode,
        "scales": [float(s) for s in scale_factor],
        "nearestMode": nearest_mode,
        "coordinateTransformationMode": coordinate_transformation_mode,
    }
    return create("Resize", {0: t}, ("interpolate_out",), attributes)[0]
