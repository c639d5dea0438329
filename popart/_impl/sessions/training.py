"""TrainingSession: a model whose loss an optimizer makes smaller."""

from __future__ import annotations

import copy
from typing import Any

import numpy

from popart._impl.data_flow import DataFlow, InputShapeInfo
from popart._impl.exceptions import popart_exception
from popart._impl.optimizers.optimizer import check_replacement
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions
from popart._impl.sessions.argument_checks import check_arguments
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
        TypeError: an argument is of another class.

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
        check_arguments("TrainingSession", locals())
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
        self._optimizer = copy.deepcopy(optimizer)
        self._set_scalars()
        if self._native is not None:
            self._native.set_optimizer(self._optimizer_values())

    def connectStreamToCallback(self, streamHandle: str, callback: Any, index: int = 0) -> None:
        """Calls a function for every element that the program moves through a stream, in place of a StepIO's arrays.

        Args:
            streamHandle: id of an input, for which `callback()` gives an array of one micro-batch; or of an anchor, for
                which `callback(array)` takes one.
            callback: the function; None: the StepIO's arrays again.
            index: number of the replica that the function serves; there is one function for all, so it must be 0.

        Raises:
            popart_exception: before prepareDevice, or there is no such stream.
        """
        native = self._compiled("connectStreamToCallback")
        if index != 0:
            raise popart_exception(
                f"connectStreamToCallback: index is {index}; one function serves all replicas, as index 0"
            )
        streams = native.streams("main")
        name = streamHandle if streamHandle in streams else f"anchor/{streamHandle}"
        if name not in streams:
            raise popart_exception(f"there is no stream '{streamHandle}'; there are {sorted(streams)}")
        self._connected.pop(name, None)
        function = None
        if callback is not None:
            is_input = streams[name][0] == "input"
            function = (lambda replica: callback()) if is_input else (lambda array, replica: callback(array))
            self._connected[name] = function
        native.bind(name, function)

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """All processes of a job take the host's weights of one of them. Nothing happens in a program of one process.

        Raises:
            popart_exception: the job is not set up, or has no such rank.
        """
        if not self._options.enableDistributedReplicatedGraphs:
            return
        from popart._impl.job import exchange_bytes

        for name in sorted(self._weights.values):
            value = self._weights.values[name]
            everyone = exchange_bytes(numpy.ascontiguousarray(value).tobytes())
            count = len(everyone) // max(value.nbytes, 1)
            if not 0 <= rootRank < max(count, 1):
                raise popart_exception(f"broadcastWeights: rank {rootRank} of a job of {count} processes")
            mine = everyone[rootRank * value.nbytes : (rootRank + 1) * value.nbytes]
            self._weights.values[name] = numpy.frombuffer(mine, value.dtype).reshape(value.shape).copy()
        self._weights_sent = False
