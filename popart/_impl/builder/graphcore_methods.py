"""The methods of ai.graphcore, from the native table of operators. "args" and the debug name are added where they are not written."""

from __future__ import annotations

import ast
from typing import Any

from popart._impl.builder.methods import REQUIRED, Method, Parameter
from popart._impl.builder.multiconv import multiconv
from popart._impl.enums import ReductionType, ScatterReduction
from popart._impl.operators import rows

_MEMBERS = {"Mean": ReductionType["Mean"], "Sum": ScatterReduction["Sum"]}


def _default(kind: str, text: str) -> Any:
    return _MEMBERS[text] if kind in ("reduction", "scatter reduction") else ast.literal_eval(text)


def _counts(tensors: tuple[rows.Tensor, ...]) -> tuple[int, int]:
    return sum(tensor.least for tensor in tensors), min(rows.ANY_NUMBER, sum(tensor.most for tensor in tensors))


def _method(row: rows.Row) -> Method:
    parameters = [
        Parameter(p.name, p.kind, REQUIRED if p.default is None else _default(p.kind, p.default))
        for p in row.parameters
    ]
    if row.operands and not any(p.name == "args" for p in parameters):
        parameters.insert(0, Parameter("args", "ids"))
    if not any(p.kind == "debug" for p in parameters):
        parameters.append(Parameter("debugContext", "debug", ""))
    returned = _counts(tuple(result for result in row.results if result.mark != "!"))
    returns = {(0, 0): "none", (1, 1): "one"}.get(returned, "list")
    whole = f"{row.doc}\n\nAdds a node {row.type} of ai.graphcore, version 1. Raises TypeError and popart_exception as all these methods do."
    inputs, outputs = _counts(row.operands), _counts(row.results)
    return Method(row.method, "ai.graphcore", row.type, tuple(parameters), inputs, outputs, returns, whole)


METHODS = tuple(_method(row) for row in rows.ROWS if row.method)
SPECIAL = {"multiconv": multiconv}
