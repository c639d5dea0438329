"""Sessions of ONNX models: built, compiled, fed, read."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy

import ipu_core
from popart._impl.data_flow import DataFlow, InputShapeInfo
from popart._impl.enums import DeviceConnectionType, DeviceType, Instrumentation, PatternsLevel
from popart._impl.exceptions import OutOfMemoryError, OutOfMemoryException, popart_exception, popart_runtime_error
from popart._impl.logs import getLogger
from popart._impl.operators.queries import check_model
from popart._impl.optimizers.scalars import runtime_scalars
from popart._impl.option_values import accumulation_of, local_replicas_of
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions
from popart._impl.sessions import engine_options
from popart._impl.sessions.memory import memory_refusal
from popart._impl.sessions.anchors import anchor_shape
from popart._impl.core_errors import as_popart
from popart._impl.sessions.host_weights import HostWeights
from popart._impl.sessions.initialisers import Initialisers, broadcast_inputs
from popart._impl.sessions.ir_listing import IrReading
from popart._impl.sessions.model import as_declared, read_model, records, set_input_shapes
from popart._impl.sessions.model_checks import check_names
from popart._impl.sessions.option_checks import (
    check_buffering,
    check_codelets,
    check_device,
    check_inputs,
    check_options,
    check_pipeline_device,
    check_types,
)
from popart._impl.sessions.optimizer_checks import check_clipping, check_loss_scaling, check_proportion
from popart._impl.sessions.saved_model import SavedModel
from popart._impl.sessions.session_files import SessionFiles
from popart._impl.sessions.session_random import SessionRandom
from popart._impl.sessions.session_weights import SessionWeights
from popart._impl.sessions.settings import (
    input_exchange,
    native_settings,
    unstreamed_states,
)
from popart._impl.sessions.step import program_and_arrays, run_step
from popart._impl.sessions.synthetic import bind_synthetic
from popart._impl.tensor_info import TensorInfo

FORWARD_PROGRAM, _FORWARD = "implicitPipeliningFwdOnly", "createImplicitPipeliningFwdOnlyProgram"
_HARDWARE = (DeviceType.Ipu, DeviceType.OfflineIpu)
_FINAL_SCALE = "finalLossScale"


def _scalar_type(id: str) -> numpy.dtype:
    """The loss scaling is of the loss's type, all other scalars are f32 whatever their weights are."""
    return numpy.dtype(numpy.float16 if id == "lossScaling_FLOAT16" else numpy.float32)


class ModelSession(SessionWeights, SessionFiles, SessionRandom, IrReading):
    """What InferenceSession and TrainingSession share."""

    dataFlow: DataFlow

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
        # What a program changes in these objects later is for its next session.
        self._options = SessionOptions() if userOptions is None else copy.deepcopy(userOptions)
        self._patterns = Patterns(PatternsLevel["Default"]) if patterns is None else copy.deepcopy(patterns)
        self._loss, self._optimizer = loss, copy.deepcopy(optimizer)
        self._native: Any = None
        self._file: Any = None  # an executable that was loaded
        self._engine_options: dict[str, str] = {}
        self._connected: dict[str, Any] = {}  # functions of the program behind streams
        self._has_run = self._weights_sent = False
        self._setup_random()
        check_options(self._options, dataFlow, deviceInfo, is_training=bool(loss))
        check_loss_scaling(self._options, optimizer)
        check_clipping(self._options, optimizer)
        read = read_model(fnModel)
        self._model = read.proto
        check_model(self._model, self._options.strictOpVersions)
        check_names(self._model.graph)
        self._saved = SavedModel(read)
        self._broadcast = broadcast_inputs(self._model)
        if inputShapeInfo is not None:
            set_input_shapes(self._model, inputShapeInfo)
        self._initialisers = Initialisers(self._model, read.values, self._options, is_training=bool(loss))
        try:
            self._program = ipu_core._native.ModelProgram(self._records(), self._settings())
        except ipu_core.Error as error:
            raise as_popart(error) from error
        self._tensors: dict[str, Any] = as_declared(self._model, self._program.tensors())
        self._set_scalars()
        if _FINAL_SCALE in self._tensors:  # the program has it as f32, of which nothing is lost
            self._tensors[_FINAL_SCALE] = (self._loss_scale_type(), *self._tensors[_FINAL_SCALE][1:])
        self._tensors |= {id: (_scalar_type(id), (), "scalar") for id in self._scalars}
        self._check_anchors()
        replicas = self._options.getGlobalReplicationFactor()
        unstreamed, scaled = unstreamed_states(self._options), self._program.scaled_states()
        self._weights = HostWeights(self._initialisers, self._tensors, replicas, unstreamed, scaled)
        self._read_ir()

    def _records(self) -> dict[str, Any]:
        made = self._initialisers
        strided = self._options.groupNormStridedChannelGrouping
        return records(self._model, made.values, made.trained, made.variables, made.groupings, strided)

    def _settings(self) -> dict[str, Any]:
        weights = {tensor.name for tensor in self._model.graph.initializer}
        inputs = [value.name for value in self._model.graph.input if value.name not in weights]
        exchange = input_exchange({entry.key: entry.value for entry in self._model.metadata_props}, inputs)
        check_inputs(self._options, exchange)
        check_buffering(self._options, inputs, list(self.dataFlow.anchors()))
        check_pipeline_device(self._options, self._device)
        scalars = self._possible_scalars()
        anchors = [id for id in self.dataFlow.anchors() if id not in scalars]
        settings = native_settings(self._options, self.dataFlow, anchors, self._device, exchange, bool(self._loss))
        if self._loss:
            settings |= {"loss": self._loss, "optimizer": self._optimizer_values()}
        return settings

    def _streamed(self) -> list[str]:
        """Ids of inputs, variables and anchors: what moves between host and device."""
        given = [value.name for value in self._model.graph.input] + [
            *self._initialisers.trained,
            *self._initialisers.variables,
        ]
        return sorted({id for id in [*given, *self.dataFlow.anchors()] if id in self._tensors})

    def _possible_scalars(self) -> dict[str, numpy.float32]:
        """The optimizer's runtime scalars by id, whatever the type of the loss is."""
        return {**self._runtime_scalars("FLOAT"), **self._runtime_scalars("FLOAT16")} if self._loss else {}

    def _runtime_scalars(self, loss_type: str) -> dict[str, numpy.float32]:
        options, made = self._options, self._initialisers
        reduction = options.accumulationAndReplicationReductionType.name
        if reduction == "Mean":
            reduction = options.meanAccumulationAndReplicationReductionStrategy.name
        weights = {name: made.dtypes[name] for name in made.dtypes if name in made.trained}
        replicas = options.getGlobalReplicationFactor()
        return runtime_scalars(self._optimizer, weights, loss_type, accumulation_of(options), replicas, reduction)

    def _set_scalars(self) -> None:
        """The runtime scalars that the program has, with the values of the optimizer of now: once for all runs until it changes."""
        self._scalars: dict[str, numpy.float32] = {}
        if self._loss:
            is_half = self._loss_scale_type() == numpy.float16
            self._scalars = self._runtime_scalars("FLOAT16" if is_half else "FLOAT")

    def _loss_scale_type(self) -> numpy.dtype:
        """That of the loss, unless an option keeps the scale in f32."""
        is_half = self._tensors[self._loss][0] == numpy.float16 and not self._options.ensureFp32LossScaleTensor
        return numpy.dtype(numpy.float16 if is_half else numpy.float32)

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
        if id in self._tensors:
            dtype, shape, _ = self._tensors[id]
            return TensorInfo(dtype, list(shape))
        if id not in self._listing().tensors():
            raise popart_exception(f"'{id}' is no tensor of the program")
        listed, shape = self._listing().listing.type_of(id)
        return TensorInfo(listed, list(shape))

    def _tensor_ids(self) -> set[str]:
        return {*self._tensors, *self._listing().tensors()}

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
        """Compiles the program for the device, or takes the executable that was loaded; `loadEngine`: and loads it onto the
        device, unless it is one for which programs are only compiled.

        Raises:
            popart_exception: it cannot be compiled for this device.
            poplar_exception: an engine option is not known.
            OutOfMemoryException: it does not fit.
        """
        self._prepare(loadEngine)

    def _prepare(self, loadEngine: bool) -> None:
        self._check_lowered()
        check_proportion(self._options)
        check_codelets(self._options)
        check_types(self._options, {id: self._tensors[id][0] for id in self._streamed()})
        check_device(self._options, self._device)
        self._engine_options = engine_options.engine_options(dict(self._options.engineOptions))
        self._check_device()
        if self._native is not None and self._device.is_loaded(self):
            self._device.unload()
        if self._options.compileEngine:
            self._native = self._compile()
            self._write_profile(self._native)
            if loadEngine and not self._is_offline:
                self._load()

    def _check_device(self) -> None:
        replicas, options = local_replicas_of(self._options), self._options
        if options.enableDistributedReplicatedGraphs and self._device.type not in _HARDWARE:
            raise popart_exception(f"distributed replicated graphs need IPUs or offline IPUs, not {self._device!r}")
        if self._program.ipus * replicas > self._device.numIpus:
            raise popart_exception(
                f"the program needs {self._program.ipus} IPUs for each of {replicas} replicas, and the device has "
                f"{self._device.numIpus}"
            )

    def _compile(self) -> Any:
        options, is_hardware = self._options, self._device.type in _HARDWARE
        checks = options.enableFloatingPointChecks
        log = getLogger("session")
        try:
            if self._file is not None:
                native = self._program.load(self._file, not is_hardware, checks)
            else:
                folder = str(options.cachePath) if options.enableEngineCaching and is_hardware else ""
                native = self._program.compile(os.fsencode(folder), self._cache_key(), not is_hardware, checks)
                if native.from_cache:
                    log.info(f"loading a serialised executable of '{self._name}' from {folder}")
                else:
                    log.info(f"graph compilation of '{self._name}' is complete")
            if options.getGlobalReplicationFactor() > local_replicas_of(options):
                from popart._impl.job import exchange_of  # only in a job: it needs torch

                native.set_job(options.globalReplicaOffset, exchange_of(native))
            if self._loss:
                native.set_optimizer(self._optimizer_values())
        except ipu_core.Error as error:
            raise as_popart(error) from error
        self._check_memory(native)
        return native

    def _cache_key(self) -> str:
        engine = ",".join(f"{key}:{value}" for key, value in sorted(self._engine_options.items()))
        return f"device={self._device.type} ipus={self._device.numIpus} engine={engine.replace(' ', '_')}"

    def _check_memory(self, native: Any) -> None:
        """Raises OutOfMemoryException where the program does not fit the device. It carries a report where the engine
        option debug.allowOutOfMemory says so."""
        try:
            refused = memory_refusal(native, self._device, self._options, self._engine_options, is_refused=True)
        except ipu_core.Error as error:
            raise as_popart(error) from error
        if refused:
            report, profile = "", ""
            if self._engine_options.get("debug.allowOutOfMemory") == "true":
                report, profile = self._report_of(native), self._write_profile(native)
            raise OutOfMemoryException(OutOfMemoryError(refused, report, profile))

    @property
    def _is_offline(self) -> bool:
        return (
            self._device.type is DeviceType.OfflineIpu or self._device.connectionType is DeviceConnectionType["Never"]
        )

    def loadEngineAndConnectStreams(self) -> None:
        """Loads the program onto the device. Raises popart_exception before prepareDevice."""
        self._loaded("loadEngineAndConnectStreams", popart_exception)

    def _loaded(self, what: str, kind: type[Exception] = popart_runtime_error) -> Any:
        """The native session, loaded onto the device."""
        if self._native is None:
            raise kind(f"{what}: the device is not prepared; call prepareDevice first")
        self._load()
        return self._native

    def _load(self) -> None:
        if not self._device.load(self):
            return
        try:
            self._native.attach(self._device.ipus)
        except ipu_core.Error as error:
            self._device.unload()
            raise popart_runtime_error(f"failed to attach to {self._device!r}: {error}") from error
        self._weights.first_to_device(self._native)
        self._start_random()
        bind_synthetic(self, self._native)
        for stream, function in self._connected.items():
            self._native.bind(stream, function)
        getLogger("devicex").info(f"the engine of '{self._name}' was loaded onto device {self._device.id}")

    def unloaded(self) -> None:
        """The device calls it when another session is loaded, or it is detached: what lies on it is lost."""
        if self._native is not None and self._native.is_attached:
            self._native.detach()

    def _setDeviceInfo(self, deviceInfo: Any) -> None:
        """Runs on this device from now on. Raises popart_exception where a program that is compiled does not fit on it."""
        if self._native is not None:
            is_same_kind = deviceInfo.type is self._device.type or {deviceInfo.type, self._device.type} <= {*_HARDWARE}
            if not is_same_kind or deviceInfo.numIpus != self._device.numIpus:
                raise popart_exception(
                    f"compiled for another device: the program is compiled for {self._device!r}, and {deviceInfo!r} is set"
                )
            if self._device.is_loaded(self):
                self._device.unload()
        self._device = deviceInfo

    # --- running
    def run(self, *arguments: Any, **named: Any) -> None:
        """`run(stepio, debugName="")`, one step: reads the inputs from `stepio` and writes the anchors into it.

        Also `run("implicitPipeliningFwdOnly", stepio, debugName="")` with the option
        createImplicitPipeliningFwdOnlyProgram: the forward pass of as many micro-batches, which changes no weight and fills
        the anchors that it makes.

        Raises:
            popart_runtime_error: the session is not prepared, weights were never sent, arrays do not fit.
            popart_exception: there is no program of that handle.
            poplar_application_runtime_error: the program failed on the device.
        """
        program, stepio = program_and_arrays(*arguments, **named)
        has_forward = self._options.createImplicitPipeliningFwdOnlyProgram
        if program is not None and not (program == FORWARD_PROGRAM and has_forward):
            raise popart_exception(
                f"there is no program with the handle '{program}': the session has that of its step"
                + (f" and '{FORWARD_PROGRAM}'" if has_forward else f"; '{FORWARD_PROGRAM}' is there with {_FORWARD}")
            )
        native = self._loaded("run")
        if self._loss and self._weights.ids and not self._weights_sent:
            raise popart_runtime_error("run: the variables are not on the device; call weightsFromHost first")
        with self._random_run(native):
            run_step(self, native, stepio, program or "main")
        self._has_run = True

    def getCycleCount(self, id: str = "") -> int:
        """Cycles of the last run, of the first replica.

        The emulator measures time on the host and counts the cycles of an IPU's clock in it: of the whole run, and of each
        IPU from the begin of the run until it has done its part, waits for others in between.

        Args:
            id: "": the whole step; "inner_ipu_<number>": one IPU.

        Raises:
            popart_runtime_error: nothing ran yet, the option instrumentWithHardwareCycleCounter is not set, or the id is
                not known.
        """
        options = self._options
        if not options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error("getCycleCount needs the option instrumentWithHardwareCycleCounter")
        if self._native is None or not self._has_run:
            raise popart_runtime_error("getCycleCount: there was no run yet")
        kinds = options.hardwareInstrumentations
        known = [""] if Instrumentation["Outer"] in kinds else []
        if Instrumentation["Inner"] in kinds:
            known += [f"inner_ipu_{ipu}" for ipu in range(self._program.ipus)]
        if id not in known:
            raise popart_runtime_error(f"no cycle counter is called '{id}'; there are {known}")
        try:
            native = self._loaded("getCycleCount")
            return int(native.cycles(int(id.removeprefix("inner_ipu_"))) if id else native.cycles())
        except ipu_core.Error as error:
            raise popart_runtime_error(str(error)) from error
