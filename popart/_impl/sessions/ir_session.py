"""A session of a PopXL program: compiled, on a device, with arrays of the host going in and out."""

from __future__ import annotations

import os
import math
from collections.abc import Mapping
from typing import Any

import numpy

from ipu_core._native import replica_groups
from ipu_common.host_variables import HostVariable, host_variables
from popart._impl.core_errors import CURES, core_errors, reason_of
from popart._impl.data_flow import DataFlow
from popart._impl.enums import DeviceType
from popart._impl.exceptions import OutOfMemoryException, popart_exception, popart_runtime_error
from popart._impl.logs import getLogger
from popart._impl.sessions.inference import InferenceSession
from popart._impl.sessions.memory import memory_refusal
from popart._impl.tensor_info import NUMPY, of_native_number

_HARDWARE = (DeviceType.Ipu, DeviceType.OfflineIpu)


class IrSession(InferenceSession):
    """A session of a program that `fromIr` gives. Steps: prepareDevice, weightsFromHost, run, weightsToHost.

    prepareDevice and weightsFromHost are those of InferenceSession: programs replace them there to count or block calls.

    Raises:
        popart_exception: the program cannot be compiled, a run fails, calls come out of order.
    """

    cures: Mapping[str, str] = CURES  # of the front end whose users read the errors

    def __init__(self) -> None:
        raise TypeError("IrSession is made by InferenceSession.fromIr")

    @classmethod
    def fromIr(cls, ir: Any, deviceInfo: Any, name: str = "inference") -> IrSession:
        """A session of an Ir as it is when `prepareDevice` is called.

        Args:
            ir: of popart._internal.ir.
            deviceInfo: to compile for, and to run on unless another is set.
            name: for messages.
        """
        self = object.__new__(cls)
        self._setup(ir, deviceInfo, name)
        return self

    def _setup(self, ir: Any, device: Any, name: str) -> None:
        self._ir, self._device, self._name = ir, device, name
        self._compiled_for = (device.type, device.numIpus)
        self._native: Any = None
        self._host = host_variables(ir.core)
        self._variables: dict[str, int] = {}  # by name in the compiled program: number of the tensor
        self._dtypes: dict[str, numpy.dtype] = {}  # of variables and streams, as users see them
        self.only: set[int] | None = None  # numbers of the tensors that an upload is about; None: all
        self.last_replicas: dict[str, numpy.ndarray] = {}  # variables read from all replicas: their last download
        self._replicas = 1  # of this process
        # Of variables: the host's entry that each replica has, shards of an entry, whether each replica is read.
        self._layouts: dict[str, tuple[list[int], int, bool]] = {}
        self._steps = 1
        self._uses: dict[str, tuple[str, tuple[int, ...], int]] = {}
        self._arrays: dict[str, numpy.dtype] = {}  # types of streams on the device

    # --- compiling
    def _prepare(self, loadEngine: bool) -> None:
        if self._native is None:
            self._compile()
        if loadEngine:
            self.attach()

    def _compile(self) -> None:
        ir, options = self._ir, self._ir.getSessionOptions()
        core = ir.core
        local = options.replicatedGraphCount if options.enableReplicatedGraphs else 1
        total = options.globalReplicationFactor if options.enableDistributedReplicatedGraphs else local
        core.replicas, core.processes = total, max(1, total // local)
        core.io_tiles = options.numIOTiles
        core.checks_scales = options.throwIfLog2ScaleTensorNotInRange
        ir.setIsPrepared()
        folder = str(options.cachePath) if options.enableEngineCaching else ""
        engine = ",".join(f"{key}:{value}" for key, value in sorted(dict(options.engineOptions).items()))
        kind = "ipu" if self._compiled_for[0] in _HARDWARE else str(self._compiled_for[0])
        key = f"device={kind} ipus={self._compiled_for[1]} engine={engine.replace(' ', '_')}"
        with core_errors(self.cures):
            self._native = core.compile(os.fsencode(folder), key, self._compiled_for[0] not in _HARDWARE)
            refused = memory_refusal(self._native, self._device, options, options.engineOptions, is_refused=False)
        if refused:
            self._native = None
            raise OutOfMemoryException(refused)
        how = "loaded from the cache" if self._native.from_cache else "compiled"
        getLogger("session").debug(f"the executable of {self._name} was {how}")
        self._replicas, self._steps = local, max(1, ir.getDataFlow().batchesPerStep())
        if core.processes > 1:
            self._join_job(options, local)
        for name in self._native.variables():
            number = core.find_tensor(0, name)
            if number in self._host.by_number:
                self._variables[name] = number
                self._layouts[name] = self._layout(number, total)
            elif number >= 0:
                getLogger("devicex").trace(f"no download buffer for '{name}': it is never read by the host")
            if number >= 0:
                self._dtypes[name] = _numpy_type(core, number)
        self._find_uses()

    def _judged_options(self) -> Any:
        return self._ir.getSessionOptions()

    def _join_job(self, options: Any, local: int) -> None:
        from popart._impl.job import exchange_of  # only in a job: it needs torch

        self._native.set_job(options.globalReplicaOffset, exchange_of(self._native))

    def _layout(self, number: int, replicas: int) -> tuple[list[int], int, bool]:
        core, settings = self._ir.core, self._ir.core.variable(number)
        entries = list(settings["assignment"]) or replica_groups.assignment(
            replicas, settings["stride"], settings["size"] or replicas
        )
        shards = 0
        if settings["remote_buffer"] >= 0:
            over, stored = settings["shard_over"], tuple(core.remote_buffers()[settings["remote_buffer"]][1])
            shard = -(-math.prod(core.tensor_info(number)[1]) // over)
            shards = 0 if math.prod(stored) == shard and (over == 1 or stored == (shard,)) else over
        is_each = settings["all_replicas"] and shards <= 1
        coarse = self._host.by_number[number].to_device
        return entries if coarse is None else [coarse[entry] for entry in entries], shards, is_each

    @property
    def first_replica(self) -> int:
        return getattr(self._ir.getSessionOptions(), "globalReplicaOffset", 0) if self._ir.core.processes > 1 else 0

    # --- the device
    @property
    def device(self) -> Any:
        return self._device

    def setDevice(self, device: Any) -> None:
        """Runs on this device from now on; it must be of the kind and size of the one compiled for.

        Raises:
            popart_exception: it is not.
        """
        kind, ipus = self._compiled_for
        same_kind = device.type is kind or (device.type in _HARDWARE and kind in _HARDWARE)
        if not same_kind or device.numIpus != ipus:
            raise popart_exception(
                f"compiled for another device: the program was compiled for {ipus} IPU(s) of {kind}, and {device!r} is set"
            )
        self._device = device

    def _prepared(self) -> Any:
        if self._native is None:
            raise popart_exception("the program is not compiled: call prepareDevice first")
        return self._native

    def attach(self) -> None:
        """Takes the IPUs that the program needs, of those that this process emulates."""
        native = self._prepared()
        if not native.is_attached:
            with core_errors(self.cures):
                native.attach(self._device.ipus)

    def detach(self) -> None:
        """Gives the IPUs back."""
        if self._native is not None and self._native.is_attached:
            self._native.detach()

    @property
    def is_loaded(self) -> bool:
        return self._native is not None and self._native.is_attached

    def _run_entry(self, entry: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        native = self._prepared()
        self.attach()
        with core_errors(self.cures, of_run=True):
            native.run_parts(inputs, entry, outputs)

    # --- variables
    def _send_weights(self) -> None:
        """Of the variables in `only`, where that is set."""
        native = self._prepared()
        self.attach()
        sent = {
            name: self._held(name)
            for name, number in self._variables.items()
            if self.only is None or number in self.only
        }
        with core_errors(self.cures):
            native.upload(sent)
        if "weights_from_host" in native.entry_points:
            self._run_entry("weights_from_host", {}, {})
        getLogger("devicex").debug("weights from host: all variables were uploaded")

    def weightsToHost(self) -> None:
        """The device's values of all variables come to the host."""
        native = self._prepared()
        if "weights_to_host" in native.entry_points:
            self._run_entry("weights_to_host", {}, {})
        each = [name for name in self._variables if self._layouts[name][2]]  # in the order of all processes of a job
        with core_errors(self.cures):
            native.download({name: self._held(name) for name in self._variables if not self._layouts[name][2]})
        for name in each:
            data, entries, _ = self._held(name)
            self.last_replicas[name] = self.read_all_replicas(name)
            data[...] = self.last_replicas[name][replica_groups.firsts(entries)].reshape(data.shape)
        self._host.flush()
        self._host.in_sync = True
        getLogger("devicex").debug("weights to host: all variables were downloaded")

    def _held(self, name: str) -> tuple[numpy.ndarray, list[int], int]:
        """The host's array of a variable, and how it lies there, as the native session takes them."""
        return (self._host.by_number[self._variables[name]].data, *self._layouts[name][:2])

    def _download(self, name: str, array: numpy.ndarray, entries: list[int], shards: int) -> None:
        with core_errors(self.cures):
            self._prepared().download({name: (array, entries, shards)})

    def read_all_replicas(self, tensor_id: str) -> numpy.ndarray:
        """Values of a variable in a new array, a row for each replica."""
        entries, shards, is_each = self._layouts[tensor_id]
        # Elements that no remote entry holds are the host's.
        rows = self._host_variable(tensor_id).data.reshape(max(entries) + 1, -1)
        if is_each:
            rows = rows[entries]
            self._download(tensor_id, rows, list(range(len(entries))), shards)
            return rows
        rows = rows.copy()
        self._download(tensor_id, rows, entries, shards)
        return rows[entries]

    @property
    def has_upload_program(self) -> bool:
        """Whether ops run when weights come from the host: shards on chip are loaded then."""
        return "weights_from_host" in self._prepared().entry_points

    def has_variable(self, tensor_id: str) -> bool:
        """Whether the compiled program has a variable: unused ones are left out."""
        return tensor_id in self._variables

    def writeWeights(self, weightsIo: Any) -> None:
        """Arrays become the host's values of these variables; `weightsFromHost` takes them to the device.

        Raises:
            popart_exception: a tensor is no variable, a shape or dtype differs.
            ValueError: the variable is in a read-only `numpy.memmap`.
        """
        for tensor_id, array in weightsIo.weights.items():
            host = self._host_variable(tensor_id)
            given = numpy.asarray(array)
            if given.shape != host.data.shape or given.dtype != host.data.dtype:
                raise popart_exception(
                    f"array of the variable '{tensor_id}': it has {host.data.dtype} {host.data.shape}, and {given.dtype} "
                    f"{given.shape} is given"
                )
            host.check_writable(tensor_id)
            host.data[...] = given

    def readWeights(self, weightsIo: Any) -> None:
        """Fills arrays with the host's values; `weightsToHost` brings them from the device."""
        for tensor_id in weightsIo.weights:
            weightsIo.array(tensor_id)[...] = self._host_variable(tensor_id).data

    def _host_variable(self, tensor_id: str) -> HostVariable:
        found = self._host.by_number.get(self._ir.core.find_tensor(0, tensor_id))
        if found is None:
            raise popart_exception(f"'{tensor_id}' is no variable; there are {sorted(self._variables)}")
        return found

    # --- running
    def streams(self) -> dict[str, tuple[str, tuple[int, ...], int]]:
        """What a run moves: id -> ("input" or "output", shape of an element, elements for each replica)."""
        self._prepared()
        return self._uses

    def _find_uses(self) -> None:
        core = self._ir.core
        for name, (way, dtype, shape) in self._native.streams("main").items():
            number = core.find_tensor(0, name)
            element = tuple(core.tensor_info(number)[1])
            count = 1 if tuple(shape) == element else shape[0] // self._replicas
            self._uses[name] = (way, element, count)
            self._arrays[name] = dtype
            self._dtypes[name] = _numpy_type(core, number)

    def initAnchorArrays(self) -> dict[str, numpy.ndarray]:
        """Arrays for the outputs of a run, by id of the stream."""
        flow: DataFlow = self._ir.getDataFlow()
        extra = ((self._steps,) if self._steps > 1 else ()) + ((self._replicas,) if self._replicas > 1 else ())
        return {
            name: numpy.zeros((*extra, *element), self._dtypes[name])
            for name, (way, element, _) in self.streams().items()
            if way == "output" and (flow.nAnchors() == 0 or flow.isAnchored(name))
        }

    def run(self, stepio: Any, debugName: str = "") -> None:
        """Runs the program once.

        Args:
            stepio: `popart.PyStepIO` with one array for each input and output stream, of shape
                [steps if > 1] + [replicas if > 1] + shape of the stream.
        """
        inputs, outputs = {}, {}
        for name, (way, element, _) in self.streams().items():
            if way == "input":
                if name not in stepio.inputs:
                    raise popart_runtime_error(f"no array for the input '{name}'; there are {sorted(stepio.inputs)}")
                _check_type(name, stepio.inputs[name], self._arrays[name])
                self._check_rows("input", name, stepio.inputs[name], element)
                inputs[name] = (stepio.inputs[name], 0, 1)
            elif name in stepio.outputs:
                self._check_rows("output", name, stepio.outputs[name], element)
                outputs[name] = (stepio.outputs[name], 0)
        self._host.in_sync = not self._variables
        self._run_entry("main", inputs, outputs)

    def _check_rows(self, what: str, name: str, array: numpy.ndarray, element: tuple[int, ...]) -> None:
        """A run takes the elements of the array from the front and around again, and stores them so."""
        row = self._replicas * math.prod(element)
        if array.size % row if row else array.size:
            raise popart_runtime_error(
                f"the {what} '{name}' has shape {array.shape}: it must have [steps] + [{self._replicas} replicas] + {element}"
            )

    # --- the rest of the published surface
    def checkInplacingAmbiguity(self) -> bool:
        """Whether a tensor is written in place and read elsewhere, and nothing says what comes first. prepareDevice refuses such a
        program. Compiles it if that has not been done."""
        try:
            if self._native is None:
                self._compile()
        except popart_exception as error:
            if reason_of(error) != "ambiguous_order":
                raise
            return True
        return False

    def getReport(self) -> Any:
        """The memory and cycles of the compiled program, as text."""
        return self._prepared().program_text()

    def getIr(self) -> Any:
        return self._ir

    def getExecutionId(self) -> str:
        return self._name


def _numpy_type(core: Any, number: int) -> numpy.dtype:
    return NUMPY[of_native_number(core.tensor_info(number)[0])]


def _check_type(name: str, array: numpy.ndarray, target: numpy.dtype) -> None:
    """Integers may be of 64 bits, codes of float8 may have their type."""
    if array.dtype == target or (array.dtype.names is not None and target == numpy.uint8):
        return
    if {"int64": "int32", "uint64": "uint32"}.get(array.dtype.name) != target.name:
        raise popart_runtime_error(f"the input '{name}' has {array.dtype}, and the stream takes {target}")
    getLogger("session").warn(f"the input '{name}' has {array.dtype}: it is narrowed to {target}")
