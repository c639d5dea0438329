"""Random ONNX graphs for comparisons of execution modes: a graph of [rows, columns] values that is cut into stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from popart_execution_models import model, node

ROWS, COLUMNS = 4, 4
_FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Abs", "Softmax", "Neg", "Sin", "Softplus", "Erf")
_SUMS = ("Add", "Sub", "Mul", "Max")


class RandomGraph:
    """Products, functions, sums of earlier values (of earlier stages too), biases, differences from means.

    Every weight is read in one stage and the input in the first, as pipelines ask for. "y" is the last value, "loss" the mean
    of its squares.
    """

    def __init__(self, seed: int, stages: int = 2) -> None:
        self._rng = numpy.random.default_rng(seed)
        self.weights: dict[str, numpy.ndarray] = {}
        self._nodes: list[tuple[str, list[str], str, int, dict[str, Any]]] = []
        count = int(self._rng.integers(6, 14))
        cuts = sorted(self._rng.choice(numpy.arange(1, count), size=stages - 1, replace=False))
        values = ["x"]
        for i in range(count):
            stage = sum(i >= cut for cut in cuts)
            pool = [value for value in values if value != "x" or stage == 0] or values[-1:]
            operand = pool[-1] if self._rng.random() < 0.6 else str(self._rng.choice(pool))
            self._add(operand, pool, f"t{i}", stage)
            values.append(f"t{i}")
        last = stages - 1
        self._nodes += [
            ("MatMul", [values[-1], self._weight(COLUMNS, COLUMNS)], "product", last, {}),
            ("Tanh", ["product"], "y", last, {}),
            ("Mul", ["y", "y"], "squares", last, {}),
            ("ReduceMean", ["squares"], "loss", last, {"axes": [0, 1], "keepdims": 0}),
        ]

    def _weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = (self._rng.normal(size=shape) / 2).astype(numpy.float32)
        return name

    def _add(self, operand: str, pool: list[str], result: str, stage: int) -> None:
        def add(type: str, operands: list[str], made: str = result, **attributes: Any) -> None:
            self._nodes.append((type, operands, made, stage, attributes))

        kind = self._rng.choice(
            ["product", "function", "sum", "bias", "mean", "view"], p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05]
        )
        if kind == "product":
            add("MatMul", [operand, self._weight(COLUMNS, COLUMNS)])
        elif kind == "bias":
            add(str(self._rng.choice(("Add", "Mul", "Sub"))), [operand, self._weight(COLUMNS)])
        elif kind == "function":
            type = str(self._rng.choice(_FUNCTIONS))
            add(type, [operand], **({"axis": 1} if type == "Softmax" else {}))
        elif kind == "sum":
            add(str(self._rng.choice(_SUMS)), [operand, str(self._rng.choice(pool))])
        elif kind == "mean":
            add("ReduceMean", [operand], result + "_mean", axes=[1], keepdims=1)
            add("Sub", [operand, result + "_mean"])
        else:
            add("Transpose", [operand], result + "_turned", perm=[0, 1])
            add("Tanh", [result + "_turned"])

    def model(self, places: Sequence[dict[str, int]] | None = None, **metadata: Any) -> bytes:
        """`places`: annotations of each stage; those that are missing have the last."""
        places = places or [{}]
        nodes = [
            node(type, operands, result, **places[min(stage, len(places) - 1)], **attributes)
            for type, operands, result, stage, attributes in self._nodes
        ]
        return model(nodes, {"x": (ROWS, COLUMNS)}, self.weights, **metadata)
