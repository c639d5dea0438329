"""Sessions of ONNX models: built, compiled, fed, read."""

from __future__ import annotations

from typing import Any

import numpy

import ipu_core
from popart._impl.data_flow import DataFlow, InputShapeInfo
from popart._impl.enums import DeviceType, PatternsLevel
from popart._impl.exceptions import popart_exception, popart_runtime_error
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions
from popart._impl.sessions.anchors import anchor_shape
from popart._impl.sessions.errors import as_popart
from popart._impl.sessions.host_weights import HostWeights
from popart._impl.sessions.initialisers import Initialisers
from popart._impl.sessions.ir_listing import IrReading
from popart._impl.sessions.model import load_external, read_model, records, set_input_shapes, unpack
from popart._impl.sessions.settings import accumulation_of, local_replicas_of, native_settings
from popart._impl.sessions.step import run_step
from popart._impl.tensor_info import TensorInfo

_HARDWARE = (DeviceType.Ipu, DeviceType.OfflineIpu)


class ModelSession(IrReading):
    """What InferenceSession and TrainingSession share."""

    def _build(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        deviceInfo: Any,
        inputShapeInfo: InputShapeInfo | None,
        patterns: Patterns | None,
        userOptions: SessionOptions | None,
        name: str,
        loss: str = "",
        optimizer: Any = None,
    ) -> None:
        self.dataFlow, self._device, self._name = dataFlow, deviceInfo, name
        self._options = SessionOptions() if userOptions is None else userOptions
        self._patterns = Patterns(PatternsLevel["Default"]) if patterns is None else patterns
        self._loss, self._optimizer = loss, optimizer
        self._native: Any = None
        self._weights_sent = False
        self._model, self._model_bytes = read_model(fnModel)
        if inputShapeInfo is not None:
            set_input_shapes(self._model, inputShapeInfo)
        load_external(self._model)
        for tensor in self._model.graph.initializer:
            unpack(tensor)
        self._initialisers = Initialisers(self._model, self._options, is_training=bool(loss))
        try:
            self._program = ipu_core._native.ModelProgram(self._records(), self._settings())
        except ipu_core.Error as error:
            raise as_popart(error) from error
        self._tensors: dict[str, Any] = self._program.tensors()
        self._check_anchors()
        self._weights = HostWeights(self._initialisers, self._tensors)
        self._read_ir()

    def _records(self) -> dict[str, Any]:
        made = self._initialisers
        return records(self._model, made.trained, made.variables, made.groupings)

    def _settings(self) -> dict[str, Any]:
        settings = native_settings(self._options, self.dataFlow, list(self.dataFlow.anchors()))
        if self._loss:
            settings |= {"loss": self._loss, "optimizer": self._optimizer_values()}
        return settings

    def _optimizer_values(self) -> dict[str, Any]:
        made = self._initialisers
        values: dict[str, Any] = self._optimizer.native(
            {name: made.dtypes[name] for name in made.dtypes if name in made.trained}
        )
        return values

    def _check_anchors(self) -> None:
        for id in self.dataFlow.anchors():
            if id not in self._tensors:
                known = ", ".join(sorted(self._tensors)[:20])
                raise popart_exception(f"the anchor '{id}' is no tensor of the program; there are {known}")

    # --- what the program is
    @property
    def replicationFactor(self) -> int:
        return local_replicas_of(self._options)

    @property
    def accumulationFactor(self) -> int:
        return accumulation_of(self._options)

    def getInfo(self, id: str) -> TensorInfo:
        """Type and shape of a tensor. Raises popart_exception for one that is not there."""
        if id not in self._tensors:
            raise popart_exception(f"'{id}' is no tensor of the program")
        dtype, shape, _ = self._tensors[id]
        return TensorInfo(dtype, list(shape))

    def _tensor_ids(self) -> set[str]:
        return set(self._tensors)

    def initAnchorArrays(self) -> dict[str, numpy.ndarray]:
        """An array for each anchor, of shape [batches, micro-batches, replicas] without the ones that are 1, then the
        tensor's own."""
        return {id: numpy.empty(self._anchor_shape(id), self._host_dtype(id)) for id in self.dataFlow.anchors()}

    def _anchor_shape(self, id: str) -> tuple[int, ...]:
        shape = tuple(self._tensors[id][1])
        flow = self.dataFlow
        return anchor_shape(flow.art(id), flow.batchesPerStep(), self.accumulationFactor, self.replicationFactor, shape)

    def _host_dtype(self, id: str) -> numpy.dtype:
        return numpy.dtype(self._tensors[id][0])

    # --- the device
    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program for the device; `loadEngine`: and loads it.

        Raises:
            popart_exception: it cannot be compiled for this device.
            OutOfMemoryException: it does not fit.
        """
        self._check_lowered()
        hardware = self._device.type in _HARDWARE
        options = self._options
        folder = str(options.cachePath) if options.enableEngineCaching and hardware else ""
        key = f"device={self._device.type} ipus={self._device.numIpus}"
        replicas = local_replicas_of(options)
        if self._program.ipus * replicas > self._device.numIpus:
            raise popart_exception(
                f"the program needs {self._program.ipus} IPUs for each of {replicas} replicas, and the device has "
                f"{self._device.numIpus}"
            )
        try:
            self._native = self._program.compile(folder, key, not hardware, options.enableFloatingPointChecks)
            if self._loss:
                self._native.set_optimizer(self._optimizer_values())
            if loadEngine:
                self._native.attach()
        except ipu_core.Error as error:
            raise as_popart(error) from error

    def loadEngineAndConnectStreams(self) -> None:
        """Loads the program onto the device. Raises popart_exception before prepareDevice."""
        self._loaded("loadEngineAndConnectStreams", popart_exception)

    def _loaded(self, what: str, kind: type[Exception] = popart_runtime_error) -> Any:
        if self._native is None:
            raise kind(f"{what}: the device is not prepared; call prepareDevice first")
        if not self._native.is_attached:
            try:
                self._native.attach()
            except ipu_core.Error as error:
                raise as_popart(error) from error
        return self._native

    # --- weights
    def weightsFromHost(self) -> None:
        """The host's values of all variables go to the device."""
        self._weights.to_device(self._loaded("weightsFromHost"))
        self._weights_sent = True

    def weightsToHost(self) -> None:
        """The device's values of all variables come to the host."""
        self._weights.from_device(self._loaded("weightsToHost"))

    def readWeights(self, weightsIo: Any) -> None:
        """Fills arrays with the host's values."""
        self._weights.read(weightsIo)

    def writeWeights(self, weightsIo: Any) -> None:
        """Takes arrays as the host's values; weightsFromHost sends them."""
        self._weights.write(weightsIo)
        self._weights_sent = False

    # --- running
    def run(self, stepio: Any, debugName: str = "") -> None:
        """One step: reads the inputs from `stepio` and writes the anchors into it."""
        native = self._loaded("run")
        if self._loss and self._weights.ids and not self._weights_sent:
            raise popart_runtime_error("run: the variables are not on the device; call weightsFromHost first")
        run_step(self, native, stepio)
