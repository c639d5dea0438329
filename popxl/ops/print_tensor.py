"""Printing while the program runs."""

from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor

_FORMATS = {"auto": "auto", "fixed": "fixed", "scientific": "scientific", "none": "none"}


def print_tensor(
    t: Tensor,
    title: Optional[str] = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """A copy of `t` that is written to stderr each time the op runs, on each replica.

    Args:
        t: any shape and dtype.
        title: what is written before; None: "print_<name of t>". That of the gradient is "<title>_gradient".
        print_self: write `t`.
        print_gradient: write the gradient, where the returned tensor is used and has one.
        summarise_threshold: tensors of more elements show `edge_items` at each end; 0: never.
        edge_items: elements at each end.
        max_line_width: lines are broken there; 0: nowhere.
        digits: after the point; 0: columns are not aligned and float_format is "none".
        float_format: "auto", "fixed", "scientific" or "none".
        separator, open_bracket, close_bracket: one character each.

    Returns:
        As `t`. Where nobody uses it, no gradient is printed.

    Raises:
        KeyError: another float_format.
        ValueError: not one character.

    Example:
        >>> x = ops.print_tensor(x, "activations")
    """
    check_in_graph(_contexts.here.graph, t=t)
    for name, text in (("separator", separator), ("open_bracket", open_bracket), ("close_bracket", close_bracket)):
        if len(text) != 1:
            raise ValueError(f"{name} is {text!r}: it is one character.")
    attributes: dict[str, Any] = {
        "title": f"print_{t.name}" if title is None else title,
        "printSelf": bool(print_self),
        "printGradient": bool(print_gradient),
        "summariseThreshold": int(summarise_threshold),
        "edgeItems": int(edge_items),
        "maxLineWidth": int(max_line_width),
        "digits": int(digits),
        "floatFormat": _FORMATS[float_format] if digits != 0 else "none",
        "separator": separator,
        "openBracket": open_bracket,
        "closeBracket": close_bracket,
    }
    return create("PrintTensor", {0: t}, (f"print_{t.name}",), attributes)[0]
