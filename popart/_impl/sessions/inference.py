"""InferenceSession: a model that is only run."""

from __future__ import annotations

from typing import Any

from popart._impl.data_flow import DataFlow, InputShapeInfo
from popart._impl.exceptions import popart_exception
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions
from popart._impl.sessions.argument_checks import check_arguments
from popart._impl.sessions.model_session import ModelSession


class InferenceSession(ModelSession):
    """A session that runs a model forward.

    Args:
        fnModel: bytes of an ONNX ModelProto, or the name of a file.
        dataFlow: batches of a step, and the tensors that a run returns.
        deviceInfo: what to compile for and to run on.
        inputShapeInfo: shapes of inputs that the model leaves open.
        patterns: rewriting rules; None: the default level.
        userOptions: see `popart.SessionOptions`.
        name: for messages and reports.

    Raises:
        popart_exception: the model or the options are wrong, or do not fit together.
        TypeError: an argument is of another class.

    >>> session = popart.InferenceSession("model.onnx", popart.DataFlow(1, ["y"]),
    ...     popart.DeviceManager().createCpuDevice())  # doctest: +SKIP
    """

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        deviceInfo: Any,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
    ) -> None:
        check_arguments("InferenceSession", locals())
        if dataFlow.nAnchors() == 0:
            raise popart_exception("an InferenceSession needs anchors: nothing would be computed without them")
        self._build(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name)

    @staticmethod
    def fromIr(ir: Any, deviceInfo: Any, name: str = "fromIr") -> Any:
        """A session of a PopXL program as it is when `prepareDevice` is called.

        Args:
            ir: of popart._internal.ir.
            deviceInfo: to compile for, and to run on unless another is set.
            name: for messages.
        """
        from popart._impl.sessions.ir_session import IrSession

        return IrSession.fromIr(ir, deviceInfo, name)

    def getAllTensorIds(self) -> set[str]:
        """Ids of all tensors of the program."""
        return self._tensor_ids()

    def checkInplacingAmbiguity(self) -> bool:
        """Whether the result depends on which ops work in place: never, the program has the meaning of its graph."""
        return False

    def copyDeviceWeightsToHost(self) -> None:
        """The device's values of all variables come to the host, unless the host has them."""
        if not self._in_sync:
            self.weightsToHost()

    def markHostWeightsInSync(self) -> None:
        """The host's values are taken for those of the device."""
        self._in_sync = True

    def markHostWeightsOutOfSync(self) -> None:
        """The host's values are taken for older than those of the device."""
        self._in_sync = False

    def areHostWeightsInSync(self) -> bool:
        """Whether the host's values are those of the device."""
        return self._in_sync

    def setEngineIsLoaded(self, isLoaded: bool) -> None:
        """False: the next call loads the engine again; True: the session is taken for the loaded one.

        Raises:
            popart_exception: True before prepareDevice.
        """
        if not isLoaded:
            if self._device.is_loaded(self):
                self._device.unload()
        else:
            self._loaded("setEngineIsLoaded", popart_exception)
