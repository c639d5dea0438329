"""TrainingSession: a model whose loss an optimizer makes smaller."""

from __future__ import annotations

from typing import Any

from popart._impl.data_flow import DataFlow, InputShapeInfo
from popart._impl.exceptions import popart_exception
from popart._impl.optimizers.optimizer import check_replacement
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions
from popart._impl.sessions.model_session import ModelSession


class TrainingSession(ModelSession):
    """A session that trains the initialisers of a model.

    Args:
        fnModel: bytes of an ONNX ModelProto, or the name of a file.
        dataFlow: batches of a step, and the tensors that a run returns.
        loss: id of the tensor with one element that the optimizer makes smaller.
        optimizer: popart.SGD, Adam or Adaptive.
        deviceInfo: what to compile for and to run on.
        inputShapeInfo: shapes of inputs that the model leaves open.
        patterns: rewriting rules; None: the default level.
        userOptions: see `popart.SessionOptions`.
        name: for messages and reports.

    Raises:
        popart_exception: the model, the options or the optimizer are wrong, or do not fit together.

    >>> session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss,
    ...     popart.ConstSGD(0.1), popart.DeviceManager().createCpuDevice())  # doctest: +SKIP
    """

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Any,
        deviceInfo: Any,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
    ) -> None:
        if not loss:
            raise popart_exception("a TrainingSession needs a loss: the id of a tensor with one element")
        self._build(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name, loss, optimizer)

    def getTensorIds(self) -> set[str]:
        """Ids of all tensors of the program."""
        return self._tensor_ids()

    def updateOptimizerFromHost(self, optimizer: Any) -> None:
        """New values for the hyper-parameters that are not constant, from the next run on.

        Raises:
            popart_runtime_error: the optimizer differs in more than such values.
        """
        check_replacement(self._optimizer, optimizer)
        self._optimizer = optimizer
        if self._native is not None:
            self._native.set_optimizer(self._optimizer_values())
