"""popart.NumericsReport: how far two trainings of one model moved its weights in different ways."""

from __future__ import annotations

import numpy

from popart._impl.builder import model_files, protos
from popart._impl.exceptions import popart_exception


class NumericsReport:
    """Compares the changes of weights in two trainings.

    Args:
        A0, A1: files of the model before and after training A. B0, B1: the same of training B.

    Raises:
        popart_exception: the four models do not have the same initialisers.
    """

    def __init__(self, A0: str, A1: str, B0: str, B1: str) -> None:
        models = [_initialisers(name) for name in (A0, A1, B0, B1)]
        for name, found in zip((A1, B0, B1), models[1:]):
            shapes = [{id: array.shape for id, array in model.items()} for model in (models[0], found)]
            if shapes[0] != shapes[1]:
                raise popart_exception(f"'{A0}' and '{name}' differ in their initialisers: {shapes[0]} and {shapes[1]}")
        before_a, after_a, before_b, after_b = models
        self._changes = {id: (after_a[id] - before_a[id], after_b[id] - before_b[id]) for id in before_a}

    def getRelativeErrors(self) -> dict[str, float]:
        """For each weight |dA - dB|^2 / (|dA| |dB| + 1e-8), d being the change in a training."""
        return {id: self._error(id) for id in self._changes}

    def _error(self, id: str) -> float:
        first, second = self._changes[id]
        scale = numpy.linalg.norm(first) * numpy.linalg.norm(second) + 1e-8
        return float(numpy.sum((first - second) ** 2) / scale)

    def report(self, tensorId: str) -> str:
        """A line on one weight. Raises popart_exception for an id that is none."""
        if tensorId not in self._changes:
            raise popart_exception(
                f"'{tensorId}' is no weight of these models; there are {', '.join(self._changes) or 'none'}"
            )
        first, second = (float(numpy.linalg.norm(change)) for change in self._changes[tensorId])
        apart = float(numpy.linalg.norm(self._changes[tensorId][0] - self._changes[tensorId][1]))
        return f"{tensorId}: |dA| {first:.6g}, |dB| {second:.6g}, |dA - dB| {apart:.6g}, relative error {self._error(tensorId):.6g}"

    def fullReport(self) -> str:
        """A line on each weight."""
        return "\n".join(self.report(id) for id in self._changes)


def _initialisers(name: str) -> dict[str, numpy.ndarray]:
    model, _ = model_files.load(name)
    kinds = (protos.Tensor.FLOAT, protos.Tensor.FLOAT16, protos.Tensor.DOUBLE)
    return {
        t.name: protos.to_array(t).astype("float64").reshape(-1)
        for t in model.graph.initializer
        if t.data_type in kinds
    }
